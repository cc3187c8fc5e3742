"""A residual network learns digits on colour photos, in the shape of CIFAR-10."""

from __future__ import annotations

import time
from collections.abc import Sequence

import _options
import _run
import singa_core as sc
from singa_core.data.colour_digits import load_colour_digits
from singa_core.data.loader import ArrayLoader
from singa_core.layers import BatchNorm2d, Conv2d, GlobalAvgPool, Linear, ReLU, Sequential
from singa_core.metric import Accuracy

BATCH = 32
BLOCKS = {10: (1, 1, 1, 1), 18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}  # in each stage, by depth
WIDTHS = {10: 16, 18: 64, 34: 64}  # channels of the first stage, by depth


def conv(channels: int, size: int, stride: int = 1) -> Conv2d:
    """A convolution that keeps height and width, or halves them; what follows has the bias."""
    return Conv2d(
        channels, size, stride=stride, padding=size // 2, bias=False, weight_init="he_normal"
    )


class Block(sc.Layer):
    """Two 3x3 convolutions whose result is added to their input: y = relu(x + f(x))."""

    def __init__(self, channels: int, *, stride: int, same: bool) -> None:
        self.body = Sequential(
            conv(channels, 3, stride), BatchNorm2d(), ReLU(), conv(channels, 3), BatchNorm2d()
        )
        # where the shape changes, the input is brought to the new one
        self.short = None if same else Sequential(conv(channels, 1, stride), BatchNorm2d())

    def forward(self, x: sc.Tensor) -> sc.Tensor:
        return sc.ops.relu(self.body(x) + (x if self.short is None else self.short(x)))


class ResNet(sc.Model):
    """Four stages of blocks; each but the first halves the image and doubles the channels.

    Source: He et al., arXiv:1512.03385, table 1; with a 3x3 stem and no pooling for small images.
    """

    def __init__(self, depth: int, width: int, rate: float, steps: int) -> None:
        self.stem = Sequential(conv(width, 3), BatchNorm2d(), ReLU())
        self.blocks = [
            Block(width << stage, stride=2 if stage and not i else 1, same=bool(i) or not stage)
            for stage, count in enumerate(BLOCKS[depth])
            for i in range(count)
        ]
        self.head = Sequential(GlobalAvgPool(), Linear(10))
        self.loss = sc.ops.cross_entropy
        self.optimizer = sc.opt.SGD(sc.opt.Cosine(rate, steps), momentum=0.9, weight_decay=5e-4)

    def forward(self, x: sc.Tensor) -> sc.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, test, and say what it took."""
    parser = _options.parser(__file__, __doc__, epochs=6, rate=0.1)
    parser.add_argument("--depth", type=int, choices=BLOCKS, default=10, help="layers")
    parser.add_argument("--width", type=_options.integer(1), help="channels of the first stage")
    options = parser.parse_args(arguments)
    device, seed, depth = options.device, options.seed, options.depth
    width = options.width or WIDTHS[depth]
    data = load_colour_digits(seed=seed)
    images, tested = data.train_images, data.test_images
    print(f"{len(images)} images to learn, {len(tested)} to test, on {device}")
    channels = (0, 2, 3)
    mean, deviation = images.mean(channels, keepdims=True), images.std(channels, keepdims=True)
    images, tested = (images - mean) / deviation, (tested - mean) / deviation
    loader = ArrayLoader(images, data.train_labels, batch_size=BATCH, seed=seed, drop_last=True)
    tests = ArrayLoader(tested, data.test_labels, batch_size=BATCH, shuffle=False)

    def make(use_graph: bool) -> ResNet:
        sc.manual_seed(seed)
        model = ResNet(depth, width, options.rate, options.epochs * len(loader))
        inputs = [sc.Placeholder((BATCH, 3, 32, 32), device=device)]  # shapes, no data
        return model.compile(inputs, use_graph=use_graph)

    start = time.perf_counter()
    run = _run.Run(options, make, loader, tests, {"accuracy": Accuracy()})
    model, history = run.train()
    accuracy = history["val_accuracy"][-1]
    print(f"test accuracy {accuracy:.4f} after {time.perf_counter() - start:.1f} s")
    run.report(model, history)


if __name__ == "__main__":
    main()
