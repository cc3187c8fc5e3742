"""Layers that bring activations to mean 0 and variance 1, by channel or by sample."""

from __future__ import annotations

from typing import ClassVar

from singa_core import ops
from singa_core.checks import as_integer, check_flag, check_integer, check_number
from singa_core.errors import ArgumentError, ShapeError
from singa_core.layer import Layer
from singa_core.mode import no_grad
from singa_core.parameter import Parameter, State
from singa_core.spec import MAX_AXES
from singa_core.tensor import Tensor


class BatchNorm(Layer):
    """What batch normalisation is; a subclass says what its input looks like."""

    axes: ClassVar[tuple[int, ...]]
    form: ClassVar[str]

    def __init__(
        self,
        num_features: int | None = None,
        *,
        eps: float = 1e-5,
        momentum: float = 0.1,
    ) -> None:
        where = type(self).__name__
        if num_features is not None:
            num_features = check_integer(where, "num_features", num_features, 1)
        self.eps = check_number(where, "eps", eps, 0.0)
        self.momentum = check_number(where, "momentum", momentum, 0.0, 1.0)
        self.weight = Parameter((num_features,), "ones")
        self.bias = Parameter((num_features,), "zeros")
        self.running_mean = State((num_features,), "zeros")
        self.running_var = State((num_features,), "ones")

    def initialize(self, x: Tensor) -> None:
        self.check(x)
        wanted = self.weight.shape[0]
        if wanted not in (None, x.shape[1]):
            rule = f"x.shape[1] == num_features == {wanted}"
            raise ShapeError(type(self).__name__, rule, x.shape[1], x=x)
        for cell in (self.weight, self.bias, self.running_mean, self.running_var):
            cell.set_shape(x.shape[1:2])

    def check(self, x: Tensor) -> None:
        """Raises: ShapeError unless x has the axes of this layer."""
        if x.ndim not in self.axes:
            raise ShapeError(type(self).__name__, self.form, x.shape, x=x)

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        if not self.training:
            moments = self.running_mean, self.running_var
            y: Tensor = ops.batch_norm_inference(x, self.weight, self.bias, *moments, eps=self.eps)
            return y
        count = x.size // max(x.shape[1], 1)
        if count < 2:
            rule = "two values for each channel to train on"
            raise ShapeError(
                type(self).__name__, rule, count, hint="a larger batch, or eval()", x=x
            )
        y, mean, variance = ops.batch_norm(x, self.weight, self.bias, eps=self.eps)
        with no_grad():
            self.remember(self.running_mean, mean)
            self.remember(self.running_var, variance * (count / (count - 1)))  # of the population
        return y

    def remember(self, cell: State, value: Tensor) -> None:
        """Move a running value towards that of this batch."""
        old: Tensor = cell * (1.0 - self.momentum)
        cell.assign(old + value * self.momentum)

    def describe(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps:g}, momentum={self.momentum:g}"


class BatchNorm1d(BatchNorm):
    """Batch normalisation of features or sequences. Shapes: x (n, c) or (n, c, w) -> same.

    See `BatchNorm2d`.
    """

    axes = (2, 3)
    form = "x (n, c) or (n, c, w)"


class BatchNorm2d(BatchNorm):
    """Each channel to mean 0 and variance 1 over the batch, then scaled and moved.

    In training the moments are those of the batch, and running ones are kept: running = (1 -
    momentum) * running + momentum * batch's, where the batch's variance is that which it suggests
    for all data (unbiased). In evaluation the running ones are used.

    Shapes: x (n, c, h, w) -> same; weight, bias, running_mean, running_var (c).

    Args:
        num_features: c; learnt from the first input if left out.
        eps: added to the variance, >= 0.
        momentum: weight of the new value, 0 <= momentum <= 1.

    Raises: ShapeError if x does not fit, or in training has one value for each channel only.
    Source: arXiv:1502.03167, algorithms 1 and 2.

    >>> layer = BatchNorm2d()
    >>> layer(ops.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    >>> [round(v, 3) for v in layer.running_mean.tolist()]
    [0.1, 0.1, 0.1]
    """

    axes = (4,)
    form = "x (n, c, h, w)"


