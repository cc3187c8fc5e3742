"""A perceptron with two hidden layers learns real handwritten digits, recorded as one graph."""

from __future__ import annotations

import time
from collections.abc import Sequence

import _options
import _run
import singa_core as sc
from singa_core.data.digits import load_mnist_5k
from singa_core.data.loader import ArrayLoader
from singa_core.layers import Flatten, Linear, ReLU, Sequential
from singa_core.metric import Accuracy

BATCH = 64


class MLP(sc.Model):
    """28 x 28 -> 256 -> 128 -> 10; the default training step uses `loss` and `optimizer`."""

    def __init__(self, rate: float) -> None:
        self.body = Sequential(Flatten(), Linear(256), ReLU(), Linear(128), ReLU(), Linear(10))
        self.loss = sc.ops.cross_entropy
        self.optimizer = sc.opt.SGD(rate, momentum=0.9)

    def forward(self, x: sc.Tensor) -> sc.Tensor:
        return self.body(x)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, test, and say what it took."""
    options = _options.parser(__file__, __doc__, epochs=10, rate=0.05).parse_args(arguments)
    device, seed = options.device, options.seed
    data = load_mnist_5k(seed=seed)
    print(f"{len(data.train_images)} digits to learn, {len(data.test_images)} to test, on {device}")
    loader = ArrayLoader(*data.train, batch_size=BATCH, seed=seed, drop_last=True)
    tests = ArrayLoader(*data.test, batch_size=BATCH, shuffle=False)

    def make(use_graph: bool) -> MLP:
        sc.manual_seed(seed)
        inputs = [sc.Placeholder((BATCH, 28, 28), device=device)]  # shapes, no data
        return MLP(options.rate).compile(inputs, use_graph=use_graph)

    start = time.perf_counter()
    run = _run.Run(options, make, loader, tests, {"accuracy": Accuracy()})
    model, history = run.train()
    accuracy = history["val_accuracy"][-1]
    print(f"test accuracy {accuracy:.4f} after {time.perf_counter() - start:.1f} s")
    run.report(model, history)


if __name__ == "__main__":
    main()
