"""The rules: constants, distributions, and variances scaled to the shape of a weight."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from singa_core.checks import check_choice
from singa_core.errors import ArgumentError, ShapeError
from singa_core.initializer.draws import HostRandom, check_bounds
from singa_core.spec import Shape

Layout = Literal["linear", "conv"]
Mode = Literal["fan_in", "fan_out", "fan_avg"]
Distribution = Literal["uniform", "normal", "truncated_normal"]
Host = npt.NDArray[Any]


class Initializer(ABC):
    """Makes a parameter's first value."""

    @abstractmethod
    def __call__(self, shape: Shape, random: HostRandom) -> Host:
        """A new C-contiguous float32 or float64 array of this shape."""


@dataclass(frozen=True)
class Constant(Initializer):
    """The same value everywhere."""

    value: float

    def __call__(self, shape: Shape, random: HostRandom) -> Host:
        return np.full(shape, self.value, np.float64)


@dataclass(frozen=True)
class Eye(Initializer):
    """Ones on the main diagonal, zeros elsewhere. Raises: ShapeError for other than two axes."""

    def __call__(self, shape: Shape, random: HostRandom) -> Host:
        if len(shape) != 2:
            raise ShapeError("eye", "a shape of 2 axes", shape)
        return np.eye(*shape, dtype=np.float64)


@dataclass(frozen=True)
class Orthogonal(Initializer):
    """See `orthogonal`."""

    gain: float = 1.0

    def __call__(self, shape: Shape, random: HostRandom) -> Host:
        if len(shape) < 2:
            raise ShapeError("orthogonal", "a shape of 2 axes or more", shape)
        if 0 in shape:
            return np.zeros(shape, np.float32)
        rows, columns = shape[0], math.prod(shape[1:])
        draw = random.normal((max(rows, columns), min(rows, columns))).astype(np.float64)
        q, r = np.linalg.qr(draw)
        q *= self.gain * np.copysign(1.0, np.diagonal(r))  # without the signs Q is not uniform
        q = q if rows >= columns else q.T
        return np.ascontiguousarray(q, np.float32).reshape(shape)


@dataclass(frozen=True)
class Uniform(Initializer):
    """See `uniform`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not -math.inf < self.low <= self.high < math.inf:
            got = f"low = {self.low}, high = {self.high}"
            raise ArgumentError("uniform", "finite low <= high", got)

    def __call__(self, shape: Shape, random: HostRandom) -> Host:
        return random.uniform(shape, self.low, self.high)


@dataclass(frozen=True)
class Normal(Initializer):
    """See `normal` and `truncated_normal`; `bounds` counts in standard deviations."""

    mean: float
    std: float
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and 0.0 <= self.std < math.inf):
            got = f"mean = {self.mean}, std = {self.std}"
            raise ArgumentError("normal", "a finite mean and 0 <= std < inf", got)
        if self.bounds is not None:
            check_bounds(*self.bounds)

    def __call__(self, shape: Shape, random: HostRandom) -> Host:
        bounds = self.bounds
        z = random.normal(shape) if bounds is None else random.truncated_normal(shape, *bounds)
        z *= np.float32(self.std)
        z += np.float32(self.mean)
        return z


_MODES: Final = ("fan_in", "fan_out", "fan_avg")
_DISTRIBUTIONS: Final = ("uniform", "normal", "truncated_normal")
_LAYOUTS: Final = (None, "linear", "conv")
# standard deviation of a standard normal number cut at -2 and 2
_CUT_STD: Final = 0.8796256610342398


@dataclass(frozen=True)
class VarianceScaling(Initializer):
    """Mean 0 and variance scale / n, where n is fan_in, fan_out or their mean.

    Args:
        scale: > 0.
        layout: which axes of the weight are its inputs, see `fans`.
    """

    scale: float
    mode: Mode = "fan_in"
    distribution: Distribution = "normal"
    layout: Layout | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.scale < math.inf:
            raise ArgumentError("variance scaling", "0 < scale < inf", self.scale)
        check_choice("variance scaling", "mode", self.mode, _MODES)
        check_choice("variance scaling", "distribution", self.distribution, _DISTRIBUTIONS)
        check_choice("variance scaling", "layout", self.layout, _LAYOUTS)

    def __call__(self, shape: Shape, random: HostRandom) -> Host:
        fan_in, fan_out = fans(shape, self.layout)
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        std = math.sqrt(self.scale / max(n, 1))  # an axis of size 0 leaves nothing to scale
        if self.distribution == "uniform":
            limit = math.sqrt(3.0) * std
            return random.uniform(shape, -limit, limit)
        if self.distribution == "normal":
            return Normal(0.0, std)(shape, random)
        return Normal(0.0, std / _CUT_STD, (-2.0, 2.0))(shape, random)


def fans(shape: Shape, layout: Layout | None = None) -> tuple[int, int]:
    """How many inputs each output of a weight sees, and how many outputs each input feeds.

    Shapes: linear (..., in, out), leading axes being a stack of matrices; conv (out, in / groups,
        *kernel); a vector of n has fans (n, n).

    Args:
        shape: that of the weight.
        layout: by default linear for 2 axes and conv for more.

    >>> fans((784, 512)), fans((32, 3, 5, 5))
    ((784, 512), (75, 800))
    """
    check_choice("fans", "layout", layout, _LAYOUTS)
    if len(shape) < 2:
        n = math.prod(shape)
        return n, n
    if layout == "conv" or (layout is None and len(shape) > 2):
        window = math.prod(shape[2:])
        return shape[1] * window, shape[0] * window
    return shape[-2], shape[-1]
