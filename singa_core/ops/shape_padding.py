"""Putting something around a tensor: a constant, its mirror image, its edge."""

from __future__ import annotations

from typing import Any

import numpy as np

from singa_core.checks import as_integer, as_integers, check_choice
from singa_core.errors import ShapeError
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
    check_choice("pad", "a mode", mode, MODES)
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
    """Before and after, for each axis."""
    widths = widths.tolist() if isinstance(widths, np.ndarray) else widths
    number, two = as_integer(widths), as_integers(widths)
    if number is not None:
        pairs = [(number, number)] * x.ndim
    elif two is not None and len(two) == 2:
        pairs = [(two[0], two[1])] * x.ndim
    else:
        each = [as_integers(pair) for pair in widths] if isinstance(widths, list | tuple) else []
        pairs = [(pair[0], pair[1]) for pair in each if pair is not None and len(pair) == 2]
        if len(each) != len(pairs):
            pairs = []
    if len(pairs) != x.ndim or any(min(pair) < 0 for pair in pairs):
        raise ShapeError("pad", "a pair of widths >= 0 for each axis", repr(widths), x=x)
    return pairs


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
