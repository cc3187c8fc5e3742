"""Transposed convolution: from few windows to many elements."""

from __future__ import annotations

from typing import Any

from singa_core.errors import ArgumentError, ShapeError
from singa_core.operation import apply
from singa_core.ops.base import check_kind
from singa_core.ops.conv import conv_grad_input
from singa_core.ops.conv_geometry import (
    Convolution,
    Padding,
    Pairs,
    PerAxis,
    per_axis,
    reach,
    settle_padding,
)
from singa_core.sample import sample
from singa_core.spec import Shape, Spec
from singa_core.tensor import Tensor

__all__ = ["conv_transpose"]


class ConvTranspose(Convolution):
    """Every x spreads a kernel of weights: the gradient of `conv` for its input, as a layer's map.

    Shapes: x (n, c, *size), weight (c, o / groups, *kernel), bias (o) -> y (n, o, *out), out =
        (size - 1) * stride - before - after + dilation * (kernel - 1) + 1 + output_padding.
        Dtype: floats; operands are promoted.

    Args:
        stride, dilation: elements, >= 1; one number for all spatial axes, or one for each.
        padding: elements that y loses at its ends, as for conv; "same" gives out = size * stride.
        output_padding: elements more at the end, 0 <= output_padding < stride.
        groups: into how many groups channels are divided.

    Raises: ShapeError if ranks, channels or sizes do not fit; ArgumentError; DTypeError.
    Source: ONNX operator set 11, `ConvTranspose`; arXiv:1603.07285, section 4.

    >>> from singa_core import tensor
    >>> conv_transpose(tensor([[[1.0, 2.0]]]), tensor([[[1.0, 10.0]]]), stride=2).tolist()
    [[[1.0, 10.0, 2.0, 20.0]]]
    """

    name = "conv_transpose"
    samples = (
        sample((2, 3, 4), (3, 4, 3), (4,), stride=2, padding=1, output_padding=1),
        sample((2, 3, 3, 2), (3, 2, 2, 3), (2,)),
        sample((1, 4, 3, 2), (4, 3, 2, 3), (6,), groups=2, dilation=(2, 1), padding=((1, 0), 1)),
        sample((1, 2, 3, 2), (2, 2, 3, 2), stride=2, padding="same"),
        sample((0, 2, 3), (2, 3, 3), (3,)),
    )

    def __call__(
        self,
        x: Any,
        weight: Any,
        bias: Any = None,
        *,
        stride: PerAxis = 1,
        padding: Padding = 0,
        output_padding: PerAxis = 0,
        dilation: PerAxis = 1,
        groups: int = 1,
    ) -> Any:
        attrs = self.pack(
            {
                "stride": stride, "padding": padding, "output_padding": output_padding,
                "dilation": dilation, "groups": groups,
            }
        )  # fmt: skip
        return apply(self, (x, weight) if bias is None else (x, weight, bias), attrs)

    def settle(
        self, x: Spec, weight: Spec, *bias: Spec, output_padding: Any, **attrs: Any
    ) -> dict[str, Any]:
        self.check_ranks(x=x, weight=weight)
        size, kernel = x.shape[2:], weight.shape[2:]
        same = attrs["padding"] == "same"
        more = per_axis(self.name, "output_padding", output_padding, len(size), 0)
        placed = self.placed(size, kernel, **{**attrs, "padding": 0 if same else attrs["padding"]})
        spans, stride = reach(kernel, placed["dilation"]), placed["stride"]
        if same:  # a window more than fits would be `span` elements, and `stride` is wanted
            short = tuple(s - span for s, span in zip(stride, spans, strict=True))
            pairs = [(max(-n, 0) // 2, max(-n, 0) - max(-n, 0) // 2) for n in short]
            placed["padding"] = settle_padding(self.name, pairs, size, spans, stride)
            more = tuple(m + max(n, 0) for m, n in zip(more, short, strict=True))
        if any(m >= s for m, s in zip(more, stride, strict=True)):
            raise ArgumentError(self.name, "output_padding < stride", f"{more} and {stride}")
        return {**placed, "output_padding": more}

    def infer(
        self,
        x: Spec,
        weight: Spec,
        *bias: Spec,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Spec:
        named: dict[str, Any] = {"x": x, "weight": weight}
        if bias:
            named["bias"] = bias[0]
        check_kind(self.name, "float", **named)
        if x.shape[1] != weight.shape[0]:
            rule = "x.shape[1] == weight.shape[0] (in_channels)"
            raise ShapeError(self.name, rule, f"{x.shape[1]} != {weight.shape[0]}", **named)
        out = weight.shape[1] * groups
        self.check_channels(out, weight.shape, groups, **named)
        if bias and bias[0].shape != (out,):
            rule = "bias.shape == (weight.shape[1] * groups,) (out_channels)"
            raise ShapeError(self.name, rule, f"{bias[0].shape} != ({out},)", **named)
        sizes = spread(x.shape[2:], weight.shape[2:], stride, padding, output_padding, dilation)
        if any(n < 1 for n in (*x.shape[2:], *sizes)):
            raise ShapeError(self.name, "spatial sizes >= 1 of x and y", sizes, **named)
        return x.with_shape((x.shape[0], out, *sizes))

    def forward(
        self,
        x: Tensor,
        weight: Tensor,
        *bias: Tensor,
        stride: Shape,
        padding: Pairs,
        output_padding: Shape,
        dilation: Shape,
        groups: int,
    ) -> Tensor:
        size = spread(x.shape[2:], weight.shape[2:], stride, padding, output_padding, dilation)
        y: Tensor = conv_grad_input(
            x, weight, size=size, stride=stride, padding=padding, dilation=dilation, groups=groups
        )
        if bias:
            y = y + bias[0].reshape(-1, *(1 for _ in size))
        return y


def spread(
    size: Shape, kernel: Shape, stride: Shape, padding: Pairs, more: Shape, dilation: Shape
) -> Shape:
    """Spatial sizes of y."""
    spans = reach(kernel, dilation)
    return tuple(
        (n - 1) * s - before - after + span + m
        for n, s, (before, after), span, m in zip(size, stride, padding, spans, more, strict=True)
    )


conv_transpose = ConvTranspose()
