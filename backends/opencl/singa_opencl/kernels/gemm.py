"""Products of matrices for devices that run one work item per core: blocks packed as they are used.

A work item computes a block of y. It copies a piece of b into panels of `NR` columns, and a piece
of a into panels of `MR` rows unless its rows are contiguous; zeros stand at the ends. So neither
strides nor odd sizes reach the inner loop, which keeps MR * NR sums in registers.

Source: K. Goto, R. van de Geijn, Anatomy of high-performance matrix multiplication, ACM TOMS 34(3),
2008, section 5 (what is packed, and where it stays).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from string import Template

from singa_core.kernels.c.dialect import Call, Source, Target
from singa_core.kernels.c.geometry import grouped
from singa_opencl.kernels.product import MATRIX, STRIDES, Product
from singa_opencl.kernels.registers import Tile, across, micro, room_for, rows_for, types
from singa_opencl.kernels.text import call, numbers, operands

ITEM_COST = 500.0  # multiply-adds of vectors that starting a work item is worth
PACK_A, PACK_B, PACK_B_TURNED = 3.0, 0.6, 2.4  # the same for an element packed
PARTS = (*range(1, 9), 10, 12, 16, 20, 24, 32, 48, 64)  # blocks along an axis that are tried

_PACK = Template("""
FUNCTION void pack_b(const GLOBAL T *b, long inner, long outer, int kc, int nc, SHARED T *p)
{
    for (int j0 = 0; j0 < nc; j0 += NR) {
        const GLOBAL T *q = b + j0 * outer;
        const int columns = min(NR, nc - j0);
        if (columns == NR && outer == 1) {
            for (int k = 0; k < kc; k++, q += inner, p += NR) {$vectors }
            continue;
        }
        for (int j = 0; j < columns; j++)
            for (int k = 0; k < kc; k++) p[k * NR + j] = q[j * outer + k * inner];
        for (int j = columns; j < NR; j++)
            for (int k = 0; k < kc; k++) p[k * NR + j] = 0;
        p += kc * NR;
    }
}
FUNCTION void pack_a(const GLOBAL T *a, long inner, long outer, int kc, int mc, SHARED T *p)
{
    for (int i0 = 0; i0 < mc; i0 += MR) {
        const GLOBAL T *q = a + i0 * outer;
        const int rows = min(MR, mc - i0);
        if (rows == MR)
            for (int k = 0; k < kc; k++, q += inner, p += MR) { $rows }
        else
            for (int k = 0; k < kc; k++, q += inner, p += MR)
                for (int i = 0; i < MR; i++) p[i] = i < rows ? q[i * outer] : 0;
    }
}
""")

# Work items along axes 0 and 1 take blocks of y, those along axis 2 matrices.
_BODY = Template("""
    $scratch
    SHARED V packed_b[$B / W];
    SHARED T *pb = (SHARED T *)packed_b;
$matrix
    a += z0 * a0 + z1 * a1 + z2 * a2;
    b += z0 * b0 + z1 * b1 + z2 * b2;
    y += z * m * n;
    const int top = GROUP * rows, bottom = min(top + rows, m);
    const int left = GROUP_Y * columns, right = min(left + columns, n);
    for (int j = left; j < right; j += $NC) {
        const int width = min($NC, right - j);
        for (int l = 0; l < k; l += $KC) {
            const int depth = min($KC, k - l);
            pack_b(b + l * bk + j * bn, bk, bn, depth, width, pb);
            for (int i = top; i < bottom; i += $MC) {
                const int height = min($MC, bottom - i);
                $pack_rows
                for (int jj = 0; jj < width; jj += NR)
                    for (int ii = 0; ii < height; ii += MR)
                        micro($rows, pb + jj * depth, depth,
                              y + (long)(i + ii) * n + j + jj, n, l == 0, min(MR, height - ii),
                              min(NR, width - jj), $bias);
            }
        }
    }
