"""The mean under a sliding window, its gradient, and means of whole images or of their parts."""

from __future__ import annotations

import math
from typing import Any

from singa_core.errors import ShapeError
from singa_core.operation import Needs, Operation
from singa_core.ops.base import Grads, check_kind, takes_tensors, wide
from singa_core.ops.conv_geometry import Pairs, more_windows, per_axis, window_counts
from singa_core.ops.creation import iota, ones
from singa_core.ops.elementwise_pairs import floor_divide
from singa_core.ops.pooling import Pooling, check_spatial, put_back, seen_by_windows
from singa_core.ops.shape_composed import moveaxis
from singa_core.ops.shape_padding import pad
from singa_core.sample import sample
from singa_core.spec import Shape, Spec, check_shape
from singa_core.tensor import Tensor

__all__ = ["adaptive_avg_pool", "avg_pool", "avg_pool_grad", "global_avg_pool"]

_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 2, 6), (2, 2, 3), {"kernel": 2}),
    ((2, 3, 4, 6), (2, 3, 2, 3), {"kernel": (2, 2)}),
    ((1, 2, 5, 5), (1, 2, 3, 3), {"kernel": 3, "stride": 2, "padding": 1}),
    (
        (1, 2, 5, 6),
        (1, 2, 4, 3),
        {"kernel": (2, 3), "stride": (1, 2), "padding": (0, 1), "count_include_pad": False},
    ),
    ((1, 1, 6, 8), (1, 1, 3, 4), {"kernel": 3, "stride": 2, "ceil_mode": True}),
    ((1, 1, 5, 6), (1, 1, 3, 4), {"kernel": 2, "padding": 1, "ceil_mode": True}),
    ((1, 2, 3, 4, 2), (1, 2, 1, 2, 1), {"kernel": 2}),
    ((0, 2, 4, 4), (0, 2, 2, 2), {"kernel": 2}),
)


class MeanPooling(Pooling):
    """What avg_pool and its gradient have in common."""

    def settle_pool(
        self,
        size: Shape,
        *,
        kernel: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
    ) -> dict[str, Any]:
        """The attributes in the form kernels see."""
        kernel, stride, pairs, _ = self.placed(size, kernel, stride, padding)
        return {
            "kernel": kernel, "stride": stride, "padding": pairs, "ceil_mode": bool(ceil_mode),
            "count_include_pad": bool(count_include_pad),
        }  # fmt: skip

    def counts(
        self, size: Shape, kernel: Shape, stride: Shape, padding: Pairs, ceil_mode: bool
    ) -> Shape:
        """How many windows stand on each axis."""
        pairs = extended(size, kernel, stride, padding, ceil_mode)
        return window_counts(self.name, size, kernel, stride, pairs)


def extended(size: Shape, kernel: Shape, stride: Shape, padding: Pairs, ceil_mode: bool) -> Pairs:
    """The padding with what rounding up adds to it."""
    if not ceil_mode:
        return padding
    more = more_windows(size, kernel, stride, padding)
    return tuple((a, b + m) for (a, b), m in zip(padding, more, strict=True))


