"""Putting something around a tensor: a constant, its mirror image, its edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from singa_core.errors import ArgumentError, ShapeError
from singa_core.ops.base import takes_tensors
from singa_core.ops.creation import Number, full
from singa_core.ops.shape import broadcast_to, concat
from singa_core.ops.shape_composed import flip, narrow
from singa_core.ops.shape_regions import set_slice
from singa_core.optable import function
from singa_core.tensor import Tensor

__all__ = ["pad"]

Pairs = list[tuple[int, int]]
MODES = ("constant", "reflect", "edge")


@function
@takes_tensors
def pad(x: Tensor, widths: Any, value: Number = 0, *, mode: str = "constant") -> Tensor:
    """Put something around x.

    Modes: "constant" puts `value` there; "reflect" the mirror image of x, whose outermost element
    is the mirror; "edge" copies of the outermost element.

    Shapes: (n, ...) -> (before + n + after, ...).
    Args: widths: elements; one number, or (before, after), or such a pair for each axis.
    Raises: ShapeError for other widths, a negative one, or a reflection wider than n - 1;
        ArgumentError for another mode.
    Source: NumPy, `pad`; ONNX operator set 19, `Pad`.

    >>> from singa_core import tensor
    >>> pad(tensor([1, 2]), (1, 2)).tolist()
    [0, 1, 2, 0, 0]
    >>> pad(tensor([1, 2, 3]), 2, mode="reflect").tolist()
    [3, 2, 1, 2, 3, 2, 1]
    """
    pairs = _pairs(x, widths)
    if mode not in MODES:
        raise ArgumentError("pad", f"a mode among {', '.join(MODES)}", repr(mode))
    if mode == "constant":
        shape = tuple(b + n + a for (b, a), n in zip(pairs, x.shape, strict=True))
        around = full(shape, value, dtype=x.dtype, device=x.device)
        y: Tensor = set_slice(around, x, start=tuple(b for b, _ in pairs))
        return y
    around_axis = _reflected if mode == "reflect" else _edges
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            x = around_axis(x, axis, before, after)
    return x


def _pairs(x: Tensor, widths: Any) -> Pairs:
    if isinstance(widths, int):
        widths = ((widths, widths),) * x.ndim
    elif len(widths) == 2 and all(isinstance(w, int) for w in widths):
        widths = (tuple(widths),) * x.ndim
    if len(widths) != x.ndim or any(
        not isinstance(pair, Sequence) or len(pair) != 2 or min(pair) < 0 for pair in widths
    ):
        raise ShapeError("pad", "a pair of widths >= 0 for each axis", widths, x=x)
    return [(int(before), int(after)) for before, after in widths]


def _reflected(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    n = x.shape[axis]
    if max(before, after) >= n:
        rule = f"widths < {n} to reflect axis {axis}"
        raise ShapeError("pad", rule, (before, after), x=x)
    parts = [x]
    if before:
        parts.insert(0, flip(narrow(x, axis, 1, before), axis))
    if after:
        parts.append(flip(narrow(x, axis, n - 1 - after, after), axis))
    y: Tensor = concat(parts, axis=axis)
    return y


def _edges(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    n = x.shape[axis]
    if not n:
        raise ShapeError("pad", f"an element on axis {axis}, to be the edge", 0, x=x)

    def copies(start: int, count: int) -> Tensor:
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        made: Tensor = broadcast_to(narrow(x, axis, start, 1), shape=shape)
        return made

    y: Tensor = concat([copies(0, before), x, copies(n - 1, after)], axis=axis)
    return y