""")


def pack(tile: Tile) -> str:
    """Copies of pieces of a and b in panels; `outer` goes along rows of a, columns of b."""
    return _PACK.substitute(
        vectors=across(tile, " *(SHARED V *)(p + {c}) = *(const GLOBAL U *)(q + {c});", ""),
        rows=" ".join(f"p[{i}] = q[{i} * outer];" for i in range(tile.rows)),
    )


def pieces(tile: Tile, shared: int) -> tuple[int, int, int]:
    """(rows of a, columns of b, depth) of the pieces that are packed at a time."""
    limit = room_for(shared) // tile.itemsize
    depth = 256
    while depth > 16 and depth * (8 * tile.rows + 4 * tile.columns) > limit:
        depth //= 2
    left = limit // depth
    rows = max(min(16, left // (4 * tile.rows)), 1) * tile.rows
    columns = max(min(16, (left - rows) // tile.columns), 1) * tile.columns
    return rows, columns, depth


@cache
def source(tile: Tile, shared: int, biased: bool, straight: bool) -> Source:
    """The kernel, with a bias for columns or without; rows of a are packed or `straight`."""
    mc, nc, kc = pieces(tile, shared)
    if straight:
        reading = {"scratch": "", "pack_rows": "", "rows": "a + (i + ii) * am + l, am"}
    else:
        reading = {
            "scratch": f"SHARED V packed_a[{mc * kc} / W]; SHARED T *pa = (SHARED T *)packed_a;",
            "pack_rows": "pack_a(a + i * am + l * ak, ak, am, depth, height, pa);",
            "rows": "pa + ii * depth",
        }
    bias = "bias + j + jj" if biased else "0"
    return Source(
        "gemm",
        operands(tile.code, "a b", biased=biased),
        numbers("m n k rows columns size0 size1", STRIDES),
        _BODY.substitute(reading, MC=mc, NC=nc, KC=kc, B=nc * kc, matrix=MATRIX, bias=bias),
        (types(tile), micro(tile, straight=straight), pack(tile)),
    )


@dataclass(frozen=True)
class Work:
    """What is shared among work items: `batch` times y (m, n), each element a sum of k terms.

    Args:
        columns: of b that are packed at a time; a is packed again for each piece.
        pack_a, pack_b: the cost of packing an element, in multiply-adds of vectors.
    """

    m: int
    n: int
    k: int
    batch: int
    columns: int
    pack_a: float = PACK_A
    pack_b: float = PACK_B_TURNED


@cache
def blocks(work: Work, tile: Tile, units: int) -> tuple[int, int]:
    """(rows, columns) of the block of a work item: those that take all units the least time."""
    heights = {grouped(-(-work.m // p), tile.rows) for p in PARTS}
    widths = {grouped(-(-work.n // p), tile.columns) for p in PARTS}
    best, chosen = float("inf"), (work.m, work.n)
    for height in heights:
        for width in widths:
            items = work.batch * -(-work.m // height) * -(-work.n // width)
            times = -(-width // work.columns)
            term = height * width / tile.width
            term += work.pack_a * height * times + work.pack_b * width
            # the last round is seldom even: finer work is shared better
            cost = (term * work.k + ITEM_COST) * (-(-items // units) + 0.3)
            if cost < best:
                best, chosen = cost, (height, width)
    return chosen


def product(p: Product, target: Target) -> Call:
    """The call for a product."""
    m, n, k = p.sizes
    tile = Tile(p.code, rows_for(m))
    straight = p.a[1] == 1
    work = Work(
        m, n, k, p.count, pieces(tile, target.shared)[1],
        pack_a=0.0 if straight else PACK_A, pack_b=PACK_B if p.b[1] == 1 else PACK_B_TURNED,
    )  # fmt: skip
    rows, columns = blocks(work, tile, target.units)
    kernel = source(tile, target.shared, p.biased, straight)
    items = (-(-m // rows), -(-n // columns), p.count)
    return call(kernel, items, p.operands, p.numbers | {"rows": rows, "columns": columns})
