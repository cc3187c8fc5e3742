"""Layers made of layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, overload

from singa_core.layer import Layer
from singa_core.layers.functional import Lambda, check_step
from singa_core.tensor import own


class Sequential(Layer):
    """One layer after the other; a function of a tensor among them becomes a `Lambda`.

    An index gives a layer, a slice a Sequential of the same layers; `steps` is a list and may be
    changed at any time.

    Shapes: those of the first layer's input and the last one's output.

    >>> from singa_core import ops, tensor
    >>> Sequential(ops.relu, lambda x: x + 1)(tensor([-2.0, 2.0])).tolist()
    [1.0, 3.0]
    """

    def __init__(self, *steps: Layer | Callable[..., Any]) -> None:
        for i, step in enumerate(steps):
            check_step("Sequential", "layers or functions", step, f" at {i}")
        self.steps = [step if isinstance(step, Layer) else Lambda(step) for step in steps]

    def forward(self, x: Any) -> Any:
        for step in self.steps:
            x = step(x)
        return x if self.steps else own(x)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.steps)

    @overload
    def __getitem__(self, index: int) -> Layer: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> Layer | Sequential:
        return Sequential(*self.steps[index]) if isinstance(index, slice) else self.steps[index]
