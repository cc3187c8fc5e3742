"""Products of matrices for devices that run one work item per core: blocks packed as they are used.

A work item computes a block of y. It copies a piece of b into panels of `NR` columns, and a piece
of a into panels of `MR` rows unless its rows are contiguous; zeros stand at the ends. So neither
strides nor odd sizes reach the inner loop, which keeps MR * NR sums in registers.

Source: K. Goto, R. van de Geijn, Anatomy of high-performance matrix multiplication, ACM TOMS 34(3),
2008, section 5 (what is packed, and where it stays).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from singa_core.kernels.c.dialect import TYPES, Call, Source, Target

VECTOR_BYTES = 32
# Time of a multiply-add in tiles of so many rows, as measured. With six rows of two vectors there
# are 12 sums, 2 vectors of b and an element of a: 15 registers of 16.
ROW_COSTS = {6: 1.0, 5: 1.03, 4: 1.07}
WIDEST_ROWS = 6
BLOCK_BYTES = 384 << 10  # of packed pieces: they stay in a second-level cache
ITEM_COST = 500.0  # multiply-adds of vectors that starting a work item is worth
PACK_A, PACK_B, PACK_B_TURNED = 3.0, 0.6, 2.4  # the same for an element packed


@dataclass(frozen=True)
class Tile:
    """What the inner loop keeps in registers: `rows` of y, `vectors` of `width` elements each."""

    code: str
    rows: int
    vectors: int = 2

    @property
    def width(self) -> int:
        return VECTOR_BYTES // self.itemsize

    @property
    def columns(self) -> int:
        return self.vectors * self.width

    @property
    def itemsize(self) -> int:
        return 8 if self.code in ("f64", "i64") else 4


def rows_for(m: int) -> int:
    """The number of rows of a tile that takes least time for m rows, waste included."""
    if m <= WIDEST_ROWS:
        return max(m, 1)
    return min(ROW_COSTS, key=lambda rows: -(-m // rows) * rows * ROW_COSTS[rows])


def types(tile: Tile) -> str:
    """T, V (a vector) and U (a vector without alignment), and the tile's sizes."""
    name = TYPES[tile.code][0]
    return f"""
typedef {name} T;
typedef {name}{tile.width} V;
typedef V U __attribute__((aligned({tile.itemsize})));
#define W {tile.width}
#define MR {tile.rows}
#define NR {tile.columns}
"""


def sums(tile: Tile) -> str:
    """Declarations of the tile's sums, s<row>_<vector>."""
    rows = (", ".join(f"s{i}_{j} = 0" for j in range(tile.vectors)) for i in range(tile.rows))
    return "".join(f"    V {row};\n" for row in rows)


def multiply(tile: Tile, a: str = "a[{i}]") -> str:
    """Add to the sums: the elements `a` of row i times the vectors b0, b1, ..."""
    lines = []
    for i in range(tile.rows):
        steps = " ".join(f"s{i}_{j} += e * b{j};" for j in range(tile.vectors))
        lines.append(f"{{ const T e = {a.format(i=i)}; {steps} }}\n")
    return "        ".join(lines)


def each(tile: Tile, line: str, indent: str = "    ") -> str:
    """`line` for every vector of the tile: i is its row, j its number, c its first column."""
    return "".join(
        indent + line.format(i=i, j=j, c=j * tile.width) + "\n"
        for i in range(tile.rows)
        for j in range(tile.vectors)
    )


def loads(tile: Tile, pointer: str) -> str:
    """The vectors b0, b1, ... of a packed row."""
    return " ".join(
        f"const V b{j} = *(const SHARED V *)({pointer} + {j * tile.width});"
        for j in range(tile.vectors)
    )


def products(tile: Tile, space: str = "SHARED") -> str:
    """One tile of products of packed panels, left in t; a lies in `space`."""
    return f"""
FUNCTION void products(const {space} T *a, const SHARED T *b, int kc, V *t)
{{
{sums(tile)}
    for (int k = 0; k < kc; k++, a += MR, b += NR) {{
        {loads(tile, "b")}
        {multiply(tile)}
    }}
{each(tile, "t[{i} * NR / W + {j}] = s{i}_{j};")}
}}
"""


