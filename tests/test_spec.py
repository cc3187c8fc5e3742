"""Specs are one object per shape and dtype; shapes, axes, broadcasting, windows."""

import gc
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singa_core.dtype import float32, int8
from singa_core.errors import ArgumentError, DTypeError, ShapeError
from singa_core.spec import (
    Form,
    Spec,
    broadcast_shapes,
    check_axes,
    check_axis,
    check_shape,
    contiguous_strides,
    is_packed,
    make_form,
    spec_of,
    window_count,
)

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


# -- identity ---------------------------------------------------------------------------------------


def test_equal_specs_are_one_object():
    spec = Spec((2, 3), "float32")
    assert spec is Spec([2, 3], np.float32) is Spec((np.int64(2), np.uint8(3)), float32)
    assert spec is Spec((n for n in (2, 3)), float)
    assert spec is not Spec((2, 3), "float64")
    assert spec is pickle.loads(pickle.dumps(spec))
    assert (
        spec.with_shape((6,)).with_shape((2, 3))
        is spec.with_dtype("int8").with_dtype(float32)
        is spec
    )


def test_a_spec_counts():
    spec = Spec((2, 3), "float64")
    assert (spec.ndim, spec.itemcount, spec.nbytes, spec.strides) == (2, 6, 48, (3, 1))
    scalar = Spec((), "int8")
    assert (scalar.ndim, scalar.itemcount, scalar.nbytes, scalar.strides) == (0, 1, 1, ())
    assert Spec((4, 0), "int8").nbytes == 0
    assert repr(spec) == "float64 (2, 3)"


def test_sizes_become_plain_integers():
    assert [type(n) for n in Spec((np.int32(77), 78), "int8").shape] == [int, int]


@pytest.mark.parametrize(
    "bad", [(-1,), (True, 2), (2.0, 3), ("2",), (None,), ((1,),), (np.True_,)], ids=repr
)
def test_a_shape_has_whole_sizes(bad):
    Spec((1, 2), "int8"), Spec((2, 3), "int8")  # noqa: B018  (the table knows what the bad ones equal)
    with pytest.raises(ShapeError, match=r"^Spec: needs a shape of integers >= 0, got \("):
        Spec(bad, "int8")


def test_a_spec_has_one_of_our_dtypes():
    with pytest.raises(DTypeError, match="^Spec: needs a dtype among bool, "):
        Spec((2,), "complex64")


def test_unused_specs_are_forgotten():
    before = len(Spec._interned)
    many = [Spec((i, 991), "int8") for i in range(50)]
    assert len(Spec._interned) >= before + 50
    del many
    gc.collect()
    assert len(Spec._interned) <= before


def test_threads_agree_on_a_spec():
    found = []
    start = threading.Barrier(8)

    def work():
        start.wait()
        found.append([Spec((i, 997), "int8") for i in range(200)])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(a is b for other in found[1:] for a, b in zip(found[0], other, strict=True))


# -- layouts ----------------------------------------------------------------------------------------


def test_a_packed_form_is_the_spec_itself():
    spec = Spec((2, 3), "int8")
    assert make_form(spec, (3, 1)) is spec
    turned = make_form(spec, (1, 2))
    assert turned is make_form(spec, (1, 2)) is Form(spec, (1, 2))
    assert spec_of(turned) is spec_of(spec) is spec
    assert (turned.shape, turned.dtype, repr(turned)) == (
        (2, 3),
        int8,
        "int8 (2, 3) strides (1, 2)",
    )


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [((), (), True), ((1, 3), (99, 1), True), ((3, 1), (1, 99), True), ((2, 3), (3, 1), True),
     ((2, 3), (1, 2), False), ((3,), (-1,), False), ((3,), (0,), False), ((3,), (2,), False),
     ((0, 3), (7, 5), True), ((3, 0), (7, 5), True), ((1, 1), (-4, 0), True)],
)  # fmt: skip
def test_what_is_packed(shape, strides, expected):
    assert is_packed(shape, strides) is expected


