import numpy as np
import pytest

from checks import both, check_against_torch, check_gradients, random
from singa_core import ops
from singa_core.errors import DTypeError, ShapeError

SHAPES = [(3, 4), (2, 3, 4), (4,), (0, 4), (2, 0, 4)]


def test_linear_by_hand(array):
    x, weight, bias = array([[1.0, 2.0]]), array([[3.0, 4.0], [5.0, 6.0]]), array([100.0, 200.0])
    assert both(ops.linear, x, weight, bias).tolist() == [[113.0, 216.0]]  # 1*3 + 2*5, 1*4 + 2*6
    assert both(ops.linear, x, weight).tolist() == [[13.0, 16.0]]
    assert ops.linear(x, weight, None).tolist() == [[13.0, 16.0]]


def test_linear_takes_any_leading_axes_as_rows(array):
    x, weight, bias = random(2, 3, 4), random(4, 5, seed=1), random(5, seed=2)
    y = both(ops.linear, array(x), array(weight), array(bias)).numpy()
    assert y.shape == (2, 3, 5)
    for i, j in np.ndindex(2, 3):
        one = ops.linear(array(x[i, j]), array(weight), array(bias))
        assert one.shape == (5,)
        np.testing.assert_allclose(y[i, j], one.numpy(), rtol=1e-5, atol=1e-6)


def test_linear_of_a_strided_input(array):
    x, weight = array(random(4, 3, 2)), array(random(4, 5))
    y = ops.linear(x.permute(2, 1, 0), weight)
    expected = np.einsum("ijk,il->kjl", x.numpy(), weight.numpy())
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_linear_gradients(device, shape, order):
    hosts = (random(*shape), random(4, 2, seed=1), random(2, seed=2))
    check_gradients(ops.linear, device, *hosts, order=order)
    check_gradients(ops.linear, device, *hosts[:2], order=order)


def test_linear_of_no_features(device, array):
    hosts = (np.zeros((3, 0)), np.zeros((0, 2)), np.array([1.0, 2.0]))
    assert ops.linear(*(array(h) for h in hosts)).tolist() == [[1.0, 2.0]] * 3
    check_gradients(ops.linear, device, *hosts)


@pytest.mark.parametrize("shape", SHAPES)
def test_linear_against_torch(device, shape):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")

    def peer(x, weight, bias):
        return torch.nn.functional.linear(x, weight.T, bias)

    hosts = (random(*shape), random(4, 2, seed=1), random(2, seed=2))
    check_against_torch(ops.linear, peer, device, *hosts)


def test_linear_of_integers(array):
    y = both(ops.linear, array([[1, 2]]), array([[3, 4], [5, 6]]), array([100, 200]))
    assert (y.dtype.name, y.tolist()) == ("int64", [[113, 216]])


def test_linear_names_the_broken_rule(array):
    x, weight = array(np.zeros((2, 3), np.float32)), array(np.zeros((4, 5), np.float32))
    rule = (
        r"^linear: needs x.shape\[-1\] == weight.shape\[0\] \(in_features\), got 3 != 4\n"
        r"  x: float32 \(2, 3\) \w+\n  weight: float32 \(4, 5\) \w+$"
    )
    with pytest.raises(ShapeError, match=rule):
        ops.linear(x, weight)
    with pytest.raises(ShapeError, match=r"got 5 != 4\n(.*\n)*try: weight.T$"):
        ops.linear(array(np.zeros((2, 5), np.float32)), weight)
    with pytest.raises(
        ShapeError, match=r"\(out_features\), got \(4,\) != \(5,\)\n(.*\n)*  bias: "
    ):
        ops.linear(array(np.zeros((2, 4), np.float32)), weight, array(np.zeros(4, np.float32)))
    with pytest.raises(
        ShapeError, match=r"linear: needs weight \(in_features, out_features\), got \(4,\)"
    ):
        ops.linear(x, array(np.zeros(4, np.float32)))
    with pytest.raises(ShapeError, match="linear: needs x.ndim >= 1, got 0"):
        ops.linear(array(1.0), weight)
    flags = array(np.zeros((2, 2), bool))
    with pytest.raises(DTypeError, match="linear: needs a number dtype"):
        ops.linear(flags, flags)
