"""Normalising layers: running statistics, a peer, training and evaluation, eager and recorded."""

import numpy as np
import pytest

from checks import both, random
from singa_core import Model, Placeholder, gradients, ops, opt
from singa_core.engine import graph
from singa_core.errors import ArgumentError, ShapeError, SingaError
from singa_core.layers import (
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    GroupNorm,
    LayerNorm,
    RMSNorm,
    Sequential,
)


def test_batch_norm_by_hand(array):
    layer = BatchNorm1d(momentum=0.25, eps=0.0)
    x = array([[1.0], [3.0], [5.0], [7.0]])
    y = layer(x)
    np.testing.assert_allclose(y.numpy().ravel() ** 2, [1.8, 0.2, 0.2, 1.8], rtol=1e-6)
    assert layer.running_mean.tolist() == [1.0]  # 0.75 * 0 + 0.25 * 4
    np.testing.assert_allclose(layer.running_var.numpy(), [0.75 + 0.25 * 20 / 3], rtol=1e-6)
    layer.set_states({"running_mean": [1.0], "running_var": [4.0], "weight": [2.0], "bias": [0.5]})
    layer.eval()
    assert both(layer, x).tolist() == [[0.5], [2.5], [4.5], [6.5]]
    assert layer.running_mean.tolist() == [1.0]  # evaluation leaves it alone


