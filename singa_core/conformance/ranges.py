"""Scalar functions over the whole range of every float type, against a wider type.

The grid has both zeros, subnormal numbers, every power of two, numbers spread evenly in exponent
and near the places where formulas change, the largest number, infinity and NaN, each with both
signs. Results are measured in units of the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from singa_core.conformance.edges import may_flush
from singa_core.conformance.oracles.common import HostArray
from singa_core.conformance.tolerances import WIDENED, Mismatch, class_of
from singa_core.dtype import as_dtype

WIDE: Any = np.longdouble
DTYPES: Final = ("float16", "bfloat16", "float32", "float64")
# digits of the significand; exponents of the smallest subnormal, the smallest normal, the largest
FORMAT: Final = {
    "float16": (11, -24, -14, 15),
    "bfloat16": (8, -133, -126, 127),
    "float32": (24, -149, -126, 127),
    "float64": (53, -1074, -1022, 1023),
}
# Sixteen bits are computed in 32 and rounded once.
UNITS: Final = {"float16": 0.51, "bfloat16": 0.51, "float32": 4.0, "float64": 4.0}


def sigmoid(x: HostArray) -> Any:
    """1 / (1 + exp(-x))."""
    e = np.exp(-abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def softplus(x: HostArray) -> Any:
    """log(1 + exp(x))."""
    return np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))


def elu(x: HostArray, alpha: Any = 1) -> Any:
    """x, or exp(x) - 1 below 0."""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def erfc(x: HostArray) -> Any:
    """In float64, which is the best that Python has."""
    return np.array([math.erfc(v) for v in x.astype(np.float64)], WIDE)


def erf(x: HostArray) -> Any:
    """In float64."""
    return np.array([math.erf(v) for v in x.astype(np.float64)], WIDE)


def soft_shrink(x: HostArray) -> Any:
    """x, nearer to 0 by a half."""
    return np.where(abs(x) <= 0.5, 0, x - np.sign(x) / 2)


ALPHA, SCALE = WIDE(1.6732632423543772), WIDE(1.0507009873554805)
UNARY: Final[dict[str, Callable[..., Any]]] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor, "round": np.rint,
    "ceil": np.ceil, "trunc": np.trunc, "square": np.square, "copy": np.positive,
    "exp": np.exp, "expm1": np.expm1, "exp2": np.exp2, "log": np.log, "log1p": np.log1p,
    "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt, "cbrt": np.cbrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": erf,
    "relu": lambda x: np.maximum(x, 0), "sigmoid": sigmoid, "softplus": softplus,
    "log_sigmoid": lambda x: -softplus(-x), "gelu": lambda x: x / 2 * erfc(-x / np.sqrt(WIDE(2))),
    "silu": lambda x: x * sigmoid(x), "mish": lambda x: x * np.tanh(softplus(x)),
    "leaky_relu": lambda x: np.where(x > 0, x, x / 100), "elu": elu, "celu": elu,
    "selu": lambda x: SCALE * elu(x, ALPHA),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * (np.clip(x + 3, 0, 6) / 6),
    "hard_tanh": lambda x: np.clip(x, -1, 1), "relu6": lambda x: np.clip(x, 0, 6),
    "softsign": lambda x: x / (1 + abs(x)), "tanh_shrink": lambda x: x - np.tanh(x),
    "hard_shrink": lambda x: np.where(abs(x) <= 0.5, 0, x), "soft_shrink": soft_shrink,
}  # fmt: skip
PAIRS: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "maximum": np.maximum,
    "minimum": np.minimum, "at_least": np.maximum, "at_most": np.minimum, "atan2": np.arctan2,
    "hypot": np.hypot, "logaddexp": np.logaddexp,
}  # fmt: skip


# What cancels: the error is in units of this, not of the result.
CANCELS: Final[dict[str, Callable[..., Any]]] = {
    "gelu": lambda x: x / 2,
    "tanh_shrink": lambda x: x,
    "soft_shrink": lambda x: x,
    "logaddexp": lambda a, b: np.maximum(abs(a), abs(b)),
}
# exp(-x) overflows where the result is subnormal, and that becomes 0; silu and mish multiply by x
FLUSHED: Final[dict[str, Callable[..., Any]]] = {
    "sigmoid": lambda x: 1,
    "silu": np.abs,
    "mish": np.abs,
}
# a zero of either sign will do, as IEEE 754 says of maximum and minimum
ANY_ZERO: Final = {
    "maximum", "minimum", "at_least", "at_most", "relu", "relu6", "hard_tanh", "hard_shrink",
    "soft_shrink", "log_sigmoid", "hard_swish",
}  # fmt: skip


def largest(name: str) -> float:
    """The largest finite number of a type."""
    digits, _, _, high = FORMAT[name]
    return (2.0 - 2.0 ** (1 - digits)) * 2.0**high


def grid(name: str) -> HostArray:
    """Numbers of one dtype, see the module's text."""
    digits, low, _, high = FORMAT[name]
    rng = np.random.default_rng(0)
    eps = 2.0 ** (1 - digits)
    middles = (1.0, 2.0, 0.5, 3.0, 6.0, 20.0, 0.46875, 1e4, 2.0**28, math.pi / 2, math.pi)
    parts: list[Any] = [
        [0.0, math.inf, math.nan, largest(name), 709.5, 710.2, 745.0, 1000.0, 0.001],
        [2.0**k for k in range(low, high + 1)],
        (1 + rng.random(400)) * 2.0 ** np.linspace(low, high - 0.01, 400),
        np.linspace(0.01, 4, 300),
        np.linspace(4, 120, 200),
        [middle * (1 + k * eps) for middle in middles for k in range(-3, 4)],
    ]
    with np.errstate(all="ignore"):
        half: HostArray = np.concatenate(parts)
        return np.concatenate([half, -half]).astype(as_dtype(name).numpy)


