import math

import numpy as np
import pytest

from checks import both, check_against_torch, check_gradients, random
from singa_core import ops
from singa_core.errors import ArgumentError, DTypeError, ShapeError

AXES = [((3, 4), -1), ((3, 4), 0), ((2, 3, 4), 1), ((5,), 0), ((3, 1), -1)]


def test_softmax_gives_shares(array):
    y = both(ops.softmax, array([[0.0, math.log(3.0)], [5.0, 5.0]]))
    np.testing.assert_allclose(y.numpy(), [[0.25, 0.75], [0.5, 0.5]], rtol=1e-6)


def test_log_softmax_is_its_logarithm(array):
    y = both(ops.log_softmax, array([[0.0, math.log(3.0)], [5.0, 5.0]]))
    np.testing.assert_allclose(y.numpy(), np.log([[0.25, 0.75], [0.5, 0.5]]), rtol=1e-6)


def test_softmax_along_another_axis(array):
    x = random(2, 3, 4)
    for axis in range(3):
        moved = ops.softmax(array(np.moveaxis(x, axis, -1))).numpy()
        y = ops.softmax(array(x), axis=axis)
        np.testing.assert_allclose(y.numpy(), np.moveaxis(moved, -1, axis), rtol=1e-6)
        np.testing.assert_allclose(y.sum(axis=axis).numpy(), 1.0, rtol=1e-6)


@pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax])
def test_a_constant_added_changes_nothing(array, op):
    x = random(3, 4)
    np.testing.assert_allclose(op(array(x + 3.0)).numpy(), op(array(x)).numpy(), atol=1e-6)


def test_softmax_of_large_and_infinite_values(array):
    y = ops.softmax(array([[1e30, 0.0], [-1e30, 0.0], [-math.inf, 1.0]]))
    np.testing.assert_array_equal(y.numpy(), [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    y = ops.log_softmax(array([[1000.0, 0.0], [-math.inf, 1.0]]))
    np.testing.assert_array_equal(y.numpy(), [[0.0, -1000.0], [-math.inf, 0.0]])
    assert np.isnan(ops.softmax(array([[-math.inf, -math.inf]])).numpy()).all()


def test_softmax_adds_float16_in_float32(array):
    y = ops.softmax(array(np.zeros(4096), "float16"))
    assert y.dtype.name == "float16"
    np.testing.assert_array_equal(y.numpy(), 2.0**-12)  # ones added in float16 stop at 2048


@pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_softmax_of_nothing(device, array, op, shape):
    assert both(op, array(np.zeros(shape, np.float32))).shape == shape
    check_gradients(op, device, np.zeros(shape))


def test_softmax_of_integers_is_float32(array):
    y = ops.softmax(array([1, 1]))
    assert y.dtype.name == "float32"
    assert y.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize(("shape", "axis"), AXES)
def test_softmax_against_torch(device, name, shape, axis):
    def peer(x):
        return getattr(x, name)(axis)

    op = getattr(ops, name)
    check_against_torch(lambda x: op(x, axis=axis), peer, device, random(*shape))


@pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("shape", "axis"), AXES[:3])
def test_softmax_gradients(device, op, order, shape, axis):
    check_gradients(lambda x: op(x, axis=axis), device, random(*shape), order=order)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_names_the_axis(array, name):
    op = getattr(ops, name)
    with pytest.raises(
        ShapeError, match=rf"^{name}: needs -2 <= axis < 2, got 2\n  x: float32 \(2, 3\) "
    ):
        op(array(np.zeros((2, 3), np.float32)), axis=2)
    with pytest.raises(
        ShapeError, match=rf"^{name}: needs a value with axes, got axis -1 of a scalar"
    ):
        op(array(1.0))


# -- layer_norm -------------------------------------------------------------------------------------


def test_layer_norm_by_hand(array):
    x = array([[1.0, 3.0], [2.0, 2.0]])
    y = ops.layer_norm(x, array([2.0, 10.0]), array([1.0, -1.0]), eps=1e-12)
    np.testing.assert_allclose(y.numpy(), [[-1.0, 9.0], [1.0, -1.0]], rtol=1e-6)


def test_layer_norm_without_weight_and_bias(array):
    x = random(2, 3, 4)
    y = both(lambda v: ops.layer_norm(v, axes=2), array(x)).numpy()
    np.testing.assert_allclose(y.mean(axis=(1, 2)), 0.0, atol=1e-6)
    np.testing.assert_allclose(y.var(axis=(1, 2)), 1.0, rtol=1e-4)
    bias = ops.layer_norm(array(x), None, array(np.ones((3, 4), np.float32)))
    np.testing.assert_allclose(bias.numpy(), y + 1.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "count"), [((3, 4), 1), ((2, 3, 4), 2), ((2, 3, 4), 1), ((5,), 1)]
)
def test_layer_norm_against_torch(device, shape, count):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    last = shape[len(shape) - count :]

    def peer(x, weight, bias):
        return torch.nn.functional.layer_norm(x, last, weight, bias, eps=1e-3)

    def ours(x, weight, bias):
        return ops.layer_norm(x, weight, bias, eps=1e-3)

    hosts = (random(*shape), random(*last, seed=1), random(*last, seed=2))
    check_against_torch(ours, peer, device, *hosts, atol=1e-5)


@pytest.mark.parametrize("order", [1, 2])
def test_layer_norm_gradients(device, order):
    hosts = (random(2, 3, 4), random(4, seed=1), random(4, seed=2))
    check_gradients(ops.layer_norm, device, *hosts, order=order)


def test_layer_norm_of_no_samples(device, array):
    hosts = (np.zeros((0, 3)), np.ones(3), np.ones(3))
    assert both(ops.layer_norm, *(array(h) for h in hosts)).shape == (0, 3)
    check_gradients(ops.layer_norm, device, *hosts)


def test_layer_norm_names_what_does_not_fit(array):
    x, three = array(np.zeros((2, 4), np.float32)), array(np.zeros(3, np.float32))
    rule = r"^layer_norm: needs weight.shape == bias.shape == the last axes of x, got \(3,\) and \(3,\)"
    with pytest.raises(ShapeError, match=rule):
        ops.layer_norm(x, three, three)
    with pytest.raises(ShapeError, match=r"needs 0 < axes <= x.ndim, got 3 and 2"):
        ops.layer_norm(x, axes=3)
    with pytest.raises(ArgumentError, match=r"layer_norm: needs eps >= 0, got -1.0"):
        ops.layer_norm(x, eps=-1.0)
    with pytest.raises(DTypeError, match="layer_norm: needs one dtype, got float64 and float32"):
        ops.layer_norm(x, array(np.zeros(4)))
    with pytest.raises(DTypeError, match="layer_norm: needs a floating dtype, got int64"):
        ops.layer_norm(array([[1, 2]]))
