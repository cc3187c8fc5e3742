"""Random bits by element index: Philox4x32-10, four words for each block.

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011, section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import INT_LIMIT, Call, Source, Target
from singa_core.kernels.c.geometry import grouped
from singa_core.spec import AnyForm, Spec

PHILOX = """
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
WORD = """
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
_BODY = """
    uint k0 = state[0], k1 = state[1];
    ulong counter = (ulong)state[2] | (ulong)state[3] << 32;
    IDX last = min((GID + 1) * per, blocks);
    for (IDX b = GID * per; b < last; b++) {
        ulong place = counter + (ulong)b;
        uint word[4];
        philox(k0, k1, (uint)place, (uint)(place >> 32), word);
        IDX left = n - b * 4;
        for (int j = 0; j < 4; j++) if (j < left) y[b * 4 + j] = word[j];
    }"""


@c.calls("random_bits", "u32->u32")
def random_bits(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, shape: tuple[int, ...]
) -> list[Call]:
    n = outs[0].itemcount
    if not n:
        return []
    blocks = -(-n // 4)
    cpu = target.family == "cpu"
    per = max(-(-blocks // (4 * target.units)), 512) if cpu else 1
    group = 1 if cpu else target.group
    source = Source(
        "random_bits", (("state", "u32", "in"), ("y", "u32", "out")),
        (("per", "IDX"), ("blocks", "IDX"), ("n", "IDX")), _BODY, (PHILOX,),
        wide=n > INT_LIMIT // 2,
    )  # fmt: skip
    items = grouped(-(-blocks // per), group)
    return [Call(source, (items,), (group,), (0, 1), (per, blocks, n))]