class AvgPool(MeanPooling):
    """Mean of what a sliding window sees, y[n, c, i] = mean over j of x[n, c, i * stride + j].

    Shapes: x (n, c, *size) -> y (n, c, *out), out =
        floor((size + before + after - kernel) / stride) + 1. With ceil_mode it is rounded up, but
        no window begins beyond x. Dtype: floats, kept (added up in float32 at least); integers
        give float32.

    Args:
        kernel: elements of a window; one number for all spatial axes, or one for each.
        stride: elements; that of None is the kernel's size.
        padding: zeros, as for conv, smaller than a window.
        ceil_mode: count windows that are not full as well.
        count_include_pad: whether zeros of the padding count as elements; those that only
            ceil_mode brings never do.

    Raises: ShapeError if no window fits; ArgumentError; DTypeError.
    Source: ONNX operator set 19, `AveragePool`.

    >>> from singa_core import tensor
    >>> avg_pool(tensor([[[1.0, 3.0, 2.0, 0.0]]]), kernel=2).tolist()
    [[[2.0, 1.0]]]
    """

    name = "avg_pool"
    promotes = True
    weak_float = True
    samples = tuple(sample(shape, **attrs) for shape, _, attrs in _CASES)

    def settle(self, x: Spec, **attrs: Any) -> dict[str, Any]:
        check_spatial(self.name, x, x.shape[2:])
        return self.settle_pool(x.shape[2:], **attrs)

    def infer(
        self,
        x: Spec,
        *,
        kernel: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Spec:
        check_kind(self.name, "float", x=x)
        counts = self.counts(x.shape[2:], kernel, stride, padding, ceil_mode)
        return x.with_shape((*x.shape[:2], *counts))

    def forward(
        self,
        x: Tensor,
        *,
        kernel: Shape,
        stride: Shape,
        padding: Pairs,
        ceil_mode: bool,
        count_include_pad: bool,
    ) -> Tensor:
        size, one = x.shape[2:], (1,) * len(kernel)
        pairs = extended(size, kernel, stride, padding, ceil_mode)
        seen = seen_by_windows(wide(x), 0.0, kernel, stride, pairs, one)
        total = seen.sum(axis=-1)
        plain = count_include_pad and pairs == padding
        count = (
            float(math.prod(kernel))
            if plain or not any(map(any, pairs))
            else _count(total, size, kernel, stride, padding, pairs, count_include_pad)
        )
        y: Tensor = (total / count).astype(x.dtype)
        return y

    def backward(self, grad: Tensor, *, needs: Needs, **attrs: Any) -> Grads:
        return (avg_pool_grad(grad, size=needs.specs[0].shape[2:], **attrs),)


def _count(
    like: Tensor,
    size: Shape,
    kernel: Shape,
    stride: Shape,
    padding: Pairs,
    pairs: Pairs,
    include: bool,
) -> Tensor:
    """How many elements each window averages: (1, 1, *out)."""
    one = ones((1, 1, *size), dtype=like.dtype, device=like.device)
    if include:
        one = pad(one, ((0, 0), (0, 0), *padding), 1.0)
        pairs = tuple((0, b - after) for (_, b), (_, after) in zip(pairs, padding, strict=True))
    return seen_by_windows(one, 0.0, kernel, stride, pairs, (1,) * len(kernel)).sum(axis=-1)


class AvgPoolGrad(MeanPooling):
    """Gradient of avg_pool: every grad goes back in equal shares to the elements of its window.

    Shapes: grad (n, c, *out) -> y (n, c, *size). Dtype: floats, kept.
    Args: size: the spatial sizes of avg_pool's x; the others are those of avg_pool.
    Raises: ShapeError unless grad is of the shape of avg_pool's result; ArgumentError; DTypeError.
    Source: derivative of `avg_pool`.
    """

    name = "avg_pool_grad"
    samples = tuple(sample(out, size=shape[2:], **attrs) for shape, out, attrs in _CASES)

    def settle(self, grad: Spec, *, size: Any, **attrs: Any) -> dict[str, Any]:
        size = check_shape(self.name, size)
        check_spatial(self.name, grad, size)
        return {"size": size, **self.settle_pool(size, **attrs)}

    def infer(
        self,
        grad: Spec,
        *,
        size: Any,
        kernel: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Spec:
        check_kind(self.name, "float", grad=grad)
        counts = self.counts(size, kernel, stride, padding, ceil_mode)
        if grad.shape[2:] != counts:
            rule = f"grad.shape[2:] == {counts}"
            raise ShapeError(self.name, rule, grad.shape[2:], grad=grad)
        return grad.with_shape((*grad.shape[:2], *size))

    def forward(
        self,
        grad: Tensor,
        *,
        size: Shape,
        kernel: Shape,
        stride: Shape,
        padding: Pairs,
        ceil_mode: bool,
        count_include_pad: bool,
    ) -> Tensor:
        g, pairs = wide(grad), extended(size, kernel, stride, padding, ceil_mode)
        share = g / _count(g, size, kernel, stride, padding, pairs, count_include_pad)
        back = put_back(lambda j: share, size, kernel, stride, pairs, (1,) * len(kernel))
        return back.astype(grad.dtype)

    def backward(self, g: Tensor, *, needs: Needs, size: Shape, **attrs: Any) -> Grads:
        return (avg_pool(g, **attrs),)


class AdaptiveAvgPool(Operation):
    """Means of `size` parts of each spatial axis; part i of m begins at floor(i * n / m).

    It ends before ceil((i + 1) * n / m), so parts may share elements.

    Shapes: x (n, c, *sizes) -> y (n, c, *size). Dtype: floats, kept; integers give float32.
    Args: size: how many parts; one number for all spatial axes, or one for each.
    Raises: ShapeError unless x is (n, c, *sizes) of sizes >= 1; ArgumentError.
    Source: PyTorch 2, `torch.nn.AdaptiveAvgPool2d`.

    >>> from singa_core import tensor
    >>> adaptive_avg_pool(tensor([[[1.0, 2.0, 6.0]]]), size=2).tolist()
    [[[1.5, 4.0]]]
    """

    name = "adaptive_avg_pool"
    promotes = True
    weak_float = True
    samples = (
        sample((2, 3, 7), size=(3,)),
        sample((2, 2, 4, 6), size=(2, 3)),
        sample((1, 2, 5, 3), size=(2, 4)),
        sample((2, 2, 3, 4), size=(1, 1)),
        sample((0, 2, 4, 4), size=(2, 2)),
    )

    def settle(self, x: Spec, *, size: Any) -> dict[str, Any]:
        check_spatial(self.name, x, x.shape[2:])
        return {"size": per_axis(self.name, "size", size, x.ndim - 2)}

    def infer(self, x: Spec, *, size: Any) -> Spec:
        check_kind(self.name, "float", x=x)
        return x.with_shape((*x.shape[:2], *size))

    def forward(self, x: Tensor, *, size: Shape) -> Tensor:
        sizes = x.shape[2:]
        if all(n % m == 0 for n, m in zip(sizes, size, strict=True)):
            kernel = tuple(n // m for n, m in zip(sizes, size, strict=True))
            y: Tensor = avg_pool(x, kernel=kernel)
            return y
        y = wide(x)
        for axis, m in enumerate(size, 2):
            y = moveaxis(moveaxis(y, axis, -1) @ _shares(y, y.shape[axis], m), -1, axis)
        return y.astype(x.dtype)


def _shares(like: Tensor, n: int, parts: int) -> Tensor:
    """(n, parts), each column the shares of one part's elements."""
    i = iota(parts, dtype="int64", device=like.device)
    j = iota(n, dtype="int64", device=like.device).reshape(n, 1)
    start = floor_divide(i * n, parts)
    end = floor_divide((i + 1) * n + (parts - 1), parts)
    inside = ((j >= start) & (j < end)).astype(like.dtype)
    shares: Tensor = inside / (end - start).astype(like.dtype)
    return shares


avg_pool, avg_pool_grad, adaptive_avg_pool = AvgPool(), AvgPoolGrad(), AdaptiveAvgPool()


@takes_tensors
def global_avg_pool(x: Tensor) -> Tensor:
    """The mean of each channel, x (n, c, *size) -> (n, c, 1 ...)."""
    check_spatial("global_avg_pool", x, x.shape[2:])
    y: Tensor = x.mean(axis=tuple(range(2, x.ndim)), keepdims=True)
    return y
