"""References of the random operations: Philox4x32-10 on Python integers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle


def philox(counter: tuple[int, ...], key: tuple[int, int]) -> tuple[int, ...]:
    """Four words of one block: section 4.3 of "Parallel random numbers: as easy as 1, 2, 3"."""
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b = right >> 32 ^ b ^ k, right % 2**32
        c, d = left >> 32 ^ d ^ m, left % 2**32
        k, m = (k + 0x9E3779B9) % 2**32, (m + 0xBB67AE85) % 2**32
    return a, b, c, d


def words(state: HostArray, count: int) -> list[int]:
    """The first `count` words of a draw."""
    first, second, low, high = (int(word) for word in state)

    def all_words() -> Iterator[int]:
        for block in range(-(-count // 4)):
            position = ((high << 32 | low) + block) % 2**64
            yield from philox((position % 2**32, position >> 32, 0, 0), (first, second))

    return list(all_words())[:count]


def size(shape: tuple[int, ...]) -> int:
    """Number of elements."""
    return math.prod(shape)


def bits(state: HostArray, *, shape: tuple[int, ...]) -> HostArray:
    """The words themselves."""
    return np.array(words(state, size(shape)), np.uint32).reshape(shape)


def units(w: list[int]) -> list[float]:
    """Uniform doubles of 53 bits from two words each."""
    return [((a >> 5) * 2**26 + (b >> 6)) / 2**53 for a, b in zip(w[::2], w[1::2], strict=True)]


def uniform(state: HostArray, *, shape: tuple[int, ...], dtype: str = "float32") -> HostArray:
    """The upper bits of words, as many as the significand has digits."""
    name, n = str(dtype), size(shape)
    if name == "float64":
        return np.array(units(words(state, 2 * n)), float).reshape(shape)
    digits = {"float32": 24, "float16": 11, "bfloat16": 8}[name]
    values = [(w >> (32 - digits)) / 2**digits for w in words(state, n)]
    return np.array(values, float).reshape(shape)


def normal(state: HostArray, *, shape: tuple[int, ...], dtype: str = "float32") -> HostArray:
    """Pairs by the method of Box and Muller."""
    n = size(shape)
    pairs = -(-n // 2)
    if str(dtype) == "float64":
        u = units(words(state, 4 * pairs))
        both = [(1.0 - a, b) for a, b in zip(u[::2], u[1::2], strict=True)]
    else:
        w = words(state, 2 * pairs)
        both = [((a + 0.5) / 2**32, b / 2**32) for a, b in zip(w[::2], w[1::2], strict=True)]
    values = []
    for a, b in both:
        radius, angle = math.sqrt(-2.0 * math.log(a)), 2.0 * math.pi * b
        values += [radius * math.cos(angle), radius * math.sin(angle)]
    return np.array(values[:n], float).reshape(shape)


def bernoulli(
    state: HostArray, *, shape: tuple[int, ...], p: float, dtype: Any = "bool"
) -> HostArray:
    """True where a word is small."""
    hits = [w / 2**32 < math.floor(p * 2**32) / 2**32 for w in words(state, size(shape))]
    return np.array(hits, bool).reshape(shape)


def integers(
    state: HostArray, *, shape: tuple[int, ...], low: int, high: int, dtype: Any = "int64"
) -> HostArray:
    """The integer part of low + (high - low) * (a uniform)."""
    values = [low + (high - low) * w // 2**32 for w in words(state, size(shape))]
    return np.array(values, str(dtype)).reshape(shape)


def permutation(state: HostArray, *, n: int) -> HostArray:
    """The order of n keys of 64 bits."""
    w = words(state, 2 * n)
    keys = [a * 2**32 + b for a, b in zip(w[::2], w[1::2], strict=True)]
    return np.array(sorted(range(n), key=keys.__getitem__), np.int64)


TABLE: dict[str, Oracle] = {
    "random_bits": bits,
    "random_uniform": uniform,
    "random_normal": normal,
    "random_bernoulli": bernoulli,
    "random_integers": integers,
    "random_permutation": permutation,
}
