"""Activations that are plain functions of other operations."""

from __future__ import annotations

from singa_core.errors import ShapeError
from singa_core.ops.activation import sigmoid
from singa_core.ops.base import takes_tensors, wide
from singa_core.ops.shape_composed import split
from singa_core.optable import function
from singa_core.spec import check_axis
from singa_core.tensor import Tensor

__all__ = ["glu", "tanh_shrink"]


@function
@takes_tensors
def tanh_shrink(x: Tensor) -> Tensor:
    """What tanh takes away, y = x - tanh(x), to the rounding of x."""
    w = wide(x)
    return (w - w.tanh()).astype(x.dtype)


@function
@takes_tensors
def glu(x: Tensor, axis: int = -1) -> Tensor:
    """Gated linear unit, y = a * sigmoid(b) for the two halves of x along an axis.

    Source: arXiv:1612.08083.
    Raises: ShapeError unless the axis has an even number of elements.
    """
    axis = check_axis("glu", axis, x.ndim, x=x)
    n = x.shape[axis]
    if n % 2:
        raise ShapeError("glu", f"an even x.shape[{axis}]", n, x=x)
    a, b = split(x, n // 2, axis) if n else (x, x)
    y: Tensor = a * sigmoid(b)
    return y