class _LastAxes(Layer):
    """Over the last axes of x, whose sizes are learnt from the first input."""

    def __init__(self, axes: int = 1, *, eps: float) -> None:
        where = type(self).__name__
        number = as_integer(axes)
        if number is None or not 1 <= number <= MAX_AXES:
            rule = f"an integer 1 <= axes <= {MAX_AXES}"
            raise ArgumentError(where, rule, repr(axes), hint=self.hint())
        self.axes = number
        self.eps = check_number(where, "eps", eps, 0.0)
        self.weight = Parameter((None,) * self.axes, "ones")

    def hint(self) -> str:
        """What to do about a size in place of a number of axes."""
        return f"{type(self).__name__}() for the last axis: axes is how many, sizes are learnt"

    def last(self, x: Tensor) -> tuple[int, ...]:
        """The sizes of those axes."""
        if x.ndim < self.axes:
            rule = f"x.ndim >= axes == {self.axes}"
            raise ShapeError(type(self).__name__, rule, x.ndim, hint=self.hint(), x=x)
        shape: tuple[int, ...] = x.shape[x.ndim - self.axes :]
        return shape

    def initialize(self, x: Tensor) -> None:
        self.weight.set_shape(self.last(x))

    def describe(self) -> str:
        return f"{self.weight.shape}, eps={self.eps:g}"


class LayerNorm(_LastAxes):
    """Each sample to mean 0 and variance 1 over its last axes, then scaled and moved.

    Shapes: x (..., *d) -> same; weight, bias (*d).
    Args: axes: how many of the last axes are d, >= 1; eps: added to the variance, >= 0;
        bias: learn what is added.
    Raises: ShapeError if x does not end in d.
    Source: arXiv:1607.06450.
    """

    def __init__(self, axes: int = 1, *, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__(axes, eps=eps)
        wanted = check_flag("LayerNorm", "bias", bias)
        self.bias = Parameter((None,) * self.axes, "zeros") if wanted else None

    def initialize(self, x: Tensor) -> None:
        super().initialize(x)
        if self.bias is not None:
            self.bias.set_shape(self.last(x))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = ops.layer_norm(x, self.weight, self.bias, eps=self.eps)
        return y


class RMSNorm(_LastAxes):
    """Each sample to a mean square of 1 over its last axes, then scaled.

    Shapes: x (..., *d) -> same; weight (*d).
    Args: axes: how many of the last axes are d, >= 1; eps: added to the mean square, >= 0.
    Raises: ShapeError if x does not end in d.
    Source: arXiv:1910.07467.
    """

    def __init__(self, axes: int = 1, *, eps: float = 1e-6) -> None:
        super().__init__(axes, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = ops.rms_norm(x, self.weight, eps=self.eps)
        return y


class GroupNorm(Layer):
    """Each group of channels of each sample to mean 0 and variance 1, then scaled and moved.

    Shapes: x (n, c, *size) -> same; weight, bias (c).
    Args: groups: into how many groups the channels are divided, >= 1; eps: added to the variance,
        >= 0.
    Raises: ShapeError unless groups divide the channels.
    Source: arXiv:1803.08494.
    """

    def __init__(self, groups: int, *, eps: float = 1e-5) -> None:
        self.groups = check_integer("GroupNorm", "groups", groups, 1)
        self.eps = check_number("GroupNorm", "eps", eps, 0.0)
        self.weight = Parameter((None,), "ones")
        self.bias = Parameter((None,), "zeros")

    def initialize(self, x: Tensor) -> None:
        if x.ndim < 2 or x.shape[1] % self.groups:
            rule = f"x (n, c, *size) with c divisible by groups == {self.groups}"
            raise ShapeError("GroupNorm", rule, x.shape, x=x)
        self.weight.set_shape(x.shape[1:2])
        self.bias.set_shape(x.shape[1:2])

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = ops.group_norm(x, self.weight, self.bias, groups=self.groups, eps=self.eps)
        return y

    def describe(self) -> str:
        return f"{self.groups}, channels={self.weight.shape[0]}, eps={self.eps:g}"
