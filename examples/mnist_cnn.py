"""A convolutional network learns real handwritten digits, recorded as one graph."""

from __future__ import annotations

import time
from collections.abc import Sequence

import _options
import _run
import singa_core as sc
from singa_core.data.digits import load_mnist_5k
from singa_core.data.loader import ArrayLoader
from singa_core.layers import Conv2d, Flatten, Linear, MaxPool2d, ReLU, Sequential
from singa_core.metric import Accuracy

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


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, test, and say what it took."""
    options = _options.parser(__file__, __doc__, epochs=10, rate=0.1).parse_args(arguments)
    device, seed = options.device, options.seed
    data = load_mnist_5k(seed=seed)
    print(f"{len(data.train_images)} digits to learn, {len(data.test_images)} to test, on {device}")
    images, tested = (x.reshape(-1, 1, 28, 28) for x in (data.train_images, data.test_images))
    loader = ArrayLoader(images, data.train_labels, batch_size=BATCH, seed=seed, drop_last=True)
    tests = ArrayLoader(tested, data.test_labels, batch_size=BATCH, shuffle=False)

    def make(use_graph: bool) -> CNN:
        sc.manual_seed(seed)
        model = CNN(options.rate, options.epochs * len(loader))
        inputs = [sc.Placeholder((BATCH, 1, 28, 28), device=device)]  # shapes, no data
        return model.compile(inputs, use_graph=use_graph)

    start = time.perf_counter()
    run = _run.Run(options, make, loader, tests, {"accuracy": Accuracy()})
    model, history = run.train()
    accuracy = history["val_accuracy"][-1]
    print(f"test accuracy {accuracy:.4f} after {time.perf_counter() - start:.1f} s")
    run.report(model, history)


if __name__ == "__main__":
    main()
