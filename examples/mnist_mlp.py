"""A perceptron with two hidden layers learns real handwritten digits, recorded as one graph."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
from tqdm import tqdm

import singa_core as sc
from singa_core.data.digits import load_mnist_5k
from singa_core.data.loader import ArrayLoader
from singa_core.layers import Flatten, Linear, ReLU, Sequential
from singa_core.metric import accuracy

BATCH = 64


class MLP(sc.Model):
    """28 x 28 -> 256 -> 128 -> 10; the default training step uses `loss` and `optimizer`."""

    def __init__(self, rate: float) -> None:
        self.body = Sequential(Flatten(), Linear(256), ReLU(), Linear(128), ReLU(), Linear(10))
        self.loss = sc.ops.cross_entropy
        self.optimizer = sc.opt.SGD(rate, momentum=0.9)

    def forward(self, x: sc.Tensor) -> sc.Tensor:
        return self.body(x)


def train(
    model: MLP, loader: ArrayLoader, device: sc.Device, epochs: int, *, quiet: bool = False
) -> float:
    """Train for some epochs; gives milliseconds per step, the first epoch left out."""
    times = []
    for _ in range(epochs):
        start, loss = time.perf_counter(), None
        bar = tqdm(loader, total=len(loader), disable=quiet or None, leave=False)  # None: no tty
        for images, labels in bar:
            _, loss = model.train_one_batch(images, labels)
        sc.synchronize(device)
        times.append((time.perf_counter() - start) / len(loader))
        if not quiet:
            print(f"loss {float(loss):.4f}  {times[-1] * 1e3:.2f} ms a step")
    return float(np.median(times[1:] or times)) * 1e3


def make(rate: float, device: sc.Device, seed: int, *, use_graph: bool) -> MLP:
    """A compiled model; the same seed gives the same weights on every device."""
    sc.manual_seed(seed)
    model = MLP(rate)
    model.compile([sc.Placeholder((BATCH, 28, 28), device=device)], use_graph=use_graph)
    return model


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, test, and say what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="backend[:index], cpu, gpu or auto")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.05, help="learning rate")
    parser.add_argument("--no-graph", action="store_true", help="run every operation eagerly")
    options = parser.parse_args(arguments)

    device = sc.device(options.device)
    data = load_mnist_5k(seed=options.seed)
    print(f"{len(data.train_images)} digits to learn, {len(data.test_images)} to test, on {device}")
    loader = ArrayLoader(
        data.train_images, data.train_labels, batch_size=BATCH, seed=options.seed, drop_last=True
    )
    model = make(options.rate, device, options.seed, use_graph=not options.no_graph)
    device.memory.reset_peak()
    step = train(model, loader, device, options.epochs)
    peak = device.memory.peak

    model.eval()
    with sc.no_grad():
        scores = model(data.test_images)
    print(f"test accuracy {accuracy(scores, data.test_labels):.4f}")

    other = make(options.rate, device, options.seed, use_graph=options.no_graph)
    rest = train(other, loader, device, 2, quiet=True)
    graph, eager = (rest, step) if options.no_graph else (step, rest)
    print(f"a step takes {graph:.2f} ms recorded, {eager:.2f} ms eager")
    print(f"peak memory {peak / 2**20:.1f} MiB on {device}, by core's count")


if __name__ == "__main__":
    main()
