"""What scalar operations should give, by Python's own arithmetic: neither our code nor NumPy's.

A value of any float type is held in a Python float (IEEE double). `+ - * /` and `sqrt` of float16,
bfloat16 and float32 values, computed in double and rounded once more, are exact: a double has more
than twice their digits, plus two (S. A. Figueroa, "When is double rounding innocuous?", 1995).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from singa_core.dtype import DType

# digits, exponent of the smallest normal number, exponent of the largest power of two
_FORMATS = {
    "float16": (11, -14, 15),
    "bfloat16": (8, -126, 127),
    "float32": (24, -126, 127),
    "float64": (53, -1022, 1023),
}


def round_to(value: float | Fraction, dtype: DType) -> float:
    """`value` as the nearest number of a float type, ties to even, beyond the largest infinity."""
    if not isinstance(value, Fraction) and (not math.isfinite(value) or value == 0):
        return float(value)
    digits, low, high = _FORMATS[dtype.name]
    exact = Fraction(value)
    if exact == 0:
        return 0.0
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    if abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, low) - digits + 1)
    rounded = round(exact / unit) * unit  # Python rounds a Fraction's ties to even
    if abs(rounded) >= Fraction(2) ** (high + 1):
        return math.copysign(math.inf, value)
    return math.copysign(float(rounded), value)


def unit(value: float, dtype: DType) -> float:
    """The distance of neighbouring numbers at `value`."""
    digits, low, high = _FORMATS[dtype.name]
    exponent = math.frexp(value)[1] - 1 if value and math.isfinite(value) else low
    return 2.0 ** (min(max(exponent, low), high) - digits + 1)


def extremes(dtype: DType) -> tuple[float, float]:
    """The least positive and the greatest finite number of a float type."""
    digits, low, high = _FORMATS[dtype.name]
    return 2.0 ** (low - digits + 1), (2.0 - 2.0 ** (1 - digits)) * 2.0**high


def wrap(value: int, dtype: DType) -> int:
    """`value` modulo 2**bits, in the range of an integer type."""
    value %= 1 << dtype.bits
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def ends(dtype: DType) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def cast(x: float, source: DType, dtype: DType) -> float:
    """The number `x` of type `source` as one of type `dtype`."""
    if dtype.kind == "bool":
        return x != 0
    if dtype.is_floating:
        return round_to(float(x) if source.is_floating else Fraction(int(x)), dtype)
    if not source.is_floating:
        return wrap(int(x), dtype)
    if math.isnan(x):
        return 0
    low, high = ends(dtype)
    if math.isinf(x):
        return low if x < 0 else high
    return min(max(math.trunc(x), low), high)


# -- functions of floats, with IEEE 754's answers where Python raises --------------------------


def _ieee(function: Callable[..., float], special: Callable[..., float]) -> Callable[..., float]:
    def call(*xs: float) -> float:
        if any(math.isnan(x) for x in xs):
            return special(*xs)
        try:
            return function(*xs)
        except (OverflowError, ValueError, ZeroDivisionError):
            return special(*xs)

    return call


def _divide(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b) or a == 0:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1, b)


def _power(a: float, b: float) -> float:
    if a == 1 or b == 0:
        return 1.0
    if math.isnan(a) or math.isnan(b) or (a < 0 and b != math.floor(b)):
        return math.nan
    odd = b % 2 == 1 and math.copysign(1, a) < 0
    return -math.inf if odd else math.inf  # 0 to a negative power, or overflow


def _nan(*xs: float) -> float:
    return math.nan


def _round(x: float) -> float:
    return math.copysign(round(x), x)


def _floor(x: float) -> float:
    return math.copysign(math.floor(x), x) if 0 <= x < 1 else float(math.floor(x))


UNARY = {
    "exp": _ieee(math.exp, lambda x: x if math.isnan(x) else math.inf),
    "expm1": _ieee(math.expm1, lambda x: x if math.isnan(x) else math.inf),
    "log": _ieee(math.log, lambda x: -math.inf if x == 0 else math.nan),
    "log1p": _ieee(math.log1p, lambda x: -math.inf if x == -1 else math.nan),
    "sqrt": _ieee(math.sqrt, _nan),
    "sin": _ieee(math.sin, _nan),
    "cos": _ieee(math.cos, _nan),
    "atan": math.atan,
    "tanh": math.tanh,
    "erf": math.erf,
    "floor": _ieee(_floor, lambda x: x),
    "round": _ieee(_round, lambda x: x),
    "neg": lambda x: -x,
    "abs": abs,
    "sign": lambda x: x if math.isnan(x) else (x > 0) - (x < 0),
}

BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _ieee(lambda a, b: a / b, _divide),
    "pow": _ieee(math.pow, _power),
    "floor_divide": _ieee(lambda a, b: a // b, lambda a, b: _divide(a, b)),
    "remainder": _ieee(lambda a, b: a % b, _nan),
}


# -- functions of integers -----------------------------------------------------------------------


def _int_power(a: int, b: int, bits: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << bits)
    return a ** (b % 2) if a in (1, -1) else 0


INTEGER = {
    "neg": lambda a, bits: -a,
    "abs": lambda a, bits: abs(a),
    "sign": lambda a, bits: (a > 0) - (a < 0),
    "bit_not": lambda a, bits: ~a,
    "add": lambda a, b, bits: a + b,
    "sub": lambda a, b, bits: a - b,
    "mul": lambda a, b, bits: a * b,
    "floor_divide": lambda a, b, bits: a // b if b else 0,
    "remainder": lambda a, b, bits: a % b if b else 0,
    "pow": _int_power,
    "bit_and": lambda a, b, bits: a & b,
    "bit_or": lambda a, b, bits: a | b,
    "bit_xor": lambda a, b, bits: a ^ b,
    "shift_left": lambda a, n, bits: a << n if 0 <= n < bits else 0,
    "shift_right": lambda a, n, bits: a >> n if 0 <= n < bits else -(a < 0),
}


# -- functions of anything -------------------------------------------------------------------------


def larger(a: float, b: float) -> float:
    """The greater one; NaN if one of them is."""
    return a if a != a or (b == b and a > b) else b


def smaller(a: float, b: float) -> float:
    """The lesser one; NaN if one of them is."""
    return a if a != a or (b == b and a < b) else b


ANY = {
    "maximum": larger,
    "minimum": smaller,
    "equal": lambda a, b: a == b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
}
