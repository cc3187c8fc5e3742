"""Activations that are plain functions of other operations."""

from __future__ import annotations

from singa_core.errors import ShapeError
from singa_core.ops.activation import sigmoid
from singa_core.ops.base import takes_tensors
from singa_core.ops.elementwise_composed import clip
from singa_core.ops.elementwise_pairs import less, where
from singa_core.ops.shape_composed import split
from singa_core.optable import function
from singa_core.tensor import Tensor

__all__ = [
    "glu", "hard_shrink", "hard_tanh", "relu6", "soft_shrink", "tanh_shrink", "threshold",
]  # fmt: skip


@function
@takes_tensors
def relu6(x: Tensor) -> Tensor:
    """Rectifier with a ceiling, y = min(max(x, 0), 6)."""
    return clip(x, 0.0, 6.0)


@function
@takes_tensors
def hard_tanh(x: Tensor, low: float = -1.0, high: float = 1.0) -> Tensor:
    """Straight lines for tanh, y = min(max(x, low), high)."""
    return clip(x, low, high)


@function
@takes_tensors
def hard_shrink(x: Tensor, threshold: float = 0.5) -> Tensor:
    """Keep x where |x| > threshold; y = 0 elsewhere."""
    y: Tensor = where(less(threshold, x.abs()), x, 0.0)
    return y


@function
@takes_tensors
def soft_shrink(x: Tensor, threshold: float = 0.5) -> Tensor:
    """Move x towards 0 by the threshold; y = 0 where it would cross."""
    return x - clip(x, -threshold, threshold)


@function
@takes_tensors
def tanh_shrink(x: Tensor) -> Tensor:
    """What tanh takes away, y = x - tanh(x)."""
    return x - x.tanh()


@function
@takes_tensors
def threshold(x: Tensor, limit: float, value: float) -> Tensor:
    """Keep x above the limit; y = value elsewhere."""
    y: Tensor = where(less(limit, x), x, value)
    return y


@function
@takes_tensors
def glu(x: Tensor, axis: int = -1) -> Tensor:
    """Gated linear unit, y = a * sigmoid(b) for the two halves of x along an axis.

    Source: arXiv:1612.08083.
    Raises: ShapeError unless the axis has an even number of elements.
    """
    n = x.shape[axis]
    if n % 2:
        raise ShapeError("glu", f"an even x.shape[{axis}]", n, x=x)
    a, b = split(x, n // 2, axis) if n else (x, x)
    y: Tensor = a * sigmoid(b)
    return y
