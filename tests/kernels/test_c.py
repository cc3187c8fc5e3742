"""The C language without a device: geometry, arguments, and what a launch can take."""

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paper import Paper
from singa_core.dtype import BY_CODE, as_dtype
from singa_core.errors import ArgumentError
from singa_core.kernels.c import CallTable, c
from singa_core.kernels.c.geometry import GRAIN, broadcast_walk, cut, row_items, walk
from singa_core.kernels.c.loops import Scalar, calls
from singa_core.spec import Spec, contiguous_strides, make_form

F32 = as_dtype("float32")


def prepared(target, op, *ins, out=None, **attrs):
    """The calls of an op's kernel, or None where it declines."""
    out = out or Spec(ins[0].shape, ins[0].dtype)
    kernel = c.find(op, [form.dtype for form in ins], [out.dtype])
    return kernel.prepare(target, list(ins), [out], **attrs)


def numbers_of(call):
    """Name -> value of a call's numbers."""
    return dict(zip([name for name, _ in call.source.numbers], call.numbers, strict=True))


def test_neighbours_that_all_operands_walk_in_one_step_are_one_axis():
    x, row = Spec((2, 3, 4), "float32"), Spec((4,), "float32")
    assert broadcast_walk((2, 3, 4), [x, x]).shape == (24,)
    path = broadcast_walk((2, 3, 4), [x, row])
    assert (path.shape, path.strides) == ((6, 4), ((4, 1), (0, 1), (4, 1)))
    column = make_form(Spec((2, 3), "float32"), (1, 2))
    path = broadcast_walk((2, 3), [column])
    assert (path.shape, path.kinds) == ((2, 3), "gc")
    assert walk((1, 1), (7, 7)).shape == (1,)


@pytest.mark.parametrize(("n", "wide"), [(2**30, False), (2**30 + 1, True)])
def test_indices_have_64_bits_before_a_sum_of_two_needs_them(n, wide):
    assert walk((n,), (1,)).wide is wide
    for family in ("cpu", "gpu"):
        (call,) = prepared(Paper(family), "neg", Spec((n,), "float32"))
        assert call.source.wide is wide
        reached = call.items[0] * numbers_of(call).get("per", 1)  # elements or pieces
        assert wide or reached < 2**31


def test_a_reach_of_strides_counts_too():
    far = make_form(Spec((3,), "float32"), (2**30,))
    (call,) = prepared(Paper(), "neg", far, out=Spec((3,), "float32"))
    assert call.source.wide


