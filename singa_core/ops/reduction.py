"""Sums, products, extremes and running sums along axes: the primitives.

Means, norms and the like are in `reduction_composed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from singa_core.dtype import DType, as_dtype
from singa_core.errors import ShapeError
from singa_core.operation import Needs, Operation
from singa_core.ops.base import Accepts, Grads, check_kind
from singa_core.ops.creation import ones_like, zeros_like
from singa_core.ops.shape import broadcast_to, concat, permute_dims, reshape
from singa_core.sample import In, Sample, sample
from singa_core.spec import Shape, Spec, check_axes, check_axis
from singa_core.tensor import Tensor

__all__ = [
    "argmax", "argmin", "cumprod", "cumsum", "max", "min", "prod", "sum",
]  # fmt: skip

Axis = int | Sequence[int] | None


def reduced(shape: Shape, axis: Shape, keepdims: bool) -> Shape:
    """`shape` without `axis`, or with 1 there."""
    kept = ((i, n) for i, n in enumerate(shape) if keepdims or i not in axis)
    return tuple(1 if i in axis else n for i, n in kept)


def expand(y: Tensor, shape: Shape, axis: Shape) -> Any:
    """A result reduced over `axis` with those axes back, as 1."""
    return reshape(y, shape=reduced(shape, axis, True))


def spread(y: Tensor, shape: Shape, axis: Shape) -> Any:
    """A result reduced over `axis`, with or without keepdims, at every element it came from."""
    leading = y.ndim == len(shape) or axis == (*range(len(axis)),)
    return broadcast_to(y if leading else expand(y, shape, axis), shape=shape)


def total_dtype(dtype: DType) -> DType:
    """What sums and products are kept in: integers (and bool) are widened to 64 bits."""
    if dtype.is_floating:
        return dtype
    return as_dtype("uint64" if dtype.kind == "uint" else "int64")


def axis_samples(
    dtype: str = "float", low: float = -2.0, high: float = 2.0, distinct: bool = False
) -> tuple[Sample, ...]:
    """Every axis, one, the last, two of three with keepdims, none, a scalar."""

    def x(*shape: int) -> In:
        return In(shape, dtype, low, high, distinct=distinct)

    return (
        sample(x(3, 4)),
        sample(x(3, 4), axis=0),
        sample(x(2, 3, 4), axis=-1, keepdims=True),
        sample(x(2, 3, 4), axis=(2, 0)),
        sample(x(2, 3), axis=()),
        sample(x()),
        sample(x(0, 3), axis=1),
    )


class Reduction(Operation):
    """What the reductions along a set of axes share."""

    accepts: ClassVar[Accepts] = "any"
    samples: ClassVar[tuple[Sample, ...]] = ()

    def settle(self, x: Spec, *, axis: Axis = None, keepdims: bool = False) -> dict[str, Any]:
        return {"axis": check_axes(self.name, axis, x.ndim, x=x), "keepdims": bool(keepdims)}

    def infer(self, x: Spec, *, axis: Axis = None, keepdims: bool = False) -> Spec:
        check_kind(self.name, self.accepts, x=x)
        axes = check_axes(self.name, axis, x.ndim, x=x)
        return Spec(reduced(x.shape, axes, keepdims), self.result(x.dtype))

    def result(self, dtype: DType) -> DType:
        """The output's dtype."""
        return total_dtype(dtype)


class Sum(Reduction):
    """Sum over axes; 0 over nothing.

    Shapes: x -> y without `axis` (or 1 there with keepdims); None means all axes.
    Dtype: floats, kept; bool and signed integers -> int64, unsigned -> uint64.
    Source: array API standard 2023.12, `sum`.

    >>> from singa_core import tensor
    >>> sum(tensor([[1, 2], [3, 4]]), axis=0).tolist()
    [4, 6]
    """

    name = "sum"
    samples = (*axis_samples(), sample(In((2, 3), "any"), axis=1), sample((3, 0)))

    def backward(self, grad: Tensor, *, needs: Needs, axis: Shape, keepdims: bool) -> Grads:
        return (spread(grad, needs.specs[0].shape, axis),)