@pytest.mark.parametrize(
    ("ours", "name", "shape"),
    [(BatchNorm1d, "BatchNorm1d", (6, 3)), (BatchNorm1d, "BatchNorm1d", (4, 3, 5)), (BatchNorm2d, "BatchNorm2d", (4, 3, 2, 5))],
)  # fmt: skip
def test_batch_norm_against_torch(device, ours, name, shape):
    """Outputs, gradients and running statistics over several batches, then evaluation."""
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    layer, peer = ours().to(device), getattr(torch.nn, name)(3)
    for step in range(4):
        x = random(*shape, seed=step)
        tx = torch.tensor(x, requires_grad=True)
        y, ty = layer(x), peer(tx)
        np.testing.assert_allclose(y.numpy(), ty.detach().numpy(), rtol=1e-4, atol=1e-5)
        found = gradients((y * y * y).sum(), [layer.weight, layer.bias])
        wanted = torch.autograd.grad((ty * ty * ty).sum(), [peer.weight, peer.bias])
        for g, w in zip(found, wanted, strict=True):
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-4, atol=1e-4)
    for cell, other in (
        (layer.running_mean, peer.running_mean),
        (layer.running_var, peer.running_var),
    ):
        np.testing.assert_allclose(cell.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
    layer.eval(), peer.eval()
    x = random(*shape, seed=9)
    np.testing.assert_allclose(
        layer(x).numpy(), peer(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5
    )


def test_running_statistics_are_the_same_bits_recorded(device, array):
    layers = [BatchNorm2d().to(device) for _ in range(2)]
    recorded = graph(layers[1])
    for step in range(4):
        x = array(random(3, 2, 4, 4, seed=step))
        assert layers[0](x).numpy().tobytes() == recorded(x).numpy().tobytes()
    for a, b in zip(*(layer.get_states().values() for layer in layers), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_a_model_trains_with_it_and_evaluates_with_what_it_learnt(device):
    class Net(Model):
        def __init__(self):
            self.body = Sequential(Conv2d(4, 3, padding=1), BatchNorm2d(), ops.relu, Conv2d(1, 4))
            self.loss = lambda y, t: (y.reshape(-1) - t).square().mean()
            self.optimizer = opt.SGD(0.02, momentum=0.9)

        def forward(self, x):
            return self.body(x)

    x = random(16, 2, 4, 4)
    target = x.sum(axis=(1, 2, 3)) * np.float32(0.3)
    results = []
    for use_graph in (True, False):
        from singa_core import random as streams  # noqa: PLC0415

        streams.manual_seed(3)
        net = Net().compile([Placeholder(x.shape, device=device)], use_graph=use_graph)
        for _ in range(30):
            _, loss = net.train_one_batch(x, target)
        net.eval()
        results.append((float(loss), net(x).numpy().tobytes()))
        assert float(((net(x).numpy().reshape(-1) - target) ** 2).mean()) < 0.6 * target.var()
    assert results[0] == results[1]
    assert list(net.get_params()) == [
        "body.steps.0.weight", "body.steps.0.bias", "body.steps.1.weight", "body.steps.1.bias",
        "body.steps.3.weight", "body.steps.3.bias",
    ]  # fmt: skip
    assert {"body.steps.1.running_mean", "body.steps.1.running_var"} <= set(net.get_states())


def test_layer_norm_by_hand(array):
    layer = LayerNorm(eps=1e-12)
    x = array([[1.0, 3.0], [2.0, 2.0]])
    np.testing.assert_allclose(both(layer, x).numpy(), [[-1.0, 1.0], [0.0, 0.0]], atol=1e-6)
    layer.set_params({"weight": [2.0, 2.0], "bias": [1.0, 0.0]})
    np.testing.assert_allclose(both(layer, x).numpy(), [[-1.0, 2.0], [1.0, 0.0]], atol=1e-6)
    assert list(LayerNorm(2, bias=False).get_params()) == ["weight"]
    assert LayerNorm(2)(array(random(2, 3, 4))).shape == (2, 3, 4)


@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm", "GroupNorm"])
def test_norms_of_samples_against_torch(array, name):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    x = random(3, 4, 5)
    ours, theirs = {
        "LayerNorm": (LayerNorm(2), lambda: torch.nn.LayerNorm((4, 5))),
        "RMSNorm": (RMSNorm(eps=1e-6), lambda: torch.nn.RMSNorm(5, eps=1e-6)),
        "GroupNorm": (GroupNorm(2), lambda: torch.nn.GroupNorm(2, 4)),
    }[name]
    y = both(ours, array(x))
    np.testing.assert_allclose(
        y.numpy(), theirs()(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5
    )


def test_input_that_does_not_fit(array):
    with pytest.raises(ShapeError, match=r"^BatchNorm2d: needs x \(n, c, h, w\), got \(2, 3\)"):
        BatchNorm2d()(array(random(2, 3)))
    with pytest.raises(
        ShapeError, match=r"^BatchNorm1d: needs x \(n, c\) or \(n, c, w\), got \(1, 2, 3, 4\)"
    ):
        BatchNorm1d()(array(random(1, 2, 3, 4)))
    with pytest.raises(
        ShapeError, match=r"BatchNorm1d: needs x.shape\[1\] == num_features == 4, got 3"
    ):
        BatchNorm1d(4)(array(random(2, 3)))
    text = r"BatchNorm1d: needs two values for each channel to train on, got 1\n(.*\n)*try: a larger batch, or eval\(\)"
    layer = BatchNorm1d()
    with pytest.raises(ShapeError, match=text):
        layer(array(random(1, 3)))
    assert layer.eval()(array(random(1, 3))).shape == (1, 3)
    with pytest.raises(ShapeError, match="LayerNorm: needs x.ndim >= axes == 3, got 2"):
        LayerNorm(3)(array(random(2, 3)))
    for make in (lambda: LayerNorm(16)(array(random(2, 3, 16))), lambda: LayerNorm(128),
                 lambda: RMSNorm((3, 4)), lambda: LayerNorm(0)):  # fmt: skip
        with pytest.raises(
            SingaError, match=r"axes.*, got (.|\n)*Norm\(\) for the last axis: axes is"
        ):
            make()
    with pytest.raises(
        ShapeError, match=r"GroupNorm: needs x \(n, c, \*size\) with c divisible by groups == 2"
    ):
        GroupNorm(2)(array(random(2, 3)))
    for bad in (-0.1, 1.1, "a"):
        with pytest.raises(ArgumentError, match="BatchNorm2d: needs a number 0 <= momentum <= 1"):
            BatchNorm2d(momentum=bad)


def test_layers_say_what_they_are(array):
    assert repr(BatchNorm2d(3)) == "BatchNorm2d(3, eps=1e-05, momentum=0.1)"
    assert repr(LayerNorm()) == "LayerNorm((None,), eps=1e-05)"
    layer = GroupNorm(2)
    layer(array(random(2, 4)))
    assert repr(layer) == "GroupNorm(2, channels=4, eps=1e-05)"
