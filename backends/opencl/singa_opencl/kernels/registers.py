"""The tile of y that an inner loop of the cpu family keeps in registers, as text.

For each term of the sums it loads the `vectors` of one row of b, and multiplies them by `rows`
elements of a, one after the other. a and b lie in panels: what a term needs stands side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

from singa_core.dtype import BY_CODE
from singa_core.kernels.c.dialect import TYPES

VECTOR_BYTES = 32
BLOCK_BYTES = 384 << 10  # of what a work item packs: it stays in a second-level cache
# Time of a multiply-add in tiles of so many rows, as measured. With six rows of two vectors there
# are 12 sums, 2 vectors of b and an element of a: 15 registers of 16.
ROW_COSTS = {6: 1.0, 5: 1.03, 4: 1.07}
WIDEST_ROWS = 6


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
        return BY_CODE[self.code].itemsize


def room_for(shared: int) -> int:
    """Bytes that a work item may pack, where groups have so many of shared memory."""
    return min(shared, BLOCK_BYTES)


def rows_for(m: int) -> int:
    """The number of rows of a tile that takes least time for m rows, waste included."""
    if m <= WIDEST_ROWS:
        return max(m, 1)
    return min(ROW_COSTS, key=lambda rows: -(-m // rows) * rows * ROW_COSTS[rows])


_TYPES = Template("""
typedef $name T;
typedef $name$WIDTH V;
typedef V U __attribute__((aligned($ITEMSIZE)));
#define W $WIDTH
#define MR $ROWS
#define NR $COLUMNS
""")


def types(tile: Tile) -> str:
    """T, V (a vector) and U (a vector without alignment), and the tile's sizes."""
    return _TYPES.substitute(
        name=TYPES[tile.code][0], ITEMSIZE=tile.itemsize, WIDTH=tile.width, ROWS=tile.rows,
        COLUMNS=tile.columns,
    )  # fmt: skip


def sums(tile: Tile) -> str:
    """Declarations of the tile's sums, s<row>_<vector>."""
    rows = (across(tile, f"s{i}_{{j}} = 0", ", ") for i in range(tile.rows))
    return "".join(f"    V {row};\n" for row in rows)


def multiply(tile: Tile, a: str = "a[{i}]") -> str:
    """Add to the sums: the elements `a` of row i times the vectors b0, b1, ..."""
    lines = []
    for i in range(tile.rows):
        steps = across(tile, f"s{i}_{{j}} += e * b{{j}};")
        lines.append(f"{{ const T e = {a.format(i=i)}; {steps} }}\n")
    return "        ".join(lines)


def across(tile: Tile, text: str, between: str = " ") -> str:
    """`text` for each vector of a row: j is its number, c its first column."""
    return between.join(text.format(j=j, c=j * tile.width) for j in range(tile.vectors))


def loads(tile: Tile, pointer: str) -> str:
    """The vectors b0, b1, ... of a packed row."""
    return across(tile, f"const V b{{j}} = *(const SHARED V *)({pointer} + {{c}});")


def each(tile: Tile, line: str) -> str:
    """`line` for every vector of the tile: i is its row, j its number, c its first column."""
    return "".join(
        f"    {line.format(i=i, j=j, c=j * tile.width)}\n"
        for i in range(tile.rows)
        for j in range(tile.vectors)
    )


_KEEP = "t[{i} * NR / W + {j}] = s{i}_{j};"

_PRODUCTS = Template("""
FUNCTION void products(const $space T *a, const SHARED T *b, int kc, V *t)
{
$sums
    for (int k = 0; k < kc; k++, a += MR, b += NR) {
        $loads
        $multiply
    }
$keep
}
""")


def products(tile: Tile, space: str = "SHARED") -> str:
    """One tile of products of packed panels, left in t; a lies in `space`."""
    return _PRODUCTS.substitute(
        space=space, sums=sums(tile), loads=loads(tile, "b"), multiply=multiply(tile),
        keep=each(tile, _KEEP),
    )  # fmt: skip


# Whole tiles are stored by vectors, those at the ends of y from a copy, element by element.
_MICRO = Template("""
FUNCTION void micro($given, const SHARED T *b, int kc, GLOBAL T *y, long row,
                    int first, int rows, int columns, const GLOBAL T *bias)
{
$sums$starts
    for (int k = 0; k < kc; k++,$step b += NR) {
        $loads
        $multiply
    }
    if (rows == MR && columns == NR) {
        if (first && bias) {
$store_biased
        } else if (first) {
$store
        } else {
$add
        }
        return;
    }
    V t[MR * NR / W];
$keep
    const T *e = (const T *)t;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            y[i * row + j] = e[i * NR + j] + (!first ? y[i * row + j] : bias ? bias[j] : 0);
}
""")


def micro(tile: Tile, *, straight: bool = False) -> str:
    """One tile of y from packed panels; `first` says that nothing is to be added to but a bias.

    Args:
        straight: a is not packed: rows stand `am` apart, and their elements are neighbours.
    """
    if straight:
        rows = ", ".join(f"*a{i} = a + min({i}, rows - 1) * am" for i in range(tile.rows))
        walk = {
            "given": "const GLOBAL T *a, long am", "starts": f"    const GLOBAL T {rows};",
            "step": "", "multiply": multiply(tile, "a{i}[k]"),
        }  # fmt: skip
    else:
        walk = {
            "given": "const SHARED T *a", "starts": "", "step": " a += MR,",
            "multiply": multiply(tile),
        }  # fmt: skip
    place = "*(GLOBAL U *)(y + {i} * row + {c})"
    return _MICRO.substitute(
        walk, sums=sums(tile), loads=loads(tile, "b"), keep=each(tile, _KEEP),
        store_biased=each(tile, f"{place} = s{{i}}_{{j}} + *(const GLOBAL U *)(bias + {{c}});"),
        store=each(tile, f"{place} = s{{i}}_{{j}};"), add=each(tile, f"{place} += s{{i}}_{{j}};"),
    )  # fmt: skip
