"""Names, promotion and weak numbers, against the array API standard and NumPy."""

import copy
import itertools
import pickle

import ml_dtypes
import numpy as np
import pytest

from singa_core import dtype as dtypes
from singa_core.dtype import (
    ALL,
    BY_CODE,
    as_dtype,
    bfloat16,
    bool_,
    fits,
    float16,
    float32,
    float64,
    int8,
    int64,
    promote,
    uint8,
    uint64,
    weak,
)
from singa_core.errors import DTypeError

NUMBERS = [d for d in ALL if d is not bool_]


# -- names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_a_dtype_is_found_by_each_of_its_names(dtype):
    for name in (dtype, dtype.name, dtype.numpy, dtype.numpy.type, repr(dtype)):
        assert as_dtype(name) is dtype
    assert BY_CODE[dtype.code] is dtype
    assert dtype.itemsize * 8 == dtype.bits == dtype.numpy.itemsize * 8


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize(
    "trip", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))]
)
def test_a_dtype_is_one_object_wherever_it_has_been(dtype, trip):
    assert trip(dtype) is dtype


def test_kinds():
    assert [d.name for d in ALL if d.is_floating] == ["float16", "bfloat16", "float32", "float64"]
    assert [d.name for d in ALL if d.is_integer] == [
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    ]  # fmt: skip
    assert not bool_.is_integer
    assert not bool_.is_floating


@pytest.mark.parametrize(
    ("value", "expected"),
    [(bool, bool_), (int, int64), (float, float32), ("int", int64), ("float", float32),
     (">f4", float32), ("<i8", int64), ("=u1", uint8), (np.longlong, int64), ("double", float64),
     (ml_dtypes.bfloat16, bfloat16), (np.dtype(">f2"), float16)],
)  # fmt: skip
def test_other_words_for_a_dtype(value, expected):
    assert as_dtype(value) is expected


@pytest.mark.parametrize(
    "value",
    [None, "", "f32", "float31", "complex64", object, str, "datetime64[s]", "f4,f4", "3f4, (", {},
     {"names": ["a"]}, [1], 3, 1.5, np.longdouble, ml_dtypes.float8_e5m2],
    ids=repr,
)  # fmt: skip
def test_what_is_no_dtype_is_refused_with_the_list(value):
    with pytest.raises(
        DTypeError, match=r"^dtype: needs a dtype among bool, int8, .*, float64, got "
    ) as e:
        as_dtype(value)
    assert str(e.value).endswith(f"got {value!r}")


# -- two that meet ----------------------------------------------------------------------------------


def api_result(a, b):
    """The array API's table: two of one kind, mixed integers, bool with bool."""
    return as_dtype(np.result_type(a.numpy, b.numpy))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (a, b)
        for a, b in itertools.product(ALL, ALL)
        if {a.kind, b.kind} in ({"bool"}, {"float"}, {"int"}, {"uint"}, {"int", "uint"})
        and bfloat16 not in (a, b)
        and not ({a.kind, b.kind} == {"int", "uint"} and uint64 in (a, b))
    ],
    ids=str,
)
def test_the_standard_s_table(a, b):
    assert promote(a, b) is api_result(a, b)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_bool_gives_way_to_numbers(dtype):
    assert promote(bool_, dtype) is promote(dtype, bool_) is dtype


@pytest.mark.parametrize("whole", [d for d in ALL if d.is_integer], ids=str)
@pytest.mark.parametrize("real", [d for d in ALL if d.is_floating], ids=str)
def test_an_integer_gives_way_to_a_float_of_any_size(whole, real):
    assert promote(whole, real) is promote(real, whole) is real


@pytest.mark.parametrize(
    ("other", "expected"),
    [(float16, float32), (float32, float32), (float64, float64), (bfloat16, bfloat16)],
    ids=str,
)
def test_bfloat16_among_floats(other, expected):
    assert promote(bfloat16, other) is promote(other, bfloat16) is expected


@pytest.mark.parametrize("signed", [d for d in ALL if d.kind == "int"], ids=str)
def test_no_integer_holds_uint64_and_a_sign(signed):
    text = (
        r"^promotion: needs an integer type that holds both, got {} and {}\n"
        r"try: cast one operand with \.astype\(\.\.\.\)$"
    )
    with pytest.raises(DTypeError, match=text.format(signed, uint64)):
        promote(signed, uint64)
    with pytest.raises(DTypeError, match=text.format(uint64, signed)):
        promote(uint64, signed)


def defined(a, b):
    return a is not None and b is not None and {a, b} - {uint64} == {a, b} or _holds(a, b)


def _holds(a, b):
    return a is not None and b is not None and {a.kind, b.kind} != {"int", "uint"}


def either(a, b):
    """`promote`, or None where there is no result."""
    return promote(a, b) if defined(a, b) else None


def test_promotion_is_commutative_and_never_narrows():
    for a, b in itertools.product(ALL, ALL):
        y = either(a, b)
        assert y is either(b, a)
        if y is not None:
            assert promote(y, a) is promote(y, b) is y


def test_promotion_does_not_depend_on_grouping():
    for a, b, c in itertools.product(ALL, ALL, ALL):
        left, right = either(either(a, b), c), either(a, either(b, c))
        if left is not None and right is not None:
            assert left is right, (a, b, c)


# -- numbers are weak -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_a_python_number_takes_the_tensor_s_type_unless_its_kind_is_higher(dtype):
    assert weak(dtype, True) is dtype
    assert weak(dtype, 3) is (int64 if dtype is bool_ else dtype)
    assert weak(dtype, 0.5) is (dtype if dtype.is_floating else float32)


@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [(127, int8, True), (128, int8, False), (-128, int8, True), (-129, int8, False),
     (-1, uint8, False), (2**64 - 1, uint64, True), (2**63, int64, False), (True, int8, True),
     (10**30, float32, True), (300, bool_, True), (0.5, int8, True)],
)  # fmt: skip
def test_which_numbers_fit(number, dtype, expected):
    assert fits(number, dtype) is expected


def test_every_dtype_is_a_name_of_the_module():
    for dtype in ALL:
        assert getattr(dtypes, "bool_" if dtype is bool_ else dtype.name) is dtype


def test_narrow_types_are_numbers_below_32_bits():
    narrow = {d.name for d in ALL if d.is_narrow}
    assert narrow == {"int8", "int16", "uint8", "uint16", "float16", "bfloat16"}
