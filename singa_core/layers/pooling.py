"""Pooling layers: an operation, with its windows fixed."""

from __future__ import annotations

from typing import ClassVar

from singa_core import ops
from singa_core.checks import check_flag
from singa_core.layer import Layer
from singa_core.layers.conv import check_spatial
from singa_core.ops.conv_geometry import Padding, PerAxis, per_axis
from singa_core.tensor import Tensor


class Pooling(Layer):
    """What windows are; a subclass says over how many spatial axes they slide."""

    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: PerAxis,
        *,
        stride: PerAxis | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
    ) -> None:
        where = type(self).__name__
        self.kernel_size = per_axis(where, "kernel_size", kernel_size, self.rank)
        self.stride = self.kernel_size
        if stride is not None:
            self.stride = per_axis(where, "stride", stride, self.rank)
        self.padding = padding
        self.ceil_mode = check_flag(type(self).__name__, "ceil_mode", ceil_mode)

    def describe(self) -> str:
        text = f"{self.kernel_size}, stride={self.stride}"
        text += f", padding={self.padding!r}" if self.padding != 0 else ""
        return text + (", ceil_mode=True" if self.ceil_mode else "")


class _MaxPool(Pooling):
    def __init__(
        self,
        kernel_size: PerAxis,
        *,
        stride: PerAxis | None = None,
        padding: Padding = 0,
        dilation: PerAxis = 1,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode)
        self.dilation = per_axis(type(self).__name__, "dilation", dilation, self.rank)

    def forward(self, x: Tensor) -> Tensor:
        check_spatial(type(self).__name__, x, self.rank)
        y: Tensor = ops.max_pool(
            x, kernel=self.kernel_size, stride=self.stride, padding=self.padding,
            dilation=self.dilation, ceil_mode=self.ceil_mode,
        )  # fmt: skip
        return y


class MaxPool1d(_MaxPool):
    """The largest element under a window. Shapes: x (n, c, w) -> y (n, c, w'). See `MaxPool2d`."""

    rank = 1


class MaxPool2d(_MaxPool):
    """The largest element under a window over rows and columns, see `ops.max_pool`.

    Shapes: x (n, c, h, w) -> y (n, c, h', w'), h' =
        floor((h + before + after - dilation * (kernel_size - 1) - 1) / stride) + 1, or rounded up.

    Args:
        kernel_size: elements; one number for both axes, or one for each.
        stride: elements; kernel_size if left out.
        padding: as for `Conv2d`, smaller than a window; it is never chosen.
        dilation: elements, >= 1.
        ceil_mode: count windows that are not full as well.

    Raises: ShapeError if no window fits; ArgumentError.

    >>> MaxPool2d(2)(ops.zeros((1, 3, 8, 6))).shape
    (1, 3, 4, 3)
    """

    rank = 2


class _AvgPool(Pooling):
    def __init__(
        self,
        kernel_size: PerAxis,
        *,
        stride: PerAxis | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode)
        where = type(self).__name__
        self.count_include_pad = check_flag(where, "count_include_pad", count_include_pad)

    def forward(self, x: Tensor) -> Tensor:
        check_spatial(type(self).__name__, x, self.rank)
        y: Tensor = ops.avg_pool(
            x, kernel=self.kernel_size, stride=self.stride, padding=self.padding,
            ceil_mode=self.ceil_mode, count_include_pad=self.count_include_pad,
        )  # fmt: skip
        return y


class AvgPool1d(_AvgPool):
    """The mean under a window. Shapes: x (n, c, w) -> y (n, c, w'). See `AvgPool2d`."""

    rank = 1


class AvgPool2d(_AvgPool):
    """The mean of the elements under a window over rows and columns, see `ops.avg_pool`.

    Shapes: x (n, c, h, w) -> y (n, c, h', w'), h' =
        floor((h + before + after - kernel_size) / stride) + 1, or rounded up.

    Args:
        kernel_size: elements; one number for both axes, or one for each.
        stride: elements; kernel_size if left out.
        padding: zeros, as for `Conv2d`, smaller than a window.
        ceil_mode: count windows that are not full as well.
        count_include_pad: whether zeros of the padding count as elements.

    Raises: ShapeError if no window fits; ArgumentError.
    """

    rank = 2


class GlobalAvgPool(Layer):
    """The mean of each channel. Shapes: x (n, c, *size) -> y (n, c), or (n, c, 1 ...) if kept.

    Args: keepdims: keep the spatial axes, with size 1.

    >>> GlobalAvgPool()(ops.ones((2, 3, 4, 4))).shape
    (2, 3)
    """

    def __init__(self, *, keepdims: bool = False) -> None:
        self.keepdims = check_flag("GlobalAvgPool", "keepdims", keepdims)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = ops.global_avg_pool(x)
        return y if self.keepdims else y.reshape(x.shape[:2])


class AdaptiveAvgPool2d(Layer):
    """Means of `size` parts of rows and columns. Shapes: x (n, c, h, w) -> y (n, c, *size).

    Args: size: how many parts; one number for both axes, or one for each.
    """

    rank: ClassVar[int] = 2

    def __init__(self, size: PerAxis) -> None:
        self.size = per_axis("AdaptiveAvgPool2d", "size", size, self.rank)

    def forward(self, x: Tensor) -> Tensor:
        check_spatial("AdaptiveAvgPool2d", x, self.rank)
        y: Tensor = ops.adaptive_avg_pool(x, size=self.size)
        return y

    def describe(self) -> str:
        return str(self.size)
