"""Functions of shapes that are made of the primitives: flips, splits, stacks, repeats."""

from __future__ import annotations

import math
from collections.abc import Sequence

from singa_core.errors import ShapeError
from singa_core.ops.base import all_tensors, takes_tensors
from singa_core.ops.shape import broadcast_to, concat, permute_dims, reshape, unbroadcast
from singa_core.ops.shape_regions import slice  # noqa: A004
from singa_core.optable import function
from singa_core.spec import broadcast_shapes, check_axes, check_axis, check_shape
from singa_core.tensor import Tensor

__all__ = [
    "chunk", "diagonal", "expand_dims", "flatten", "flip", "matrix_transpose", "moveaxis",
    "repeat", "roll", "split", "squeeze", "stack", "sum_to", "swapaxes", "tile", "unbind",
    "unflatten", "unstack",
]  # fmt: skip

Axis = int | Sequence[int] | None


@function
@takes_tensors
def expand_dims(x: Tensor, axis: int | Sequence[int] = 0) -> Tensor:
    """Add axes of size 1, at these places of the result. Source: array API, `expand_dims`."""
    count = 1 if isinstance(axis, int) else len(axis)
    new = check_axes("expand_dims", axis, x.ndim + count, x=x)
    old = iter(x.shape)
    shape = tuple(1 if i in new else next(old) for i in range(x.ndim + count))
    y: Tensor = reshape(x, shape=shape)
    return y


@function
@takes_tensors
def squeeze(x: Tensor, axis: Axis = None) -> Tensor:
    """Drop axes of size 1: those named, or all. Source: array API standard, `squeeze`.

    Raises: ShapeError if a named axis is not of size 1.
    """
    axes = check_axes("squeeze", axis, x.ndim, x=x)
    wide = [a for a in axes if x.shape[a] != 1]
    if axis is not None and wide:
        raise ShapeError("squeeze", f"x.shape[{wide[0]}] == 1", x.shape[wide[0]], x=x)
    shape = tuple(n for i, n in enumerate(x.shape) if i not in axes or n != 1)
    y: Tensor = reshape(x, shape=shape)
    return y


@function
@takes_tensors
def flatten(x: Tensor, start: int = 0, end: int = -1) -> Tensor:
    """Join the axes from `start` to `end` (inclusive) to one. A scalar becomes a vector."""
    if not x.shape:
        return x.reshape(1)
    first, last = (check_axis("flatten", a, x.ndim, x=x) for a in (start, end))
    if first > last:
        raise ShapeError("flatten", "start <= end", f"{start} and {end}", x=x)
    size = 1
    for n in x.shape[first : last + 1]:
        size *= n
    y: Tensor = reshape(x, shape=(*x.shape[:first], size, *x.shape[last + 1 :]))
    return y


@function
@takes_tensors
def unflatten(x: Tensor, axis: int, sizes: Sequence[int]) -> Tensor:
    """Part one axis into several; one size may be -1. Undoes `flatten`.

    Raises: ShapeError unless the sizes multiply to that of the axis.
    """
    axis = check_axis("unflatten", axis, x.ndim, x=x)
    n, shape = x.shape[axis], list(sizes)
    known = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known > 0:
        shape[sizes.index(-1)] = n // known
    if math.prod(shape) != n or min(shape, default=0) < 0:
        rule = f"sizes >= 0 (or one -1) that multiply to x.shape[{axis}]"
        raise ShapeError("unflatten", rule, f"{tuple(sizes)} for {n}", x=x)
    y: Tensor = reshape(x, shape=(*x.shape[:axis], *shape, *x.shape[axis + 1 :]))
    return y


@function
@takes_tensors
def swapaxes(x: Tensor, axis1: int, axis2: int) -> Tensor:
    """Exchange two axes."""
    a, b = (check_axis("swapaxes", axis, x.ndim, x=x) for axis in (axis1, axis2))
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    y: Tensor = permute_dims(x, axes=tuple(order))
    return y


@takes_tensors
def matrix_transpose(x: Tensor) -> Tensor:
    """The last two axes exchanged. Source: array API standard, `matrix_transpose`."""
    return x.mT


