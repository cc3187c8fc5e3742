"""A convolutional network learns real handwritten digits, recorded as one graph."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import singa_core as sc
from singa_core.data.digits import load_mnist_5k
from singa_core.data.loader import ArrayLoader
from singa_core.layers import Conv2d, Flatten, Linear, MaxPool2d, ReLU, Sequential
from singa_core.metric import Accuracy
from singa_core.training import History, evaluate, fit

BATCH = 64


class CNN(sc.Model):
    """20 filters 5x5, pool, 50 filters 5x5, pool, 500, 10: sizes of inputs are learnt."""

    def __init__(self, rate: float, steps: int) -> None:
        self.body = Sequential(
            Conv2d(20, 5), MaxPool2d(2), ReLU(),  # (n, 1, 28, 28) -> (n, 20, 12, 12)
            Conv2d(50, 5), MaxPool2d(2), ReLU(),  # -> (n, 50, 4, 4)
            Flatten(), Linear(500), ReLU(), Linear(10),
        )  # fmt: skip
        self.loss = sc.ops.cross_entropy
        self.optimizer = sc.opt.SGD(sc.opt.Cosine(rate, steps), momentum=0.9, weight_decay=4e-3)

    def forward(self, x: sc.Tensor) -> sc.Tensor:
        return self.body(x)


def make(options: argparse.Namespace, steps: int, device: sc.Device, *, use_graph: bool) -> CNN:
    """A compiled model; the same seed gives the same weights on every device."""
    sc.manual_seed(options.seed)
    model = CNN(options.rate, steps)
    model.compile([sc.Placeholder((BATCH, 1, 28, 28), device=device)], use_graph=use_graph)
    return model


def milliseconds(history: History) -> float:
    """Time of a step in the fastest epoch: the first one also records and allocates."""
    return min(history["ms_per_step"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, test, and say what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="backend[:index], cpu, gpu or auto")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate at the beginning")
    parser.add_argument("--no-graph", action="store_true", help="run every operation eagerly")
    options = parser.parse_args(arguments)

    device = sc.device(options.device)
    data = load_mnist_5k(seed=options.seed)
    print(f"{len(data.train_images)} digits to learn, {len(data.test_images)} to test, on {device}")
    images, tests = (x.reshape(-1, 1, 28, 28) for x in (data.train_images, data.test_images))
    loader = ArrayLoader(
        images, data.train_labels, batch_size=BATCH, seed=options.seed, drop_last=True
    )
    test_loader = ArrayLoader(tests, data.test_labels, batch_size=250, shuffle=False)
    steps = options.epochs * len(loader)

    start = time.perf_counter()
    model = make(options, steps, device, use_graph=not options.no_graph)
    device.memory.reset_peak()
    history = fit(model, loader, options.epochs, metrics=[Accuracy()])
    peak = device.memory.peak
    found = evaluate(model, test_loader, metrics=[Accuracy()])
    print(f"test accuracy {found['accuracy']:.4f} after {time.perf_counter() - start:.1f} s")

    other = make(options, steps, device, use_graph=options.no_graph)
    rest = milliseconds(fit(other, loader, 2, progress=False))
    step = milliseconds(history)
    graph, eager = (rest, step) if options.no_graph else (step, rest)
    print(f"a step takes {graph:.2f} ms recorded, {eager:.2f} ms eager")
    print(f"peak memory {peak / 2**20:.1f} MiB on {device}, by core's count")


if __name__ == "__main__":
    main()
