"""Convolution layers: values by hand, a peer, sizes learnt from the first input, and errors."""

import numpy as np
import pytest

from checks import both, random
from singa_core import Model, Placeholder, gradients, ops, opt
from singa_core.errors import ArgumentError, ShapeError
from singa_core.layers import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose2d,
    Flatten,
    Linear,
    MaxPool2d,
    ReLU,
    Sequential,
)  # fmt: skip


def test_conv_by_hand(array):
    layer = Conv2d(1, 2, weight_init=[[[[1.0, 0.0], [0.0, 10.0]]]], bias_init=[0.5])
    x = array([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]])
    assert both(layer, x).tolist() == [[[[51.5, 62.5]]]]
    weight, bias = gradients(layer(x).sum(), [layer.weight, layer.bias])
    assert (weight.tolist(), bias.tolist()) == ([[[[3.0, 5.0], [9.0, 11.0]]]], [2.0])


def test_conv_without_bias(array):
    layer = Conv1d(1, 2, bias=False, weight_init="ones")
    assert list(layer.get_params()) == ["weight"]
    assert both(layer, array([[[1.0, 2.0, 4.0]]])).tolist() == [[[3.0, 6.0]]]


@pytest.mark.parametrize(
    ("make", "shape", "weight", "out"),
    [
        (lambda: Conv1d(4, 3), (2, 3, 8), (4, 3, 3), (2, 4, 6)),
        (lambda: Conv1d(4, 3, padding="same", stride=2), (2, 3, 8), (4, 3, 3), (2, 4, 4)),
        (lambda: Conv2d(20, 5), (2, 1, 28, 28), (20, 1, 5, 5), (2, 20, 24, 24)),
        (lambda: Conv2d(6, (1, 3), groups=2, padding=(0, 1)), (2, 4, 5, 5), (6, 2, 1, 3), (2, 6, 5, 5)),
        (lambda: Conv2d(4, 3, groups=4, padding=((1, 1), (2, 0))), (1, 4, 5, 5), (4, 1, 3, 3), (1, 4, 5, 5)),
        (lambda: Conv3d(2, 2, dilation=2), (1, 3, 4, 5, 6), (2, 3, 2, 2, 2), (1, 2, 2, 3, 4)),
        (lambda: ConvTranspose2d(3, 2, stride=2), (1, 8, 5, 5), (8, 3, 2, 2), (1, 3, 10, 10)),
        (lambda: ConvTranspose2d(4, 3, stride=2, padding=1, output_padding=1, groups=2), (1, 6, 5, 4), (6, 2, 3, 3), (1, 4, 10, 8)),
    ],
)  # fmt: skip
def test_channels_are_learnt(device, make, shape, weight, out):
    layer = make()
    channels = [n for n, known in zip(weight, layer.weight.shape, strict=True) if known is None]
    assert len(channels) == 1
    y = layer.to(device)(random(*shape))
    assert (y.shape, layer.weight.shape, layer.bias.shape) == (out, weight, (out[1],))
    assert (y.device, layer.weight.device) == (device, device)


@pytest.mark.parametrize("name", ["Conv2d", "ConvTranspose2d"])
def test_layers_against_torch(array, name):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    options = {"stride": 2, "padding": 1, "groups": 2}
    ours = {"Conv2d": Conv2d, "ConvTranspose2d": ConvTranspose2d}[name](6, 3, **options)
    theirs = getattr(torch.nn, name)(4, 6, 3, **options)
    x = random(2, 4, 7, 6)
    ours(array(x))
    ours.set_params({k: v.detach().numpy() for k, v in theirs.named_parameters()})
    y = both(ours, array(x))
    np.testing.assert_allclose(
        y.numpy(), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("layer", "fan"), [(Conv2d(64, 3), 16 * 9), (ConvTranspose2d(64, 3), 16 * 9)]
)
def test_the_first_weights_keep_the_variance(layer, fan):
    """He: 2 / fan_in, which for the transpose is its first axis."""
    layer(ops.zeros((1, 16, 4, 4)))
    assert layer.weight.numpy().var() == pytest.approx(2 / fan, rel=0.1)
    assert not layer.bias.numpy().any()


