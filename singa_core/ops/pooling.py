"""The largest element under a sliding window, and its gradient.

Means are in `pooling_mean`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from singa_core.errors import ArgumentError, ShapeError
from singa_core.operation import Needs, Operation
from singa_core.ops.base import Grads, check_kind, takes_tensors, wide
from singa_core.ops.conv_geometry import (
    Pairs,
    more_windows,
    per_axis,
    reach,
    settle_padding,
    window_counts,
)
from singa_core.ops.creation import zeros
from singa_core.ops.elementwise_pairs import equal, where
from singa_core.ops.reduction import argmax
from singa_core.ops.shape_padding import pad
from singa_core.ops.shape_regions import set_slice, slice, windows  # noqa: A004
from singa_core.sample import In, Sample, sample
from singa_core.spec import Shape, Spec
from singa_core.tensor import Tensor

__all__ = ["global_max_pool", "max_pool", "max_pool_grad"]


class Pooling(Operation):
    """What they have in common: x (n, c, *size), and how windows are placed."""

    def placed(
        self, size: Shape, kernel: Any, stride: Any, padding: Any, dilation: Any = 1
    ) -> tuple[Shape, Shape, Pairs, Shape]:
        """Settled kernel, stride, padding and dilation; a stride of None is the kernel's size."""
        rank = len(size)
        kernel = per_axis(self.name, "kernel", kernel, rank)
        stride = kernel if stride is None else per_axis(self.name, "stride", stride, rank)
        dilation = per_axis(self.name, "dilation", dilation, rank)
        spans = reach(kernel, dilation)
        pairs = settle_padding(self.name, padding, size, spans, stride)
        if any(max(pair) >= span for pair, span in zip(pairs, spans, strict=True)):
            rule = "padding smaller than the window, which would see nothing else"
            raise ArgumentError(self.name, rule, f"{pairs} and windows of {spans}")
        return kernel, stride, pairs, dilation


def check_spatial(where: str, x: Spec | Tensor, size: Shape) -> None:
    """Raises: ShapeError unless x is (n, c, *size) with at least one spatial axis."""
    if x.ndim < 3 or 0 in size:
        rule = "x (n, c, *size) with at least 3 axes and spatial sizes >= 1"
        raise ShapeError(where, rule, (*x.shape[:2], *size), x=x)


_X: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 2, 6), {"kernel": 2}),
    ((2, 3, 4, 6), {"kernel": (2, 2)}),
    ((1, 2, 5, 5), {"kernel": 3, "stride": 2, "padding": 1}),
    ((1, 2, 5, 6), {"kernel": (2, 3), "stride": (1, 2), "padding": ((0, 0), (1, 1))}),
    ((1, 1, 7, 5), {"kernel": 2, "stride": 2, "dilation": (2, 1), "ceil_mode": True}),
    ((1, 2, 3, 4, 2), {"kernel": 2}),
    ((0, 2, 4, 4), {"kernel": 2}),
)


def _grad_sample(x: list[Any], y: list[Any], shape: Shape, **attrs: Any) -> Sample:
    """Rows of one plane, and the largest in each of its windows."""
    rows = len(shape) == 4
    given = In((1, 1, *((len(x), len(x[0])) if rows else (len(x),))), values=[[x]], grad=False)
    return sample(In(shape), given, In(shape, values=[[y]], grad=False), **attrs)


