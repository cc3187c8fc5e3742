"""Convolution as a product of matrices one of which is never there: its panels are gathered.

For short rows and whatever else the direct kernels do not take. Columns of the product are the
places of y of all images; a work item gathers what some of them see, a piece at a time, and
multiplies it by weights in panels, a tile in registers at a time.

The gradient of the weight is a product too: grads are rows, what windows saw is columns, places
are its depth. There a work item gathers pieces of both.
"""

from __future__ import annotations

from functools import cache
from string import Template

from singa_core.kernels.c.dialect import Source, Target
from singa_opencl.kernels.conv_geometry import (
    SIZES,
    Found,
    Geometry,
    pack_weight,
    packed_bytes,
    panels,
    positions,
)
from singa_opencl.kernels.gemm import Work, blocks, pieces
from singa_opencl.kernels.registers import Tile, micro, products, room_for, rows_for, types
from singa_opencl.kernels.text import call, numbers, operands

DEPTH = 256  # terms gathered at a time

# What NR places, from the one with number q on, see of term l, l + 1, ...: c, r, s.
_GATHER = """
FUNCTION void gather_places(const GLOBAL T *x, long image, int q, int count, int oh, int ow, int h,
                            int w, int sh, int sw, int dh, int dw, int ph, int pw, int kh, int kw,
                            int l, int depth, SHARED T *p)
{
    int top[NR], left[NR];
    long at[NR];
    for (int j = 0; j < NR; j++) {
        const int place = min(q + j, count - 1), n = place / (oh * ow), i = place % (oh * ow);
        top[j] = i / ow * sh - ph;
        left[j] = i % ow * sw - pw;
        at[j] = n * image + (long)top[j] * w + left[j];
    }
    int c = l / (kh * kw), r = l / kw % kh, s = l % kw;
    for (int k = 0; k < depth; k++, p += NR) {
        const int down = r * dh, right = s * dw;
        const GLOBAL T *from = x + (long)c * h * w + down * w + right;
        for (int j = 0; j < NR; j++) {
            const int i = top[j] + down, u = left[j] + right;
            p[j] = i >= 0 && i < h && u >= 0 && u < w ? from[at[j]] : 0;
        }
        if (++s == kw) { s = 0; if (++r == kh) { r = 0; c++; } }
    }
}
"""
# Sums of $DEPTH terms at a time are added up in y, by vectors where a tile is in one image.
_BODY = Template("""
    SHARED V pieces[$PIECE / W];
    const int group = GROUP_Z, count = batch * oh * ow, terms = channels * kh * kw;
    const int places = oh * ow, left = GROUP * columns, right = min(left + columns, count);
    const int first = GROUP_Y * taken, last = min(first + taken, panels);
    const long image = (long)groups * channels * h * w;
    const GLOBAL T *seen = x + (long)group * channels * h * w;
    for (int q = left; q < right; q += $COLUMNS)
        for (int l = 0; l < terms; l += $DEPTH) {
            SHARED T *b = (SHARED T *)pieces;
            const int some = min($DEPTH, terms - l), end = min(q + $COLUMNS, right);
            for (int j = q; j < end; j += NR)
                gather_places(seen, image, j, count, oh, ow, h, w, sh, sw, dh, dw, ph, pw, kh, kw,
                              l, some, b + (j - q) * some);
            for (int j = q; j < end; j += NR)
                for (int panel = first; panel < last; panel++) {
                    const int o = panel * MR, own = min(MR, outs - o);
                    V t[MR * NR / W];
                    products(weight + ((long)group * panels + panel) * MR * terms + (long)l * MR,
                             b + (j - q) * some, some, t);
                    GLOBAL T *to = y + ((long)group * outs + o) * places;
                    const long far = (long)groups * outs * places;
                    if (j % places + NR <= places && j + NR <= end) {
                        GLOBAL T *row = to + j / places * far + j % places;
                        for (int i = 0; i < own; i++, row += places)
                            for (int v = 0; v < NR / W; v++) {
                                GLOBAL U *e = (GLOBAL U *)(row + v * W);
                                *e = t[i * NR / W + v] + (l ? *e : (V)($bias));
                            }
                        continue;
                    }
                    const T *made = (const T *)t;
                    for (int u = 0; u < min(NR, end - j); u++) {
                        GLOBAL T *e = to + (j + u) / places * far + (j + u) % places;
                        for (int i = 0; i < own; i++, e += places)
                            *e = made[i * NR + u] + (l ? *e : $bias);
                    }
                }
        }
""")


@cache
def source(tile: Tile, columns: int, depth: int, biased: bool) -> Source:
    """The kernel of the forward convolution; pieces of `columns` by `depth` are gathered."""
    body = _BODY.substitute(
        PIECE=columns * depth, COLUMNS=columns, DEPTH=depth,
        bias="bias[group * outs + o + i]" if biased else "0",
    )  # fmt: skip
    return Source(
        "conv_implicit",
        operands(tile.code, "x weight", biased=biased),
        numbers(f"{SIZES} panels columns taken"),
        body,
        (types(tile), products(tile, "GLOBAL"), _GATHER),
    )