@given(SHAPES)
def test_contiguous_strides_are_numpy_s(shape):
    strides = contiguous_strides(shape)
    assert is_packed(shape, strides)
    if 0 not in shape:
        assert strides == tuple(s // 4 for s in np.empty(shape, np.int32).strides)


# -- checks -----------------------------------------------------------------------------------------


def test_a_shape_may_be_one_number():
    assert check_shape("f", 3) == (3,)
    assert check_shape("f", np.int8(3)) == (3,)
    assert check_shape("f", [2, np.uint64(0)]) == (2, 0)


@pytest.mark.parametrize("bad", [-1, 1.0, None, True, "ab", (1, -2), [[1]]], ids=repr)
def test_what_is_no_shape(bad):
    with pytest.raises(ShapeError, match="^f: needs a shape of integers >= 0, got "):
        check_shape("f", bad)


@pytest.mark.parametrize(("axis", "expected"), [(0, 0), (-1, 2), (2, 2), (-3, 0), (np.int8(-2), 1)])
def test_axes_count_from_both_ends(axis, expected):
    assert check_axis("f", axis, 3) == expected


def test_an_axis_out_of_range_is_told_with_the_operand():
    x = Spec((2, 3), "int8")
    with pytest.raises(ShapeError) as e:
        check_axis("sum", 2, 2, x=x)
    assert str(e.value) == "sum: needs -2 <= axis < 2, got 2\n  x: int8 (2, 3)"
    with pytest.raises(ShapeError, match="^sum: needs -2 <= axis < 2, got -3$"):
        check_axis("sum", -3, 2)
    with pytest.raises(ShapeError, match="^sum: needs a value with axes, got axis 0 of a scalar$"):
        check_axis("sum", 0, 0)


@pytest.mark.parametrize("bad", [True, 1.0, "0", None], ids=repr)
def test_an_axis_is_an_integer(bad):
    with pytest.raises(ArgumentError, match=f"^sum: needs an integer axis, got {bad!r}$"):
        check_axis("sum", bad, 2)


def test_several_axes_are_sorted_and_named_once():
    assert check_axes("f", None, 3) == (0, 1, 2)
    assert check_axes("f", -1, 3) == (2,)
    assert check_axes("f", (2, -3), 3) == (0, 2)
    assert check_axes("f", (), 3) == ()
    assert check_axes("f", None, 0) == ()
    with pytest.raises(ShapeError, match=r"^f: needs each axis once, got \(0, -3\)$"):
        check_axes("f", (0, -3), 3)
    with pytest.raises(ShapeError, match="^f: needs -3 <= axis < 3, got 3$"):
        check_axes("f", (0, 3), 3)


# -- arithmetic -------------------------------------------------------------------------------------


@given(st.lists(SHAPES, max_size=3))
def test_broadcasting_is_numpy_s(shapes):
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(
            ShapeError, match=r"^f: needs equal sizes \(or 1\) at axis -\d, got \d and \d$"
        ):
            broadcast_shapes("f", *shapes)
    else:
        assert broadcast_shapes("f", *shapes) == expected


def test_shapes_that_do_not_meet_are_told_with_axis_and_operands():
    a, b = Spec((2, 3), "int8"), Spec((4, 3), "int8")
    with pytest.raises(ShapeError) as e:
        broadcast_shapes("add", a.shape, b.shape, a=a, b=b)
    assert str(e.value) == (
        "add: needs equal sizes (or 1) at axis -2, got 2 and 4\n  a: int8 (2, 3)\n  b: int8 (4, 3)"
    )


@given(
    st.integers(0, 12), st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), st.integers(1, 3)
)
def test_windows_are_those_that_fit(size, kernel, stride, padding, dilation):
    total, reach = size + padding, dilation * (kernel - 1) + 1
    expected = len([start for start in range(0, total, stride) if start + reach <= total])
    assert window_count(size, kernel, stride, padding, dilation) == expected