class MaxPooling(Pooling):
    """What max_pool and its gradient have in common."""

    def settle_pool(
        self, x: Spec, *, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> dict[str, Any]:
        """The attributes in the form kernels see."""
        size = x.shape[2:]
        check_spatial(self.name, x, size)
        kernel, stride, pairs, dilation = self.placed(size, kernel, stride, padding, dilation)
        if ceil_mode:  # the same as a little more padding
            more = more_windows(size, reach(kernel, dilation), stride, pairs)
            pairs = tuple((a, b + m) for (a, b), m in zip(pairs, more, strict=True))
        return {
            "kernel": kernel, "stride": stride, "padding": pairs, "dilation": dilation,
            "ceil_mode": False,
        }  # fmt: skip

    def pooled(self, x: Spec, kernel: Shape, stride: Any, padding: Any, dilation: Any) -> Spec:
        """The spec of max_pool's result."""
        spans = reach(kernel, dilation)
        counts = window_counts(self.name, x.shape[2:], spans, stride, padding, x=x)
        return x.with_shape((*x.shape[:2], *counts))


class MaxPool(MaxPooling):
    """Largest element under a sliding window, y[n, c, i] = max over j of x[n, c, i * stride + j].

    With dilation and padding it is x[n, c, i * stride + j * dilation - before]; padding is never
    chosen, NaN always is. The gradient goes to the first of the largest elements, in C order.

    Shapes: x (n, c, *size) -> y (n, c, *out), out =
        floor((size + before + after - dilation * (kernel - 1) - 1) / stride) + 1. With ceil_mode
        it is rounded up, but no window begins beyond x. Dtype: numbers, kept.

    Args:
        kernel: elements of a window; one number for all spatial axes, or one for each.
        stride: elements; that of None is the kernel's size.
        padding: as for conv, smaller than a window.
        dilation: elements, >= 1.
        ceil_mode: count windows that are not full as well.

    Raises: ShapeError if no window fits; ArgumentError; DTypeError.
    Source: ONNX operator set 12, `MaxPool`.

    >>> from singa_core import tensor
    >>> max_pool(tensor([[[1.0, 3.0, 2.0, 0.0]]]), kernel=2).tolist()
    [[[3.0, 2.0]]]
    """

    name = "max_pool"
    keeps = ("x", "y")
    samples = tuple(sample(In(shape, distinct=True), **attrs) for shape, attrs in _X)

    def settle(self, x: Spec, **attrs: Any) -> dict[str, Any]:
        return self.settle_pool(x, **attrs)

    def infer(
        self,
        x: Spec,
        *,
        kernel: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Spec:
        check_kind(self.name, "number", x=x)
        return self.pooled(x, kernel, stride, padding, dilation)

    def forward(
        self,
        x: Tensor,
        *,
        kernel: Shape,
        stride: Shape,
        padding: Pairs,
        dilation: Shape,
        ceil_mode: bool,
    ) -> Tensor:
        seen = seen_by_windows(x, lowest(x), kernel, stride, padding, dilation)
        return seen.max(axis=-1) if seen.size else seen.reshape(seen.shape[:-1])

    def backward(self, grad: Tensor, x: Tensor, y: Tensor, *, needs: Needs, **attrs: Any) -> Grads:
        return (max_pool_grad(grad, x, y, **attrs),)


def lowest(x: Tensor) -> float:
    """The least number of a type."""
    kind, bits = x.dtype.kind, x.dtype.bits
    return -math.inf if kind == "float" else 0 if kind == "uint" else -(1 << (bits - 1))


def seen_by_windows(
    x: Tensor, outside: float, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Tensor:
    """What each window sees: x (n, c, *size) -> (n, c, *out, product of kernel)."""
    if any(before or after for before, after in padding):
        x = pad(x, ((0, 0), (0, 0), *padding), outside)
    axes = tuple(range(2, x.ndim))
    seen = windows(x, axes=axes, size=kernel, step=stride, dilation=dilation)
    y: Tensor = seen.reshape(*seen.shape[: x.ndim], math.prod(kernel))
    return y


def put_back(
    part: Callable[[int], Tensor],
    size: Shape,
    kernel: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
) -> Tensor:
    """The sum of what goes back to x: `part(j)` (n, c, *out) to the j-th place of every window."""
    first = part(0)
    padded = [n + a + b for n, (a, b) in zip(size, padding, strict=True)]
    shape = (*first.shape[:2], *padded)
    nothing = total = zeros(shape, dtype=first.dtype, device=first.device)
    for j, place in enumerate(itertools.product(*map(range, kernel))):
        start = tuple(i * d for i, d in zip(place, dilation, strict=True))
        term = part(j) if j else first
        total = total + set_slice(nothing, term, start=(0, 0, *start), step=(1, 1, *stride))
    start = (0, 0, *(before for before, _ in padding))
    y: Tensor = slice(total, start=start, size=(*first.shape[:2], *size))
    return y


class MaxPoolGrad(MaxPooling):
    """Gradient of max_pool: every grad goes to the first of the largest elements of its window.

    Of a window with NaN, it goes to one of its elements.

    Shapes: grad (n, c, *out), x (n, c, *size), y (n, c, *out), of max_pool -> (n, c, *size).
    Dtype: floats; operands are promoted. Args: those of max_pool.
    Raises: ShapeError unless grad and y are of the shape of max_pool's result; ArgumentError.
    Source: derivative of `max_pool`.
    """

    name = "max_pool_grad"
    promotes = True
    samples = (
        _grad_sample([1, 3, 0, -1, 2], [3, 0], (1, 1, 2), kernel=2),
        _grad_sample([1, 3, 0, 4, 2], [3, 4, 4], (1, 1, 3), kernel=3, stride=2, padding=1),
        _grad_sample([[1, 3], [4, 2], [0, 5]], [[4], [5]], (1, 1, 2, 1), kernel=2, stride=1),
        _grad_sample([[1, 3, 3], [3, 2, 0]], [[3, 3]], (1, 1, 1, 2), kernel=2, ceil_mode=True),
        sample((0, 2, 2, 2), (0, 2, 4, 4), (0, 2, 2, 2), kernel=2),
    )

    def settle(self, grad: Spec, x: Spec, y: Spec, **attrs: Any) -> dict[str, Any]:
        return self.settle_pool(x, **attrs)

    def infer(
        self,
        grad: Spec,
        x: Spec,
        y: Spec,
        *,
        kernel: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Spec:
        named: dict[str, Any] = {"grad": grad, "x": x, "y": y}
        check_kind(self.name, "float", **named)
        out = self.pooled(x, kernel, stride, padding, dilation)
        if grad is not out or y is not out:
            rule = f"grad and y of shape {out.shape}"
            raise ShapeError(self.name, rule, f"{grad.shape} and {y.shape}", **named)
        return x

    def forward(
        self,
        grad: Tensor,
        x: Tensor,
        y: Tensor,
        *,
        kernel: Shape,
        stride: Shape,
        padding: Pairs,
        dilation: Shape,
        ceil_mode: bool,
    ) -> Tensor:
        if not grad.size:
            return zeros(x.shape, dtype=x.dtype, device=x.device)
        first = argmax(seen_by_windows(x, lowest(x), kernel, stride, padding, dilation), axis=-1)
        g = wide(grad)

        def part(j: int) -> Tensor:
            share: Tensor = where(equal(first, j), g, 0.0)
            return share

        back = put_back(part, x.shape[2:], kernel, stride, padding, dilation)
        return back.astype(x.dtype)


max_pool, max_pool_grad = MaxPool(), MaxPoolGrad()


@takes_tensors
def global_max_pool(x: Tensor) -> Tensor:
    """The largest element of each channel, x (n, c, *size) -> (n, c, 1 ...)."""
    check_spatial("global_max_pool", x, x.shape[2:])
    y: Tensor = x.max(axis=tuple(range(2, x.ndim)), keepdims=True)
    return y
