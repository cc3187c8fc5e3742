"""Reading and writing at places given by an index tensor; sorting."""

from __future__ import annotations

from typing import Any

from singa_core.errors import ArgumentError, DTypeError, ShapeError
from singa_core.indexing import signed
from singa_core.operation import Needs, Operation
from singa_core.ops.base import Grads
from singa_core.ops.creation import iota, zeros
from singa_core.ops.elementwise_pairs import equal, where
from singa_core.sample import In, sample
from singa_core.spec import Shape, Spec, check_axis, contiguous_strides
from singa_core.tensor import Tensor

__all__ = [
    "gather", "scatter", "scatter_add", "sort",
]  # fmt: skip


def check_index(where: str, index: Spec, /, **operands: Any) -> None:
    """Raises: DTypeError unless the index is int32 or int64."""
    if index.dtype.name not in ("int32", "int64"):
        raise DTypeError(where, "an index of int32 or int64", index.dtype, **operands)


def gathered(x: Spec, index: Spec, axis: int) -> Shape:
    """The shape of x with the index's shape in place of an axis."""
    return (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


def _at(*places: int) -> In:
    return In((len(places),), "int64", values=places, grad=False)


_GRID = In((2, 2), "int32", values=[[0, 2], [-1, 0]], grad=False)
_NONE = In((0,), "int64", values=[], grad=False)
_ONE = In((), "int64", values=1, grad=False)


class Gather(Operation):
    """Elements of x at the places in `index` along an axis, y[.., i.., ..] = x[.., index[i..], ..].

    Shapes: x (a, n, b), index (...) -> y (a, ..., b).
    Dtype: any, kept; integers, negative from the end.
    Args: role: what the index is, and to which op, as `embedding: id`: negative ones are wrong
        then, and errors are told in these words.
    Raises: ArgumentError for a role of another form; DTypeError for an index of no integers;
        OutOfRange on devices that check.
    Source: NumPy, `take`; ONNX, `Gather`.

    >>> from singa_core import tensor
    >>> gather(tensor([10, 20, 30]), tensor([2, 0, 2]), axis=0).tolist()
    [30, 10, 30]
    """

    name = "gather"
    keeps = ("index",)
    samples = (
        sample((4, 3), _at(2, 0, 2, -1), axis=0),
        sample((2, 3, 4), _GRID, axis=1),
        sample((3, 2), _ONE, axis=-1),
        sample((3, 2), _NONE, axis=0),
        sample(In((4,), "any"), _at(3, 1), axis=0),
        sample((4, 3), _at(2, 0, 2, 3), axis=0, role="embedding: id"),
        sample((2, 3), In((2,), "uint8", 0, 3), axis=1, role="embedding: id"),
        sample((3, 2), In((2,), "int8", values=[-3, 1], grad=False), axis=0),
    )

    def settle(
        self, x: Spec, index: Spec, *, axis: int = 0, role: str | None = None
    ) -> dict[str, Any]:
        if role is not None and not all(role.partition(": ")):
            raise ArgumentError(self.name, "a role like 'embedding: id'", repr(role))
        return {"axis": check_axis(self.name, axis, x.ndim, x=x), "role": role}

    def infer(self, x: Spec, index: Spec, *, axis: int = 0, role: str | None = None) -> Spec:
        if not index.dtype.is_integer:
            rule = "an index of an integer dtype"
            raise DTypeError(self.name, rule, index.dtype, x=x, index=index)
        return x.with_shape(gathered(x, index, axis))

    def backward(
        self, grad: Tensor, index: Tensor, *, needs: Needs, axis: int, role: str | None
    ) -> Grads:
        spec = needs.specs[0]
        nothing = zeros(spec.shape, dtype=spec.dtype, device=grad.device)
        return scatter_add(nothing, signed(index), grad, axis=axis), None


class Write(Operation):
    """Writing values to places along an axis."""

    keeps = ("index",)
    promotes = (0, 2)

    def settle(self, x: Spec, index: Spec, v: Spec, *, axis: int = 0) -> dict[str, Any]:
        return {"axis": check_axis(self.name, axis, x.ndim, x=x)}

    def infer(self, x: Spec, index: Spec, v: Spec, *, axis: int = 0) -> Spec:
        check_index(self.name, index, x=x, index=index, v=v)
        wanted = gathered(x, index, axis)
        if v.shape != wanted:
            raise ShapeError(self.name, f"v.shape == {wanted}", v.shape, x=x, index=index, v=v)
        return x


class ScatterAdd(Write):
    """Add v to x at the places in `index` along an axis; a place that repeats receives every value.

    Shapes: x (a, n, b), index (...), v (a, ..., b) -> y (a, n, b).
    Dtype: numbers, promoted; int32 or int64, negative from the end.
    Raises: OutOfRange on devices that check; ShapeError unless v has the shape that `gather` gives.
    Source: NumPy, `add.at`; ONNX, `ScatterElements` with reduction "add".

    >>> from singa_core import tensor
    >>> scatter_add(tensor([0, 0, 0]), tensor([2, 0, 2]), tensor([1, 2, 3]), axis=0).tolist()
    [2, 0, 4]
    """

    name = "scatter_add"
    samples = (
        sample((4, 3), _at(2, 0, 2, -1), (4, 3), axis=0),
        sample((2, 3, 4), _GRID, (2, 2, 2, 4), axis=1),
        sample((3, 2), _ONE, (3,), axis=-1),
        sample((3, 2), _NONE, (0, 2), axis=0),
        sample(In((4,), "number"), _at(3, 1), In((2,), "number"), axis=0),
    )

    def backward(self, grad: Tensor, index: Tensor, *, needs: Needs, axis: int) -> Grads:
        return (
            grad if needs[0] else None,
            None,
            gather(grad, index, axis=axis) if needs[2] else None,
        )


class Scatter(Write):
    """Write v to x at the places in `index` along an axis; the last of several writers wins.

    Shapes: x (a, n, b), index (...), v (a, ..., b) -> y (a, n, b).
    Dtype: any, promoted; int32 or int64, negative from the end.
    Raises: OutOfRange on devices that check; ShapeError unless v has the shape that `gather` gives.
    Source: NumPy, `put_along_axis`; ONNX, `ScatterElements`.

    >>> from singa_core import tensor
    >>> scatter(tensor([0, 0, 0]), tensor([2, 0, 2]), tensor([1, 2, 3]), axis=0).tolist()
    [2, 0, 3]
    """

    name = "scatter"
    samples = (*ScatterAdd.samples[:4], sample(In((4,), "any"), _at(3, 1), In((2,), "any"), axis=0))

    def backward(self, grad: Tensor, index: Tensor, *, needs: Needs, axis: int) -> Grads:
        v = needs.specs[2]
        dx = dv = None
        if needs[0]:
            nothing = zeros(v.shape, dtype=grad.dtype, device=grad.device)
            dx = scatter(grad, index, nothing, axis=axis)
        if needs[2]:  # who was overwritten by a later writer gets nothing
            n = needs.specs[0].shape[axis]
            order = iota(index.size, device=grad.device).reshape(index.shape)
            last = scatter(zeros((n,), dtype="int64", device=grad.device), index, order, axis=0)
            won = equal(gather(last, index, axis=0), order)
            after = (1,) * (len(needs.specs[0].shape) - axis - 1)
            dv = where(won.reshape(*index.shape, *after), gather(grad, index, axis=axis), 0.0)
        return dx, None, dv


class Sort(Operation):
    """Elements in order along an axis, and the places they come from: `values, indices = sort(x)`.

    Shapes: any -> same, same. Dtype: any, kept; int64.
    NaNs count as the largest. Equal elements keep their order, ascending and descending.
    Source: array API standard 2023.12, `sort` and `argsort`.

    >>> from singa_core import tensor
    >>> [part.tolist() for part in sort(tensor([3, 1, 2]), descending=True)]
    [[3, 2, 1], [0, 2, 1]]
    """

    name = "sort"
    heavy = True
    keeps = ("y1",)
    samples = (
        sample(In((3, 4), distinct=True)),
        sample(In((3, 4), distinct=True), axis=0, descending=True),
        sample(In((2, 3, 2), distinct=True), axis=1),
        sample(In((2, 3), "any", values=[[1, 0, 1], [0, 1, 1]], grad=False), descending=True),
        sample((0, 3), axis=0),
    )

    def settle(self, x: Spec, *, axis: int = -1, descending: bool = False) -> dict[str, Any]:
        return {"axis": check_axis(self.name, axis, x.ndim, x=x), "descending": bool(descending)}

    def infer(self, x: Spec, *, axis: int = -1, descending: bool = False) -> tuple[Spec, Spec]:
        return x, x.with_dtype("int64")

    def backward(
        self,
        grad: Tensor | None,
        grad_indices: Tensor | None,
        indices: Tensor,
        *,
        needs: Needs,
        axis: int,
        descending: bool,
    ) -> Grads:
        if grad is None:
            return (None,)
        flat = flat_places(indices, needs.specs[0].shape, axis).reshape(-1)
        nothing = zeros((flat.size,), dtype=grad.dtype, device=grad.device)
        moved = scatter(nothing, flat, grad.reshape(-1), axis=0)
        return (moved.reshape(grad.shape),)


def flat_places(index: Tensor, shape: Shape, axis: int) -> Tensor:
    """Where x[..., index[...], ...] lies in a flat x of this shape, the index running along `axis`.

    `index` has the shape of x except along `axis`, and must be in range.
    """
    strides = contiguous_strides(shape)
    places = index * strides[axis]
    for a, (n, step) in enumerate(zip(shape, strides, strict=True)):
        if a != axis and n != 1:
            own = iota(n, dtype=index.dtype, device=index.device) * step
            places = places + own.reshape((n,) + (1,) * (len(shape) - a - 1))
    return places


gather, scatter_add, scatter, sort = Gather(), ScatterAdd(), Scatter(), Sort()
