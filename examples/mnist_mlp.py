"""A perceptron with two hidden layers learns real handwritten digits, recorded as one graph."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import _options
import singa_core as sc
from singa_core.data.digits import load_mnist_5k
from singa_core.data.loader import ArrayLoader
from singa_core.layers import Flatten, Linear, ReLU, Sequential
from singa_core.metric import Accuracy
from singa_core.training import History, evaluate, fit

BATCH = 64


class MLP(sc.Model):
    """28 x 28 -> 256 -> 128 -> 10; the default training step uses `loss` and `optimizer`."""

    def __init__(self, rate: float) -> None:
        self.body = Sequential(Flatten(), Linear(256), ReLU(), Linear(128), ReLU(), Linear(10))
        self.loss = sc.ops.cross_entropy
        self.optimizer = sc.opt.SGD(rate, momentum=0.9)

    def forward(self, x: sc.Tensor) -> sc.Tensor:
        return self.body(x)


def make(options: argparse.Namespace, *, use_graph: bool) -> MLP:
    """A compiled model; the same seed gives the same weights on every device."""
    sc.manual_seed(options.seed)
    model = MLP(options.rate)
    model.compile([sc.Placeholder((BATCH, 28, 28), device=options.device)], use_graph=use_graph)
    return model


def milliseconds(history: History) -> float:
    """Time of a step in the fastest epoch: the first one also records and allocates."""
    return min(history["ms_per_step"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, test, and say what it took."""
    options = _options.parse(_options.parser(__doc__, epochs=10, rate=0.05), arguments)
    device = options.device
    data = load_mnist_5k(seed=options.seed)
    print(f"{len(data.train_images)} digits to learn, {len(data.test_images)} to test, on {device}")
    loader = ArrayLoader(
        data.train_images, data.train_labels, batch_size=BATCH, seed=options.seed, drop_last=True
    )
    tests = ArrayLoader(data.test_images, data.test_labels, batch_size=250, shuffle=False)

    model = make(options, use_graph=not options.no_graph)
    device.memory.reset_peak()
    history = fit(model, loader, options.epochs, callbacks=_options.callbacks(options))
    peak = device.memory.peak
    found = evaluate(model, tests, metrics=[Accuracy()])
    print(f"test accuracy {found['accuracy']:.4f}")

    other = make(options, use_graph=options.no_graph)
    rest = milliseconds(fit(other, loader, 2, progress=False))
    step = milliseconds(history)
    graph, eager = (rest, step) if options.no_graph else (step, rest)
    print(f"a step takes {graph:.2f} ms recorded, {eager:.2f} ms eager")
    print(f"peak memory {peak / 2**20:.1f} MiB on {device}, by core's count")


if __name__ == "__main__":
    main()
