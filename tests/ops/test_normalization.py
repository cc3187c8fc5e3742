import math

import numpy as np
import pytest

from checks import both, check_against_torch, check_gradients, put, random
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
    with pytest.raises(ArgumentError, match=r"layer_norm: needs a number 0 <= eps < inf, got -1.0"):
        ops.layer_norm(x, eps=-1.0)
    with pytest.raises(DTypeError, match="layer_norm: needs one dtype, got float64 and float32"):
        ops.layer_norm(x, array(np.zeros(4)))
    with pytest.raises(DTypeError, match="layer_norm: needs a floating dtype, got int64"):
        ops.layer_norm(array([[1, 2]]))


# -- rms_norm and group_norm ------------------------------------------------------------------------


def test_rms_norm_by_hand(array):
    y = both(
        lambda x, w: ops.rms_norm(x, w, eps=0.0),
        array([[3.0, -3.0], [1.0, 7.0]]),
        array([1.0, 2.0]),
    )
    np.testing.assert_allclose(y.numpy(), [[1.0, -2.0], [0.2, 2.8]], rtol=1e-6)  # roots 3 and 5


@pytest.mark.parametrize(("shape", "count"), [((3, 4), 1), ((2, 3, 4), 2)])
def test_rms_norm_against_torch(device, shape, count):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    last = shape[len(shape) - count :]

    def peer(x, weight):
        return torch.nn.functional.rms_norm(x, last, weight, eps=1e-3)

    hosts = (random(*shape), random(*last, seed=1))
    check_against_torch(lambda x, w: ops.rms_norm(x, w, eps=1e-3), peer, device, *hosts, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 4, 3, 2)])
