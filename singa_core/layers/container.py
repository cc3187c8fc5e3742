"""Layers made of layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from singa_core.errors import ArgumentError
from singa_core.layer import Layer


class Sequential(Layer):
    """One layer after the other; functions of a tensor may stand among them.

    Shapes: those of the first layer's input and the last one's output.
    """

    def __init__(self, *steps: Layer | Callable[..., Any]) -> None:
        for i, step in enumerate(steps):
            if not callable(step):
                raise ArgumentError("Sequential", "layers or functions", f"{step!r} at {i}")
        self.steps = list(steps)

    def forward(self, x: Any) -> Any:
        for step in self.steps:
            x = step(x)
        return x

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: int) -> Any:
        return self.steps[index]
