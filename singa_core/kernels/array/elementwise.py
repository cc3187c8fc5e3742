"""Scalar functions, comparison, selection, cast and fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from singa_core.dtype import DType, bfloat16, bool_, float32
from singa_core.kernels import ANY, FLOATS, INTS, NUMBERS, Launch
from singa_core.kernels.array import array
from singa_core.spec import AnyForm, Spec

BITS = f"b1 {INTS}"
HALVES = ("f16", "bf16")

# op: the namespace's function of the same meaning
_FLOAT = {
    "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p", "sqrt": "sqrt", "sin": "sin",
    "cos": "cos", "atan": "arctan", "tanh": "tanh", "floor": "floor", "round": "rint",
}  # fmt: skip
_NUMBER = {"neg": "negative", "abs": "abs", "sign": "sign"}
_NUMBER_PAIR = {
    "add": "add", "sub": "subtract", "mul": "multiply", "floor_divide": "floor_divide",
    "remainder": "remainder",
}  # fmt: skip
_BIT_PAIR = {"bit_and": "bitwise_and", "bit_or": "bitwise_or", "bit_xor": "bitwise_xor"}
_COMPARE = {"equal": "equal", "less": "less", "less_equal": "less_equal"}


def _same_as(op: str, name: str, signature: str, types: str) -> None:
    """`op` is the namespace's `name`; float16 and bfloat16 compute in float32 and round once."""

    def direct(xp: Any, ins: Sequence[AnyForm], outs: Sequence[Spec]) -> Launch:
        launch: Launch = getattr(xp, name)
        return launch

    def widened(xp: Any, ins: Sequence[AnyForm], outs: Sequence[Spec]) -> Launch:
        function, wide, dtype = getattr(xp, name), xp.float32, outs[0].dtype.numpy
        return lambda *xs: function(*(x.astype(wide) for x in xs)).astype(dtype)

    codes = types.split()
    for prepare, some in (
        (direct, [c for c in codes if c not in HALVES]),
        (widened, [c for c in codes if c in HALVES]),
    ):
        array.prepared(op, signature, strides=True, returning=True, T=" ".join(some))(prepare)


for _names, _signature, _types in (
    (_FLOAT, "T->T", FLOATS),
    (_NUMBER, "T->T", NUMBERS),
    ({"bit_not": "invert"}, "T->T", BITS),
    (_NUMBER_PAIR, "T,T->T", NUMBERS),
    ({"maximum": "maximum", "minimum": "minimum"}, "T,T->T", ANY),
    ({"div": "divide", "pow": "power"}, "T,T->T", FLOATS),
    (_BIT_PAIR, "T,T->T", BITS),
    (_COMPARE, "T,T->b1", ANY),
):
    for _op, _name in _names.items():
        _same_as(_op, _name, _signature, _types)


@array.kernel("pow", "T,T->T", strides=True, returning=True, T=INTS)
def pow_(xp: Any, a: Any, b: Any) -> Any:
    # Namespaces refuse negative exponents. 1 and -1 are their own inverses; every other base
    # has an inverse between -1 and 1, which truncates to 0.
    inverse = b < 0
    y = xp.power(a, xp.where(inverse, b & 1, b))
    return xp.where(inverse & (a != 1) & (a != -1), 0, y)


@array.kernel("shift_left", "T,T->T", strides=True, returning=True, T=INTS)
def shift_left(xp: Any, a: Any, b: Any) -> Any:
    # C leaves a count outside [0, bits) undefined, and so do namespaces made with it.
    inside = (b >= 0) & (b < a.itemsize * 8)
    return xp.where(inside, xp.left_shift(a, xp.where(inside, b, 0)), 0)


@array.kernel("shift_right", "T,T->T", strides=True, returning=True, T=INTS)
def shift_right(xp: Any, a: Any, b: Any) -> Any:
    inside = (b >= 0) & (b < a.itemsize * 8)
    signs = xp.negative((a < 0).astype(a.dtype))  # 0 or -1
    return xp.where(inside, xp.right_shift(a, xp.where(inside, b, 0)), signs)


