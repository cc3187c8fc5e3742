"""Random numbers: operations from the 4-word state of a draw, and functions that draw the state.

An operation's result is a pure function of its state, by element index, so it is the same on
every device and in every replay. Bits, uniforms, masks, integers and permutations are equal bit for
bit on every backend; normals agree to rounding, since they pass through log, cos and sin.

The functions of `random_drawn` take the state from the user's stream.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from singa_core.checks import check_number
from singa_core.dtype import DType, DTypeLike, as_dtype
from singa_core.errors import ArgumentError, DTypeError
from singa_core.operation import Operation
from singa_core.ops.base import check_kind
from singa_core.ops.creation import full
from singa_core.ops.elementwise_pairs import less, shift_right
from singa_core.ops.indexing import sort
from singa_core.ops.shape import concat
from singa_core.random import STATE
from singa_core.sample import In, Sample, sample
from singa_core.spec import Shape, Spec, check_shape
from singa_core.tensor import Tensor

__all__ = [
    "random_bernoulli", "random_bits", "random_integers", "random_normal", "random_permutation",
    "random_uniform",
]  # fmt: skip

# a key, and a position whose low word overflows within the draw
_STATE = In((4,), "uint32", values=[0x243F6A88, 0x85A308D3, 0xFFFFFFFF, 0x13198A2E])
_SHAPES: tuple[Shape, ...] = ((3, 5), (), (0, 2), (9,))
WORD = 2.0**-32
_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24}  # of the significand


def draws(**attrs: Any) -> tuple[Sample, ...]:
    """A draw for a matrix, a scalar, nothing, and a number of elements that fills no block."""
    return tuple(sample(_STATE, shape=shape, **attrs) for shape in _SHAPES)


class Draw(Operation):
    """A function of a state, which uses `words` words of 32 bits: the stream is moved by them."""

    samples: ClassVar[tuple[Sample, ...]] = ()

    def words(self, y: Spec) -> int:
        """Words used for a result of this spec."""
        return y.itemcount

    def check_state(self, state: Spec) -> None:
        """Raises: DTypeError unless the state is four words of 32 bits."""
        if state is not STATE:
            raise DTypeError(self.name, f"state: {STATE}", state, state=state)

    def settle(self, *specs: Any, **attrs: Any) -> dict[str, Any]:
        if "shape" in attrs:
            attrs["shape"] = check_shape(self.name, attrs["shape"])
        if "dtype" in attrs:
            attrs["dtype"] = as_dtype(attrs["dtype"])
        return attrs


class RandomBits(Draw):
    """Random words: element i is word i % 4 of block position + i // 4 of Philox4x32-10.

    The state is two words of the key, then the low and the high word of the position.

    Shapes: state (4) -> `shape`. Dtype: uint32 -> uint32.
    Source: J. K. Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, 4.3.
    """

    name = "random_bits"
    samples = draws()

    def infer(self, state: Spec, *, shape: Shape) -> Spec:
        self.check_state(state)
        return Spec(shape, "uint32")


class RandomUniform(Draw):
    """Uniform over the multiples of 2**-d in [0, 1), d being the digits of the dtype's significand.

    float32 takes the upper 24 bits of a word, float64 the upper 27 and 26 bits of two, float16 and
    bfloat16 11 and 8 bits of one.

    Shapes: state (4) -> `shape`. Dtype: uint32 -> a float.
    Source: the upper bits scaled; float64: I. Wada, `genrand_res53` of mt19937ar.c (2002).
    """

    name = "random_uniform"
    samples = (*draws(), *draws(dtype="float64"), *draws(dtype="float16"), *draws(dtype="bfloat16"))

    def words(self, y: Spec) -> int:
        return y.itemcount * (2 if y.dtype.bits == 64 else 1)

    def infer(self, state: Spec, *, shape: Shape, dtype: DTypeLike = "float32") -> Spec:
        self.check_state(state)
        y = Spec(shape, dtype)
        check_kind(self.name, "float", y=y)
        return y

    def forward(self, state: Tensor, *, shape: Shape, dtype: DType) -> Tensor:
        if dtype.bits == 64:
            pairs = random_bits(state, shape=(*shape, 2))
            return uniform53(pairs[..., 0], pairs[..., 1])
        digits = _DIGITS[dtype.name]
        bits = shift_right(random_bits(state, shape=shape), 32 - digits)
        u: Tensor = bits.astype("float32").astype(dtype) * 2.0**-digits
        return u


def uniform53(high: Tensor, low: Tensor) -> Tensor:
    """float64 in [0, 1) from two words each."""
    a: Tensor = shift_right(high, 5).astype("float64")
    b: Tensor = shift_right(low, 6).astype("float64")
    return (a * 2.0**26 + b) * 2.0**-53


class RandomNormal(Draw):
    """Normal with mean 0 and variance 1: pairs sqrt(-2 log(u)) * (cos(2 pi v), sin(2 pi v)).

    Elements 2j and 2j+1 are a pair, from u in (0, 1] and v in [0, 1]: words 2j and 2j+1 in units of
    2**-32, u 2**-33 more. For float64 they are 1 minus a uniform and a uniform, of two words each.

    Shapes: state (4) -> `shape`.
    Dtype: uint32 -> a float; float16 and bfloat16 are rounded float32.
    Source: G. E. P. Box, M. E. Muller, Annals of Mathematical Statistics 29 (1958), 610-611, eq. 1.
    """

    name = "random_normal"
    samples = (*draws(), *draws(dtype="float64"), *draws(dtype="float16"))

    def words(self, y: Spec) -> int:
        return -(-y.itemcount // 2) * (4 if y.dtype.bits == 64 else 2)

    def infer(self, state: Spec, *, shape: Shape, dtype: DTypeLike = "float32") -> Spec:
        self.check_state(state)
        y = Spec(shape, dtype)
        check_kind(self.name, "float", y=y)
        return y

    def forward(self, state: Tensor, *, shape: Shape, dtype: DType) -> Tensor:
        n = math.prod(shape)
        pairs = -(-n // 2)
        if dtype.bits == 64:
            bits = random_bits(state, shape=(pairs, 4))
            u = 1.0 - uniform53(bits[:, 0], bits[:, 1])
            v = uniform53(bits[:, 2], bits[:, 3])
        else:  # all 32 bits, for the tails; 2**-33 keeps u away from 0
            bits = random_bits(state, shape=(pairs, 2)).astype("float32") * WORD
            u, v = bits[:, 0] + WORD / 2.0, bits[:, 1]
        r = (u.log() * -2.0).sqrt().expand_dims(1)
        t = (v * (2.0 * math.pi)).expand_dims(1)
        both: Tensor = concat(r * t.cos(), r * t.sin(), axis=1)  # (pairs, 2)
        return both.reshape(2 * pairs)[:n].reshape(shape).astype(dtype)


class RandomBernoulli(Draw):
    """True with probability p: where a word is below floor(p * 2**32).

    Shapes: state (4) -> `shape`. Dtype: uint32 -> bool, or `dtype` with 1 for True.

    Args:
        p: probability, 0 <= p <= 1; exact to 2**-32.

    Raises: ArgumentError for another p.
    Source: L. Devroye, Non-Uniform Random Variate Generation (1986), section II.2.1: inversion.
    """

    name = "random_bernoulli"
    samples = (*draws(p=0.3), *draws(p=1.0), *draws(p=0.0), *draws(p=0.5, dtype="float32"))

    def infer(self, state: Spec, *, shape: Shape, p: float, dtype: DTypeLike = "bool") -> Spec:
        self.check_state(state)
        check_number(self.name, "p", p, 0.0, 1.0)
        return Spec(shape, dtype)

    def forward(self, state: Tensor, *, shape: Shape, p: float, dtype: DType) -> Tensor:
        if p == 1.0:
            always: Tensor = full(shape, True, dtype=dtype, device=state.device)
            return always
        hit: Tensor = less(random_bits(state, shape=shape), math.floor(p * 2.0**32))
        return hit.astype(dtype)


class RandomIntegers(Draw):
    """Integers in [low, high): low + the upper word of a word times (high - low).

    A value's probability is off by at most 2**-32.

    Shapes: state (4) -> `shape`. Dtype: uint32 -> an integer.

    Args:
        low: least value, in the dtype's range.
        high: end of the range, low < high <= low + 2**32.

    Raises: ArgumentError for another range.
    Source: D. Lemire, ACM TOMACS 29 (2019), article 3, section 4, without its rejections.
    """

    name = "random_integers"
    samples = (
        *draws(low=-3, high=10),
        *draws(low=0, high=256, dtype="uint8"),
        *draws(low=5, high=6, dtype="int32"),
        *draws(low=-(2**31), high=2**31),
    )

    def infer(
        self, state: Spec, *, shape: Shape, low: int, high: int, dtype: DTypeLike = "int64"
    ) -> Spec:
        self.check_state(state)
        y = Spec(shape, dtype)
        check_kind(self.name, "integer", y=y)
        if not low < high <= low + 2**32:
            raise ArgumentError(self.name, "low < high <= low + 2**32", f"{low} and {high}")
        least, most = _range(y.dtype)
        if low < least or high - 1 > most:
            rule = f"{least} <= low, high <= {most + 1} for {y.dtype}"
            raise ArgumentError(self.name, rule, f"{low} and {high}")
        return y

    def forward(self, state: Tensor, *, shape: Shape, low: int, high: int, dtype: DType) -> Tensor:
        product = random_bits(state, shape=shape).astype("uint64") * (high - low)
        upper: Tensor = shift_right(product, 32)
        if dtype.bits < 64:
            return (upper.astype("int64") + low).astype(dtype)
        return upper.astype(dtype) + low


def _range(dtype: DType) -> tuple[int, int]:
    """The least and the largest value of an integer dtype."""
    if dtype.kind == "uint":
        return 0, 2**dtype.bits - 1
    half: int = 2 ** (dtype.bits - 1)
    return -half, half - 1


class RandomPermutation(Draw):
    """0, 1, ... n-1 in random order: the order that sorts n random numbers of 64 bits.

    Shapes: state (4) -> (n,). Dtype: uint32 -> int64.
    Source: L. Devroye, Non-Uniform Random Variate Generation (1986), section XIII.2.1, by sorting.
    """

    name = "random_permutation"
    samples = (sample(_STATE, n=7), sample(_STATE, n=1), sample(_STATE, n=0))

    def words(self, y: Spec) -> int:
        return 2 * y.itemcount

    def infer(self, state: Spec, *, n: int) -> Spec:
        self.check_state(state)
        return Spec(check_shape(self.name, (n,)), "int64")

    def forward(self, state: Tensor, *, n: int) -> Tensor:
        pairs = random_bits(state, shape=(n, 2)).astype("uint64")
        order: Tensor = sort(pairs[:, 0] * 2**32 + pairs[:, 1], axis=0)[1]
        return order


random_bits, random_uniform, random_normal = RandomBits(), RandomUniform(), RandomNormal()
random_bernoulli, random_integers = RandomBernoulli(), RandomIntegers()
random_permutation = RandomPermutation()
