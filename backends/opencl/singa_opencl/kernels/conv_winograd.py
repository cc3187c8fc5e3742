"""Convolution with a kernel of 3x3 by Winograd's F(2x2, 3x3): 16 multiplications instead of 36.

Four elements of y at a time are y = A' ((G w G') * (B' x B)) A, where x are the 4x4 elements they
depend on, * multiplies element by element, and ' transposes. Summed over channels, each of the 16
products is a matrix product. A work item makes some rows of these tiles, of one image: it turns
what they see, multiplies panel by panel, and turns each panel back while it is at hand. Rounding
errors are a little larger than those of plain sums.

Source: arXiv:1509.09308, section 4.1.
"""

from __future__ import annotations

from functools import cache
from string import Template

from singa_core.kernels.c.dialect import Call, Source, Target
from singa_core.kernels.c.geometry import grouped
from singa_core.spec import Shape
from singa_opencl.kernels.conv_geometry import (
    COPY_LINE,
    ROUNDS,
    Found,
    Geometry,
    packed_bytes,
    panels,
    positions,
)
from singa_opencl.kernels.registers import Tile, products, room_for, rows_for, types
from singa_opencl.kernels.text import call, numbers, operands

TURNED_BYTES = 256 << 10  # of what is multiplied: they stay in a second-level cache
LEAST_CHANNELS = 32
WASTE = 1.3  # more places in tiles than this for each of y, and plain sums are cheaper


def fits(g: Geometry, shared: int) -> bool:
    """True where it saves time, and what is multiplied can be kept at hand."""
    if g.code != "f32" or (g.kh, g.kw, *g.stride, *g.dilation) != (3, 3, 1, 1, 1, 1):
        return False
    down, across = grid(g)
    wasted = 4 * down * across > WASTE * g.oh * g.ow or down * across < 16
    room = room_for(shared) >= 4 * (size(g, 1) + plane(g, 1))
    return min(g.c, g.o) >= LEAST_CHANNELS and not wasted and room