def test_group_norm_against_torch(device, shape, groups):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")

    def peer(x, weight, bias):
        return torch.nn.functional.group_norm(x, groups, weight, bias, eps=1e-3)

    def ours(x, weight, bias):
        return ops.group_norm(x, weight, bias, groups=groups, eps=1e-3)

    hosts = (random(*shape), random(4, seed=1), random(4, seed=2))
    check_against_torch(ours, peer, device, *hosts, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", [1, 2])
def test_rms_and_group_norm_gradients(device, order):
    hosts = (random(2, 3, 4), random(4, seed=1))
    check_gradients(ops.rms_norm, device, *hosts, order=order)
    hosts = (random(2, 4, 3), random(4, seed=1), random(4, seed=2))
    check_gradients(
        lambda *xs: ops.group_norm(*xs, groups=2, eps=1e-2), device, *hosts, order=order, rtol=1e-5
    )


def test_they_name_what_does_not_fit(array):
    x, three = array(np.zeros((2, 4, 5), np.float32)), array(np.zeros(3, np.float32))
    with pytest.raises(
        ShapeError, match=r"^rms_norm: needs weight.shape == the last axes of x, got \(3,\)"
    ):
        ops.rms_norm(x, three)
    with pytest.raises(
        ShapeError, match=r"^group_norm: needs weight.shape == x.shape\[1:2\], got \(3,\) != \(4,\)"
    ):
        ops.group_norm(x, three, three, groups=2)
    four = array(np.zeros(4, np.float32))
    with pytest.raises(
        ShapeError, match=r"group_norm: needs groups >= 1 that divide x.shape\[1\], got 3 and 4"
    ):
        ops.group_norm(x, four, four, groups=3)
    with pytest.raises(ArgumentError, match="group_norm: needs a number 0 <= eps < inf, got -1.0"):
        ops.group_norm(x, four, four, groups=2, eps=-1.0)


# -- batch_norm -------------------------------------------------------------------------------------


def test_batch_norm_by_hand(array):
    x = array([[[1.0, 3.0], [0.0, 0.0]], [[5.0, 7.0], [0.0, 4.0]]])
    y, mean, variance = both(
        lambda *xs: ops.batch_norm(*xs, eps=0.0), x, array([1.0, 3.0]), array([0.0, 10.0])
    )
    assert (mean.tolist(), variance.tolist()) == ([4.0, 1.0], [5.0, 3.0])
    a, b = 1 / math.sqrt(5.0), math.sqrt(3.0)
    expected = [[[-3 * a, -a], [10 - b, 10 - b]], [[a, 3 * a], [10 - b, 10 + 3 * b]]]
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (3, 3, 4, 2), (2, 3, 2, 3, 2)])
def test_batch_norm_against_torch(device, shape):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    hosts = (random(*shape), random(3, seed=1), random(3, seed=2))

    def peer(x, weight, bias):
        return torch.nn.functional.batch_norm(x, None, None, weight, bias, True, eps=1e-3)

    def ours(*xs):
        return ops.batch_norm(*xs, eps=1e-3)[0]

    check_against_torch(ours, peer, device, *hosts, rtol=1e-4, atol=1e-5)
    moments = (random(3, seed=3), random(3, seed=4, low=0.5))

    def fixed(x, weight, bias, mean, variance):
        return torch.nn.functional.batch_norm(x, mean, variance, weight, bias, False, eps=1e-3)

    moved = [torch.tensor(h) for h in (*hosts, *moments)]
    y = ops.batch_norm_inference(*put([*hosts, *moments], device), eps=1e-3)
    np.testing.assert_allclose(y.numpy(), fixed(*moved).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", [1, 2])
def test_batch_norm_gradients(device, order):
    """Of y alone, and of y and both moments."""
    hosts = (random(4, 2, 3), random(2, seed=1), random(2, seed=2))
    check_gradients(lambda *xs: ops.batch_norm(*xs)[0], device, *hosts, order=order, rtol=1e-5)
    check_gradients(ops.batch_norm, device, *hosts, order=order, rtol=1e-5)
    moments = (random(2, seed=3), random(2, seed=4, low=0.5))
    check_gradients(ops.batch_norm_inference, device, *hosts, *moments, order=order, rtol=1e-5)


def test_moments_of_float16_are_float32(array):
    x = array(np.full((4096, 1), 300.0), "float16")
    one = array(np.ones(1), "float16")
    y, mean, variance = ops.batch_norm(x, one, one)
    assert [t.dtype.name for t in (y, mean, variance)] == ["float16", "float32", "float32"]
    assert (mean.tolist(), variance.tolist(), y.tolist()[0]) == ([300.0], [0.0], [1.0])
    assert ops.batch_norm_inference(x, one, one, mean, variance).dtype.name == "float16"


def test_batch_norm_of_no_samples(device, array):
    hosts = (np.zeros((0, 3)), np.ones(3), np.ones(3))
    y, mean, variance = both(ops.batch_norm, *(array(h) for h in hosts))
    assert (y.shape, mean.tolist(), variance.tolist()) == ((0, 3), [0.0] * 3, [0.0] * 3)
    check_gradients(lambda *xs: ops.batch_norm(*xs)[0], device, *hosts)


def test_batch_norm_names_what_does_not_fit(array):
    x, three = array(np.zeros((2, 4, 5), np.float32)), array(np.zeros(3, np.float32))
    with pytest.raises(
        ShapeError, match=r"^batch_norm: needs weight.shape == x.shape\[1:2\], got \(3,\) != \(4,\)"
    ):
        ops.batch_norm(x, three, three)
    with pytest.raises(ShapeError, match=r"^batch_norm: needs x \(n, c, \*size\), got \(3,\)"):
        ops.batch_norm(three, three, three)
    four = array(np.zeros(4, np.float32))
    with pytest.raises(
        ShapeError, match=r"^batch_norm_inference: needs mean.shape == x.shape\[1:2\]"
    ):
        ops.batch_norm_inference(x, four, four, three, four)
    with pytest.raises(DTypeError, match="batch_norm: needs one dtype, got float32 and float64"):
        ops.batch_norm(x, array(np.zeros(4)), four)
    with pytest.raises(
        ShapeError, match=r"batch_norm_grad: needs grad like x \(float32 \(2, 4, 5\)\)"
    ):
        ops.batch_norm_grad(x[:1], x, four, four, four)
