"""What is trained: shapes, first numbers and data, the same for every peer. NumPy only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Batch = tuple[Array, Array]
Shapes = dict[str, tuple[int, ...]]

RATE, MOMENTUM = 0.001, 0.9
BATCHES = 8  # that a peer cycles through
CLASSES = 10


@dataclass(frozen=True)
class Workload(ABC):
    """A network and its data; a step is forward, cross-entropy, backward and SGD with momentum.

    Args: batch: samples of a step.
    """

    batch: int

    @property
    @abstractmethod
    def title(self) -> str:
        """What a table says of it."""

    @abstractmethod
    def shapes(self) -> Shapes:
        """Shape of each parameter: linear maps (in, out), convolutions (out, in, k, k)."""

    @abstractmethod
    def batches(self) -> list[Batch]:
        """(x, labels), `BATCHES` of them."""

    @abstractmethod
    def work(self) -> Iterator[tuple[str, float]]:
        """Floating-point operations of each matrix product of one forward pass, the first first."""

    def weights(self) -> dict[str, Array]:
        """First value of each parameter: biases 0, scales 1, others normal by their inputs."""
        random = np.random.default_rng(0)
        made = {}
        for name, shape in self.shapes().items():
            if len(shape) == 1:
                values = np.full(shape, 0.0 if name.endswith("bias") else 1.0)
            else:
                values = random.standard_normal(shape) * scale(name, shape)
            made[name] = values.astype(np.float32)
        return made

    @property
    def forward_flops(self) -> float:
        """Floating-point operations of the products of a forward pass."""
        return sum(flops for _, flops in self.work())

    @property
    def step_flops(self) -> float:
        """Those of a training step: two gradients as well, but none of the first input."""
        return 3 * self.forward_flops - next(self.work())[1]


def scale(name: str, shape: tuple[int, ...]) -> float:
    """Standard deviation of first weights."""
    if name in ("tokens.weight", "places"):
        return 0.02
    inputs = shape[0] if len(shape) == 2 else prod(shape[1:])
    return float(np.sqrt((2 if len(shape) == 4 else 1) / inputs))


def noise(batch: int, shape: tuple[int, ...]) -> list[Batch]:
    """Noise with a mean of its own for each class."""
    random = np.random.default_rng(1)
    means = random.standard_normal((CLASSES, *shape))
    pairs = []
    for _ in range(BATCHES):
        labels = random.integers(0, CLASSES, batch)
        x = 0.3 * means[labels] + random.standard_normal((batch, *shape))
        pairs.append((x.astype(np.float32), labels))
    return pairs


def affine(name: str, *shape: int) -> Shapes:
    """A weight and a bias; the bias has as many elements as there are outputs."""
    outputs = shape[0] if len(shape) == 4 else shape[-1]
    return {f"{name}.weight": shape, f"{name}.bias": (outputs,)}


@dataclass(frozen=True)
class Mlp(Workload):
    """Linear maps with ReLU between them.

    Args: sizes: of the input and of each layer's output.
    """

    sizes: tuple[int, ...] = (784, 512, 512, CLASSES)

    @property
    def title(self) -> str:
        return f"MLP {'-'.join(map(str, self.sizes))}, batch {self.batch}"

    def shapes(self) -> Shapes:
        made: Shapes = {}
        for i, pair in enumerate(zip(self.sizes, self.sizes[1:], strict=False)):
            made |= affine(f"linears.{i}", *pair)
        return made

    def batches(self) -> list[Batch]:
        return noise(self.batch, self.sizes[:1])

    def work(self) -> Iterator[tuple[str, float]]:
        for name, shape in self.shapes().items():
            if len(shape) == 2:
                yield name, 2.0 * self.batch * prod(shape)


@dataclass(frozen=True)
class Cnn(Workload):
    """Convolutions 5x5, each with ReLU and a 2x2 maximum, a hidden linear layer, ReLU, classes.

    Args: filters: of the convolutions; hidden: outputs of the hidden layer; size: of the images.
    """

    filters: tuple[int, int] = (20, 50)
    hidden: int = 500
    size: int = 28

    @property
    def title(self) -> str:
        first, second = self.filters
        text = f"CNN {first}c5-pool-{second}c5-pool-{self.hidden}-{CLASSES}"
        return f"{text}, batch {self.batch} of {self.size}x{self.size}"

    def planes(self) -> tuple[int, int]:
        """Rows of what the two convolutions give."""
        first = self.size - 4
        return first, first // 2 - 4

    def shapes(self) -> Shapes:
        first, second = self.filters
        inputs = second * (self.planes()[1] // 2) ** 2
        return {
            **affine("convs.0", first, 1, 5, 5),
            **affine("convs.1", second, first, 5, 5),
            **affine("linears.0", inputs, self.hidden),
            **affine("linears.1", self.hidden, CLASSES),
        }

    def batches(self) -> list[Batch]:
        return noise(self.batch, (1, self.size, self.size))

    def work(self) -> Iterator[tuple[str, float]]:
        places = dict(zip(("convs.0.weight", "convs.1.weight"), self.planes(), strict=True))
        for name, shape in self.shapes().items():
            if len(shape) > 1:
                yield name, 2.0 * self.batch * prod(shape) * places.get(name, 1) ** 2


@dataclass(frozen=True)
class Resnet(Workload):
    """ResNet in the form for CIFAR: a 3x3 stem, two blocks of two 3x3 convolutions in each stage.

    Args: widths: channels of each stage, every one but the first at half the size; size: of images.
    """

    widths: tuple[int, ...] = (64, 128, 256, 512)
    size: int = 32

    @property
    def title(self) -> str:
        return f"ResNet-{4 * len(self.widths) + 2}, batch {self.batch} of {self.size}x{self.size}"

    def blocks(self) -> list[tuple[int, int, int]]:
        """Channels in and out, and stride, of each block."""
        made, before = [], self.widths[0]
        for i, width in enumerate(self.widths):
            made += [(before, width, 2 if i else 1), (width, width, 1)]
            before = width
        return made

    def shapes(self) -> Shapes:
        made: Shapes = {"stem.weight": (self.widths[0], 3, 3, 3)}
        made |= affine("norm", self.widths[0])
        for i, (before, width, stride) in enumerate(self.blocks()):
            made[f"blocks.{i}.conv1.weight"] = (width, before, 3, 3)
            made |= affine(f"blocks.{i}.norm1", width)
            made[f"blocks.{i}.conv2.weight"] = (width, width, 3, 3)
            made |= affine(f"blocks.{i}.norm2", width)
            if stride > 1 or before != width:
                made[f"blocks.{i}.down.weight"] = (width, before, 1, 1)
                made |= affine(f"blocks.{i}.down_norm", width)
        return made | affine("head", self.widths[-1], CLASSES)

    def batches(self) -> list[Batch]:
        return noise(self.batch, (3, self.size, self.size))

    def work(self) -> Iterator[tuple[str, float]]:
        rows, stage = self.size, self.widths[0]
        for name, shape in self.shapes().items():
            if len(shape) == 4:
                if shape[0] != stage:
                    stage, rows = shape[0], -(-rows // 2)
                yield name, 2.0 * self.batch * prod(shape) * rows**2
            elif len(shape) == 2:
                yield name, 2.0 * self.batch * prod(shape)


@dataclass(frozen=True)
class Transformer(Workload):
    """A causal language model: each block normalises what goes into its attention and its MLP.

    Args: layers, width, heads, hidden: of the blocks; length: tokens of a sample; tokens: how many
        different ones there are.
    """

    layers: int = 4
    width: int = 256
    heads: int = 4
    hidden: int = 1024
    length: int = 128
    tokens: int = 256

    @property
    def title(self) -> str:
        text = f"transformer, {self.layers} layers, {self.width} wide"
        return f"{text}, {self.batch}x{self.length} tokens"

    def shapes(self) -> Shapes:
        d = self.width
        made: Shapes = {"tokens.weight": (self.tokens, d), "places": (self.length, d)}
        for i in range(self.layers):
            for name in ("query", "key", "value", "out"):
                made |= affine(f"blocks.{i}.attention.{name}", d, d)
            made |= affine(f"blocks.{i}.expand", d, self.hidden)
            made |= affine(f"blocks.{i}.contract", self.hidden, d)
            made |= affine(f"blocks.{i}.norm1", d) | affine(f"blocks.{i}.norm2", d)
        return made | affine("norm", d) | affine("head", d, self.tokens)

    def batches(self) -> list[Batch]:
        random = np.random.default_rng(1)
        texts = random.integers(0, self.tokens, (BATCHES, self.batch, self.length + 1))
        return [(text[:, :-1].copy(), text[:, 1:].reshape(-1)) for text in texts]

    def work(self) -> Iterator[tuple[str, float]]:
        rows = self.batch * self.length
        yield "tokens.weight", 0.0  # looked up
        for name, shape in self.shapes().items():
            if len(shape) == 2 and name not in ("tokens.weight", "places"):
                yield name, 2.0 * rows * prod(shape)
        for i in range(self.layers):
            yield f"blocks.{i}.attention", 4.0 * rows * self.length * self.width


WORKLOADS: Mapping[str, Workload] = {
    "mlp": Mlp(64),
    "mlp-small": Mlp(8, (64, 64, 64, CLASSES)),
    "cnn": Cnn(64),
    "resnet": Resnet(32),
    "resnet-small": Resnet(16, (32, 64, 128), 16),
    "transformer": Transformer(16),
}