def test_a_network_learns_where_a_corner_is(device):
    """Two classes that only the place of one pixel in a pattern tells apart."""

    class Net(Model):
        def __init__(self):
            self.body = Sequential(Conv2d(4, 3), ReLU(), MaxPool2d(2), Flatten(), Linear(2))
            self.loss, self.optimizer = ops.cross_entropy, opt.SGD(0.1, momentum=0.9)

        def forward(self, x):
            return self.body(x)

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 32)
    x = np.zeros((32, 1, 8, 8), np.float32)
    for image, label in zip(x, labels, strict=True):
        i, j = rng.integers(0, 6, 2)
        image[0, i, j : j + 3] = 1
        image[0, i + 1, j + (2 if label else 0)] = 1
    net = Net().compile([Placeholder(x.shape, device=device)])
    for _ in range(120):
        _, loss = net.train_one_batch(x, labels)
    assert float(loss) < 0.1


def test_input_that_does_not_fit(array):
    layer = Conv2d(4, 3, in_channels=2)
    text = r"^Conv2d: needs x.shape\[1\] == in_channels == 2, got 3\n  x: float32 \(1, 3, 5, 5\) \w+\n  in Conv2d$"
    with pytest.raises(ShapeError, match=text):
        layer(array(random(1, 3, 5, 5)))
    with pytest.raises(ShapeError, match=r"^Conv2d: needs x \(n, c, h, w\), got \(2, 5, 5\)"):
        layer(array(random(2, 5, 5)))
    with pytest.raises(ShapeError, match=r"^Conv1d: needs x \(n, c, w\), got \(1, 2, 5, 5\)"):
        Conv1d(4, 3)(array(random(1, 2, 5, 5)))
    with pytest.raises(ArgumentError, match=r"^Conv2d: needs in_channels % groups == 0, got 3 % 2"):
        Conv2d(4, 3, groups=2)(array(random(1, 3, 5, 5)))
    assert layer(array(random(1, 2, 5, 5))).shape == (1, 4, 3, 3)
    text = r"^conv: needs x.shape\[1\] == weight.shape\[1\] \* groups \(in_channels\), got 3 != 2 \* 1\n(.*\n)*  in steps.0 \(Conv2d\)$"
    with pytest.raises(ShapeError, match=text):
        Sequential(layer)(array(random(1, 3, 5, 5)))


def test_arguments_that_do_not_fit():
    text = (
        r"^Conv2d: needs the output's channels and the kernel's size: \(out_channels, kernel_size\), "
        r"got \(1, 20, 5\)\ntry: Conv2d\(20, 5, in_channels=1\)$"
    )
    with pytest.raises(ArgumentError, match=text):
        Conv2d(1, 20, 5)
    for bad in (0, True, 2.0, None):
        with pytest.raises(ArgumentError, match="Conv2d: needs an integer out_channels >= 1, got "):
            Conv2d(bad, 3)
    with pytest.raises(
        ArgumentError, match="Conv2d: needs kernel_size: an integer >= 1, or one for"
    ):
        Conv2d(4, (3, 3, 3))
    with pytest.raises(ArgumentError, match=r"Conv2d: needs out_channels % groups == 0, got 4 % 3"):
        Conv2d(4, 3, groups=3)
    with pytest.raises(
        ArgumentError, match="ConvTranspose2d: needs output_padding: an integer >= 0"
    ):
        ConvTranspose2d(4, 3, output_padding=-1)


def test_layers_say_what_they_are():
    assert repr(Conv2d(20, 5)) == "Conv2d(20, 5, in_channels=None, bias=True)"
    layer = Conv2d(6, (3, 1), stride=2, padding="same", groups=2, bias=False, in_channels=4)
    assert repr(layer) == (
        "Conv2d(6, (3, 1), in_channels=4, stride=2, padding='same', groups=2, bias=False)"
    )