@given(rows=st.integers(1, 5000), inner=st.integers(1, 200_000), units=st.integers(1, 64))
def test_pieces_cover_every_row_once(rows, inner, units):
    piece = cut(rows, inner, Paper(units=units))
    assert (piece.cuts - 1) * piece.chunk < inner <= piece.cuts * piece.chunk
    assert piece.pieces == rows * piece.cuts
    assert (piece.items - 1) * piece.per < piece.pieces <= piece.items * piece.per
    assert piece.items <= max(rows * inner // GRAIN, 1)
    items, per = row_items(rows, inner, Paper(units=units))
    assert (items - 1) * per < rows <= items * per


def test_more_arguments_than_a_launch_takes_are_declined():
    x = Spec((2, 3), "float32")
    (call,) = prepared(Paper(), "add", x, x, out=x)
    # three pointers, three starts, five sizes of 32 bits
    assert call.parameters == 3 * 16 + 5 * 4
    assert prepared(Paper(parameters=call.parameters), "add", x, x, out=x)
    assert prepared(Paper(parameters=call.parameters - 1), "add", x, x, out=x) is None


def _doubled(where, ins=("f32",), outs=("f32",)):
    """A kernel of one input and one output with its operands at these places."""
    table = CallTable("c of a test")

    @table.calls("doubled", f"{','.join(ins)}->{','.join(outs)}")
    def doubled(target, forms, specs):
        scalar = Scalar("doubled", ("f32",), (("y0", F32, "x0 + x0"),), ("f32",))
        return calls(target, scalar, broadcast_walk((3,), [Spec((3,), "float32")]), where)

    (kernel,) = table
    forms, specs = ([Spec((3,), BY_CODE[code]) for code in codes] for codes in (ins, outs))
    return kernel.prepare(Paper(), forms, specs)


PLACES = "inputs at 0 and outputs at 1, of their types"


@pytest.mark.parametrize(
    ("where", "ins", "outs", "told"),
    [((0, 1, 2), ["f32"], ["f32"],
      "a place for each of its 2 operands (in f32, out f32), got (0, 1, 2)"),
     ((0,), ["f32"], ["f32"], "a place for each of its 2 operands (in f32, out f32), got (0,)"),
     ((0, 2), ["f32"], ["f32"], f"{PLACES}, got (0, 2), where 2 is neither"),
     ((0, -2), ["f32"], ["f32"], f"{PLACES}, got (0, -2), where -2 is neither"),
     ((1, 0), ["f32"], ["f32"], f"{PLACES}, got (1, 0), where 1 is read"),
     ((0, 0), ["f32"], ["f32"], f"{PLACES}, got (0, 0), where 0 is written"),
     ((0, 1), ["f64"], ["f32"], f"{PLACES}, got (0, 1), where 0 is taken as f32"),
     ((0, 1), ["f32", "f32"], ["f32"],
      "inputs at 0, 1 and outputs at 2, of their types, got (0, 1), where 1 is written")],
)  # fmt: skip
def test_a_place_that_is_not_an_operands_is_refused(where, ins, outs, told):
    with pytest.raises(ArgumentError) as e:
        _doubled(where, ins, outs)
    assert str(e.value) == f"kernel doubled: needs {told}"


def test_places_that_are_right_are_taken():
    assert len(_doubled((0, 1))) == 1
    assert len(_doubled((1, 2), ["f64", "f32"])) == 1


@pytest.mark.parametrize("family", ["cpu", "gpu"])
def test_an_attribute_can_be_an_argument_of_a_line(family):
    x, made = Spec((3,), "float32"), []
    for cap in (2.0, 3.0):
        scalar = Scalar("capped", ("f32",), (("y0", F32, "tanh(x0 / cap) * cap"),), ("f32",),
                        numbers=(("cap", "float"),))  # fmt: skip
        made += calls(Paper(family), scalar, broadcast_walk((3,), [x]), (0, 1), given=(cap,))
    assert [numbers_of(call)["cap"] for call in made] == [2.0, 3.0]
    assert made[0].source == made[1].source  # compiled once
    assert "const float cap" in made[0].source.text()


def test_strides_are_arguments_and_no_text():
    shape = (4, 5, 6)
    packed = contiguous_strides(shape)
    sources = set()
    for steps in ((1, 2, 3), (9, 7, 5), (100, 10, 4)):
        x = make_form(
            Spec(shape, "float32"), tuple(a * b for a, b in zip(packed, steps, strict=True))
        )
        (call,) = prepared(Paper(), "exp", x, out=Spec(shape, "float32"))
        sources.add(call.source)
    assert len(sources) == 1


@pytest.fixture(scope="module")
def check():
    """`scripts/gpu_check.py` as a module."""
    path = Path(__file__).resolve().parents[2] / "scripts" / "gpu_check.py"
    spec = importlib.util.spec_from_file_location("gpu_check", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("family", ["cpu", "gpu"])
def test_devices_without_float64_can_compile_what_has_none(check, family, monkeypatch):
    monkeypatch.setattr(check, "FAMILY", family)
    sources = {
        call.source
        for *_, found in check.kernel_calls(None)
        for call in (found[0] if isinstance(found, tuple) else found)
    }
    assert len(sources) > 500
    for source in sources:
        assert ("double" in source.text()) <= ("f64" in source.codes), source.name


def test_nvidias_compiler_takes_kernels_of_the_gpu_family(check):
    try:
        told = check.compiles(dry=True)
    except check.Skipped as reason:
        pytest.skip(str(reason))
    assert told["wrong"] == []
    assert told["kernels"] > 300
