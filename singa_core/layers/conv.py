"""Convolutions with a learnt weight, over one, two or three spatial axes."""

from __future__ import annotations

from typing import Any, ClassVar

from singa_core import ops
from singa_core.checks import check_flag, check_integer
from singa_core.errors import ArgumentError, ShapeError
from singa_core.initializer import InitializerLike, he_uniform
from singa_core.layer import Layer
from singa_core.ops.conv_geometry import Padding, PerAxis, per_axis
from singa_core.parameter import Parameter
from singa_core.tensor import Tensor


def check_spatial(where: str, x: Tensor, rank: int) -> None:
    """Raises: ShapeError unless x has `rank` spatial axes after samples and channels."""
    if x.ndim != rank + 2:
        axes = ("x (n, c, w)", "x (n, c, h, w)", "x (n, c, d, h, w)")[rank - 1]
        raise ShapeError(where, axes, x.shape, x=x)


class Convolving(Layer):
    """What all convolutions are made of; a subclass says how many spatial axes it has."""

    rank: ClassVar[int]

    def __init__(  # noqa: PLR0913  (all are named in calls)
        self,
        out_channels: int,
        kernel_size: PerAxis,
        *misplaced: Any,
        stride: PerAxis = 1,
        padding: Padding = 0,
        dilation: PerAxis = 1,
        groups: int = 1,
        bias: bool = True,
        in_channels: int | None = None,
        weight_init: InitializerLike = "he_uniform",
        bias_init: InitializerLike = "zeros",
    ) -> None:
        where = type(self).__name__
        if misplaced:
            raise ArgumentError(
                where, "the output's channels and the kernel's size: (out_channels, kernel_size)",
                f"({out_channels!r}, {kernel_size!r}, {', '.join(map(repr, misplaced))})",
                hint=f"{where}({kernel_size!r}, {misplaced[0]!r}, in_channels={out_channels!r})",
            )  # fmt: skip
        self.out_channels = check_integer(where, "out_channels", out_channels, 1)
        self.kernel_size = per_axis(where, "kernel_size", kernel_size, self.rank)
        self.stride = per_axis(where, "stride", stride, self.rank)
        self.padding = padding
        self.dilation = per_axis(where, "dilation", dilation, self.rank)
        self.groups = check_integer(where, "groups", groups, 1)
        if self.out_channels % self.groups:
            got = f"{out_channels} % {groups}"
            raise ArgumentError(where, "out_channels % groups == 0", got)
        if in_channels is not None:
            in_channels = self.check_channels(check_integer(where, "in_channels", in_channels, 1))
        self.weight = Parameter(self.weight_shape(in_channels), weight_init)
        wanted = check_flag(where, "bias", bias)
        self.bias = Parameter((self.out_channels,), bias_init) if wanted else None

    def check_channels(self, channels: int) -> int:
        """Raises: ArgumentError unless groups divide the channels of x."""
        if channels % self.groups:
            got = f"{channels} % {self.groups}"
            raise ArgumentError(type(self).__name__, "in_channels % groups == 0", got)
        return channels

    def weight_shape(self, channels: int | None) -> tuple[int | None, ...]:
        """(out, in / groups, *kernel)."""
        inner = None if channels is None else channels // self.groups
        return (self.out_channels, inner, *self.kernel_size)

    def in_channels(self) -> int | None:
        """Those of x, None before they are known."""
        inner = self.weight.shape[1]
        return None if inner is None else inner * self.groups

    def initialize(self, x: Tensor) -> None:
        where, wanted = type(self).__name__, self.in_channels()
        check_spatial(where, x, self.rank)
        if wanted not in (None, x.shape[1]):
            rule = f"x.shape[1] == in_channels == {wanted}"
            raise ShapeError(where, rule, x.shape[1], x=x)
        shape = self.weight_shape(self.check_channels(x.shape[1]))
        self.weight.set_shape([n for n in shape if n is not None])

    def forward(self, x: Tensor) -> Tensor:
        check_spatial(type(self).__name__, x, self.rank)
        y: Tensor = ops.conv(
            x, self.weight, self.bias, stride=self.stride, padding=self.padding,
            dilation=self.dilation, groups=self.groups,
        )  # fmt: skip
        return y

    def describe(self) -> str:
        parts = [str(self.out_channels), str(_short(self.kernel_size))]
        parts.append(f"in_channels={self.in_channels()}")
        for name, usual in (("stride", 1), ("padding", 0), ("dilation", 1), ("groups", 1)):
            value = _short(getattr(self, name))
            if value != usual:
                parts.append(f"{name}={value!r}")
        return ", ".join([*parts, f"bias={self.bias is not None}"])


