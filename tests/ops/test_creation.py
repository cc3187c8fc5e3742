"""Tensors out of nothing: values by hand and against NumPy, dtypes, errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import both, check_gradients, random
from singa_core import ops
from singa_core.engine import graph
from singa_core.errors import ArgumentError, DTypeError, ShapeError


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [(1.5, None, "float32"), (2, None, "int64"), (True, None, "bool"), (3, "float16", "float16"),
     (2.0, "int8", "int8"), (math.inf, "float32", "float32"), (1, bool, "bool")],
)  # fmt: skip
def test_full(device, value, dtype, expected):
    y = ops.full((2, 3), value, dtype=dtype, device=device)
    assert (y.shape, y.dtype.name, y.device) == ((2, 3), expected, device)
    assert y.tolist() == [[value] * 3] * 2


def test_zeros_of_both_signs_and_nan(device):
    for value in (0.0, -0.0, 0.0):  # equal as keys, and not as numbers
        assert math.copysign(1.0, ops.full((), value, device=device).item()) == math.copysign(
            1.0, value
        )
    assert math.isnan(ops.full((), float("nan"), device=device).item())


def test_nan_does_not_fill_the_table_of_entries(device):
    ops.full((), float("nan"), device=device)
    before = len(device.state.entries)
    ops.full((), float("nan"), device=device)
    assert len(device.state.entries) == before


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [(1.5, "int64", "full: needs a value that int64 holds, got 1.5"),
     (300, "int8", "full: needs a value that int8 holds, got 300"),
     (-1, "uint8", "full: needs a value that uint8 holds, got -1"),
     (math.nan, "int32", "full: needs a value that int32 holds, got nan"),
     (2, "bool", "full: needs a value that bool holds, got 2"),
     ("x", None, "full: needs a number as value, got 'x'")],
)  # fmt: skip
def test_a_value_that_the_dtype_cannot_hold_is_refused(device, value, dtype, text):
    with pytest.raises((DTypeError, ArgumentError), match=text):
        ops.full((), value, dtype=dtype, device=device)


def test_a_shape_is_of_integers(device):
    with pytest.raises(ShapeError, match=r"full: needs a shape of integers >= 0, got \(2, -1\)"):
        ops.zeros((2, -1), device=device)
    assert ops.ones(3, device=device).tolist() == [1.0, 1.0, 1.0]


def test_likes_have_the_shape_dtype_and_device(array, device):
    x = array([[1, 2]], "int16")
    for y, value in ((ops.zeros_like(x), 0), (ops.ones_like(x), 1), (ops.full_like(x, 7), 7)):
        assert (y.tolist(), y.dtype, y.device) == ([[value, value]], x.dtype, device)
    assert ops.ones_like(x, dtype="float32").dtype.name == "float32"
    assert ops.empty((2,), device=device).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("args", "dtype"),
    [((5,), "int64"), ((1, 6, 2), "int64"), ((5, 0, -2), "int64"), ((3, 3), "int64"), ((0, 1, 0.25), "float32"),
     ((2.5,), "float32"), ((0,), "int64"), ((10, 1, 3), "int64")],
)  # fmt: skip
def test_arange_is_numpys(device, args, dtype):
    y = ops.arange(*args, device=device)
    assert y.dtype.name == dtype
    assert y.tolist() == np.arange(*args).tolist()


@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-5, 5).filter(bool))
def test_arange_of_integers_is_pythons_range(start, stop, step):
    assert ops.arange(start, stop, step).tolist() == list(range(start, stop, step))


def test_a_step_of_0_is_refused():
    with pytest.raises(
        ArgumentError,
        match="arange: needs finite numbers and step != 0, got start 0, stop 5, step 0",
    ):
        ops.arange(0, 5, 0)


def test_linspace_meets_both_ends(device):
    assert ops.linspace(0.0, 1.0, 5, device=device).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    y = ops.linspace(0.1, 0.7, 7, device=device)
    assert (y[0].item(), y[-1].item()) == (np.float32(0.1), np.float32(0.7))
    np.testing.assert_allclose(y.numpy(), np.linspace(0.1, 0.7, 7), rtol=1e-6)
    assert ops.linspace(2.0, 3.0, 1, device=device).tolist() == [2.0]
    assert ops.linspace(0.0, 1.0, 4, endpoint=False, device=device).tolist() == [
        0.0,
        0.25,
        0.5,
        0.75,
    ]


@pytest.mark.parametrize(("n", "m", "k"), [(3, None, 0), (2, 4, 1), (4, 2, -1), (0, 2, 0)])
def test_eye_is_numpys(device, n, m, k):
    np.testing.assert_array_equal(ops.eye(n, m, k=k, device=device).numpy(), np.eye(n, m, k))


@pytest.mark.parametrize("k", [-1, 0, 2])
def test_triangles_are_numpys(array, device, k):
    x = random(2, 3, 4)
    np.testing.assert_array_equal(both(lambda v: ops.tril(v, k=k), array(x)).numpy(), np.tril(x, k))
    np.testing.assert_array_equal(both(lambda v: ops.triu(v, k=k), array(x)).numpy(), np.triu(x, k))
    check_gradients(lambda v: ops.tril(v, k=k) + 2.0 * ops.triu(v, k=k), device, x)


def test_a_vector_has_no_triangle(array):
    with pytest.raises(ShapeError, match=r"tril: needs x.ndim >= 2, got 1"):
        ops.tril(array([1.0]))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid_is_numpys(array, indexing):
    a, b, c = [1, 2], [3, 4, 5], [6, 7]
    for ours, theirs in zip(
        ops.meshgrid(array(a), array(b), array(c), indexing=indexing),
        np.meshgrid(a, b, c, indexing=indexing), strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(ours.numpy(), theirs)


def test_grids_are_of_vectors_in_a_known_order(array):
    with pytest.raises(ShapeError, match="meshgrid: needs vectors"):
        ops.meshgrid(array([[1]]), array([1]))
    with pytest.raises(ArgumentError, match="meshgrid: needs indexing among xy, ij, got 'yx'"):
        ops.meshgrid(array([1]), indexing="yx")


def test_iota_is_of_numbers(device):
    assert ops.iota(3, dtype="float32", device=device).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(DTypeError, match="iota: needs a number dtype .*, got bool"):
        ops.iota(3, dtype="bool", device=device)


def test_what_is_made_while_recording_is_on_the_recordings_device(array, device):
    recorded = graph(lambda x: x + ops.arange(3) * ops.ones((3,)) + ops.eye(3)[0], device=device)
    y = recorded(array([10.0, 10.0, 10.0]))
    assert (y.tolist(), y.device) == ([11.0, 11.0, 12.0], device)
