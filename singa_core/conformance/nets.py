"""Three small networks, each also told by the oracles in float64: for the group `models`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from singa_core import ops, opt
from singa_core.conformance.oracles import ORACLES
from singa_core.conformance.oracles import random as oracle
from singa_core.conformance.oracles.common import HostArray
from singa_core.layers import (
    BatchNorm2d,
    Conv2d,
    Dropout,
    Embedding,
    Flatten,
    LayerNorm,
    Linear,
    MaxPool2d,
    ReLU,
    Sequential,
)
from singa_core.model import Model
from singa_core.tensor import Tensor

Params = Mapping[str, HostArray]
Slots = list[HostArray]
RATE: Final = 0.05


@dataclass(frozen=True)
class Problem:
    """A network, its data, what its loss is by the oracles, and its optimiser's rule.

    Args:
        build: the model.
        inputs: shape and dtype of its input.
        batch: the data of a step: (x, labels).
        loss: `loss(params, x, labels, state)` in float64; `state` is the draw's, for dropout.
        rule: `rule(step, p, grad, slots)` -> (the new p, the new slots).
        slots: how many slots the rule has.
    """

    build: Callable[[], Model]
    inputs: tuple[tuple[int, ...], str]
    batch: Callable[[int], tuple[HostArray, HostArray]]
    loss: Callable[[Params, HostArray, HostArray, HostArray], float]
    rule: Callable[[int, HostArray, HostArray, Slots], tuple[HostArray, Slots]]
    slots: int


def _rng(name: str, step: int) -> np.random.Generator:
    return np.random.default_rng([len(name), step])


def linear(p: Params, name: str, x: HostArray) -> HostArray:
    """The layer of a name."""
    y: HostArray = ORACLES["linear"](x, p[f"{name}.weight"], p[f"{name}.bias"])
    return y


def cross_entropy(logits: HostArray, labels: HostArray) -> float:
    """Mean loss over all rows."""
    return float(np.mean(ORACLES["softmax_cross_entropy"](logits, labels)[0]))


# -- a multi-layer perceptron with dropout, by Adam -----------------------------------------------


class Perceptron(Model):
    """20 -> 32 -> 10, half of the hidden units dropped."""

    def __init__(self) -> None:
        self.body = Sequential(Linear(32), ReLU(), Dropout(0.5), Linear(10))
        self.loss, self.optimizer = ops.cross_entropy, opt.Adam(0.01)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return y


def perceptron_batch(step: int) -> tuple[HostArray, HostArray]:
    """16 points around 10 centres."""
    rng = _rng("perceptron", step)
    labels = rng.integers(0, 10, 16)
    centres = np.random.default_rng(1).normal(size=(10, 20))
    return (centres[labels] + 0.3 * rng.normal(size=(16, 20))).astype(np.float32), labels


def perceptron_loss(p: Params, x: HostArray, labels: HostArray, state: HostArray) -> float:
    """Loss of `Perceptron`; the mask is the oracle's."""
    h = np.maximum(linear(p, "body.steps.0", x), 0.0)
    h = np.where(oracle.bernoulli(state, shape=h.shape, p=0.5), 0.0, h / 0.5)
    return cross_entropy(linear(p, "body.steps.3", h), labels)


def adam(step: int, p: HostArray, grad: HostArray, slots: Slots) -> tuple[HostArray, Slots]:
    """The optimiser of `Perceptron`."""
    corrections = (1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1))
    rates = [np.float64(v) for v in (0.01, *corrections)]
    new, *moved = ORACLES["adam_step"](p, *slots, grad, *rates)
    return new, moved


# -- a convolutional network with batch norm, by momentum -----------------------------------------


class Convolutional(Model):
    """12 x 12 pictures of 3 channels: convolution, batch norm, pooling, convolution, 5 classes."""

    def __init__(self) -> None:
        self.body = Sequential(
            Conv2d(6, 3, padding=1), BatchNorm2d(), ReLU(), MaxPool2d(2),
            Conv2d(8, 3, stride=2, padding="same"), ReLU(), Flatten(), Linear(5),
        )  # fmt: skip
        self.loss, self.optimizer = ops.cross_entropy, opt.SGD(RATE, momentum=0.9)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return y


def convolutional_batch(step: int) -> tuple[HostArray, HostArray]:
    """8 noisy pictures of 5 patterns."""
    rng = _rng("convolutional", step)
    labels = rng.integers(0, 5, 8)
    patterns = np.random.default_rng(2).normal(size=(5, 3, 12, 12))
    return (patterns[labels] + 0.3 * rng.normal(size=(8, 3, 12, 12))).astype(np.float32), labels


