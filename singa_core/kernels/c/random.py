"""Random bits by element index: Philox4x32-10, four words for each block.

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011, section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import INT_LIMIT, Call, Source, Target
from singa_core.kernels.c.geometry import grouped
from singa_core.spec import AnyForm, Spec

PHILOX: Final = """
FUNCTION void philox(uint k0, uint k1, uint c0, uint c1, uint *word)
{
    uint c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++) {
        uint high0 = MULHI(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        uint high1 = MULHI(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0; c1 = low1;
        c2 = high0 ^ c3 ^ k1; c3 = low0;
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    word[0] = c0; word[1] = c1; word[2] = c2; word[3] = c3;
}
"""
# For work items that make many words: eight blocks side by side, which compilers turn into vectors.
PHILOX_8: Final = """
FUNCTION void philox_8(uint k0, uint k1, ulong place, uint *word)
{
    uint c0[8], c1[8], c2[8], c3[8];
    for (int j = 0; j < 8; j++) {
        c0[j] = (uint)(place + j); c1[j] = (uint)((place + j) >> 32);
        c2[j] = 0; c3[j] = 0;
    }
    for (int round = 0; round < 10; round++) {
        for (int j = 0; j < 8; j++) {
            uint high0 = MULHI(0xD2511F53u, c0[j]), low0 = 0xD2511F53u * c0[j];
            uint high1 = MULHI(0xCD9E8D57u, c2[j]), low1 = 0xCD9E8D57u * c2[j];
            c0[j] = high1 ^ c1[j] ^ k0; c1[j] = low1;
            c2[j] = high0 ^ c3[j] ^ k1; c3[j] = low0;
        }
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    for (int j = 0; j < 8; j++) {
        word[4 * j] = c0[j]; word[4 * j + 1] = c1[j];
        word[4 * j + 2] = c2[j]; word[4 * j + 3] = c3[j];
    }
}
"""
STRIP: Final = 128
"""Words that a work item of the cpu family makes at once."""
LEAST: Final = 2048
"""Words that are worth a work item of their own there: they take about 3 microseconds."""
# words of the block of word i and of those behind it, until `count` words from i on are there
STRIPS: Final = """
FUNCTION void random_strip(const GLOBAL uint *state, ulong i, int count, uint *word)
{
    ulong place = ((ulong)state[2] | (ulong)state[3] << 32) + (i >> 2);
    int blocks = (count + (int)(i & 3) + 3) / 4;
    for (int b = 0; b < blocks; b += 8) philox_8(state[0], state[1], place + b, word + 4 * b);
}
"""
# word i; `word` has those of block `held`
SINGLE: Final = """
FUNCTION uint random_word(const GLOBAL uint *state, ulong i, ulong *held, uint *word)
{
    if (*held != i >> 2) {
        ulong place = ((ulong)state[2] | (ulong)state[3] << 32) + (i >> 2);
        *held = i >> 2;
        philox(state[0], state[1], (uint)place, (uint)(place >> 32), word);
    }
    uint low = i & 1 ? word[1] : word[0], high = i & 1 ? word[3] : word[2];
    return i & 2 ? high : low;
}
"""
_CPU = """
    uint word[STRIP];
    IDX stop = min((GID + 1) * per, n), end;
    for (IDX i = GID * per; i < stop; i = end) {
        end = min(i + STRIP, stop);
        random_strip(state, (ulong)i, (int)(end - i), word);
        for (int j = 0; j < (int)(end - i); j++) y[i + j] = word[j];
    }""".replace("STRIP", str(STRIP))
_GPU = """
    uint word[4];
    IDX stop = min((GID + 1) * per, n);
    ulong held = ~(ulong)0;
    for (IDX i = GID * per; i < stop; i++) y[i] = random_word(state, (ulong)i, &held, word);"""


def drawing(family: str) -> tuple[str, ...]:
    """The functions that make words: `random_strip` or `random_word`."""
    return (PHILOX_8, STRIPS) if family == "cpu" else (PHILOX, SINGLE)


@c.calls("random_bits", "u32->u32")
def random_bits(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, shape: tuple[int, ...]
) -> list[Call]:
    n = outs[0].itemcount
    if not n:
        return []
    cpu = target.family == "cpu"
    per = max(grouped(-(-n // (4 * target.units)), STRIP), LEAST) if cpu else 4
    group = 1 if cpu else target.group
    source = Source(
        "random_bits", (("state", "u32", "in"), ("y", "u32", "out")),
        (("per", "IDX"), ("n", "IDX")), _CPU if cpu else _GPU, drawing(target.family),
        wide=n > INT_LIMIT,
    )  # fmt: skip
    return [Call(source, (grouped(-(-n // per), group),), (group,), (0, 1), (per, n))]
