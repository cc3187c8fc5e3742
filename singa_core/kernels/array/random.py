"""Random bits by element index: Philox4x32-10.

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011, section 4.3. Ten rounds turn a counter of four words and a key of two into four words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from singa_core.kernels.array import array

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)  # what the two words of the key grow by from round to round
_MASK = 0xFFFFFFFF
_CHUNK = 8192  # blocks; their intermediate values stay in the cache of a CPU, 3 times as fast


def rounds(xp: Any, counter: Sequence[Any], key: Any) -> tuple[Any, Any, Any, Any]:
    """The ten rounds, on words that lie in uint64 so that products fit."""
    a, b, c, d = counter
    # 0-d arrays: a Python number would be converted anew in each of the 100 operations
    m0, m1, mask, half = (xp.asarray(n, xp.uint64) for n in (*_MULTIPLIERS, _MASK, 32))
    weyl, key = xp.asarray(_WEYL, xp.uint64), xp.array(key, xp.uint64)
    k0, k1 = key[0, ...], key[1, ...]  # views, which follow `key` as it grows
    for _ in range(_ROUNDS):
        p, q = a * m0, c * m1
        a, b = (q >> half) ^ b ^ k0, q & mask
        c, d = (p >> half) ^ d ^ k1, p & mask
        key += weyl
        key &= mask
    return a, b, c, d


def fill(xp: Any, out: Any, key: Any, counter: Any) -> None:
    """Write the words that `philox` describes into the one-dimensional uint32 array `out`."""
    counter = xp.asarray(counter, xp.uint64)
    for start in range(0, out.size, 4 * _CHUNK):
        part = out[start : start + 4 * _CHUNK]
        first = start // 4
        block = xp.arange(first, first + (part.size + 3) // 4, dtype=xp.uint64) + counter
        zero = xp.zeros_like(block)
        for n, word in enumerate(rounds(xp, (block & _MASK, block >> 32, zero, zero), key)):
            places = part[n::4]
            places[...] = word[: places.size]


def philox(xp: Any, key: Any, counter: Any, n: int) -> Any:
    """`n` random uint32 words of the stream `key` (two words), from block `counter` on.

    Word i is word i % 4 of block counter + i // 4, which counts modulo 2**64.
    """
    out = xp.empty(n, xp.uint32)
    fill(xp, out, key, counter)
    return out


def position(xp: Any, state: Any) -> tuple[Any, Any]:
    """The key and the counter in a state of four words."""
    words = state.astype(xp.uint64)
    return words[:2], words[2] | words[3] << 32


@array.kernel("random_bits", "u32->u32", strides=True, returning=True)
def random_bits(xp: Any, state: Any, *, shape: tuple[int, ...]) -> Any:
    return philox(xp, *position(xp, state), math.prod(shape)).reshape(shape)