def micro(tile: Tile, *, straight: bool = False) -> str:
    """One tile of y from packed panels; `first` says that nothing is to be added to but a bias.

    Args:
        straight: a is not packed: rows stand `am` apart, and their elements are neighbours.
    """
    if straight:
        given = "const GLOBAL T *a, long am"
        starts = ", ".join(f"*a{i} = a + min({i}, rows - 1) * am" for i in range(tile.rows))
        rows, step, start = multiply(tile, "a{i}[k]"), "", f"    const GLOBAL T {starts};"
    else:
        given, rows, step, start = "const SHARED T *a", multiply(tile), " a += MR,", ""
    return f"""
FUNCTION void micro({given}, const SHARED T *b, int kc, GLOBAL T *y, long row,
                    int first, int rows, int columns, const GLOBAL T *bias)
{{
{sums(tile)}{start}
    for (int k = 0; k < kc; k++,{step} b += NR) {{
        {loads(tile, "b")}
        {rows}
    }}
    if (rows == MR && columns == NR) {{
        if (first && bias) {{
{each(tile, "*(GLOBAL U *)(y + {i} * row + {c}) = s{i}_{j} + *(const GLOBAL U *)(bias + {c});")}
        }} else if (first) {{
{each(tile, "*(GLOBAL U *)(y + {i} * row + {c}) = s{i}_{j};")}
        }} else {{
{each(tile, "*(GLOBAL U *)(y + {i} * row + {c}) += s{i}_{j};")}
        }}
        return;
    }}
    V t[MR * NR / W];
{each(tile, "t[{i} * NR / W + {j}] = s{i}_{j};")}
    const T *e = (const T *)t;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            y[i * row + j] = e[i * NR + j] + (!first ? y[i * row + j] : bias ? bias[j] : 0);
}}
"""


def pack(tile: Tile) -> str:
    """Copies of pieces of a and b in panels; `outer` goes along rows of a, columns of b."""
    vectors = "".join(
        f" *(SHARED V *)(p + {j * tile.width}) = *(const GLOBAL U *)(q + {j * tile.width});"
        for j in range(tile.vectors)
    )
    rows = " ".join(f"p[{i}] = q[{i} * outer];" for i in range(tile.rows))
    return f"""
FUNCTION void pack_b(const GLOBAL T *b, long inner, long outer, int kc, int nc, SHARED T *p)
{{
    for (int j0 = 0; j0 < nc; j0 += NR) {{
        const GLOBAL T *q = b + j0 * outer;
        const int columns = min(NR, nc - j0);
        if (columns == NR && outer == 1) {{
            for (int k = 0; k < kc; k++, q += inner, p += NR) {{{vectors} }}
            continue;
        }}
        for (int j = 0; j < columns; j++)
            for (int k = 0; k < kc; k++) p[k * NR + j] = q[j * outer + k * inner];
        for (int j = columns; j < NR; j++)
            for (int k = 0; k < kc; k++) p[k * NR + j] = 0;
        p += kc * NR;
    }}
}}
FUNCTION void pack_a(const GLOBAL T *a, long inner, long outer, int kc, int mc, SHARED T *p)
{{
    for (int i0 = 0; i0 < mc; i0 += MR) {{
        const GLOBAL T *q = a + i0 * outer;
        const int rows = min(MR, mc - i0);
        if (rows == MR)
            for (int k = 0; k < kc; k++, q += inner, p += MR) {{ {rows} }}
        else
            for (int k = 0; k < kc; k++, q += inner, p += MR)
                for (int i = 0; i < MR; i++) p[i] = i < rows ? q[i * outer] : 0;
    }}
}}
"""


