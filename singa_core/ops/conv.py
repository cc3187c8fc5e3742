"""Convolution over any number of spatial axes, and its two gradients.

The three are linear in each of their two operands, and each one's gradients are the other two: so
derivatives of any order are there.
"""

from __future__ import annotations

import math
from typing import Any

from singa_core.errors import ShapeError
from singa_core.operation import Needs, apply
from singa_core.ops.base import Grads, check_kind, wide
from singa_core.ops.conv_geometry import (
    Convolution,
    Padding,
    Pairs,
    PerAxis,
    per_axis,
    reach,
    window_counts,
)
from singa_core.ops.creation import zeros
from singa_core.ops.shape_composed import flip
from singa_core.ops.shape_padding import pad
from singa_core.ops.shape_regions import set_slice, windows
from singa_core.sample import sample
from singa_core.spec import Shape, Spec, check_shape
from singa_core.tensor import Tensor

__all__ = ["conv", "conv_grad_input", "conv_grad_weight"]


class Conv(Convolution):
    """Sums of products under a sliding window (cross-correlation); `bias` may be None.

    y[n, o, i] = bias[o] + sum over c, j of x[n, c, i * stride + j * dilation - before]
    * weight[o, c, j], x being 0 outside. With groups, o only sees the channels of its group.

    Shapes: x (n, c, *size), weight (o, c / groups, *kernel), bias (o) -> y (n, o, *out), out =
        floor((size + before + after - dilation * (kernel - 1) - 1) / stride) + 1, on 1, 2, 3 or
        more spatial axes. Dtype: floats; operands are promoted.

    Args:
        stride, dilation: elements, >= 1; one number for all spatial axes, or one for each.
        padding: elements; one number, or for each axis one or a pair (before, after); "valid" for
            none; "same" for out = ceil(size / stride), an odd element at the end.
        groups: into how many groups channels are divided.

    Raises: ShapeError if ranks, channels or sizes do not fit; ArgumentError; DTypeError.
    Source: ONNX operator set 11, `Conv`.

    >>> from singa_core import tensor
    >>> x, weight = tensor([[[1.0, 2.0, 3.0, 4.0]]]), tensor([[[1.0, 10.0]]])
    >>> conv(x, weight, tensor([0.5])).tolist()
    [[[21.5, 32.5, 43.5]]]
    """

    name = "conv"
    keeps = ("x", "weight")
    samples = (
        sample((2, 3, 7), (4, 3, 3), (4,), stride=2, padding=1),
        sample((2, 2, 5, 6), (3, 2, 3, 2), (3,)),
        sample((2, 2, 5, 6), (3, 2, 3, 2), stride=(1, 2), padding=((1, 0), (2, 1))),
        sample((1, 4, 6, 5), (6, 2, 2, 3), (6,), groups=2, padding="same", dilation=(2, 1)),
        sample((2, 3, 5, 5), (6, 1, 3, 3), (6,), groups=3, padding=1, stride=2),
        sample((2, 3, 4, 4), (5, 3, 1, 1), (5,)),
        sample((1, 2, 3, 4, 3), (2, 2, 2, 2, 3), (2,), padding=(0, 1, 1), stride=(1, 2, 1)),
        sample((0, 2, 4, 4), (3, 2, 3, 3), (3,)),
        sample((2, 0, 4), (3, 0, 2), (3,)),
    )

    def __call__(
        self,
        x: Any,
        weight: Any,
        bias: Any = None,
        *,
        stride: PerAxis = 1,
        padding: Padding = 0,
        dilation: PerAxis = 1,
        groups: int = 1,
    ) -> Any:
        attrs = self.pack(
            {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        )
        return apply(self, (x, weight) if bias is None else (x, weight, bias), attrs)

    def settle(self, x: Spec, weight: Spec, *bias: Spec, **attrs: Any) -> dict[str, Any]:
        self.check_ranks(x=x, weight=weight)
        return self.placed(x.shape[2:], weight.shape[2:], **attrs)

    def infer(
        self,
        x: Spec,
        weight: Spec,
        *bias: Spec,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Spec:
        named: dict[str, Any] = {"x": x, "weight": weight}
        if bias:
            named["bias"] = bias[0]
        check_kind(self.name, "float", **named)
        self.check_channels(x.shape[1], weight.shape, groups, **named)
        out = weight.shape[0]
        if bias and bias[0].shape != (out,):
            rule = "bias.shape == (weight.shape[0],) (out_channels)"
            raise ShapeError(self.name, rule, f"{bias[0].shape} != ({out},)", **named)
        spans = reach(weight.shape[2:], dilation)
        counts = window_counts(self.name, x.shape[2:], spans, stride, padding, **named)
        return x.with_shape((x.shape[0], out, *counts))

    def forward(
        self,
        x: Tensor,
        weight: Tensor,
        *bias: Tensor,
        stride: Shape,
        padding: Pairs,
        dilation: Shape,
        groups: int,
    ) -> Tensor:
        columns = _columns(wide(x), weight.shape[2:], stride, padding, dilation, groups)
        count, positions, _ = columns.shape
        out = weight.shape[0] // groups
        rows = wide(weight).reshape(count, out, math.prod(weight.shape[1:]))
        y = columns @ rows.mT  # (g, n * positions, terms)(g, terms, o)
        if bias:
            y = y + bias[0].reshape(count, 1, out)
        spans = reach(weight.shape[2:], dilation)
        sizes = window_counts(self.name, x.shape[2:], spans, stride, padding)
        y = y.reshape(count, x.shape[0], positions // max(x.shape[0], 1), out)
        y = y.permute(1, 0, 3, 2).reshape(x.shape[0], weight.shape[0], *sizes)
        return y.astype(x.dtype)

    def backward(
        self, grad: Tensor, x: Tensor, weight: Tensor, *, needs: Needs, **attrs: Any
    ) -> Grads:
        dx = dweight = None
        if needs[0]:
            dx = conv_grad_input(grad, weight, size=x.shape[2:], **attrs)
        if needs[1]:
            dweight = conv_grad_weight(x, grad, kernel=weight.shape[2:], **attrs)
        if len(needs) == 2:
            return dx, dweight
        axes = (0, *range(2, x.ndim))
        return dx, dweight, grad.sum(axis=axes) if needs[2] else None


def _columns(
    x: Tensor, kernel: Shape, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Tensor:
    """What each window sees: x (n, c, *size) -> (groups, n * positions, c / groups * kernel)."""
    if any(before or after for before, after in padding):
        x = pad(x, ((0, 0), (0, 0), *padding))
    rank = len(kernel)
    axes = tuple(range(2, 2 + rank))
    seen = windows(x, axes=axes, size=kernel, step=stride, dilation=dilation)
    n, c, *sizes = seen.shape[: 2 + rank]
    seen = seen.reshape(n, groups, c // groups, *sizes, *kernel)
    order = (1, 0, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank))
    terms = c // groups * math.prod(kernel)
    columns: Tensor = seen.permute(*order).reshape(groups, n * math.prod(sizes), terms)
    return columns


class ConvGradInput(Convolution):
    """Gradient of conv for its x: every grad goes back to the elements its window has seen.

    Shapes: grad (n, o, *out), weight (o, c / groups, *kernel) -> y (n, c, *size).
    Dtype: floats; operands are promoted.

    Args:
        size: the spatial sizes of x.
        stride, padding, dilation, groups: those of conv.

    Raises: ShapeError unless conv of an x of this size has the shape of grad; ArgumentError.
    Source: derivative of `conv`; V. Dumoulin, F. Visin, arXiv:1603.07285, section 4.
    """

    name = "conv_grad_input"
    keeps = ("grad", "weight")
    samples = (
        sample((2, 4, 4), (4, 3, 3), size=(7,), stride=2, padding=1),
        sample((2, 3, 3, 5), (3, 2, 3, 2), size=(5, 6)),
        sample((2, 3, 4, 4), (3, 2, 3, 2), size=(5, 6), stride=(1, 2), padding=((1, 0), (2, 1))),
        sample((1, 6, 6, 5), (6, 2, 2, 3), size=(6, 5), groups=2, padding="same", dilation=(2, 1)),
        sample((2, 6, 3, 3), (6, 1, 3, 3), size=(5, 5), groups=3, padding=1, stride=2),
        sample((2, 3, 3, 2), (3, 2, 1, 1), size=(5, 4), stride=2),
        sample((1, 2, 2, 3), (2, 1, 1, 2), size=(2, 3), padding=((0, 0), (3, 0)), stride=(1, 2)),
        sample((0, 3, 2, 2), (3, 2, 3, 3), size=(4, 4)),
    )

    def settle(self, grad: Spec, weight: Spec, *, size: Any, **attrs: Any) -> dict[str, Any]:
        self.check_ranks(grad=grad, weight=weight)
        size = check_shape(self.name, size)
        if len(size) != grad.ndim - 2:
            rule = f"a size for each of {grad.ndim - 2} spatial axes"
            raise ShapeError(self.name, rule, size, grad=grad, weight=weight)
        return {"size": size, **self.placed(size, weight.shape[2:], **attrs)}

    def infer(
        self,
        grad: Spec,
        weight: Spec,
        *,
        size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Spec:
        named: dict[str, Any] = {"grad": grad, "weight": weight}
        channels = weight.shape[1] * groups
        self.check_channels(channels, weight.shape, groups, **named)
        spans = reach(weight.shape[2:], dilation)
        counts = window_counts(self.name, size, spans, stride, padding, **named)
        if grad.shape[1:] != (weight.shape[0], *counts):
            rule = "grad.shape[1:] == (weight.shape[0], *out)"
            got = f"{grad.shape[1:]} and {(weight.shape[0], *counts)}"
            raise ShapeError(self.name, rule, got, **named)
        return grad.with_shape((grad.shape[0], channels, *size))

    # The weight turned around slides over the grads, which stand `stride` apart among zeros.
    def forward(
        self,
        grad: Tensor,
        weight: Tensor,
        *,
        size: Shape,
        stride: Shape,
        padding: Pairs,
        dilation: Shape,
        groups: int,
    ) -> Tensor:
        spans = reach(weight.shape[2:], dilation)
        shape, start, part = list(grad.shape[:2]), [0, 0], grad
        for axis, (n, span, s, (before, _)) in enumerate(
            zip(size, spans, stride, padding, strict=True), 2
        ):
            length, first = n + span - 1, span - 1 - before
            skip = max(-(first // s), 0) if first < 0 else 0  # grads whose window saw only padding
            first += skip * s
            count = min(grad.shape[axis] - skip, max((length - 1 - first) // s + 1, 0))
            keep = [slice(None)] * grad.ndim
            keep[axis] = slice(skip, skip + count)
            part = part[tuple(keep)]
            shape.append(length)
            start.append(first if count else 0)
        spread = zeros(shape, dtype=grad.dtype, device=grad.device)
        spread = set_slice(spread, part, start=tuple(start), step=(1, 1, *stride))
        y: Tensor = conv(spread, _turned(weight, groups), dilation=dilation, groups=groups)
        return y

    def backward(
        self, g: Tensor, grad: Tensor, weight: Tensor, *, needs: Needs, size: Shape, **attrs: Any
    ) -> Grads:
        dgrad = dweight = None
        if needs[0]:
            dgrad = conv(g, weight, **attrs)
        if needs[1]:
            dweight = conv_grad_weight(g, grad, kernel=weight.shape[2:], **attrs)
        return dgrad, dweight


def _turned(weight: Tensor, groups: int) -> Tensor:
    """(o, c / groups, *kernel) -> (c, o / groups, *kernel), spatial axes back to front."""
    out, channels, *kernel = weight.shape
    split = weight.reshape(groups, out // groups, channels, *kernel)
    order = (0, 2, 1, *range(3, split.ndim))
    turned = split.permute(*order).reshape(groups * channels, out // groups, *kernel)
    return flip(turned, tuple(range(2, turned.ndim)))


class ConvGradWeight(Convolution):
    """Gradient of conv for its weight: at every place of the kernel, grads times what it has seen.

    Shapes: x (n, c, *size), grad (n, o, *out) -> y (o, c / groups, *kernel).
    Dtype: floats; operands are promoted.

    Args:
        kernel: the spatial sizes of the weight.
        stride, padding, dilation, groups: those of conv.

    Raises: ShapeError unless conv of x with such a weight has the shape of grad; ArgumentError.
    Source: derivative of `conv`; V. Dumoulin, F. Visin, arXiv:1603.07285, section 4.
    """

    name = "conv_grad_weight"
    keeps = ("x", "grad")
    samples = (
        sample((2, 3, 7), (2, 4, 4), kernel=(3,), stride=2, padding=1),
        sample((2, 2, 5, 6), (2, 3, 3, 5), kernel=(3, 2)),
        sample((2, 2, 5, 6), (2, 3, 4, 4), kernel=(3, 2), stride=(1, 2), padding=((1, 0), (2, 1))),
        sample(
            (1, 4, 6, 5), (1, 6, 6, 5), kernel=(2, 3), groups=2, padding="same", dilation=(2, 1)
        ),
        sample((2, 3, 5, 5), (2, 6, 3, 3), kernel=(3, 3), groups=3, padding=1, stride=2),
        sample((2, 2, 5, 4), (2, 3, 3, 2), kernel=(1, 1), stride=2),
        sample((0, 2, 4, 4), (0, 3, 2, 2), kernel=(3, 3)),
    )

    def settle(self, x: Spec, grad: Spec, *, kernel: Any, **attrs: Any) -> dict[str, Any]:
        self.check_ranks(x=x, grad=grad)
        kernel = per_axis(self.name, "kernel", kernel, x.ndim - 2)
        return {"kernel": kernel, **self.placed(x.shape[2:], kernel, **attrs)}

    def infer(
        self,
        x: Spec,
        grad: Spec,
        *,
        kernel: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Spec:
        named: dict[str, Any] = {"x": x, "grad": grad}
        n, channels = x.shape[:2]
        for what, count in (("x", channels), ("grad", grad.shape[1])):
            if count % groups:
                rule = f"{what}.shape[1] % groups == 0"
                raise ShapeError(self.name, rule, f"{count} % {groups}", **named)
        counts = window_counts(
            self.name, x.shape[2:], reach(kernel, dilation), stride, padding, **named
        )
        if (grad.shape[0], *grad.shape[2:]) != (n, *counts):
            rule = "grad.shape == (x.shape[0], o, *out)"
            raise ShapeError(self.name, rule, f"{grad.shape} and out {counts}", **named)
        return x.with_shape((grad.shape[1], channels // groups, *kernel))

    def forward(
        self,
        x: Tensor,
        grad: Tensor,
        *,
        kernel: Shape,
        stride: Shape,
        padding: Pairs,
        dilation: Shape,
        groups: int,
    ) -> Tensor:
        columns = _columns(wide(x), kernel, stride, padding, dilation, groups)
        out = grad.shape[1] // groups
        n, positions = x.shape[0], math.prod(grad.shape[2:])
        g = wide(grad).reshape(n, groups, out, positions).permute(1, 2, 0, 3)
        y = g.reshape(groups, out, n * positions) @ columns  # (g, o, n * p)(g, n * p, terms)
        return y.reshape(grad.shape[1], x.shape[1] // groups, *kernel).astype(x.dtype)

    def backward(
        self, g: Tensor, x: Tensor, grad: Tensor, *, needs: Needs, kernel: Shape, **attrs: Any
    ) -> Grads:
        dx = dgrad = None
        if needs[0]:
            dx = conv_grad_input(grad, g, size=x.shape[2:], **attrs)
        if needs[1]:
            dgrad = conv(x, g, **attrs)
        return dx, dgrad


conv, conv_grad_input, conv_grad_weight = Conv(), ConvGradInput(), ConvGradWeight()
