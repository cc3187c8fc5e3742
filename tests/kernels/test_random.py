"""Philox4x32-10, against its published answers and a version on Python integers."""

import numpy as np
import pytest

from array_language import find, numbers, run
from singa_core.kernels.array import random

KERNEL = find("random_bits", "u32->u32")
# Random123, tests/kat_vectors, the lines `philox4x32 10`: counter, key, result.
KNOWN = (
    (
        (0x00000000, 0x00000000, 0x00000000, 0x00000000),
        (0x00000000, 0x00000000),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


def philox_by_hand(counter, key):
    """Ten rounds on Python integers, from the paper's section 4.3."""
    c, (k, m) = list(counter), key
    for _ in range(10):
        left, right = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [right >> 32 ^ c[1] ^ k, right % 2**32, left >> 32 ^ c[3] ^ m, left % 2**32]
        k, m = (k + 0x9E3779B9) % 2**32, (m + 0xBB67AE85) % 2**32
    return c


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_known_answers(counter, key, result):
    assert philox_by_hand(counter, key) == list(result)
    words = random.rounds(np, [np.full(3, c, np.uint64) for c in counter], key)
    assert [w.tolist() for w in words] == [[r] * 3 for r in result]


@pytest.mark.parametrize("start", [0, 5, 2**32 - 2, 2**64 - 1])
def test_bits_follow_the_counter(start):
    key = (0x01234567, 0xFEDCBA98)
    state = np.array([*key, start % 2**32, start >> 32], np.uint32)
    y = run(KERNEL, state, shape=(3, 5))
    blocks = [(start + n) % 2**64 for n in range(4)]
    expected = [w for n in blocks for w in philox_by_hand((n % 2**32, n >> 32, 0, 0), key)]
    assert y.shape == (3, 5)
    assert numbers(y) == expected[:15]
    np.testing.assert_array_equal(random.philox(np, key, start, 15), y.reshape(-1))


def test_bits_of_any_number():
    state = np.array([1, 2, 3, 0], np.uint32)
    assert run(KERNEL, state, shape=()).shape == ()
    assert run(KERNEL, state, shape=(0, 4)).shape == (0, 4)
    n = 4 * random._CHUNK + 9  # more than one chunk
    y = run(KERNEL, state, shape=(n,))
    last = 3 + (n - 1) // 4
    assert y[-1] == philox_by_hand((last, 0, 0, 0), (1, 2))[(n - 1) % 4]
    np.testing.assert_array_equal(y[:100], run(KERNEL, state, shape=(100,)))
