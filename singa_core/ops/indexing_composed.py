"""Functions made of gather, scatter and sort, and those whose shape depends on values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from singa_core.checks import check_integer
from singa_core.dtype import DTypeLike
from singa_core.errors import DTypeError, ShapeError
from singa_core.operation import Operation
from singa_core.ops.base import check_kind, takes_tensors
from singa_core.ops.creation import iota
from singa_core.ops.elementwise_pairs import equal, where
from singa_core.ops.indexing import check_index, flat_places, gather, scatter, scatter_add, sort
from singa_core.ops.shape import reshape
from singa_core.ops.shape_composed import narrow
from singa_core.optable import function
from singa_core.sample import In, sample
from singa_core.spec import Spec, broadcast_shapes, check_axis
from singa_core.tensor import Tensor, tensor

__all__ = [
    "add_along_axis", "argsort", "boolean_mask", "masked_fill", "nonzero", "one_hot", "put",
    "put_along_axis", "take", "take_along_axis", "topk", "unique",
]  # fmt: skip


class Put(Operation):
    """Write v to places in the flat x, y.reshape(-1)[index] = v; the last of several wins.

    Shapes: x any, index (...), v (...) -> y like x. Dtype: any, promoted; int32 or int64.
    Raises: ShapeError unless v has the shape of the index; OutOfRange on devices that check.
    Source: NumPy, `put`.

    >>> from singa_core import tensor
    >>> put(tensor([[1, 2], [3, 4]]), tensor([3, 0]), tensor([7, 8])).tolist()
    [[8, 2], [3, 7]]
    """

    name = "put"
    promotes = (0, 2)
    samples = (
        sample((2, 3), In((2,), "int64", values=[4, 0], grad=False), (2,)),
        sample((2, 3), In((2, 2), "int32", values=[[1, -1], [1, 3]], grad=False), (2, 2)),
        sample((), In((), "int64", values=0, grad=False), ()),
        sample((3,), In((0,), "int64", values=[], grad=False), (0,)),
    )

    def infer(self, x: Spec, index: Spec, v: Spec) -> Spec:
        check_index(self.name, index, x=x, index=index, v=v)
        if v.shape != index.shape:
            raise ShapeError(self.name, "v.shape == index.shape", v.shape, x=x, index=index, v=v)
        return x

    def forward(self, x: Tensor, index: Tensor, v: Tensor) -> Any:
        flat = scatter(reshape(x, shape=(-1 if x.size else 0,)), index, v, axis=0)
        y: Tensor = reshape(flat, shape=x.shape)
        return y


class MaskedFill(Operation):
    """Write v where the mask holds, y = v where mask, else x.

    Shapes: x any, mask and v broadcast to it -> y like x. Dtype: any, promoted; mask bool.
    Source: `where` with x as the other choice.

    >>> from singa_core import tensor
    >>> masked_fill(tensor([1, 2]), tensor([True, False]), 0).tolist()
    [0, 2]
    """

    name = "masked_fill"
    promotes = (0, 2)
    samples = (
        sample((2, 3), In((2, 3), "bool"), ()),
        sample((2, 3), In((3,), "bool"), (2, 1)),
        sample(In((4,), "any"), In((4,), "bool"), In((), "any")),
        sample((0, 3), In((3,), "bool"), ()),
    )

    def infer(self, x: Spec, mask: Spec, v: Spec) -> Spec:
        check_kind(self.name, "bool", mask=mask)
        named: dict[str, Any] = {"x": x, "mask": mask, "v": v}
        if broadcast_shapes(self.name, x.shape, mask.shape, v.shape, **named) != x.shape:
            raise ShapeError(self.name, "mask and v that broadcast to x.shape", x.shape, **named)
        return x

    def forward(self, x: Tensor, mask: Tensor, v: Tensor) -> Any:
        y: Tensor = where(mask, v, x)
        return y


put, masked_fill = Put(), MaskedFill()


@function
@takes_tensors
def take(x: Tensor, index: Tensor | Sequence[int], *, axis: int | None = None) -> Tensor:
    """Elements at places along an axis, or of the flat x; see `gather`.

    Source: array API standard 2023.12, `take`.
    """
    if axis is None:
        x, axis = x.reshape(-1), 0
    y: Tensor = gather(x, index, axis=axis)
    return y


@function
@takes_tensors
def take_along_axis(x: Tensor, index: Tensor, *, axis: int = -1) -> Tensor:
    """One element per place of the index, y[..., i, ...] = x[..., index[..., i, ...], ...].

    Shapes: x (a, n, b), index (a, m, b) -> y (a, m, b), other axes broadcasting.
    Raises: ShapeError if the axes differ in number; OutOfRange on devices that check.
    Source: array API standard 2024.12, `take_along_axis`.

    >>> from singa_core import tensor
    >>> take_along_axis(tensor([[3, 4], [5, 6]]), tensor([[1], [0]])).tolist()
    [[4], [5]]
    """
    x, places = _along("take_along_axis", x, index, axis)
    y: Tensor = gather(x.reshape(-1), places, axis=0)
    return y


@function
@takes_tensors
def put_along_axis(x: Tensor, index: Tensor, v: Tensor, *, axis: int = -1) -> Tensor:
    """Write v where `take_along_axis` would read. The last of several writers wins."""
    wide, places = _along("put_along_axis", x, index, axis)
    if wide.shape != x.shape:
        rule = "an index that broadcasts to x"
        raise ShapeError("put_along_axis", rule, index.shape, x=x, index=index)
    y: Tensor = put(x, places, v.broadcast_to(places.shape))
    return y


@function
@takes_tensors
def add_along_axis(x: Tensor, index: Tensor, v: Tensor, *, axis: int = -1) -> Tensor:
    """Add v where `take_along_axis` would read; several at one place add up.

    Source: ONNX operator set 18, `ScatterElements` with reduction "add".

    >>> from singa_core import tensor
    >>> add_along_axis(tensor([[0, 0]]), tensor([[1, 1, 0]]), tensor([[1, 2, 5]])).tolist()
    [[5, 3]]
    """
    wide, places = _along("add_along_axis", x, index, axis)
    if wide.shape != x.shape:
        rule = "an index that broadcasts to x"
        raise ShapeError("add_along_axis", rule, index.shape, x=x, index=index)
    flat = scatter_add(x.reshape(-1), places, v.broadcast_to(places.shape), axis=0)
    y: Tensor = flat.reshape(x.shape)
    return y


@function
@takes_tensors
def one_hot(ids: Tensor, classes: int, *, dtype: DTypeLike = "float32") -> Tensor:
    """1 at the place that an id names, 0 elsewhere; an id outside of [0, classes) names none.

    Shapes: ids (...) -> y (..., classes). Dtype: integers -> `dtype`.
    Raises: DTypeError unless ids are integers; ArgumentError for negative classes.
    Source: ONNX operator set 11, `OneHot`.

    >>> from singa_core import tensor
    >>> one_hot(tensor([2, 0]), 3, dtype="int32").tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    check_kind("one_hot", "integer", ids=ids)
    classes = check_integer("one_hot", "classes", classes, 0)
    places = iota(classes, dtype=ids.dtype, device=ids.device)
    y: Tensor = equal(ids.reshape(*ids.shape, 1), places).astype(dtype)
    return y


