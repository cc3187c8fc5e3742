"""Padding in its modes, one-hot rows, and adding along an axis."""

import numpy as np
import pytest

from checks import both, check_gradients, random
from singa_core import ops
from singa_core.errors import ArgumentError, DTypeError, OutOfRange, ShapeError

WIDTHS = [1, (2, 1), ((0, 2), (1, 0)), ((2, 2), (3, 3))]


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("widths", WIDTHS)
def test_pad_is_numpys(array, mode, widths):
    x = random(3, 4)
    y = both(lambda x: ops.pad(x, widths, mode=mode), array(x))
    np.testing.assert_array_equal(y.numpy(), np.pad(x, widths, mode=mode))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad_gradients(device, mode, order):
    def cubed(x):
        return ops.pad(x * x * x, ((2, 1), (0, 3)), 0.5, mode=mode)

    check_gradients(cubed, device, random(3, 4), order=order, rtol=1e-5)


def test_pad_names_what_does_not_fit(array):
    x = array(random(3, 4))
    with pytest.raises(ShapeError, match=r"^pad: needs widths < 3 to reflect axis 0, got \(0, 3\)"):
        ops.pad(x, ((0, 3), (0, 0)), mode="reflect")
    with pytest.raises(ShapeError, match="pad: needs an element on axis 0, to be the edge, got 0"):
        ops.pad(x[:0], 1, mode="edge")
    with pytest.raises(
        ArgumentError, match="pad: needs a mode among constant, reflect, edge, got 'wrap'"
    ):
        ops.pad(x, 1, mode="wrap")
    for bad in (-1, ((1, 1),), ((1, 2, 3), (0, 0)), (1, (2, 3))):
        with pytest.raises(ShapeError, match="pad: needs a pair of widths >= 0 for each axis"):
            ops.pad(x, bad)


def test_one_hot_by_hand(array):
    y = both(lambda i: ops.one_hot(i, 3), array([[0, 2], [-1, 3]]))
    assert (y.dtype.name, y.tolist()) == (
        "float32", [[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], [[0.0] * 3, [0.0] * 3]],
    )  # fmt: skip
    assert ops.one_hot(array(np.array(1, np.uint8)), 2, dtype="bool").tolist() == [False, True]
    assert ops.one_hot(array([0, 1]), 0).shape == (2, 0)
    with pytest.raises(DTypeError, match="one_hot: needs an integer dtype"):
        ops.one_hot(array([1.0]), 2)
    with pytest.raises(ArgumentError, match="one_hot: needs an integer classes >= 0, got -1"):
        ops.one_hot(array([1]), -1)


def test_add_along_axis_by_hand(array):
    x, index, v = (
        array([[1.0, 2.0], [3.0, 4.0]]),
        array([[1, 1, 0], [-1, 0, 0]]),
        array([[10.0], [20.0]]),
    )
    y = both(lambda x, i, v: ops.add_along_axis(x, i, v), x, index, v)
    assert y.tolist() == [[11.0, 22.0], [43.0, 24.0]]
    y = both(
        lambda x, i, v: ops.add_along_axis(x, i, v, axis=0), x, array([[1, 1]]), array([[5.0, 6.0]])
    )
    assert y.tolist() == [[1.0, 2.0], [8.0, 10.0]]


def test_add_along_axis_gradients(device):
    index = np.array([[1, 1, 0], [2, 0, 3]])
    check_gradients(
        lambda x, i, v: ops.add_along_axis(x, i, v * v), device, random(2, 4), index, random(2, 3)
    )


def test_add_along_axis_names_what_does_not_fit(array):
    x, v = array(random(2, 3)), array(random(2, 1))
    with pytest.raises(ShapeError, match="add_along_axis: needs index.ndim == x.ndim, got 1 != 2"):
        ops.add_along_axis(x, array([0]), v)
    with pytest.raises(ShapeError, match="add_along_axis: needs an index that broadcasts to x"):
        ops.add_along_axis(x[:1], array([[0], [1]]), v)
    with pytest.raises(OutOfRange):
        ops.add_along_axis(x, array([[3], [0]]), v).numpy()
