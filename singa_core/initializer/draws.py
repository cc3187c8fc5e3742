"""Random numbers drawn on the host.

Draws are float32, whatever the parameter's type: one seed gives the same model in every precision.
All arithmetic on the way is made of float64 operations that IEEE 754 fixes to the last bit (none of
a library's logarithms or cosines), so one seed gives the same model on every machine too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from singa_core.errors import ArgumentError
from singa_core.kernels.array.random import philox
from singa_core.spec import Shape

Doubles = npt.NDArray[np.float64]

_CHUNK: Final = 8192  # elements; what is computed between words and result stays in the cache
_EDGE: Final = 2.0**-36  # the quantile function is asked for nothing nearer to 0 and 1
_SMALLEST_MASS: Final = 1e-6

# M. J. Wichura, "Algorithm AS 241: the percentage points of the normal distribution",
# Applied Statistics 37 (1988), PPND16: numerator and denominator, highest power first.
_CENTRE: Final = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
_TAIL: Final = (
    (7.7454501427834140764e-4, 2.27238449892691845833e-2, 0.24178072517745061177,
     1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
     4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 1.51986665636164571966e-2,
     0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
     2.05319162663775882187, 1.0),
)  # fmt: skip
# log((1 + t) / (1 - t)) = 2 t + 2/3 t^3 + ... + 2/21 t^21
_LOG: Final = tuple(2.0 / n for n in range(21, 0, -2))


def normal_quantile(p: Doubles) -> Doubles:
    """The x that a standard normal number stays below with probability p.

    Args:
        p: 2**-36 <= p <= 1 - 2**-36.

    Source: Wichura, AS 241 (1988), PPND16; relative error about 1e-15.
    """
    q = p - 0.5
    r = np.maximum(0.180625 - q * q, 0.0)  # negative in the tails, which are overwritten
    x = q * _horner(_CENTRE[0], r) / _horner(_CENTRE[1], r)
    tail = np.flatnonzero(np.abs(q) > 0.425)
    r = np.sqrt(-_log(np.minimum(p[tail], 1.0 - p[tail]))) - 1.6
    x[tail] = np.copysign(_horner(_TAIL[0], r) / _horner(_TAIL[1], r), q[tail])
    return x


def _log(x: Doubles) -> Doubles:
    """Natural logarithm of positive numbers, the same on every machine."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < math.sqrt(0.5)
    mantissa = np.where(low, 2.0 * mantissa, mantissa)  # in sqrt(1/2) .. sqrt(2)
    t = (mantissa - 1.0) / (mantissa + 1.0)  # |t| < 0.172: ten terms leave 1e-17
    return t * _horner(_LOG, t * t) + (exponent - low) * math.log(2.0)


def _horner(coefficients: Sequence[float], x: Doubles) -> Doubles:
    y = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        y *= x
        y += coefficient
    return y


class HostRandom:
    """Random numbers from a place in a Philox stream on.

    Element i of a draw is a function of word i of the draw.

    Args:
        state: key and block number, four words, as `singa_core.random.Stream.take` gives them.
    """

    def __init__(self, state: npt.NDArray[np.uint32]) -> None:
        key0, key1, low, high = (int(word) for word in state)
        self._key = (key0, key1)
        self._block = low | high << 32

    def bits(self, n: int) -> npt.NDArray[np.uint32]:
        """`n` words; moves on by whole blocks of four, as a draw on a device does."""
        words: npt.NDArray[np.uint32] = philox(np, self._key, self._block, n)
        self._block = (self._block + -(-n // 4)) % 2**64
        return words

    def uniform(self, shape: Shape, low: float = 0.0, high: float = 1.0) -> npt.NDArray[np.float32]:
        """Evenly spread over low <= y < high (y == high where rounding takes it there)."""
        return self._draw(
            shape, lambda words: low + (high - low) * (np.floor(words * 2.0**-8) * 2.0**-24)
        )

    def normal(self, shape: Shape) -> npt.NDArray[np.float32]:
        """Normal with mean 0 and standard deviation 1, by inversion: one word each, |y| < 6.4."""
        return self._draw(shape, lambda words: normal_quantile((words + 0.5) * 2.0**-32))

    def truncated_normal(
        self, shape: Shape, a: float = -2.0, b: float = 2.0
    ) -> npt.NDArray[np.float32]:
        """What of a standard normal distribution lies in a <= y <= b, by inversion."""
        below, mass = check_bounds(a, b)

        def invert(words: Doubles) -> Doubles:
            p = below + mass * ((words + 0.5) * 2.0**-32)
            return np.clip(normal_quantile(np.clip(p, _EDGE, 1.0 - _EDGE)), a, b)

        return self._draw(shape, invert)

    def _draw(
        self, shape: Shape, function: Callable[[Doubles], Doubles]
    ) -> npt.NDArray[np.float32]:
        """The function of each word, rounded once."""
        words = self.bits(math.prod(shape))
        out = np.empty(len(words), np.float32)
        for start in range(0, len(words), _CHUNK):
            part = slice(start, start + _CHUNK)
            out[part] = function(words[part].astype(np.float64))
        return out.reshape(shape)


def check_bounds(a: float, b: float) -> tuple[float, float]:
    """P(z < a) and P(a < z < b) for a standard normal z.

    Raises: ArgumentError if next to nothing lies between.
    """
    rule = f"a < b with P(a < z < b) >= {_SMALLEST_MASS}"
    if not a < b:
        raise ArgumentError("truncated_normal", rule, f"a = {a}, b = {b}")
    # Rounded, since the last bits of erfc depend on the machine.
    below, until = (round(math.erfc(-x / math.sqrt(2.0)) * 2.0**39) * 2.0**-40 for x in (a, b))
    if until - below < _SMALLEST_MASS:
        raise ArgumentError("truncated_normal", rule, f"a = {a}, b = {b}")
    return below, until - below