@function
@takes_tensors
def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Move axes to new places, the others in order around them. Source: array API, `moveaxis`."""
    sources = (source,) if isinstance(source, int) else source
    places = (destination,) if isinstance(destination, int) else destination
    if len(sources) != len(places):
        got = f"{source}, {destination}"
        raise ShapeError("moveaxis", "as many destinations as sources", got, x=x)
    for axes in (sources, places):
        check_axes("moveaxis", axes, x.ndim, x=x)  # each once
    moved = [check_axis("moveaxis", a, x.ndim, x=x) for a in sources]
    order = [i for i in range(x.ndim) if i not in moved]
    targets = (check_axis("moveaxis", a, x.ndim, x=x) for a in places)
    for place, a in sorted(zip(targets, moved, strict=True)):
        order.insert(place, a)
    y: Tensor = permute_dims(x, axes=tuple(order))
    return y


@function
@takes_tensors
def flip(x: Tensor, axis: Axis = None) -> Tensor:
    """Turn x around along axes, or along all; a view. Source: array API standard, `flip`.

    >>> from singa_core import tensor
    >>> flip(tensor([1, 2, 3])).tolist()
    [3, 2, 1]
    """
    axes = check_axes("flip", axis, x.ndim, x=x)
    start = tuple(max(n - 1, 0) if i in axes else 0 for i, n in enumerate(x.shape))
    step = tuple(-1 if i in axes else 1 for i in range(x.ndim))
    y: Tensor = slice(x, start=start, size=x.shape, step=step)
    return y


def narrow(x: Tensor, axis: int, start: int, size: int) -> Tensor:
    """`size` elements along `axis`, from `start` on."""
    first, sizes = [0] * x.ndim, list(x.shape)
    first[axis], sizes[axis] = start, size
    y: Tensor = slice(x, start=tuple(first), size=tuple(sizes))
    return y


@function
@takes_tensors
def split(x: Tensor, sizes: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Cut x along an axis into parts of these sizes; one size means all but the last part have it.

    Raises: ShapeError if the sizes do not add up.

    >>> from singa_core import tensor
    >>> [part.tolist() for part in split(tensor([1, 2, 3, 4, 5]), 2)]
    [[1, 2], [3, 4], [5]]
    """
    axis = check_axis("split", axis, x.ndim, x=x)
    n = x.shape[axis]
    if isinstance(sizes, int):
        if sizes < 1:
            raise ShapeError("split", "size >= 1", sizes, x=x)
        sizes = [min(sizes, n - i) for i in range(0, n, sizes)] or [0]
    if sum(sizes) != n or min(sizes, default=0) < 0:
        rule = f"sizes >= 0 that sum to x.shape[{axis}]"
        raise ShapeError("split", rule, f"{tuple(sizes)} for {n}", x=x)
    parts, start = [], 0
    for size in sizes:
        parts.append(narrow(x, axis, start, size))
        start += size
    return tuple(parts)


