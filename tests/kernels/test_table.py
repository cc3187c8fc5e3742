"""Signatures, what a table finds, and what it refuses."""

import pytest

import singa_core.kernels.array
import singa_core.kernels.c  # noqa: F401  (fills the tables)
from singa_core import kernels
from singa_core.dtype import BY_CODE
from singa_core.errors import ArgumentError
from singa_core.kernels import KernelTable, NamespaceTable, expand
from singa_core.operation import Operation
from singa_core.optable import OPS
from singa_core.plugins import check_outputs


def types(text):
    return [BY_CODE[code] for code in text.split()]


@pytest.fixture
def table():
    return KernelTable("toy")


# -- signatures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "letters", "expected"),
    [("f32,i64->f32", {}, ["f32,i64->f32"]),
     ("T,T->T", {"T": "f32 f64"}, ["f32,f32->f32", "f64,f64->f64"]),
     ("T,I->T", {"T": "f32 f64", "I": "i32 i64"},
      ["f32,i32->f32", "f64,i32->f64", "f32,i64->f32", "f64,i64->f64"]),
     ("T*->T", {"T": "f32 i8"}, ["f32*->f32", "i8*->i8"]),
     ("T->T,i64", {"T": "f32"}, ["f32->f32,i64"]),
     ("->T", {"T": "f32 b1"}, ["->f32", "->b1"]),
     ("f32->f32", {"T": "f64"}, ["f32->f32"])],
)  # fmt: skip
def test_letters_stand_for_types(text, letters, expected):
    assert sorted(expand(text, letters)) == sorted(expected)


@pytest.mark.parametrize("text", ["f31->f32", "T->T", "f32", "f32->", "", "f32;f32->f32", "*->f32"])
def test_a_signature_that_makes_no_sense_is_refused(text):
    with pytest.raises(ArgumentError) as e:
        list(expand(text, {}))
    assert str(e.value) == (
        f"kernel signature: needs dtype codes like 'f32,i64->f32', got {text!r}"
    )


# -- finding ----------------------------------------------------------------------------------------


def test_a_kernel_is_found_by_op_and_types(table):
    @table.kernel("add", "T,T->T", T="f32 f64", strides=True)
    def add(a, b, y): ...

    found = table.find("add", types("f32 f32"), types("f32"))
    assert (found.op, found.language, found.signature) == ("add", "toy", "f32,f32->f32")
    assert (found.strides, found.returning, found.in_place) == (True, False, False)
    assert found.prepare(None, (), ()) is add  # nothing to prepare: the function is its launch
    assert table.find("add", types("f32 f64"), types("f32")) is None
    assert table.find("add", types("f32 f32"), types("f64")) is None
    assert table.find("add", types("f32"), types("f32")) is None
    assert table.find("sub", types("f32 f32"), types("f32")) is None
    assert table.ops() == ("add",)
    assert table.signatures("add") == ("f32,f32->f32", "f64,f64->f64")
    assert table.signatures("sub") == ()
    assert [k.signature for k in table] == ["f32,f32->f32", "f64,f64->f64"]


def test_a_star_takes_one_or_more_of_a_type(table):
    table.kernel("concat", "T*->T", T="f32 i8")(print)
    for count in (1, 2, 5):
        assert table.find("concat", types("f32 " * count), types("f32")).signature == "f32*->f32"
    assert table.find("concat", types("f32 i8"), types("f32")) is None
    assert table.find("concat", [], types("f32")) is None
    assert table.find("concat", types("f32 f32"), types("i8")) is None


def test_an_exact_signature_goes_before_a_star(table):
    table.kernel("concat", "f32*->f32")(print)
    table.kernel("concat", "f32,f32->f32")(print)
    assert table.find("concat", types("f32 f32"), types("f32")).signature == "f32,f32->f32"


def test_several_outputs_are_part_of_the_signature(table):
    table.kernel("sort", "f32->f32,i64")(print)
    assert table.find("sort", types("f32"), types("f32 i64"))
    assert table.find("sort", types("f32"), types("f32")) is None


def test_a_second_kernel_for_a_signature_is_refused(table):
    table.kernel("add", "f32,f32->f32")(print)
    with pytest.raises(ArgumentError) as e:
        table.kernel("add", "T,T->T", T="f64 f32")(print)
    assert str(e.value) == (
        "kernel add: needs one kernel for each signature in language 'toy', "
        "got a second f32,f32->f32"
    )