def forward(target: Target, g: Geometry, *, biased: bool, turned: bool = False) -> Found:
    """Calls for (x, weight[, bias], y, workspace) and the workspace's bytes, as `conv_direct`."""
    tile = Tile(g.code, rows_for(g.o))
    room = room_for(target.shared) // g.itemsize
    depth = min(DEPTH, room // tile.columns)
    piece = min(room // depth // tile.columns, 16) * tile.columns
    work = Work(g.o, g.n * g.places, g.terms, g.groups, columns=piece, pack_a=0.0)
    rows, columns = blocks(work, tile, target.units)
    count, taken = panels(g.o, tile), rows // tile.rows
    items = (-(-g.n * g.places // columns), -(-count // taken), g.groups)
    values = g.numbers | {"panels": count, "columns": columns, "taken": taken}
    weight, used = positions(biased=biased)
    calls = [
        pack_weight(g, tile, weight, turned=turned),
        call(source(tile, piece, depth, biased), items, used, values),
    ]
    return calls, packed_bytes(g.o, g.terms, g.groups, tile)


# --- the gradient of the weight ----------------------------------------------------------------

# Grads of MR channels at places q, q + 1, ...; and what windows at these places saw of NR terms.
_GATHER_BOTH = """
FUNCTION void pack_grad(const GLOBAL T *grad, long image, int places, int q, int depth, int own,
                        SHARED T *p)
{
    for (int k = 0; k < depth; k++, p += MR) {
        const GLOBAL T *from = grad + (q + k) / places * image + (q + k) % places;
        for (int i = 0; i < MR; i++) p[i] = i < own ? from[(long)i * places] : 0;
    }
}
FUNCTION void gather_terms(const GLOBAL T *x, long image, int q, int depth, int oh, int ow, int h,
                           int w, int sh, int sw, int dh, int dw, int ph, int pw, int kh, int kw,
                           int l, int terms, SHARED T *p)
{
    int top[NR], left[NR];
    long at[NR];
    for (int j = 0; j < NR; j++) {
        const int term = min(l + j, terms - 1);
        top[j] = term / kw % kh * dh - ph;
        left[j] = term % kw * dw - pw;
        at[j] = (long)(term / (kh * kw)) * h * w + (long)top[j] * w + left[j];
    }
    int n = q / (oh * ow), t = q / ow % oh, u = q % ow;
    for (int k = 0; k < depth; k++, p += NR) {
        const int down = t * sh, right = u * sw;
        const GLOBAL T *from = x + n * image + (long)down * w + right;
        for (int j = 0; j < NR; j++) {
            const int i = top[j] + down, v = left[j] + right;
            p[j] = i >= 0 && i < h && v >= 0 && v < w ? from[at[j]] : 0;
        }
        if (++u == ow) { u = 0; if (++t == oh) { t = 0; n++; } }
    }
}
"""
_WEIGHT_BODY = Template("""
    SHARED V rows_[$A / W], columns_[$B / W];
    SHARED T *pa = (SHARED T *)rows_, *pb = (SHARED T *)columns_;
    const int group = GROUP_Z, count = batch * oh * ow, terms = channels * kh * kw;
    const int top = GROUP * rows, bottom = min(top + rows, outs);
    const int left = GROUP_Y * columns, right = min(left + columns, terms);
    const GLOBAL T *seen = x + (long)group * channels * h * w;
    const GLOBAL T *from = grad + (long)group * outs * oh * ow;
    const long image = (long)groups * channels * h * w, far = (long)groups * outs * oh * ow;
    for (int j = left; j < right; j += $NC)
        for (int l = 0; l < count; l += $KC) {
            const int width = min($NC, right - j), depth = min($KC, count - l);
            for (int jj = 0; jj < width; jj += NR)
                gather_terms(seen, image, l, depth, oh, ow, h, w, sh, sw, dh, dw, ph, pw, kh, kw,
                             j + jj, terms, pb + jj * depth);
            for (int i = top; i < bottom; i += $MC) {
                const int height = min($MC, bottom - i);
                for (int ii = 0; ii < height; ii += MR)
                    pack_grad(from + (long)(i + ii) * oh * ow, far, oh * ow, l, depth,
                              min(MR, height - ii), pa + ii * depth);
                for (int jj = 0; jj < width; jj += NR)
                    for (int ii = 0; ii < height; ii += MR)
                        micro(pa + ii * depth, pb + jj * depth, depth,
                              y + ((long)group * outs + i + ii) * terms + j + jj, terms, l == 0,
                              min(MR, height - ii), min(NR, width - jj), 0);
            }
        }
""")


@cache
def weight_source(tile: Tile, pieces: tuple[int, int, int]) -> Source:
    """The kernel of the gradient of the weight; pieces are (rows, columns, depth)."""
    mc, nc, kc = pieces
    return Source(
        "conv_implicit_grad_weight",
        operands(tile.code, "x grad"),
        numbers(f"{SIZES} rows columns"),
        _WEIGHT_BODY.substitute(MC=mc, NC=nc, KC=kc, A=mc * kc, B=nc * kc),
        (types(tile), micro(tile), _GATHER_BOTH),
    )


def grad_weight(target: Target, g: Geometry) -> Found:
    """Calls for (x, grad, y, workspace) and the workspace's bytes, none."""
    tile = Tile(g.code, rows_for(g.o))
    piece = pieces(tile, target.shared)
    work = Work(g.o, g.terms, g.n * g.places, g.groups, columns=piece[1])
    rows, columns = blocks(work, tile, target.units)
    items = (-(-g.o // rows), -(-g.terms // columns), g.groups)
    values = g.numbers | {"rows": rows, "columns": columns}
    return [call(weight_source(tile, piece), items, (0, 1, 2), values)], 0