@function
@takes_tensors
def chunk(x: Tensor, count: int, axis: int = 0) -> tuple[Tensor, ...]:
    """Cut x along an axis into at most `count` parts of one size, the last one maybe shorter."""
    axis = check_axis("chunk", axis, x.ndim, x=x)
    if count < 1:
        raise ShapeError("chunk", "count >= 1", count, x=x)
    return split(x, max(-(-x.shape[axis] // count), 1), axis)


@function
@takes_tensors
def unbind(x: Tensor, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of x along an axis, without it. Source: array API standard, `unstack`."""
    axis = check_axis("unbind", axis, x.ndim, x=x)
    return tuple(squeeze(narrow(x, axis, i, 1), axis) for i in range(x.shape[axis]))


unstack = unbind


@takes_tensors
def stack(xs: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis. Source: array API standard, `stack`.

    Raises: ShapeError if there is none or the shapes differ.
    """
    xs = all_tensors("stack", xs)
    if any(x.shape != xs[0].shape for x in xs):
        raise ShapeError("stack", "tensors of one shape", ", ".join(str(x.shape) for x in xs))
    axis = check_axis("stack", axis, xs[0].ndim + 1, x=xs[0])
    y: Tensor = concat([expand_dims(x, axis) for x in xs], axis=axis)
    return y


@function
@takes_tensors
def roll(x: Tensor, shift: int | Sequence[int], axis: Axis = None) -> Tensor:
    """Move x along axes, what leaves at the end coming back in front; flattened if axis is None.

    Source: array API standard 2023.12, `roll`.
    """
    if axis is None:
        return roll(flatten(x), shift, 0).reshape(x.shape)
    axes = (axis,) if isinstance(axis, int) else axis
    shifts = (shift,) * len(axes) if isinstance(shift, int) else shift
    if len(shifts) != len(axes):
        raise ShapeError("roll", "one shift for each axis", f"{shift} and {axis}", x=x)
    for by, a in zip(shifts, axes, strict=True):
        a = check_axis("roll", a, x.ndim, x=x)  # noqa: PLW2901
        n = x.shape[a]
        if n and by % n:
            cut = n - by % n
            x = concat(narrow(x, a, cut, n - cut), narrow(x, a, 0, cut), axis=a)
    return x


@function
@takes_tensors
def sum_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Sum x over the axes along which `shape` was broadcast: what undoes `broadcast_to`.

    Raises: ShapeError unless `shape` broadcasts to x.shape.

    >>> from singa_core import tensor
    >>> sum_to(tensor([[1, 2], [3, 4]]), (1, 2)).tolist()
    [[4, 6]]
    """
    shape = check_shape("sum_to", shape)
    if broadcast_shapes("sum_to", shape, x.shape, x=x, shape=shape) != x.shape:
        raise ShapeError("sum_to", "shape that stretches to x.shape", shape, x=x)
    return unbroadcast(x, shape)


@function
@takes_tensors
def tile(x: Tensor, repeats: int | Sequence[int], *rest: int) -> Tensor:
    """Copies of x side by side, `repeats` of them along each of the last axes.

    Raises: ShapeError for a negative count.
    Source: array API standard 2023.12, `tile`.
    """
    counts = (repeats, *rest) if isinstance(repeats, int) else (*repeats, *rest)
    if min(counts, default=0) < 0:
        raise ShapeError("tile", "repeats >= 0", counts, x=x)
    ndim = max(x.ndim, len(counts))
    counts = (1,) * (ndim - len(counts)) + counts
    shape = (1,) * (ndim - x.ndim) + x.shape
    pairs = list(zip(counts, shape, strict=True))
    y = reshape(x, shape=tuple(m for _, n in pairs for m in (1, n)))
    y = broadcast_to(y, shape=tuple(m for c, n in pairs for m in (c, n)))
    tiled: Tensor = reshape(y, shape=tuple(c * n for c, n in pairs))
    return tiled


@function
@takes_tensors
def repeat(x: Tensor, repeats: int, axis: int | None = None) -> Tensor:
    """Every element `repeats` times in a row, along an axis; flattened if it is None.

    Source: array API standard 2023.12, `repeat`.

    >>> from singa_core import tensor
    >>> repeat(tensor([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    """
    if axis is None:
        return repeat(flatten(x), repeats, 0)
    axis = check_axis("repeat", axis, x.ndim, x=x)
    if repeats < 0:
        raise ShapeError("repeat", "repeats >= 0", repeats, x=x)
    before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    y = broadcast_to(expand_dims(x, axis + 1), shape=(*before, n, repeats, *after))
    repeated: Tensor = reshape(y, shape=(*before, n * repeats, *after))
    return repeated


@function
@takes_tensors
def diagonal(x: Tensor, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Elements on a diagonal of two axes, y[..., i] = x[..., i, i + offset], the new axis last.

    Source: array API standard 2023.12, `linalg.diagonal`.
    """
    if x.ndim < 2:
        raise ShapeError("diagonal", "x.ndim >= 2", x.ndim, x=x)
    x = moveaxis(x, (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    size = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    flat = flatten(x, -2, -1)
    first = offset if offset >= 0 else -offset * columns
    start = (0,) * (flat.ndim - 1) + (first if size else 0,)
    step = (1,) * (flat.ndim - 1) + (columns + 1,)
    y: Tensor = slice(flat, start=start, size=(*flat.shape[:-1], size), step=step)
    return y