class Prod(Reduction):
    """Product over axes; 1 over nothing.

    Shapes: x -> y without `axis` (or 1 there with keepdims); None means all axes.
    Dtype: floats, kept; bool and signed integers -> int64, unsigned -> uint64.
    Source: array API standard 2023.12, `prod`.
    """

    name = "prod"
    keeps = ("x",)
    samples = (
        *axis_samples(low=0.5, high=1.5),
        sample(In((2, 3), "any"), axis=1),
        sample(In((3, 3), values=[[0.5, 0.0, 2.0], [0.0, 0.0, 1.0], [1.0, 2.0, 3.0]]), axis=1),
    )

    def backward(
        self, grad: Tensor, x: Tensor, *, needs: Needs, axis: Shape, keepdims: bool
    ) -> Grads:
        # the product of all others, left ones times right ones: no division, so zeros are fine
        if needs.specs[0].itemcount == 0:
            return (zeros_like(x),)
        order = (*(i for i in range(x.ndim) if i not in axis), *axis)
        moved = permute_dims(x, axes=order)
        flat = reshape(moved, shape=(*moved.shape[: x.ndim - len(axis)], -1))
        others = before(flat) * before(flat.flip(-1)).flip(-1)
        back = sorted(range(x.ndim), key=order.__getitem__)
        others = permute_dims(reshape(others, shape=moved.shape), axes=tuple(back))
        return (expand(grad, x.shape, axis) * others,)


def before(x: Tensor) -> Any:
    """Along the last axis, the product of all elements before each one."""
    return concat(ones_like(x[..., :1]), cumprod(x, axis=-1)[..., :-1], axis=-1)


class Extremum(Reduction):
    """The largest or smallest element; elements that tie share the gradient evenly."""

    keeps = ("x", "y")
    samples = (
        *axis_samples(distinct=True),
        sample(In((2, 3), "any"), axis=1),
    )

    def infer(self, x: Spec, *, axis: Axis = None, keepdims: bool = False) -> Spec:
        axes = check_axes(self.name, axis, x.ndim, x=x)
        if any(x.shape[a] == 0 for a in axes):
            raise ShapeError(self.name, "at least one element along axis", axes, x=x)
        return super().infer(x, axis=axes, keepdims=keepdims)

    def result(self, dtype: DType) -> DType:
        return dtype

    def backward(
        self, grad: Tensor, x: Tensor, y: Tensor, *, needs: Needs, axis: Shape, keepdims: bool
    ) -> Grads:
        chosen = (x == expand(y, x.shape, axis)).astype(x.dtype)
        share = expand(grad, x.shape, axis) / chosen.sum(axis=axis, keepdims=True)
        return (chosen * share,)


class Max(Extremum):
    """Largest element over axes; NaN if there is one. Elements that tie share the gradient evenly.

    Shapes: x -> y without `axis` (or 1 there with keepdims); None means all axes.
    Dtype: any, kept.
    Raises: ShapeError if there is no element to choose from.
    Source: array API standard 2023.12, `max`.
    """

    name = "max"


class Min(Extremum):
    """Smallest element over axes; NaN if there is one. Elements that tie share the gradient evenly.

    Shapes: x -> y without `axis` (or 1 there with keepdims); None means all axes.
    Dtype: any, kept.
    Raises: ShapeError if there is no element to choose from.
    Source: array API standard 2023.12, `min`.
    """

    name = "min"


class ArgExtremum(Operation):
    """Where the largest or smallest element is."""

    samples = (
        sample(In((3, 4), distinct=True), axis=0),
        sample(In((2, 3, 4), distinct=True), axis=-1, keepdims=True),
        sample(In((3, 4), distinct=True)),
        sample(In((2, 3), values=[[1, 3, 3], [2, 2, 0]]), axis=1),
        sample(In((0, 3)), axis=1),
    )

    def route(self, x: Spec, *, axis: int | None, keepdims: bool) -> Callable[..., Any] | None:
        return self._of_all if axis is None else None

    def _of_all(self, x: Tensor, *, axis: None, keepdims: bool) -> Any:
        """A kernel sees one axis only."""
        y = self(reshape(x, shape=(-1,)), axis=0)
        return reshape(y, shape=(1,) * x.ndim) if keepdims else y

    def settle(self, x: Spec, *, axis: int | None = None, keepdims: bool = False) -> dict[str, Any]:
        axis = None if axis is None else check_axis(self.name, axis, x.ndim, x=x)
        return {"axis": axis, "keepdims": bool(keepdims)}

    def infer(self, x: Spec, *, axis: int | None = None, keepdims: bool = False) -> Spec:
        axes = check_axes(self.name, axis, x.ndim, x=x)
        if any(x.shape[a] == 0 for a in axes):
            raise ShapeError(self.name, "at least one element along axis", axes, x=x)
        return Spec(reduced(x.shape, axes, keepdims), "int64")