def convolutional_loss(p: Params, x: HostArray, labels: HostArray, state: HostArray) -> float:
    """Loss of `Convolutional` in training."""
    w, b, scale, offset, w2, b2 = (
        p[f"body.steps.{n}.{what}"] for n in (0, 1, 4) for what in ("weight", "bias")
    )
    h = ORACLES["conv"](x, w, b, padding=1)
    h, _, _ = ORACLES["batch_norm"](h, scale, offset)
    h = ORACLES["max_pool"](np.maximum(h, 0.0), kernel=2)
    h = ORACLES["conv"](
        h, p["body.steps.4.weight"], p["body.steps.4.bias"], stride=2, padding="same"
    )
    h = np.maximum(h, 0.0).reshape(len(x), -1)
    return cross_entropy(linear(p, "body.steps.7", h), labels)


def momentum(step: int, p: HostArray, grad: HostArray, slots: Slots) -> tuple[HostArray, Slots]:
    """The optimiser of `Convolutional`."""
    new, m = ORACLES["sgd_momentum_step"](p, *slots, grad, np.float64(RATE), momentum=0.9)
    return new, [m]


# -- a transformer block over letters, by plain gradient descent ----------------------------------

LETTERS, WIDTH, HEADS = 11, 16, 2


class Transformer(Model):
    """Letters of the past give the next one: one block of attention and a perceptron."""

    def __init__(self) -> None:
        self.embedding = Embedding(LETTERS, WIDTH)
        self.first, self.second = LayerNorm(), LayerNorm()
        self.query, self.key, self.value, self.mix = (Linear(WIDTH) for _ in range(4))
        self.wide, self.narrow, self.head = Linear(32), Linear(WIDTH), Linear(LETTERS)
        self.loss, self.optimizer = ops.cross_entropy, opt.SGD(RATE)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embedding(x)
        y = self.first(h)
        q, k, v = (self.heads(f(y)) for f in (self.query, self.key, self.value))
        y = ops.attention(q, k, v, causal=True).permute_dims(0, 2, 1, 3).reshape(h.shape)
        h = h + self.mix(y)
        h = h + self.narrow(ops.gelu(self.wide(self.second(h))))
        logits: Tensor = self.head(h)
        return logits

    def heads(self, x: Tensor) -> Tensor:
        """(n, time, width) -> (n, heads, time, width of a head)."""
        return x.reshape(*x.shape[:2], HEADS, WIDTH // HEADS).permute_dims(0, 2, 1, 3)


def transformer_batch(step: int) -> tuple[HostArray, HostArray]:
    """4 texts of 9 letters that count up."""
    starts = _rng("transformer", step).integers(0, LETTERS, (4, 1))
    text = (starts + np.arange(10) * 3) % LETTERS
    return text[:, :-1], text[:, 1:]


def transformer_loss(p: Params, x: HostArray, labels: HostArray, state: HostArray) -> float:
    """Loss of `Transformer`."""

    def norm(name: str, x: HostArray) -> HostArray:
        y: HostArray = ORACLES["layer_norm"](x, p[f"{name}.weight"], p[f"{name}.bias"])
        return y

    def heads(x: HostArray) -> HostArray:
        return np.moveaxis(x.reshape(*x.shape[:2], HEADS, -1), 2, 1)

    h = p["embedding.weight"][x]
    y = norm("first", h)
    q, k, v = (heads(linear(p, name, y)) for name in ("query", "key", "value"))
    y = np.moveaxis(ORACLES["attention"](q, k, v, causal=True), 1, 2).reshape(h.shape)
    h = h + linear(p, "mix", y)
    h = h + linear(p, "narrow", ORACLES["gelu"](linear(p, "wide", norm("second", h))))
    return cross_entropy(linear(p, "head", h), labels)


def descent(step: int, p: HostArray, grad: HostArray, slots: Slots) -> tuple[HostArray, Slots]:
    """The optimiser of `Transformer`."""
    return ORACLES["sgd_step"](p, grad, np.float64(RATE)), slots


PROBLEMS: Final[dict[str, Problem]] = {
    "perceptron": Problem(
        Perceptron, ((16, 20), "float32"), perceptron_batch, perceptron_loss, adam, 2
    ),
    "convolutional": Problem(
        Convolutional, ((8, 3, 12, 12), "float32"), convolutional_batch, convolutional_loss,
        momentum, 1,
    ),
    "transformer": Problem(
        Transformer, ((4, 9), "int64"), transformer_batch, transformer_loss, descent, 0
    ),
}  # fmt: skip


def trained(params: Mapping[str, Any]) -> dict[str, HostArray]:
    """Parameters on the host, in float64."""
    return {name: p.numpy().astype(np.float64) for name, p in params.items()}
