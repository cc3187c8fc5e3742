"""Convolution without a matrix of columns: vectors of places in a row, times weights in panels.

A work item makes some rows of y, for some channels, of one image. Unless no window sees padding
and the stride along rows is one, it first copies what these rows see: zeros stand where x ends,
and columns that are `stride` apart stand side by side, so that all loads are of neighbours. The
inner loop keeps the tile's channels of y by its vectors of places in registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from string import Template

from singa_core.kernels.c.dialect import Source, Target
from singa_opencl.kernels.conv_geometry import (
    COPY_LINE,
    ROUNDS,
    Found,
    Geometry,
    pack_weight,
    packed_bytes,
    panels,
    positions,
)
from singa_opencl.kernels.registers import (
    Tile,
    across,
    multiply,
    room_for,
    rows_for,
    sums,
    types,
)
from singa_opencl.kernels.text import call, numbers, operands

REGION_BYTES = 160 << 10  # of x that a work item copies: half of a second-level cache at most


@dataclass(frozen=True)
class Variant:
    """What the text of the kernel depends on.

    Args:
        tile: channels of y by vectors of places.
        kernel: (rows, columns).
        stride, dilation: along rows.
        copied: elements of the copied region; 0 for none.
        biased: there is a bias.
    """

    tile: Tile
    kernel: tuple[int, int]
    stride: int
    dilation: int
    copied: int
    biased: bool

    @property
    def space(self) -> str:
        """The memory that vectors of x are loaded from."""
        return "SHARED" if self.copied else "GLOBAL"


def fits(g: Geometry, shared: int) -> bool:
    """True where rows are long enough for vectors, and what a row of y sees can be copied."""
    return g.ow >= g.vector and (not copies(g) or region(g, 1) <= room_for(shared))


def copies(g: Geometry) -> bool:
    """x has to be copied: padding, or a stride along rows."""
    return not (g.inside and g.stride[1] == 1)


def phase(g: Geometry) -> int:
    """Columns of x of one phase (column modulo stride) that a row of y sees."""
    return g.ow + (g.kw - 1) * g.dilation[1] // g.stride[1]


def region(g: Geometry, rows: int) -> int:
    """Bytes of what `rows` rows of y see, copied."""
    return g.c * g.lines(rows) * g.stride[1] * phase(g) * g.itemsize


def tile_for(g: Geometry) -> Tile:
    """Few channels of y (depthwise) leave registers for more vectors."""
    rows = rows_for(g.o)
    return Tile(g.code, rows, max(min(12 // rows, 4), 2))


def cut(g: Geometry, tile: Tile, target: Target) -> tuple[int, int]:
    """(rows of y, panels of weights) of a work item."""
    rows, count = g.oh, panels(g.o, tile)
    limit = min(REGION_BYTES, target.shared)
    while rows > 1 and copies(g) and region(g, rows) > limit:
        rows = -(-rows // 2)
    most, wanted = g.n * g.groups, ROUNDS * target.units
    while rows > 4 and most * -(-g.oh // rows) < wanted:
        rows = -(-rows // 2)
    taken = count
    while taken > 1 and most * -(-g.oh // rows) * -(-count // taken) < wanted:
        taken = -(-taken // 2)
    return rows, taken


# --- the inner loop: one tile of y, all terms of its sums --------------------------------------

_MICRO = Template("""
FUNCTION void micro(const GLOBAL T *a, $bases, int channels, long plane, long line, int phase,
                    GLOBAL T *y, $ends, long out, int own, const GLOBAL T *bias)
{
$sums
    for (int c = 0; c < channels; c++)
        for (int r = 0; r < $KH; r++) {
            const $space T $moved;
            $steps
        }
$stores
}
""")
_STEP = Template("""{ $loads
        $multiply        a += MR; }
