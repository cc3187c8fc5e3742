import numpy as np
import pytest

from checks import both, random
from singa_core import Model, Placeholder, gradients, opt
from singa_core.errors import ArgumentError, ShapeError
from singa_core.layers import Linear, Sequential


def test_linear_by_hand(array):
    layer = Linear(2, weight_init=[[3.0, 4.0], [5.0, 6.0]], bias_init=[100.0, 200.0])
    x = array([[1.0, 2.0]])
    assert both(layer, x).tolist() == [[113.0, 216.0]]  # 1*3 + 2*5 + 100, 1*4 + 2*6 + 200
    weight, bias = gradients(layer(x).sum(), [layer.weight, layer.bias])
    assert (weight.tolist(), bias.tolist()) == ([[1.0, 1.0], [2.0, 2.0]], [1.0, 1.0])


def test_linear_without_bias(array):
    layer = Linear(2, bias=False, weight_init="ones")
    assert list(layer.get_params()) == ["weight"]
    assert both(layer, array([[1.0, 2.0]])).tolist() == [[3.0, 3.0]]
    assert layer.bias is None


@pytest.mark.parametrize("shape", [(4,), (5, 4), (2, 3, 4), (0, 4)])
def test_linear_learns_the_last_axis(array, shape):
    layer = Linear(3)
    assert layer.get_params()["weight"].shape == (None, 3)
    y = layer(array(random(*shape)))
    assert y.shape == (*shape[:-1], 3)
    assert layer.weight.shape == (4, 3)
    want = random(*shape) @ layer.weight.numpy() + layer.bias.numpy()
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5, atol=1e-6)


def test_linear_of_a_known_size_takes_no_other(array):
    layer = Linear(3, in_features=4)
    assert layer.weight.shape == (4, 3)
    assert not layer.weight.materialized
    text = (
        r"^Linear: needs x.shape\[-1\] == in_features == 4, got \(2, 5\)\n"
        r"  x: float32 \(2, 5\) \w+\n  in Linear$"
    )
    with pytest.raises(ShapeError, match=text):
        layer(array(random(2, 5)))
    assert layer(array(random(2, 4))).shape == (2, 3)


def test_linear_keeps_the_size_of_its_first_input(array):
    net = Sequential(Linear(3), Linear(2))
    net(array(random(2, 4)))
    text = (
        r"^linear: needs x.shape\[-1\] == weight.shape\[0\] \(in_features\), got 5 != 4\n"
        r"  x: float32 \(2, 5\) \w+\n  weight: float32 \(4, 3\) \w+\n(.*\n)*  in steps.0 \(Linear\)$"
    )
    with pytest.raises(ShapeError, match=text):
        net(array(random(2, 5)))
    assert net(array(random(2, 4))).shape == (2, 2)


def test_linear_of_a_scalar(array):
    with pytest.raises(
        ShapeError, match=r"Linear: needs x.ndim >= 1, got \(\)\n(.*\n)*  in Linear$"
    ):
        Linear(3)(array(1.0))


def test_linear_of_booleans_and_integers(array):
    layer = Linear(2, weight_init=[[1.0, 2.0], [3.0, 4.0]])
    assert layer(array([[True, False]])).tolist() == [[1.0, 2.0]]
    assert layer(array([[1, 10]])).tolist() == [[31.0, 42.0]]


def test_sizes_the_other_way_round_are_explained():
    text = (
        r"^Linear: needs the output size alone: Linear\(out_features\), got Linear\(784, 512\)\n"
        r"try: Linear\(512, in_features=784\)$"
    )
    with pytest.raises(ArgumentError, match=text):
        Linear(784, 512)


@pytest.mark.parametrize("name", ["out_features", "in_features"])
@pytest.mark.parametrize("size", [0, -1, True, 2.0, "3", np.float32(2)])
def test_sizes_that_are_none(name, size):
    sizes = {"out_features": 1} | {name: size}
    with pytest.raises(ArgumentError, match=rf"^Linear: needs an integer {name} >= 1, got "):
        Linear(**sizes)
    with pytest.raises(ArgumentError, match="needs an integer out_features >= 1, got None"):
        Linear(None)


def test_numpy_integers_are_sizes(array):
    layer = Linear(np.int64(3), in_features=np.uint8(2))
    assert layer.weight.shape == (2, 3)
    assert repr(layer) == "Linear(3, in_features=2, bias=True)"
    assert repr(Linear(3, bias=False)) == "Linear(3, in_features=None, bias=False)"


def test_linear_regression_finds_the_line(device, array):
    class Net(Model):
        def __init__(self):
            self.line = Linear(1)
            self.loss, self.optimizer = lambda y, t: (y - t).square().mean(), opt.SGD(0.3)

        def forward(self, x):
            return self.line(x)

    net = Net().compile([Placeholder((32, 2), device=device)])
    x = random(32, 2)
    for _ in range(100):
        net.train_one_batch(array(x), array(x @ np.float32([[2.0], [-3.0]]) + np.float32(0.5)))
    np.testing.assert_allclose(net.line.weight.numpy(), [[2.0], [-3.0]], atol=1e-4)
    np.testing.assert_allclose(net.line.bias.numpy(), [0.5], atol=1e-4)
