"""Means, spreads, norms and counts: reductions made of the primitives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from singa_core.dtype import DType, as_dtype
from singa_core.errors import ArgumentError
from singa_core.operation import Needs
from singa_core.ops.base import Grads, given, takes_tensors, wide
from singa_core.ops.creation import full
from singa_core.ops.elementwise import abs, cast, exp, log, sqrt
from singa_core.ops.elementwise_logic import isfinite, not_equal
from singa_core.ops.elementwise_pairs import bit_and, equal, less, where
from singa_core.ops.reduction import (
    Reduction,
    axis_samples,
    expand,
    max,
    min,
    reduced,
    spread,
    sum,
)
from singa_core.optable import function
from singa_core.sample import In, sample
from singa_core.spec import Shape, Spec, check_axes
from singa_core.tensor import Tensor

Axis = int | Sequence[int] | None

__all__ = ["all", "any", "count_nonzero", "logsumexp", "mean", "norm", "std", "var", "vector_norm"]


class FloatReduction(Reduction):
    """A real number over axes: integers and bool become float32 first."""

    accepts = "float"
    promotes = True
    weak_float = True

    def result(self, dtype: DType) -> DType:
        return dtype


def counted(x: Tensor | Spec, axis: Shape) -> int:
    """How many elements a reduction over `axis` brings together."""
    return math.prod(x.shape[a] for a in axis)


class Mean(FloatReduction):
    """Arithmetic mean over axes; NaN over nothing.

    Shapes: x -> y without `axis` (or 1 there with keepdims); None means all axes.
    Dtype: floats, kept (summed in float32 at least); integers give float32.
    Source: array API standard 2023.12, `mean`.

    >>> from singa_core import tensor
    >>> mean(tensor([[1, 2], [3, 6]]), axis=1).tolist()
    [1.5, 4.5]
    """

    name = "mean"
    samples = axis_samples()

    def forward(self, x: Tensor, *, axis: Shape, keepdims: bool) -> Any:
        total = sum(wide(x), axis=axis, keepdims=keepdims)
        y: Tensor = (total / float(counted(x, axis))).astype(x.dtype)
        return y

    def backward(self, grad: Tensor, *, needs: Needs, axis: Shape, keepdims: bool) -> Grads:
        share = grad / float(counted(needs.specs[0], axis) or 1)  # of an empty x, nobody gets one
        return (spread(share, needs.specs[0].shape, axis),)


class Var(FloatReduction):
    """Variance over axes, y = sum of (x - mean)**2 / (n - correction); NaN where n <= correction.

    Shapes: x -> y without `axis` (or 1 there with keepdims); None means all axes.
    Dtype: floats, kept (computed in float32 at least); integers give float32.
    Args: correction: 0 for the variance of the elements, 1 for an unbiased estimate.
    Source: array API standard 2023.12, `var`.

    >>> from singa_core import tensor
    >>> var(tensor([1.0, 3.0])).item(), var(tensor([1.0, 3.0]), correction=1).item()
    (1.0, 2.0)
    """

    name = "var"
    samples = (*axis_samples(), sample((3, 4), axis=1, correction=1.0))

    def settle(
        self, x: Spec, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
    ) -> dict[str, Any]:
        return {**super().settle(x, axis=axis, keepdims=keepdims), "correction": float(correction)}

    def infer(
        self, x: Spec, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
    ) -> Spec:
        return super().infer(x, axis=axis, keepdims=keepdims)

    def forward(self, x: Tensor, *, axis: Shape, correction: float, keepdims: bool) -> Any:
        w = wide(x)
        centred = w - mean(w, axis=axis, keepdims=True)
        total = sum(centred * centred, axis=axis, keepdims=keepdims)
        n = counted(x, axis) - correction
        return (total / (n if n > 0 else math.nan)).astype(x.dtype)


class Std(Var):
    """Standard deviation over axes, the root of `var`; the gradient is infinite where y is 0.

    Shapes: x -> y without `axis` (or 1 there with keepdims); None means all axes.
    Dtype: floats, kept; integers give float32.
    Args: correction: 0 for the deviation of the elements, 1 for the usual estimate.
    Source: array API standard 2023.12, `std`.
    """

    name = "std"
    samples = (
        sample((3, 4)),
        sample((3, 4), axis=0, correction=1.0),
        sample((2, 3, 4), axis=(0, 2), keepdims=True),
        sample((0, 3), axis=1),
    )

    def forward(self, x: Tensor, *, axis: Shape, correction: float, keepdims: bool) -> Any:
        return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


class Norm(FloatReduction):
    """Euclidean length over axes, y = sqrt(sum of x*x). Its gradient where y is 0 is 0.

    Shapes: x -> y without `axis` (or 1 there with keepdims); None means all axes.
    Dtype: floats, kept; integers give float32.
    Source: array API standard 2023.12, `linalg.vector_norm`; other orders: `vector_norm`.
    """

    name = "norm"
    keeps = ("x", "y")
    samples = axis_samples(low=0.5)

    def forward(self, x: Tensor, *, axis: Shape, keepdims: bool) -> Any:
        w = wide(x)
        y: Tensor = sqrt(sum(w * w, axis=axis, keepdims=keepdims)).astype(x.dtype)
        return y

    def backward(
        self, grad: Tensor, x: Tensor, y: Tensor, *, needs: Needs, axis: Shape, keepdims: bool
    ) -> Grads:
        nothing = equal(y, 0.0)
        share = where(nothing, 0.0, grad / where(nothing, 1.0, y))
        return (x * expand(share, x.shape, axis),)


class LogSumExp(FloatReduction):
    """Logarithm of a sum over axes, y = ln(sum of e**x), without overflow; -inf over nothing.

    Shapes: x -> y without `axis` (or 1 there with keepdims); None means all axes.
    Dtype: floats, kept (computed in float32 at least); integers give float32.
    Source: y = m + ln(sum of e**(x - m)), m = max x.
    """

    name = "logsumexp"
    keeps = ("x", "y")
    samples = axis_samples()

    def forward(self, x: Tensor, *, axis: Shape, keepdims: bool) -> Any:
        if not counted(x, axis):
            shape = reduced(x.shape, axis, keepdims)
            nothing: Tensor = full(shape, -math.inf, dtype=x.dtype, device=x.device)
            return nothing
        w = wide(x)
        top = max(w, axis=axis, keepdims=True)
        top = where(isfinite(top), top, 0.0)
        total = log(sum(exp(w - top), axis=axis, keepdims=True)) + top
        return total.reshape(reduced(x.shape, axis, keepdims)).astype(x.dtype)

    def backward(
        self, grad: Tensor, x: Tensor, y: Tensor, *, needs: Needs, axis: Shape, keepdims: bool
    ) -> Grads:
        total = expand(where(equal(y, -math.inf), 0.0, y), x.shape, axis)
        return (expand(grad, x.shape, axis) * exp(x - total),)


class Any_(Reduction):
    """True where an element is not 0; False over nothing.

    Shapes: x -> y without `axis` (or 1 there with keepdims); None means all axes.
    Dtype: any -> bool.
    Source: array API standard 2023.12, `any`.
    """

    name = "any"
    samples = (
        given([[0, 1], [0, 0]], dtype="any", axis=1),
        given([[True, False], [False, False]], dtype="bool"),
        sample(In((2, 3, 2), "bool"), axis=(0, -1), keepdims=True),
        sample(In((0, 3), "bool"), axis=0),
        sample(In((), "bool")),
    )

    def result(self, dtype: DType) -> DType:
        return as_dtype("bool")

    def forward(self, x: Tensor, *, axis: Shape, keepdims: bool) -> Any:
        if not counted(x, axis):
            return full(reduced(x.shape, axis, keepdims), False, dtype="bool", device=x.device)
        return max(cast(x, dtype="bool"), axis=axis, keepdims=keepdims)


class All(Any_):
    """True where no element is 0; True over nothing.

    Shapes: x -> y without `axis` (or 1 there with keepdims); None means all axes.
    Dtype: any -> bool.
    Source: array API standard 2023.12, `all`.
    """

    name = "all"

    def forward(self, x: Tensor, *, axis: Shape, keepdims: bool) -> Any:
        if not counted(x, axis):
            return full(reduced(x.shape, axis, keepdims), True, dtype="bool", device=x.device)
        return min(cast(x, dtype="bool"), axis=axis, keepdims=keepdims)


class CountNonzero(Any_):
    """How many elements are not 0.

    Shapes: x -> y without `axis` (or 1 there with keepdims); None means all axes.
    Dtype: any -> int64.
    Source: array API standard 2024.12, `count_nonzero`.
    """

    name = "count_nonzero"

    def result(self, dtype: DType) -> DType:
        return as_dtype("int64")

    def forward(self, x: Tensor, *, axis: Shape, keepdims: bool) -> Any:
        return sum(cast(x, dtype="bool"), axis=axis, keepdims=keepdims)


@function
@takes_tensors
def vector_norm(x: Tensor, ord: float = 2, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Norm of the elements over axes, y = (sum of |x|**ord)**(1/ord); NaN if an element is.

    Its gradient at an element that is 0 is 0.

    Dtype: floats, kept (summed in float32 at least); integers give float32.
    Args: ord: any number; 0 counts what is not 0 (NaN too), inf and -inf give the largest and
        smallest |x|.
    Raises: ArgumentError unless ord is a number.
    Source: array API standard 2023.12, `linalg.vector_norm`.

    >>> from singa_core import tensor
    >>> vector_norm(tensor([3.0, -4.0])).item(), vector_norm(tensor([3.0, -4.0]), 1).item()
    (5.0, 7.0)
    """
    if ord != ord:
        raise ArgumentError("vector_norm", "a number as ord", ord)
    axes = check_axes("vector_norm", axis, x.ndim, x=x)
    x = x if x.dtype.is_floating else x.astype("float32")
    if ord == 2:
        y = norm(x, axis=axes, keepdims=keepdims)
    elif ord == math.inf:
        y = max(abs(x), axis=axes, keepdims=keepdims)
    elif ord == -math.inf:
        y = min(abs(x), axis=axes, keepdims=keepdims)
    elif ord == 1:
        y = sum(abs(x), axis=axes, keepdims=keepdims)
    elif ord == 0:
        y = sum(not_equal(x, 0).astype(x.dtype), axis=axes, keepdims=keepdims)
    else:
        y = power_norm(wide(x), float(ord), axes, keepdims).astype(x.dtype)
    result: Tensor = y
    return result


def power_norm(x: Tensor, ord: float, axis: Shape, keepdims: bool) -> Any:
    """(sum of |x|**ord)**(1/ord). Zeros stay out of the powers, whose slope there is infinite."""
    some = not_equal(x, 0.0)
    least = 0.0 if ord > 0 else math.inf  # 0**ord
    terms = where(some, where(some, abs(x), 1.0) ** ord, least)
    total = sum(terms, axis=axis, keepdims=keepdims)
    inside = bit_and(less(0.0, total), less(total, math.inf))
    ends = where(inside, 0.0, total) ** (1.0 / ord)
    return where(inside, where(inside, total, 1.0) ** (1.0 / ord), ends.detach())


mean, var, std, norm, logsumexp = Mean(), Var(), Std(), Norm(), LogSumExp()
any, all, count_nonzero = Any_(), All(), CountNonzero()