def _short(value: Any) -> Any:
    """One number for several equal ones."""
    same = isinstance(value, tuple) and value and all(v == value[0] for v in value)
    return value[0] if same else value


class Conv1d(Convolving):
    """Convolution along one axis. Shapes: x (n, in, w) -> y (n, out, w'). Args: see `Conv2d`."""

    rank = 1


class Conv2d(Convolving):
    """Convolution over rows and columns: `ops.conv` with a learnt weight and bias.

    Shapes: x (n, in, h, w) -> y (n, out, h', w'), h' =
        floor((h + before + after - dilation * (kernel_size - 1) - 1) / stride) + 1;
        weight (out, in / groups, *kernel_size).

    Args:
        out_channels: those of y, >= 1.
        kernel_size: elements, >= 1; one number for both axes, or one for each.
        stride, dilation: elements, >= 1; one number, or one for each axis.
        padding: elements; one number, or for each axis one or a pair (before, after); "valid";
            "same" for h' = ceil(h / stride).
        groups: into how many groups channels are divided.
        bias: add a learnt number to each channel.
        in_channels: those of x; learnt from the first input if left out.
        weight_init, bias_init: initialisers, by name, callable or array.

    Raises: ShapeError if x does not fit; ArgumentError.

    >>> Conv2d(20, 5)(ops.zeros((2, 1, 28, 28))).shape
    (2, 20, 24, 24)
    """

    rank = 2


class Conv3d(Convolving):
    """Convolution over three axes. Shapes: x (n, in, d, h, w) -> y (n, out, d', h', w').

    Args: see `Conv2d`.
    """

    rank = 3


class ConvTranspose2d(Convolving):
    """Transposed convolution: every element of x spreads a kernel of weights, see `ops`.

    Shapes: x (n, in, h, w) -> y (n, out, h', w'), h' = (h - 1) * stride - before - after
        + dilation * (kernel_size - 1) + 1 + output_padding;
        weight (in, out / groups, *kernel_size).

    Args:
        out_channels, kernel_size, options: see `Conv2d`; padding takes away from y's ends, and
            "same" gives h' = h * stride.
        output_padding: elements more at the end, 0 <= output_padding < stride.

    Raises: ShapeError if x does not fit; ArgumentError.
    Source: arXiv:1603.07285, section 4.

    >>> ConvTranspose2d(3, 2, stride=2)(ops.zeros((1, 8, 5, 5))).shape
    (1, 3, 10, 10)
    """

    rank = 2

    def __init__(
        self,
        out_channels: int,
        kernel_size: PerAxis,
        *misplaced: Any,
        output_padding: PerAxis = 0,
        weight_init: InitializerLike | None = None,
        **options: Any,
    ) -> None:
        where = type(self).__name__
        self.output_padding = per_axis(where, "output_padding", output_padding, self.rank, 0)
        if weight_init is None:  # its second axis is that of y
            weight_init = he_uniform(mode="fan_out")
        super().__init__(out_channels, kernel_size, *misplaced, weight_init=weight_init, **options)

    def weight_shape(self, channels: int | None) -> tuple[int | None, ...]:
        """(in, out / groups, *kernel)."""
        return (channels, self.out_channels // self.groups, *self.kernel_size)

    def in_channels(self) -> int | None:
        channels: int | None = self.weight.shape[0]
        return channels

    def forward(self, x: Tensor) -> Tensor:
        check_spatial(type(self).__name__, x, self.rank)
        y: Tensor = ops.conv_transpose(
            x, self.weight, self.bias, stride=self.stride, padding=self.padding,
            output_padding=self.output_padding, dilation=self.dilation, groups=self.groups,
        )  # fmt: skip
        return y
