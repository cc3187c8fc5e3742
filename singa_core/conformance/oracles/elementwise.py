"""References of the scalar functions and of pairs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle, each, on_real, on_wide, wide
from singa_core.dtype import as_dtype

_REAL: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    "sin": np.sin, "cos": np.cos, "atan": np.arctan, "tanh": np.tanh, "div": np.divide,
    "cbrt": np.cbrt, "exp2": np.exp2, "log2": np.log2, "log10": np.log10, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "atan2": np.arctan2, "hypot": np.hypot,
    "logaddexp": np.logaddexp, "reciprocal": np.reciprocal,
}  # fmt: skip
_WIDE: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor, "round": np.rint,
    "ceil": np.ceil, "trunc": np.trunc, "square": np.square, "add": np.add, "sub": np.subtract,
    "mul": np.multiply, "floor_divide": np.floor_divide, "remainder": np.remainder,
    "pow": np.power, "maximum": np.maximum, "minimum": np.minimum, "equal": np.equal,
    "at_least": np.fmax, "at_most": np.fmin,
    "less": np.less, "less_equal": np.less_equal, "not_equal": np.not_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "isnan": np.isnan,
    "isinf": np.isinf, "isfinite": np.isfinite, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "logical_not": np.logical_not,
    "bit_not": np.invert, "bit_and": np.bitwise_and, "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor, "where": np.where, "copy": np.copy,
}  # fmt: skip


def erf(x: float) -> float:
    """Error function of one number."""
    return math.erf(x)


def rsqrt(x: HostArray) -> Any:
    """One over the square root."""
    return 1.0 / np.sqrt(x)


def shift_left(a: HostArray, b: HostArray) -> HostArray:
    """In Python's unbounded integers, cut to the width."""
    return _shifted(a, b, lambda x, n: x << n)


def shift_right(a: HostArray, b: HostArray) -> HostArray:
    """In Python's unbounded integers: a long shift leaves 0 or -1."""
    return _shifted(a, b, lambda x, n: x >> n)


def _shifted(a: HostArray, b: HostArray, shift: Callable[[int, int], int]) -> HostArray:
    a, b = np.broadcast_arrays(a, b)
    mask = (1 << a.dtype.itemsize * 8) - 1
    pairs = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)
    words = [shift(x, n) & mask for x, n in pairs]
    unsigned = np.array(words, f"u{a.dtype.itemsize}").reshape(a.shape)
    return unsigned.view(a.dtype)


def cast(x: HostArray, *, dtype: Any) -> HostArray:
    """Number by number, in Python: truncated, held at the ends; low bits; x != 0."""
    target = as_dtype(dtype)
    if target.is_floating:
        return x.astype(np.float64)
    values = [_to_int(v, target) for v in wide(x).reshape(-1).tolist()]
    return np.array(values, target.numpy).reshape(x.shape)


def _to_int(value: float, target: Any) -> int:
    if target.kind == "bool":
        return int(value != 0)
    info = np.iinfo(target.numpy)
    if isinstance(value, float):
        if value != value:
            return 0
        held = min(max(value, float(info.min)), float(info.max))
        return min(max(int(held), int(info.min)), int(info.max))
    span = 1 << target.bits
    return (int(value) - int(info.min)) % span + int(info.min)


TABLE: dict[str, Oracle] = {
    **{name: on_real(f) for name, f in _REAL.items()},
    **{name: on_wide(f) for name, f in _WIDE.items()},
    "erf": each(erf),
    "rsqrt": on_real(rsqrt),
    "shift_left": shift_left,
    "shift_right": shift_right,
    "cast": cast,
}
