"""Launch geometry: how shapes become loops, and how loops become work items.

A *walk* is a shape with a list of strides for each operand, as short as possible: axes of size 1
are gone, and neighbours that every operand walks in one step are merged. The last axis is the inner
loop, the others are counted down from the number of a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from singa_core.kernels.c.dialect import INT_LIMIT, Target
from singa_core.spec import AnyForm, Shape, contiguous_strides

GRAIN: Final = 8192
"""Elements of light work that are worth a work item of their own in the cpu family."""


@dataclass(frozen=True)
class Walk:
    """A shape, and for each operand the strides with which it is walked."""

    shape: Shape
    strides: tuple[Shape, ...]

    @property
    def size(self) -> int:
        """How many elements are walked."""
        return math.prod(self.shape)

    @property
    def inner(self) -> int:
        """Elements of the inner loop."""
        return self.shape[-1]

    @property
    def rows(self) -> int:
        """How often the inner loop runs."""
        return math.prod(self.shape[:-1])

    @property
    def kinds(self) -> str:
        """For each operand how the inner loop walks it: c(ontiguous), s(ame), g(aps)."""
        return "".join({1: "c", 0: "s"}.get(strides[-1], "g") for strides in self.strides)

    @property
    def wide(self) -> bool:
        """True if an index does not fit 32 bits."""
        reach = [
            sum((n - 1) * abs(s) for n, s in zip(self.shape, strides, strict=True))
            for strides in self.strides
        ]
        return max([self.size, *reach]) > INT_LIMIT


def walk(shape: Shape, *strides: Sequence[int]) -> Walk:
    """The shortest walk over `shape` with these strides; it has at least one axis."""
    axes = [(n, tuple(s[i] for s in strides)) for i, n in enumerate(shape) if n != 1]
    merged: list[tuple[int, Shape]] = []
    for n, steps in axes:
        if merged:
            before, outer = merged[-1]
            if all(o == s * n for o, s in zip(outer, steps, strict=True)):
                merged[-1] = before * n, steps
                continue
        merged.append((n, steps))
    if not merged:
        merged = [(1, (1,) * len(strides))]
    return Walk(
        tuple(n for n, _ in merged),
        tuple(tuple(steps[k] for _, steps in merged) for k in range(len(strides))),
    )


def padded(path: Walk, axes: int) -> Walk:
    """The same walk with axes of size 1 in front, so that fewer kernels serve all of them."""
    more = max(axes - len(path.shape), 0)
    return Walk((1,) * more + path.shape, tuple((0,) * more + s for s in path.strides))


def rounded_axes(axes: int) -> int:
    """How many axes a kernel is made for that serves this many: 1, 2, 3, then even numbers."""
    return axes if axes <= 3 else axes + axes % 2


def broadcast(form: AnyForm, shape: Shape) -> Shape:
    """The strides with which a form is walked over the shape that it is broadcast to."""
    missing = len(shape) - len(form.shape)
    own = [0 if n == 1 else s for n, s in zip(form.shape, form.strides, strict=True)]
    return (0,) * missing + tuple(own)


def leading(form: AnyForm, shape: Sequence[int]) -> Shape:
    """The strides with which an operand's matrices are walked over the batch."""
    own = [0 if n == 1 else s for n, s in zip(form.shape[:-2], form.strides[:-2], strict=True)]
    return (0,) * (len(shape) - len(own)) + tuple(own)


def broadcast_walk(shape: Shape, forms: Sequence[AnyForm], outs: int = 1) -> Walk:
    """Inputs and packed outputs walked together; the outputs come last."""
    packed = [contiguous_strides(shape)] * outs
    return walk(shape, *[broadcast(form, shape) for form in forms], *packed)


@dataclass(frozen=True)
class Cut:
    """Rows cut into pieces for work items of the cpu family.

    Args:
        items: work items.
        per: pieces for each.
        pieces: pieces in all.
        cuts: pieces of a row.
        chunk: elements of a piece.
    """

    items: int
    per: int
    pieces: int
    cuts: int
    chunk: int


def cut(rows: int, inner: int, target: Target, grain: int = GRAIN) -> Cut:
    """Pieces for a loop of `inner` elements that runs `rows` times."""
    items = max(min(rows * inner // grain, 4 * target.units), 1)
    cuts = 1 if rows >= items else min(-(-items // rows), max(inner // 64, 1))
    chunk = -(-inner // cuts)
    if cuts > 1:
        chunk = -(-chunk // 16) * 16
        cuts = -(-inner // chunk)
    pieces = rows * cuts
    per = -(-pieces // items)
    return Cut(-(-pieces // per), per, pieces, cuts, chunk)


def row_items(rows: int, cost: int, target: Target) -> tuple[int, int]:
    """Work items for `rows` that take `cost` elements of work each, and rows for each item."""
    items = max(min(rows * cost // GRAIN, 4 * target.units, rows), 1)
    per = -(-rows // items)
    return -(-rows // per), per


def grouped(items: int, group: int) -> int:
    """`items` rounded up to whole groups."""
    return -(-items // group) * group