@pytest.mark.parametrize(
    ("op", "signature", "rule"),
    [("exp", "T,T->T", "1 input (x), the positional parameters of exp.infer, got 2 in 'f32,f32->f32'"),
     ("add", "T->T", "2 inputs (a, b), the positional parameters of add.infer, got 1 in 'f32->f32'"),
     ("exp", "->T", "1 input (x), the positional parameters of exp.infer, got 0 in '->f32'"),
     ("full", "T->T", "no inputs, the positional parameters of full.infer, got 1 in 'f32->f32'"),
     ("exp", "i32,T*->T",
      "1 input (x), the positional parameters of exp.infer, got 2 in 'i32,f32*->f32'")],
)  # fmt: skip
def test_a_signature_that_no_call_of_the_op_has_is_refused(table, op, signature, rule):
    for made in (table, table.draft()):
        with pytest.raises(ArgumentError) as e:
            made.kernel(op, signature, T="f32 f64")(print)
        assert str(e.value) == f"kernel {op}: needs a signature of {rule}"
        assert made.signatures(op) == ()


def test_signatures_that_a_call_may_have_are_taken(table):
    table.kernel("exp", "f32->f32", "f64*->f64", "*")(print)
    table.kernel("concat", "f32->f32", "f32,f32,f32->f32", "f64*->f64")(print)  # takes any number
    table.kernel("full", "->f32")(print)
    table.kernel("an op that is not known", "f32,f32->f32")(print)


def test_a_kernel_that_comes_before_its_op_is_checked_when_the_op_comes(monkeypatch):
    monkeypatch.setattr(kernels, "_TABLES", {})
    monkeypatch.setattr(kernels, "_INPUTS", {})
    kernels.table("toy").kernel("late_op", "f32,f32->f32")(print)

    class Late(Operation):
        name = "late_op"

        def infer(self, x):
            return x

        def forward(self, x):
            return x

    with pytest.raises(ArgumentError, match=r"^kernel late_op: needs a signature of 1 input \(x\)"):
        Late()
    assert "late_op" not in OPS
    assert kernels._INPUTS == {}


@pytest.mark.parametrize("language", ["array", "c"])
def test_the_core_s_own_kernels_have_the_outputs_of_their_ops(language):
    for op in kernels.table(language).ops():
        check_outputs(op, kernels.table(language).signatures(op))


def test_outputs_that_no_sample_has_are_told():
    with pytest.raises(
        ArgumentError, match="^kernel sort: .* as sort has: 2, got 1 in 'f32->f32'$"
    ):
        check_outputs("sort", ["*", "f32->f32,i64", "f32->f32"])


# -- the simple forms -------------------------------------------------------------------------------


def test_attributes_are_given_when_a_kernel_is_prepared(table):
    @table.kernel("scale", "f32->f32")
    def scale(x, y, *, by):
        y[0] = x[0] * by

    y = [0]
    table.find("scale", types("f32"), types("f32")).prepare(None, (), (), by=3)([2], y)
    assert y == [6]


def test_a_prepared_kernel_sees_target_forms_and_attributes(table):
    @table.prepared("f", "f32->f32", returning=True, in_place=True)
    def f(target, ins, outs, *, n):
        return (target, ins, outs, n), 64

    found = table.find("f", types("f32"), types("f32"))
    assert (found.returning, found.in_place) == (True, True)
    assert found.prepare("t", "i", "o", n=1) == (("t", "i", "o", 1), 64)


def test_a_namespace_comes_first():
    table = NamespaceTable("toy")
    table.kernel("f", "f32->f32", returning=True)(lambda xp, x, *, n=0: (xp, x, n))
    found = table.find("f", types("f32"), types("f32"))
    assert found.prepare("xp", (), ())(1) == ("xp", 1, 0)
    assert found.prepare("xp", (), (), n=2)(1) == ("xp", 1, 2)


# -- tables by language -----------------------------------------------------------------------------


def test_a_language_has_one_table(monkeypatch):
    monkeypatch.setattr(kernels, "_TABLES", {})
    made = kernels.table("toy")
    assert kernels.table("toy") is made
    assert made.language == "toy"
    own = kernels.add_table(NamespaceTable("other"))
    assert kernels.table("other") is own
    with pytest.raises(ArgumentError, match="^kernel table: needs a new language, got 'toy'$"):
        kernels.add_table(KernelTable("toy"))
