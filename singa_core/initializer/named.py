"""Initialisers by name, and whatever else a user may give where one is wanted."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from singa_core.checks import as_number, check_number
from singa_core.dtype import as_dtype, float64
from singa_core.errors import ArgumentError, ShapeError
from singa_core.host import host_data
from singa_core.initializer.draws import HostRandom
from singa_core.initializer.rules import (
    Constant,
    Eye,
    Host,
    Initializer,
    Layout,
    Mode,
    Normal,
    Orthogonal,
    Uniform,
    VarianceScaling,
)
from singa_core.spec import Shape
from singa_core.tensor import Tensor

InitializerLike = Initializer | str | float | npt.NDArray[Any] | Tensor | Callable[..., Any]


def constant(value: float) -> Initializer:
    """The same value everywhere."""
    return Constant(check_bound("constant", "value", value))


def zeros() -> Initializer:
    """0 everywhere."""
    return Constant(0.0)


def ones() -> Initializer:
    """1 everywhere."""
    return Constant(1.0)


def eye() -> Initializer:
    """Ones on the main diagonal of a matrix, zeros elsewhere."""
    return Eye()


def orthogonal(gain: float = 1.0) -> Initializer:
    """Q * gain, where Q is uniform over the matrices with orthonormal rows (or columns, if fewer).

    Shapes: 2 axes or more; those after the first count as one.
    It goes through LAPACK, whose last bits may differ between machines.

    Source: Saxe et al., arXiv:1312.6120; drawn as in Mezzadri, "How to generate random matrices
        from the classical compact groups", Notices of the AMS 54 (2007), "A correct and efficient
        algorithm".
    """
    return Orthogonal(check_number("orthogonal", "gain", gain))


def uniform(low: float = -0.05, high: float = 0.05) -> Initializer:
    """Evenly spread over low <= y < high."""
    low, high = check_number("uniform", "low", low), check_number("uniform", "high", high)
    return Uniform(low, high)


def normal(mean: float = 0.0, std: float = 0.05) -> Initializer:
    """Normal distribution."""
    mean = check_number("normal", "mean", mean)
    return Normal(mean, check_number("normal", "std", std, 0.0))


def truncated_normal(
    mean: float = 0.0, std: float = 0.05, *, a: float = -2.0, b: float = 2.0
) -> Initializer:
    """The part of a normal distribution in mean + a std <= y <= mean + b std.

    Its own deviation is smaller than `std`: 0.88 of it for the bounds -2 and 2.
    """
    where = "truncated_normal"
    mean, std = check_number(where, "mean", mean), check_number(where, "std", std, 0.0)
    return Normal(mean, std, (check_bound(where, "a", a), check_bound(where, "b", b)))


def check_bound(where: str, name: str, value: Any) -> float:
    """A number that may be infinite. Raises: ArgumentError for anything else."""
    number = as_number(value)
    if number is None or number != number:
        raise ArgumentError(where, f"a number as {name}", repr(value))
    return float(number)


def lecun_uniform(*, layout: Layout | None = None) -> Initializer:
    """Uniform with variance 1 / fan_in. Source: as `lecun_normal`."""
    return VarianceScaling(1.0, "fan_in", "uniform", layout)


def lecun_normal(*, layout: Layout | None = None) -> Initializer:
    """Normal with variance 1 / fan_in.

    Source: LeCun, Bottou, Orr & Mueller, "Efficient BackProp", 1998, section 4.6, eq. 16.
    """
    return VarianceScaling(1.0, "fan_in", "normal", layout)


def glorot_uniform(*, gain: float = 1.0, layout: Layout | None = None) -> Initializer:
    """Uniform with variance gain**2 * 2 / (fan_in + fan_out).

    Source: Glorot & Bengio, "Understanding the difficulty of training deep feedforward neural
        networks", 2010, eq. 16.
    """
    gain = check_number("glorot_uniform", "gain", gain, 0.0, ends="(]")
    return VarianceScaling(gain * gain, "fan_avg", "uniform", layout)


def glorot_normal(*, gain: float = 1.0, layout: Layout | None = None) -> Initializer:
    """Normal with variance gain**2 * 2 / (fan_in + fan_out).

    Source: Glorot & Bengio, 2010, eq. 12.
    """
    gain = check_number("glorot_normal", "gain", gain, 0.0, ends="(]")
    return VarianceScaling(gain * gain, "fan_avg", "normal", layout)


def he_uniform(
    *, negative_slope: float = 0.0, mode: Mode = "fan_in", layout: Layout | None = None
) -> Initializer:
    """Uniform with variance 2 / ((1 + negative_slope**2) fan). Source: as `he_normal`."""
    negative_slope = check_number("he_uniform", "negative_slope", negative_slope)
    return VarianceScaling(2.0 / (1.0 + negative_slope**2), mode, "uniform", layout)


def he_normal(
    *, negative_slope: float = 0.0, mode: Mode = "fan_in", layout: Layout | None = None
) -> Initializer:
    """Normal with variance 2 / ((1 + negative_slope**2) fan), for layers before a (leaky) ReLU.

    Source: He et al., "Delving deep into rectifiers", arXiv:1502.01852, eqs. 10 (fan_in),
        14 (fan_out) and 15 (negative_slope).
    """
    negative_slope = check_number("he_normal", "negative_slope", negative_slope)
    return VarianceScaling(2.0 / (1.0 + negative_slope**2), mode, "normal", layout)


NAMES: Final[dict[str, Callable[[], Initializer]]] = {
    "zeros": zeros,
    "ones": ones,
    "eye": eye,
    "identity": eye,
    "orthogonal": orthogonal,
    "uniform": uniform,
    "normal": normal,
    "truncated_normal": truncated_normal,
    "lecun_uniform": lecun_uniform,
    "lecun_normal": lecun_normal,
    "glorot_uniform": glorot_uniform,
    "glorot_normal": glorot_normal,
    "he_uniform": he_uniform,
    "he_normal": he_normal,
    "xavier_uniform": glorot_uniform,
    "xavier_normal": glorot_normal,
    "kaiming_uniform": he_uniform,
    "kaiming_normal": he_normal,
}

# -- from whatever was given ----------------------------------------------------------------------


def as_initializer(value: InitializerLike) -> Initializer:
    """The initialiser that `value` stands for.

    Args:
        value: an initialiser, or a name; a number, for all elements; an array or a tensor of the
            parameter's shape, copied now; a function f(shape) or f(shape, random) that returns one.

    Raises: ArgumentError for an unknown name or another kind of value.

    >>> as_initializer("he_normal")
    VarianceScaling(scale=2.0, mode='fan_in', distribution='normal', layout=None)
    """
    if isinstance(value, Initializer):
        return value
    if isinstance(value, str):
        return _by_name(value)
    if isinstance(value, Tensor | list | tuple) or getattr(value, "shape", ()) != ():
        return FromArray(_host_copy(value))
    number = as_number(value)
    if number is not None:
        return Constant(float(number))
    if any(value is named for named in NAMES.values()):  # he_normal, where he_normal() was meant
        return as_initializer(value())  # type: ignore[operator]  # no number or array is in NAMES
    if callable(value) and not isinstance(value, type):
        return FromFunction(value, _wants_random(value))
    rule = "a name, a number, an array, or a function f(shape) or f(shape, random)"
    raise ArgumentError("initializer", rule, repr(value))


def _by_name(name: str) -> Initializer:
    if name in NAMES:
        return NAMES[name]()
    import difflib  # noqa: PLC0415  (not loaded for names that are right)

    close = difflib.get_close_matches(name.lower().replace("-", "_"), NAMES, 1)
    hint = f'"{close[0]}"' if close else None
    raise ArgumentError("initializer", f"one of {', '.join(NAMES)}", repr(name), hint=hint)


@dataclass(frozen=True, eq=False)
class FromArray(Initializer):
    """An array as it is. Raises: ShapeError if the parameter has another shape."""

    value: Host

    def __call__(self, shape: Shape, random: HostRandom) -> Host:
        return _fitting(self.value, shape, "the array given")


@dataclass(frozen=True)
class FromFunction(Initializer):
    """What a function returns. Raises: ShapeError if that has another shape."""

    function: Callable[..., Any]
    wants_random: bool

    def __call__(self, shape: Shape, random: HostRandom) -> Host:
        value = self.function(shape, random) if self.wants_random else self.function(shape)
        name = getattr(self.function, "__name__", repr(self.function))
        return _fitting(_host_copy(value), shape, f"what {name} returned")


def _wants_random(function: Callable[..., Any]) -> bool:
    """True for f(shape, random), where random has no default (that of `numpy.ones` is a dtype)."""
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):  # built in, and not telling
        return False
    positional = [
        p for p in parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]  # fmt: skip
    return len(positional) > 1


def _host_copy(value: Any) -> Host:
    """A C-contiguous copy: float32 of narrower floats, float64 of everything else.

    Raises: DTypeError for what is not numbers.
    """
    array = value.numpy() if isinstance(value, Tensor) else host_data("initializer", value)
    dtype = as_dtype(array.dtype, "initializer")
    wide = dtype is float64 or not dtype.is_floating
    return np.array(array, np.float64 if wide else np.float32, order="C")


def _fitting(value: Host, shape: Shape, source: str) -> Host:
    if value.shape != shape:
        raise ShapeError("initializer", f"shape {shape} of {source}", value.shape)
    return value.copy()