def pairs_of(name: str) -> tuple[HostArray, HostArray]:
    """Every special value beside every other, and random ones of the grid beside each other."""
    some = [0.0, 1.0, 0.5, 2.0, 3.0, 1e-3, 7.0, 100.0, math.inf, math.nan, 1e4, largest(name)]
    some += [2.0 ** FORMAT[name][1], 2.0 ** FORMAT[name][2], 2.0 ** (1 - FORMAT[name][0])]
    special = np.array([*some, *(-v for v in some)])
    rng, x = np.random.default_rng(1), grid(name).astype(np.float64)
    a = [np.repeat(special, special.size), rng.choice(x, 2000), rng.normal(size=1000)]
    b = [np.tile(special, special.size), rng.choice(x, 2000), rng.normal(size=1000)]
    with np.errstate(all="ignore"):
        first, second = (np.concatenate(v).astype(as_dtype(name).numpy) for v in (a, b))
    return first, second


def units_off(op: str, name: str, got: HostArray, exact: HostArray, *xs: HostArray) -> HostArray:
    """How far each result is from the exact one, in units of the last place; inf for nonsense."""
    digits, low, tiny, high = FORMAT[name]
    got = got.astype(WIDE)
    beyond = abs(exact) >= largest(name) + WIDE(2) ** (high - digits)
    exact = np.where(beyond, np.sign(exact) * WIDE(np.inf), exact)
    size = np.maximum(abs(exact), abs(CANCELS[op](*xs))) if op in CANCELS else abs(exact)
    exponent = np.floor(np.log2(np.where((size > 0) & np.isfinite(size), size, 1)))
    unit = WIDE(2) ** np.maximum(exponent - (digits - 1), low)
    off = np.where(got == exact, 0, abs(got - exact) / unit)
    off = np.where(np.isnan(got) & np.isnan(exact), 0, off)
    off = np.where(np.isnan(off), np.inf, off)
    if op in FLUSHED:
        off = np.where(abs(got - exact) <= WIDE(2) ** tiny * FLUSHED[op](*xs), 0, off)
    if op not in ANY_ZERO:
        both_zero = (got == 0) & (exact == 0)
        off = np.where(both_zero & (np.signbit(got) != np.signbit(exact)), np.inf, off)
    return np.asarray(off)


def worst(
    op: str,
    name: str,
    off: HostArray,
    allowed: float,
    got: HostArray,
    exact: HostArray,
    *xs: HostArray,
) -> list[str]:
    """A line about the worst result, or nothing if all are near enough."""
    i = int(np.argmax(off))
    if off[i] <= allowed:
        return []
    args = ", ".join(repr(float(x[i])) for x in xs)
    return [f"{op} {name}: ({args}) -> {got[i]}, not {exact[i]}: {float(off[i]):.3g} units off"]


def inputs_of(op: str, name: str) -> Sequence[HostArray]:
    """What an op of UNARY or PAIRS is tried on."""
    return (grid(name),) if op in UNARY else pairs_of(name)


def can_judge(name: str) -> bool:
    """True if this machine has a type that is wider than the named one."""
    return np.finfo(WIDE).nmant > FORMAT[name][0] + 8


def judge(op: str, name: str, got: HostArray, hosts: Sequence[HostArray]) -> None:
    """Raises: Mismatch unless every result is near the exact one.

    Where a type need not have subnormal numbers, what comes of them as zeros is good too.
    """
    oracle = UNARY.get(op) or PAIRS[op]
    wide = [host.astype(WIDE) for host in hosts]
    with np.errstate(all="ignore"):
        exact = oracle(*wide)
        off = units_off(op, name, got, exact, *wide)
        if may_flush(as_dtype(name)):
            tiny = WIDE(2) ** FORMAT[name][2]
            off = np.where(abs(got.astype(WIDE) - exact) < tiny, 0, off)
            small = [np.where(abs(x) < tiny, x * 0, x) for x in wide]
            off = np.minimum(off, units_off(op, name, got, oracle(*small), *small))
    allowed = UNITS[name] * WIDENED.get((class_of(op), name), 1.0)
    complaints = worst(op, name, off, allowed, got, exact, *hosts)
    if complaints:
        raise Mismatch(complaints[0])
