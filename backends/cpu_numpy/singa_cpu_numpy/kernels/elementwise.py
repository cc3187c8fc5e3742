from __future__ import annotations

import numpy as np

from singa_core.dtype import bool_
from singa_core.kernels import INTS
from singa_cpu_numpy.kernels import numpy
from singa_cpu_numpy.kernels.chunks import in_chunks, numbers

# Without bfloat16, where computing in float32 as the shared kernels do is faster.
FLOATS = "f32 f64"
NUMBERS = f"{INTS} f16 {FLOATS}"
ANY = f"b1 {NUMBERS}"


def _ufunc(op, function, signature, types):
    """The ufunc itself is the launch: its outputs follow its inputs."""

    def prepare(target, ins, outs):
        return function

    numpy.prepared(op, signature, strides=True, in_place=True, T=types)(prepare)


for _op, _function in {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    "sin": np.sin, "cos": np.cos, "atan": np.arctan, "tanh": np.tanh, "floor": np.floor,
    "round": np.rint,
}.items():  # fmt: skip
    _ufunc(_op, _function, "T->T", FLOATS)
# Composites, in one pass instead of several. Not cbrt, exp2 and log10: NumPy's float32 ones miss
# whole results that the decompositions meet.
for _op, _function in {
    "log2": np.log2, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "sinh": np.sinh,
    "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "ceil": np.ceil, "trunc": np.trunc, "reciprocal": np.reciprocal,
}.items():  # fmt: skip
    _ufunc(_op, _function, "T->T", FLOATS)
for _op, _function in {
    "atan2": np.arctan2, "hypot": np.hypot, "logaddexp": np.logaddexp,
}.items():  # fmt: skip
    _ufunc(_op, _function, "T,T->T", FLOATS)
for _op, _function in {"neg": np.negative, "abs": np.abs, "sign": np.sign}.items():
    _ufunc(_op, _function, "T->T", NUMBERS)
for _op, _function in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floor_divide": np.floor_divide,
    "remainder": np.remainder,
}.items():  # fmt: skip
    _ufunc(_op, _function, "T,T->T", NUMBERS)
for _op, _function in {"div": np.divide, "pow": np.power}.items():
    _ufunc(_op, _function, "T,T->T", f"f16 {FLOATS}")
for _op, _function in {
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
}.items():  # fmt: skip
    _ufunc(_op, _function, "T,T->T", f"b1 {INTS}")
for _op, _function in {
    "equal": np.equal, "less": np.less, "less_equal": np.less_equal,
}.items():  # fmt: skip
    _ufunc(_op, _function, "T,T->b1", ANY)
_ufunc("bit_not", np.invert, "T->T", f"b1 {INTS}")
# NumPy's shifts are defined for any count, as the op is.
_ufunc("shift_left", np.left_shift, "T,T->T", INTS)
_ufunc("shift_right", np.right_shift, "T,T->T", INTS)


@numpy.kernel("at_least", "T,T->T", strides=True, in_place=True, T=ANY)
@numpy.kernel("maximum", "T,T->T", strides=True, in_place=True, T=ANY)
def maximum(a, b, y):  # the ufunc takes no positional output since NumPy 2.4
    np.maximum(a, b, out=y)


@numpy.kernel("at_most", "T,T->T", strides=True, in_place=True, T=ANY)
@numpy.kernel("minimum", "T,T->T", strides=True, in_place=True, T=ANY)
def minimum(a, b, y):
    np.minimum(a, b, out=y)


@numpy.kernel("hard_tanh", "T->T", strides=True, in_place=True, T=FLOATS)
def hard_tanh(x, y, *, low, high):
    np.maximum(x, low, out=y)
    np.minimum(y, high, out=y)


# erf(x) = -expm1(x P(x)) for 0 <= x < 3.95, above which it is 1 in float32; lowest power first.
# Fitted in Chebyshev polynomials by Lawson's reweighted least squares to log(erfc(x)) / x, weighted
# so that the error is erf's own: 1.3e-10, and 1.1e-7 with float32's rounding. It takes a twelfth of
# the time of the shared kernel, which is Cody's approximation in float64.
_ERF = (
    -1.1283791669966177, -0.6366199041541367, -0.10277029904166635, 0.019112835207161304,
    0.000264925737683024, -0.0018153999730797668, 0.0007532421396281451, -0.00017311287140561854,
    2.2692978079422293e-05, -1.3234275255447774e-06,
)  # fmt: skip
_FIRST, *_BETWEEN, _LAST = numbers(np.float32, *_ERF)
(_ONE_FROM,) = numbers(np.float32, 3.95)
_MAGNITUDE, _SIGN = numbers(np.int32, 2**31 - 1, -(2**31))


def erf_of(x, y, powers):
    """y = erf(x) of a chunk in float32; x, y and the scratch `powers` are apart."""
    np.abs(x, y)
    np.minimum(y, _ONE_FROM, out=y)
    np.multiply(y, _LAST, powers)
    for coefficient in reversed(_BETWEEN):
        np.add(powers, coefficient, powers)
        np.multiply(powers, y, powers)
    np.add(powers, _FIRST, powers)
    np.multiply(powers, y, powers)
    np.expm1(powers, y)
    # by bits, since np.copysign takes as long as all of the powers
    bits, signs = y.view(np.int32), powers.view(np.int32)
    np.bitwise_and(x.view(np.int32), _SIGN, signs)
    np.bitwise_and(bits, _MAGNITUDE, bits)
    np.bitwise_or(bits, signs, bits)


@numpy.prepared("erf", "f32->f32")
def erf(target, ins, outs):
    return in_chunks(erf_of, outs[0], 1)


@numpy.prepared("where", "b1,T,T->T", strides=True, T="f32 f64 i32 i64")
def where(target, ins, outs):
    if outs[0].itemcount < 4096:
        return None  # the shared kernel is faster there
    # np.where branches and mispredicts: on a random condition it takes 7 times as long as
    # b ^ ((a ^ b) & mask).
    bits = bits_of(outs[0])

    def launch(c, a, b, y):
        y, b = y.view(bits), b.view(bits)
        np.bitwise_xor(a.view(bits), b, y)
        np.bitwise_and(y, np.negative(c.view(np.int8), dtype=bits), y)
        np.bitwise_xor(y, b, y)

    return launch


def bits_of(spec):
    """The integer type of the same size, to select among floats without computing on them."""
    return np.dtype(f"i{spec.dtype.itemsize}")


# Not from float to integer, where NumPy leaves NaN and overflow open.
@numpy.prepared(
    "cast", "I->T", "F->G", strides=True,
    I=f"b1 {INTS}", F=f"f16 {FLOATS}", G=f"b1 f16 {FLOATS}", T=ANY,
)  # fmt: skip
def cast(target, ins, outs, *, dtype):
    if dtype is bool_:
        return lambda x, y: np.not_equal(x, 0, y)
    return lambda x, y: np.copyto(y, x, casting="unsafe")


@numpy.prepared("full", "->T", T=f"{ANY} bf16")
def full(target, ins, outs, *, shape, value, dtype):
    return lambda y: y.fill(value)


@numpy.kernel("copy", "T->T", strides=True, T=f"{ANY} bf16")
def copy(x, y):
    np.copyto(y, x)
