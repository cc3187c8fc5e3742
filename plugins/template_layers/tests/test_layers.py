"""What every layer promises, on every backend that is installed; and that the layers train."""

import numpy as np
import pytest

import singa_core as sc
from singa_core.conformance.layer import check_layer
from singa_core.errors import ArgumentError, ShapeError
from singa_template_layers import Snake, Squash


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (Squash, (4, 3)),
        (lambda: Squash(axis=0), (4, 3)),
        (Snake, (5, 4, 3)),
        (lambda: sc.layers.Sequential(sc.layers.Linear(3), Snake(), Squash()), (4, 3)),
    ],
    ids=["squash", "squash across", "snake", "together"],
)
def test_a_layer_keeps_its_promises(make, shape):
    report = check_layer(make, shape, output=shape)
    print(report)
    assert report.devices


def test_sizes_are_learnt_or_given():
    layer = Snake()
    layer(sc.tensor(np.ones((2, 5), np.float32)))
    assert layer.alpha.shape == (5,)
    with pytest.raises(
        ShapeError, match=r"Snake: needs x.shape\[-1\] == features == 4, got \(2, 5\)"
    ):
        Snake(4)(sc.tensor(np.ones((2, 5), np.float32)))
    with pytest.raises(ArgumentError, match="Squash: needs an integer axis, got 0.5"):
        Squash(0.5)


class Net(sc.Model):
    def __init__(self):
        self.body = sc.layers.Sequential(
            sc.layers.Linear(32), Snake(), sc.layers.Linear(16), Squash(), sc.layers.Linear(1)
        )
        self.loss, self.optimizer = sc.ops.mse_loss, sc.opt.Adam(0.01)

    def forward(self, x):
        return self.body(x)


def test_they_learn_a_wave():
    sc.manual_seed(0)
    x = np.linspace(-3, 3, 64, dtype=np.float32)[:, None]
    y = np.sin(3 * x)
    net = Net()
    net.compile([sc.Placeholder(x.shape)])
    losses = [float(net.train_one_batch(x, y)[1]) for _ in range(300)]
    assert losses[-1] < 0.05 * losses[0]