@array.prepared("where", "b1,T,T->T", strides=True, returning=True, T=ANY)
def where(xp: Any, ins: Sequence[AnyForm], outs: Sequence[Spec]) -> Launch:
    launch: Launch = xp.where
    return launch


# W. J. Cody, "Rational Chebyshev approximations for the error function", Mathematics of
# Computation 23 (1969), 631-637: erf(x) = x P(x^2)/Q(x^2) near 0, else 1 - exp(-x^2) P(x)/Q(x).
# Highest power first.
_SMALL = 0.46875
_P_SMALL = (
    1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2,
    3.20937758913846947e3,
)  # fmt: skip
_Q_SMALL = (
    1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3,
)  # fmt: skip
_P_LARGE = (
    2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1,
    2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
    1.23033935479799725e3,
)  # fmt: skip
_Q_LARGE = (
    1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
    3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
)  # fmt: skip


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    y = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        y = y * x + c
    return y


@array.kernel("erf", "T->T", strides=True, returning=True, T=FLOATS)
def erf(xp: Any, x: Any) -> Any:
    # In float64 for all: in float32 the difference from 1 would cost a bit and a half at 0.5.
    # From 6 on erf is 1 in float64, so Cody's third interval (above 4) is not needed.
    t = xp.minimum(xp.abs(x.astype(xp.float64)), 6.0)
    s = t * t
    small = t * _polynomial(s, _P_SMALL) / _polynomial(s, _Q_SMALL)
    large = 1.0 - xp.exp(-s) * _polynomial(t, _P_LARGE) / _polynomial(t, _Q_LARGE)
    y = xp.copysign(xp.where(t < _SMALL, small, large), x.astype(xp.float64))
    return y.astype(xp.float32).astype(x.dtype) if x.itemsize == 2 else y.astype(x.dtype)


@array.prepared("cast", "S->T", strides=True, returning=True, S=ANY, T=ANY)
def cast(xp: Any, ins: Sequence[AnyForm], outs: Sequence[Spec], dtype: DType) -> Launch:
    source, numpy_type = ins[0].dtype, dtype.numpy
    if dtype is bool_:
        return lambda x: xp.not_equal(x, 0)
    if source.is_floating and dtype.is_integer:
        return lambda x: _truncate(xp, x, dtype)
    if dtype is bfloat16 and source.bits >= 32 and source is not float32:
        return lambda x: _to_odd_float32(xp, x.astype(xp.float64)).astype(numpy_type)
    return lambda x: x.astype(numpy_type)


def _truncate(xp: Any, x: Any, dtype: DType) -> Any:
    """`x` without its fraction, at most the ends of `dtype`; NaN gives 0."""
    if x.itemsize == 2:
        x = x.astype(xp.float32)
    info = xp.iinfo(dtype.numpy)
    low, high = float(info.min), float(info.max // 2 + 1) * 2  # powers of 2, exact in any float
    y = xp.where((x >= low) & (x < high), x, 0).astype(dtype.numpy)
    y = xp.where(x < low, xp.asarray(info.min, dtype.numpy), y)
    return xp.where(x >= high, xp.asarray(info.max, dtype.numpy), y)


def _to_odd_float32(xp: Any, x: Any) -> Any:
    """float64 to float32, an inexact result taking the neighbour whose last bit is 1.

    Namespaces go from float64 to bfloat16 by way of float32; rounded to odd there, the second
    rounding gives what a single one would.
    """
    y = x.astype(xp.float32)
    wide = y.astype(xp.float64)
    even = (y.view(xp.uint32) & 1) == 0
    other = xp.nextafter(y, xp.where(wide < x, xp.inf, -xp.inf).astype(xp.float32))
    return xp.where((wide != x) & even, other, y)


@array.kernel("full", "->T", returning=True, T=ANY)
def full(xp: Any, *, shape: tuple[int, ...], value: float, dtype: DType) -> Any:
    return xp.full(shape, value, dtype.numpy)


@array.kernel("iota", "->T", returning=True, T=NUMBERS)
def iota(xp: Any, *, size: int, dtype: DType) -> Any:
    return xp.arange(size).astype(dtype.numpy)


@array.kernel("copy", "T->T", strides=True, returning=True, T=ANY)
def copy(xp: Any, x: Any) -> Any:
    return x.copy()