def _along(name: str, x: Tensor, index: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Both broadcast, the index as places in the flat x; one that is outside stays outside."""
    if x.ndim != index.ndim:
        got = f"{index.ndim} != {x.ndim}"
        raise ShapeError(name, "index.ndim == x.ndim", got, x=x, index=index)
    axis = check_axis(name, axis, x.ndim, x=x)
    n = x.shape[axis]
    shape = list(broadcast_shapes(
        name, x.shape[:axis] + (1,) + x.shape[axis + 1 :],
        index.shape[:axis] + (1,) + index.shape[axis + 1 :], x=x, index=index,
    ))  # fmt: skip
    shape[axis] = n
    x = x.broadcast_to(shape)
    index = where(index < 0, index + n, index)
    outside = (index < 0) | (index >= n)
    return x, where(outside, x.size, flat_places(index, x.shape, axis))


@function
@takes_tensors
def argsort(x: Tensor, axis: int = -1, *, descending: bool = False) -> Tensor:
    """The places of the elements in order; see `sort`. Source: array API standard, `argsort`."""
    indices: Tensor = sort(x, axis=axis, descending=descending)[1]
    return indices


@function
@takes_tensors
def topk(x: Tensor, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along an axis in order, and their places.

    Raises: ShapeError unless 0 <= k <= x.shape[axis].
    Source: ONNX, `TopK`.

    >>> from singa_core import tensor
    >>> [part.tolist() for part in topk(tensor([3, 1, 2]), 2)]
    [[3, 2], [0, 2]]
    """
    axis = check_axis("topk", axis, x.ndim, x=x)
    if not 0 <= k <= x.shape[axis]:
        raise ShapeError("topk", f"0 <= k <= {x.shape[axis]}", k, x=x)
    values, indices = sort(x, axis=axis, descending=largest)
    return narrow(values, axis, 0, k), narrow(indices, axis, 0, k)


# -- read on the host: their shapes depend on values, so they cannot be recorded -------------------


@function
@takes_tensors
def nonzero(x: Tensor) -> tuple[Tensor, ...]:
    """Where x is not 0: one index vector for each axis, in C order. Reads x on the host.

    Raises: RecordingError while a graph is recorded.
    Source: array API standard 2023.12, `nonzero`.
    """
    host = np.asarray(x._host_value("nonzero"))
    found = np.nonzero(np.atleast_1d(host))
    return tuple(tensor(i.astype(np.int64), device=x.device) for i in found)


class Unique(NamedTuple):
    """What `unique` gives; the last three only if asked for."""

    values: Tensor
    inverse: Tensor | None = None
    counts: Tensor | None = None


@function
@takes_tensors
def unique(x: Tensor, *, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """The values that occur in x, in order. Reads x on the host; no gradient.

    Gives a tensor, or `(values, inverse, counts)` if one of the two is asked for.
    Raises: RecordingError while a graph is recorded.
    Source: array API standard 2023.12, `unique_values`, `unique_inverse`, `unique_counts`.
    """
    host = x._host_value("unique")
    values, inverse, counts = np.unique(host, return_inverse=True, return_counts=True)
    made = tensor(values, dtype=x.dtype, device=x.device)
    if not (return_inverse or return_counts):
        return made
    places = tensor(inverse.reshape(x.shape).astype(np.int64), device=x.device)
    occurrences = tensor(counts.astype(np.int64), device=x.device)
    return Unique(made, places if return_inverse else None, occurrences if return_counts else None)


@function
@takes_tensors
def boolean_mask(x: Tensor, mask: Tensor) -> Tensor:
    """The elements of x where the mask holds, in C order: `x[mask]`. Reads the mask on the host.

    Raises: RecordingError while a graph is recorded; DTypeError unless the mask is bool.
    """
    if mask.dtype.kind != "bool":
        raise DTypeError("boolean_mask", "a bool mask", mask.dtype, x=x, mask=mask)
    return x[mask]