class ArgMax(ArgExtremum):
    """Index of the largest element along an axis, the first of equals; None: in the flat x.

    Shapes: x -> y without `axis` (or 1 there with keepdims). Dtype: any -> int64.
    Raises: ShapeError if there is no element to choose from.
    Source: array API standard 2023.12, `argmax`.

    >>> from singa_core import tensor
    >>> argmax(tensor([[1, 3, 3], [2, 0, 1]]), axis=1).tolist()
    [1, 0]
    """

    name = "argmax"


class ArgMin(ArgExtremum):
    """Index of the smallest element along an axis, the first of equals; None: in the flat x.

    Shapes: x -> y without `axis` (or 1 there with keepdims). Dtype: any -> int64.
    Raises: ShapeError if there is no element to choose from.
    Source: array API standard 2023.12, `argmin`.
    """

    name = "argmin"


class Running(Operation):
    """A sum or product that runs along an axis."""

    samples: ClassVar[tuple[Sample, ...]] = (
        sample((5,), axis=0),
        sample((2, 3, 4), axis=1),
        sample((2, 3), axis=-1),
        sample((2, 0), axis=1),
        sample(In((2, 3), "any"), axis=0),
    )

    def settle(self, x: Spec, *, axis: int) -> dict[str, Any]:
        return {"axis": check_axis(self.name, axis, x.ndim, x=x)}

    def infer(self, x: Spec, *, axis: int) -> Spec:
        return x.with_dtype(total_dtype(x.dtype))


class CumSum(Running):
    """Running sum along an axis, y[i] = x[0] + ... + x[i].

    Shapes: any -> same.
    Dtype: floats, kept; bool and signed integers -> int64, unsigned -> uint64.
    Source: array API standard 2023.12, `cumulative_sum`.

    >>> from singa_core import tensor
    >>> cumsum(tensor([1, 2, 3]), axis=0).tolist()
    [1, 3, 6]
    """

    name = "cumsum"

    def backward(self, grad: Tensor, *, needs: Needs, axis: int) -> Grads:
        return (cumsum(grad.flip(axis), axis=axis).flip(axis),)


class CumProd(Running):
    """Running product along an axis, y[i] = x[0] * ... * x[i].

    Shapes: any -> same.
    Dtype: floats, kept; bool and signed integers -> int64, unsigned -> uint64.
    Source: array API standard 2024.12, `cumulative_prod`.
    """

    name = "cumprod"
    keeps = ("x",)
    samples = (
        *Running.samples,
        sample(In((2, 4), values=[[0.5, 0.0, 2.0, 3.0], [0.0, 1.5, 0.0, 1.0]]), axis=1),
    )

    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs, axis: int) -> Grads:
        # dx[k] = (x[0] ... x[k-1]) * s[k], where s[k] = grad[k] + x[k+1] * s[k+1]. The recurrence
        # is solved by doubling (Hillis and Steele, CACM 29 (1986) 1170-1183), without a division.
        if x.shape[axis] == 0:
            return (zeros_like(x),)
        x, s = x.swapaxes(axis, -1), grad.swapaxes(axis, -1)
        n, factor, distance = x.shape[-1], _later(x, 1), 1
        while distance < n:
            s = s + factor * _later(s, distance)
            factor = factor * _later(factor, distance)
            distance *= 2
        return ((before(x) * s).swapaxes(axis, -1),)


def _later(x: Tensor, distance: int) -> Any:
    """Along the last axis, the element `distance` further on; 0 beyond the end."""
    return concat(x[..., distance:], zeros_like(x[..., :distance]), axis=-1)


sum, prod, max, min = Sum(), Prod(), Max(), Min()
argmax, argmin, cumsum, cumprod = ArgMax(), ArgMin(), CumSum(), CumProd()