""")
_STORE = Template("    if ($I < own) { const T e = bias ? bias[$I] : 0; $row y += out; }")


def micro(v: Variant) -> str:
    """The function that makes a tile of y; x<j> and y<j> are where vector j begins."""
    tile = v.tile
    rows = (across(tile, f"*(GLOBAL U *)(y + y{{j}}) = s{i}_{{j}} + e;") for i in range(tile.rows))
    return _MICRO.substitute(
        bases=across(tile, f"const {v.space} T *x{{j}}", ", "),
        ends=across(tile, "long y{j}", ", "),
        sums=sums(tile),
        KH=v.kernel[0],
        space=v.space,
        moved=across(tile, "*p{j} = x{j} + c * plane + r * line", ", "),
        steps="            ".join(step(v, column) for column in range(v.kernel[1])),
        stores="\n".join(_STORE.substitute(I=i, row=row) for i, row in enumerate(rows)),
    )


def step(v: Variant, column: int) -> str:
    """One tap: the elements of x that meet this column of the kernel, times the weights."""
    at = column * v.dilation
    place = f"{at % v.stride} * phase + {at // v.stride}"
    load = f"const V b{{j}} = *(const {v.space} U *)(p{{j}} + {place});"
    return _STEP.substitute(loads=across(v.tile, load), multiply=multiply(v.tile))


# --- the kernel --------------------------------------------------------------------------------

_COPIED = Template("""
    SHARED V region[($COPIED + W - 1) / W];
    SHARED T *to = (SHARED T *)region;
    for (int c = 0; c < channels; c++)
        for (int l = 0; l < lines; l++) {
            const int at = top * sh - ph + l;
            for (int p = 0; p < $SW; p++, to += phase)
                if (at < 0 || at >= h)
                    for (int i = 0; i < phase; i++) to[i] = 0;
                else
                    copy_line(image + ((long)c * h + at) * w, w, p - pw, $SW, phase, to);
        }
    const SHARED T *seen = (const SHARED T *)region;
    const long line = phase * $SW, plane = lines * line;
""")
_IN_PLACE = """\
    const GLOBAL T *seen = image + (long)top * sh * w;
    const long line = w, plane = (long)h * w;
"""
# Vector j of the tile: row t and column u of y. The last one of a row may overlap its neighbour.
_PLACE = (
    "            const int v{j} = min(v + {j}, count - 1), t{j} = v{j} / vectors, "
    "u{j} = min(v{j} % vectors * W, ow - W);"
)
_BODY = Template("""
    const int bands = (oh + rows - 1) / rows;
    const int n = GROUP / bands, top = GROUP % bands * rows, group = GROUP_Z;
    const int own = min(rows, oh - top), lines = (own - 1) * sh + $SPAN * dh + 1;
    const int first = GROUP_Y * taken, last = min(first + taken, panels);
    const GLOBAL T *image = x + ((long)n * groups + group) * channels * h * w;
    const GLOBAL T *a = weight + (long)group * panels * MR * channels * $TAPS;
    GLOBAL T *made = y + ((long)n * groups + group) * outs * oh * ow;
$seen
    const int vectors = (ow + W - 1) / W, count = own * vectors;
    for (int v = 0; v < count; v += $VECTORS) {
$places
        for (int panel = first; panel < last; panel++) {
            const int o = panel * MR;
            const GLOBAL T *e = $bias;
            micro(a + (long)o * channels * $TAPS, $bases, channels, plane, dh * line, phase,
                  made + (long)o * oh * ow, $ends, (long)oh * ow, outs - o, e);
        }
    }
""")


@cache
def source(v: Variant) -> Source:
    """The kernel."""
    tile, (kh, kw) = v.tile, v.kernel
    copied = _COPIED.substitute(COPIED=v.copied, SW=v.stride)
    body = _BODY.substitute(
        SPAN=kh - 1, TAPS=kh * kw, VECTORS=tile.vectors,
        seen=copied if v.copied else _IN_PLACE,
        places=across(tile, _PLACE, "\n"),
        bases=across(tile, "seen + t{j} * sh * line + u{j}", ", "),
        ends=across(tile, "(long)(top + t{j}) * ow + u{j}", ", "),
        bias="bias + group * outs + o" if v.biased else "0",
    )  # fmt: skip
    return Source(
        "conv_direct",
        operands(tile.code, "x weight", biased=v.biased),
        numbers("channels h w outs oh ow sh dh ph pw phase groups panels rows taken"),
        body,
        (types(tile), COPY_LINE, micro(v)),
    )


def forward(target: Target, g: Geometry, *, biased: bool, turned: bool = False) -> Found:
    """Calls for (x, weight[, bias], y, workspace) and the workspace's bytes.

    Args:
        target: what they are for.
        g: the convolution.
        biased: there is a bias.
        turned: the weight is that of the convolution whose gradient this is, (c, o, kh, kw) here.
    """
    tile = tile_for(g)
    rows, taken = cut(g, tile, target)
    count = panels(g.o, tile)
    limit = min(max(REGION_BYTES, region(g, 1)), target.shared) // g.itemsize
    copied = limit if copies(g) else 0
    kernel = source(Variant(tile, (g.kh, g.kw), g.stride[1], g.dilation[1], copied, biased))
    values = g.numbers | {"phase": phase(g), "panels": count, "rows": rows, "taken": taken}
    items = (g.n * -(-g.oh // rows), -(-count // taken), g.groups)
    weight, used = positions(biased=biased)
    calls = [pack_weight(g, tile, weight, turned=turned), call(kernel, items, used, values)]
    return calls, packed_bytes(g.o, g.terms, g.groups, tile)