def grid(g: Geometry) -> tuple[int, int]:
    """Tiles down and across an image of y."""
    return -(-g.oh // 2), -(-g.ow // 2)


def plane(g: Geometry, rows: int) -> int:
    """Elements of a channel of x that `rows` rows of tiles see, and what a vector reads more."""
    return (2 * rows + 2) * (2 * grid(g)[1] + 2) + 16


def size(g: Geometry, rows: int) -> int:
    """Elements of what is multiplied for `rows` rows of tiles, in panels of 16."""
    return 16 * g.c * grouped(rows * grid(g)[1], 16)


def cut(g: Geometry, units: int) -> int:
    """Rows of tiles of a work item."""
    rows = down = grid(g)[0]
    while rows > 1 and 4 * size(g, rows) > TURNED_BYTES:
        rows -= 1
    while rows > 2 and g.n * g.groups * -(-down // rows) < ROUNDS * units:
        rows -= 1
    return rows


_WEIGHT = """
    const int panel = GROUP, group = GROUP_Y;
    const GLOBAL T *from = weight + start + group * sg + (long)panel * MR * si;
    const long far = (long)groups * panels * MR * outer;
    GLOBAL T *to = packed + ((long)group * panels + panel) * MR * outer;
    const int own = min(MR, rows - panel * MR);
    for (int l = 0; l < outer; l++)
        for (int i = 0; i < MR; i++, to++) {
            T w[3][3], h[4][3];
            const GLOBAL T *e = from + l * sl + i * si;
            for (int r = 0; r < 3; r++)
                for (int s = 0; s < 3; s++) w[r][s] = i < own ? e[r * sr + s * ss] : 0;
            for (int s = 0; s < 3; s++) {
                const T sum = w[0][s] + w[2][s];
                h[0][s] = w[0][s]; h[3][s] = w[2][s];
                h[1][s] = (sum + w[1][s]) * 0.5f; h[2][s] = (sum - w[1][s]) * 0.5f;
            }
            for (int r = 0; r < 4; r++) {
                const T sum = h[r][0] + h[r][2];
                GLOBAL T *u = to + 4 * r * far;
                u[0] = h[r][0]; u[3 * far] = h[r][2];
                u[far] = (sum + h[r][1]) * 0.5f; u[2 * far] = (sum - h[r][1]) * 0.5f;
            }
        }
"""


@cache
def weight_source(tile: Tile) -> Source:
    """G w G' of all weights, in panels [product][group][panel][outer][row]."""
    return Source(
        f"winograd_weight_{tile.rows}",
        operands(tile.code, "weight", "packed"),
        numbers("groups rows outer panels", "start sg si sl sr ss"),
        _WEIGHT,
        (types(tile),),
    )


def turn_weight(g: Geometry, tile: Tile, where: Shape, *, turned: bool) -> Call:
    """The call that makes them of a weight (groups * o, c, 3, 3).

    Args:
        where: the operands, as `call` takes them.
        turned: the weight is that of the convolution whose gradient g is, (groups * c, o, 3, 3);
            its taps go back to front.
    """
    values = {
        "groups": g.groups, "rows": g.o, "outer": g.c, "panels": panels(g.o, tile),
        "start": 8 if turned else 0, "sg": g.o * g.c * 9, "si": 9 if turned else g.c * 9,
        "sl": g.o * 9 if turned else 9, "sr": -3 if turned else 3, "ss": -1 if turned else 1,
    }  # fmt: skip
    return call(weight_source(tile), (values["panels"], g.groups, 1), where, values)


# Elements of the tiles q, q + 1, ... as 16 vectors; across % W == 0 makes neighbours of them.
_SEEN_IN_ROWS = """
            const SHARED T *e = plane + 2 * (q / across) * line + 2 * (q % across);
            for (int i = 0; i < 4; i++, e += line) {
                const V a = *(const SHARED U *)e, b = *(const SHARED U *)(e + W);
                const V f = *(const SHARED U *)(e + 2), h = *(const SHARED U *)(e + W + 2);
                d[4 * i] = (V)(a.even, b.even); d[4 * i + 1] = (V)(a.odd, b.odd);
                d[4 * i + 2] = (V)(f.even, h.even); d[4 * i + 3] = (V)(f.odd, h.odd);
            }
"""
_SEEN = """
            T *one = (T *)d;
            for (int j = 0; j < W; j++) {
                const int t = min(q + j, tiles - 1);
                const SHARED T *e = plane + 2 * (t / across) * line + 2 * (t % across);
                for (int i = 0; i < 4; i++)
                    for (int k = 0; k < 4; k++) one[(4 * i + k) * W + j] = e[i * line + k];
            }
"""
_STORED_IN_ROWS = """
                        const int row = 2 * (q / across), column = 2 * (q % across);
                        for (int k = 0; k < 2; k++) {
                            if (top + row + k >= oh) break;
                            const V a = made[2 * k] + e, b = made[2 * k + 1] + e;
                            GLOBAL T *p = to + (long)(top + row + k) * ow + column;
                            *(GLOBAL U *)p = (V)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3);
                            *(GLOBAL U *)(p + W) =
                                (V)(a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7);
                        }
"""
_STORED = """
                        const T *one = (const T *)made;
                        for (int j = 0; j < min(W, tiles - q); j++) {
                            const int row = top + 2 * ((q + j) / across);
                            const int column = 2 * ((q + j) % across);
                            for (int k = 0; k < 4; k++)
                                if (row + k / 2 < oh && column + k % 2 < ow)
                                    to[(long)(row + k / 2) * ow + column + k % 2] =
                                        one[k * W + j] + e;
                        }
"""


# B' x B of what the rows see, one channel after the other, in panels [product][panel][channel].
_TURN = """
    SHARED V plane_[($SEEN + W - 1) / W], turned_[$TURNED / W];
    SHARED T *plane = (SHARED T *)plane_, *turned = (SHARED T *)turned_;
    const int bands = (down + rows - 1) / rows, n = GROUP / bands, first = GROUP % bands * rows;
    const int group = GROUP_Z, own = min(rows, down - first), tiles = own * across;
    const int count = (tiles + NR - 1) / NR, line = 2 * across + 2, top = 2 * first;
    for (int c = 0; c < channels; c++) {
        const GLOBAL T *image = x + (((long)n * groups + group) * channels + c) * h * w;
        for (int l = 0; l < 2 * own + 2; l++) {
            const int at = top - ph + l;
            if (at < 0 || at >= h)
                for (int i = 0; i < line; i++) plane[l * line + i] = 0;
            else
                copy_line(image + (long)at * w, w, -pw, 1, line, plane + l * line);
        }
        for (int q = 0; q < tiles; q += W) {
            V d[16];
$load
            for (int k = 0; k < 4; k++) {
                const V d0 = d[k], d1 = d[4 + k], d2 = d[8 + k], d3 = d[12 + k];
                d[k] = d0 - d2; d[4 + k] = d1 + d2; d[8 + k] = d2 - d1; d[12 + k] = d1 - d3;
            }
            SHARED T *to = turned + ((long)(q / NR) * channels + c) * NR + q % NR;
            const long far = (long)count * channels * NR;
            for (int i = 0; i < 4; i++) {
                const V d0 = d[4 * i], d1 = d[4 * i + 1], d2 = d[4 * i + 2], d3 = d[4 * i + 3];
                *(SHARED V *)(to + 4 * i * far) = d0 - d2;
                *(SHARED V *)(to + (4 * i + 1) * far) = d1 + d2;
                *(SHARED V *)(to + (4 * i + 2) * far) = d2 - d1;
                *(SHARED V *)(to + (4 * i + 3) * far) = d1 - d3;
            }
        }
        if (tiles % NR && tiles % NR <= W) /* the other half of the last panel is multiplied too */
            for (int k = 0; k < 16; k++)
                *(SHARED V *)(turned + (((long)k * count + count - 1) * channels + c) * NR + W) = 0;
    }
"""
# Panel by panel of weights and of tiles: the 16 products, and y = A' m A of them.
_MULTIPLY = """\
    for (int panel = 0; panel < panels; panel++)
        for (int j = 0; j < count; j++) {
            V m[16][MR * NR / W];
            for (int k = 0; k < 16; k++)
                products(weight + (((long)k * groups + group) * panels + panel) * MR * channels,
                         turned + ((long)k * count + j) * channels * NR, channels, m[k]);
            for (int i = 0; i < min(MR, outs - panel * MR); i++) {
                const int o = panel * MR + i;
                const T e = $bias;
                GLOBAL T *to = y + (((long)n * groups + group) * outs + o) * oh * ow;
                for (int v = 0; v < NR / W; v++) {
                    const int q = j * NR + v * W, at = i * (NR / W) + v;
                    if (q >= tiles) break;
                    V t[2][4], made[4];
                    for (int k = 0; k < 4; k++) {
                        const V m1 = m[4 + k][at], m2 = m[8 + k][at];
                        t[0][k] = m[k][at] + m1 + m2;
                        t[1][k] = m1 - m2 - m[12 + k][at];
                    }
                    for (int k = 0; k < 2; k++) {
                        made[2 * k] = t[k][0] + t[k][1] + t[k][2];
                        made[2 * k + 1] = t[k][1] - t[k][2] - t[k][3];
                    }
                    {
$store
                    }
                }
            }
        }
"""
_BODY = Template(_TURN + _MULTIPLY)


@cache
def source(tile: Tile, seen: int, turned: int, in_rows: bool, biased: bool) -> Source:
    """The kernel; `seen` and `turned` are elements of scratch."""
    body = _BODY.substitute(
        SEEN=seen, TURNED=turned, bias="bias[group * outs + o]" if biased else "0",
        load=_SEEN_IN_ROWS if in_rows else _SEEN, store=_STORED_IN_ROWS if in_rows else _STORED,
    )  # fmt: skip
    return Source(
        "conv_winograd",
        operands(tile.code, "x weight", biased=biased),
        numbers("groups channels h w outs oh ow ph pw down across panels rows"),
        body,
        (types(tile), COPY_LINE, products(tile, "GLOBAL")),
    )


def forward(target: Target, g: Geometry, *, biased: bool, turned: bool = False) -> Found:
    """Calls for (x, weight[, bias], y, workspace) and the workspace's bytes, as `conv_direct`."""
    tile = Tile(g.code, rows_for(g.o))
    down, across = grid(g)
    rows = cut(g, target.units)
    in_rows = across % tile.width == 0 and g.ow % 2 == 0
    kernel = source(tile, plane(g, rows), size(g, rows), in_rows, biased)
    values = {"down": down, "across": across, "panels": panels(g.o, tile), "rows": rows}
    weight, used = positions(biased=biased)
    calls = [
        turn_weight(g, tile, weight, turned=turned),
        call(kernel, (g.n * -(-down // rows), 1, g.groups), used, g.numbers | values),
    ]
    return calls, packed_bytes(g.o, g.c, 16 * g.groups, tile)