def pieces(tile: Tile, shared: int) -> tuple[int, int, int]:
    """(rows of a, columns of b, depth) of the pieces that are packed at a time."""
    limit = min(shared, BLOCK_BYTES) // tile.itemsize
    depth = 256
    while depth > 16 and depth * (8 * tile.rows + 4 * tile.columns) > limit:
        depth //= 2
    left = limit // depth
    rows = max(min(16, left // (4 * tile.rows)), 1) * tile.rows
    columns = max(min(16, (left - rows) // tile.columns), 1) * tile.columns
    return rows, columns, depth


@cache
def source(tile: Tile, shared: int, biased: bool, straight: bool) -> Source:
    """The kernel, with a bias for columns or without; a is packed unless its rows are `straight`.

    Work items along axes 0 and 1 take blocks of y, those along axis 2 matrices.
    """
    mc, nc, kc = pieces(tile, shared)
    start = "bias + j + jj" if biased else "0"
    pack_rows, rows = "pack_a(a + i * am + l * ak, ak, am, depth, height, pa);", "pa + ii * depth"
    scratch = f"SHARED V packed_a[{mc * kc} / W]; SHARED T *pa = (SHARED T *)packed_a;"
    if straight:
        pack_rows, rows, scratch = "", "a + (i + ii) * am + l, am", ""
    body = f"""
    {scratch}
    SHARED V packed_b[{nc * kc} / W];
    SHARED T *pb = (SHARED T *)packed_b;
    const long z = GROUP_Z, z0 = z % size0, z1 = z / size0 % size1, z2 = z / size0 / size1;
    a += z0 * a0 + z1 * a1 + z2 * a2;
    b += z0 * b0 + z1 * b1 + z2 * b2;
    y += z * m * n;
    const int top = GROUP * rows, bottom = min(top + rows, m);
    const int left = GROUP_Y * columns, right = min(left + columns, n);
    for (int j = left; j < right; j += {nc}) {{
        const int width = min({nc}, right - j);
        for (int l = 0; l < k; l += {kc}) {{
            const int depth = min({kc}, k - l);
            pack_b(b + l * bk + j * bn, bk, bn, depth, width, pb);
            for (int i = top; i < bottom; i += {mc}) {{
                const int height = min({mc}, bottom - i);
                {pack_rows}
                for (int jj = 0; jj < width; jj += NR)
                    for (int ii = 0; ii < height; ii += MR)
                        micro({rows}, pb + jj * depth, depth,
                              y + (long)(i + ii) * n + j + jj, n, l == 0, min(MR, height - ii),
                              min(NR, width - jj), {start});
            }}
        }}
    }}
"""
    code = tile.code
    ints = ("m", "n", "k", "rows", "columns", "size0", "size1")
    longs = ("am", "ak", "bk", "bn", "a0", "a1", "a2", "b0", "b1", "b2")
    bias = (("bias", code, "in"),) if biased else ()
    return Source(
        "gemm",
        (("a", code, "in"), ("b", code, "in"), *bias, ("y", code, "out")),
        (*((name, "int") for name in ints), *((name, "long") for name in longs)),
        body,
        (types(tile), micro(tile, straight=straight), pack(tile)),
    )


@cache
def blocks(  # noqa: PLR0913  (sizes, and what packing costs)
    m: int,
    n: int,
    k: int,
    batch: int,
    units: int,
    tile: Tile,
    *,
    columns: int,
    pack_a: float = PACK_A,
    pack_b: float = PACK_B_TURNED,
) -> tuple[int, int]:
    """(rows, columns) of the block of a work item: those that keep all units busy for least time.

    Args:
        columns: of b that are packed at a time; a is packed again for each piece.
        pack_a, pack_b: the cost of packing an element, in multiply-adds of vectors.
    """
    parts = (*range(1, 9), 10, 12, 16, 20, 24, 32, 48, 64)
    heights = {rounded(-(-m // p), tile.rows) for p in parts}
    widths = {rounded(-(-n // p), tile.columns) for p in parts}
    best, chosen = float("inf"), (m, n)
    for height in heights:
        for width in widths:
            items = batch * -(-m // height) * -(-n // width)
            times = -(-width // columns)
            work = height * width / tile.width
            work += pack_a * height * times + pack_b * width
            # the last round is seldom even: finer work is shared better
            cost = (work * k + ITEM_COST) * (-(-items // units) + 0.3)
            if cost < best:
                best, chosen = cost, (height, width)
    return chosen


def rounded(value: int, step: int) -> int:
    """`value` rounded up to a multiple."""
    return max(-(-value // step) * step, step)


def product(
    code: str,
    sizes: tuple[int, int, int],
    a: Sequence[int],
    b: Sequence[int],
    batch: Sequence[tuple[int, int, int]] = (),
    *,
    target: Target,
    biased: bool = False,
) -> Call:
    """The call for y[z] = a[z] @ b[z], or with a bias (n) added to every row.

    Args:
        sizes: (m, n, k).
        a, b: strides along (m, k) and (k, n).
        batch: (size, stride of a, stride of b) for at most three axes of z, the last one first.
    """
    m, n, k = sizes
    tile = Tile(code, rows_for(m))
    straight = a[1] == 1
    kernel = source(tile, target.shared, biased, straight)
    axes = (*batch, *((1, 0, 0),) * (3 - len(batch)))
    count = axes[0][0] * axes[1][0] * axes[2][0]
    height, width = blocks(
        m, n, k, count, target.units, tile, columns=pieces(tile, target.shared)[1],
        pack_a=0.0 if straight else PACK_A, pack_b=PACK_B if b[1] == 1 else PACK_B_TURNED,
    )  # fmt: skip
    numbers = (m, n, k, height, width, axes[0][0], axes[1][0], *a, *b)
    numbers += tuple(axis[1] for axis in axes) + tuple(axis[2] for axis in axes)
    items = (-(-m // height), -(-n // width), count)
    operands = (0, 1, 2, 3) if biased else (0, 1, 2)
    return Call(kernel, items, (1, 1, 1), operands, numbers)
