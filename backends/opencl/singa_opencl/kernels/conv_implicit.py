"""Convolution as a product of matrices one of which is never there: its panels are gathered.

For short rows and whatever else the direct kernels do not take. Columns of the product are the
places of y of all images; a work item gathers what some of them see, a piece at a time.
"""

from __future__ import annotations

from functools import cache

from singa_core.kernels.c.dialect import Call, Source
from singa_opencl.kernels.conv_direct import swapped
from singa_opencl.kernels.conv_geometry import Geometry, pack_weight, packed_size, panels
from singa_opencl.kernels.gemm import (
    BLOCK_BYTES,
    Tile,
    blocks,
    micro,
    pieces,
    products,
    rows_for,
    types,
)

DEPTH = 256  # terms gathered at a time

SIZES = ("batch", "groups", "channels", "h", "w", "outs", "oh", "ow", "kh", "kw", "sh", "sw")
SIZES += ("dh", "dw", "ph", "pw")


def numbers(g: Geometry) -> tuple[int, ...]:
    """The values of SIZES."""
    return (
        g.n, g.groups, g.c, g.h, g.w, g.o, g.oh, g.ow, g.kh, g.kw, *g.stride, *g.dilation, *g.before
    )  # fmt: skip


# What NR places, from the one with number q on, see of term l, l + 1, ...: c, r, s.
GATHER = """
FUNCTION void gather(const GLOBAL T *x, long image, int q, int count, int oh, int ow, int h, int w,
                     int sh, int sw, int dh, int dw, int ph, int pw, int kh, int kw, int l,
                     int depth, SHARED T *p)
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


@cache
def source(tile: Tile, columns: int, depth: int, biased: bool) -> Source:
    """The kernel of the forward convolution; pieces of `columns` by `depth` are gathered."""
    start = "bias[group * outs + o + i]" if biased else "0"
    body = f"""
    SHARED V pieces[{columns * depth} / W];
    const int group = GROUP_Z, count = batch * oh * ow, terms = channels * kh * kw;
    const int places = oh * ow, left = GROUP * columns, right = min(left + columns, count);
    const int first = GROUP_Y * taken, last = min(first + taken, panels);
    const long image = (long)groups * channels * h * w;
    const GLOBAL T *seen = x + (long)group * channels * h * w;
    for (int q = left; q < right; q += {columns})
        for (int l = 0; l < terms; l += {depth}) {{
            SHARED T *b = (SHARED T *)pieces;
            const int some = min({depth}, terms - l), end = min(q + {columns}, right);
            for (int j = q; j < end; j += NR)
                gather(seen, image, j, count, oh, ow, h, w, sh, sw, dh, dw, ph, pw, kh, kw, l, some,
                       b + (j - q) * some);
            for (int j = q; j < end; j += NR)
                for (int panel = first; panel < last; panel++) {{
                    const int o = panel * MR, own = min(MR, outs - o);
                    V t[MR * NR / W];
                    products(weight + ((long)group * panels + panel) * MR * terms + (long)l * MR,
                             b + (j - q) * some, some, t);
                    GLOBAL T *to = y + ((long)group * outs + o) * places;
                    const long far = (long)groups * outs * places;
                    if (j % places + NR <= places && j + NR <= end) {{
                        GLOBAL T *row = to + j / places * far + j % places;
                        for (int i = 0; i < own; i++, row += places)
                            for (int v = 0; v < NR / W; v++) {{
                                GLOBAL U *e = (GLOBAL U *)(row + v * W);
                                *e = t[i * NR / W + v] + (l ? *e : (V)({start}));
                            }}
                        continue;
                    }}
                    const T *made = (const T *)t;
                    for (int u = 0; u < min(NR, end - j); u++) {{
                        GLOBAL T *e = to + (j + u) / places * far + (j + u) % places;
                        for (int i = 0; i < own; i++, e += places)
                            *e = made[i * NR + u] + (l ? *e : {start});
                    }}
                }}
        }}
"""
    code = tile.code
    bias = (("bias", code, "in"),) if biased else ()
    return Source(
        "conv_implicit",
        (("x", code, "in"), ("weight", code, "in"), *bias, ("y", code, "out")),
        tuple((name, "int") for name in (*SIZES, "panels", "columns", "taken")),
        body,
        (types(tile), products(tile, "GLOBAL"), GATHER),
    )


def forward(
    g: Geometry, *, biased: bool, turned: bool = False, units: int, shared: int
) -> tuple[list[Call], int]:
    """Calls for (x, weight[, bias], y, workspace) and the workspace's bytes.

    Args:
        turned: the weight is that of the convolution whose gradient this is, (c, o, kh, kw) here.
    """
    tile = Tile(g.code, rows_for(g.o))
    room = min(shared, BLOCK_BYTES) // g.itemsize
    depth = min(DEPTH, room // tile.columns)
    piece = min(room // depth // tile.columns, 16) * tile.columns
    height, width = blocks(
        g.o, g.n * g.places, g.terms, g.groups, units, tile, columns=piece, pack_a=0.0
    )
    count, taken = panels(g.o, tile), height // tile.rows
    y = 3 if biased else 2
    items = (-(-g.n * g.places // width), -(-count // taken), g.groups)
    between = (2,) if biased else ()
    kernel = source(tile, piece, depth, biased)
    call = Call(
        kernel, items, (1, 1, 1), (0, y + 1, *between, y), (*numbers(g), count, width, taken)
    )
    kind, own = ("turned", swapped(g)) if turned else ("plain", g)
    packed = pack_weight(own, tile, (1, y + 1), kind)
    return [packed, call], packed_size(g.o, g.terms, g.groups, tile) * g.itemsize


# For the gradient of the weight: grads as rows, what windows saw as columns, places as depth.
PACK = """
FUNCTION void pack_grad(const GLOBAL T *grad, long image, int places, int q, int depth, int own,
                        SHARED T *p)
{
    for (int k = 0; k < depth; k++, p += MR) {
        const GLOBAL T *from = grad + (q + k) / places * image + (q + k) % places;
        for (int i = 0; i < MR; i++) p[i] = i < own ? from[(long)i * places] : 0;
    }
}
FUNCTION void gather(const GLOBAL T *x, long image, int q, int depth, int oh, int ow, int h, int w,
                     int sh, int sw, int dh, int dw, int ph, int pw, int kh, int kw, int l,
                     int terms, SHARED T *p)
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


@cache
def weight_source(tile: Tile, pieces: tuple[int, int, int]) -> Source:
    """The kernel of the gradient of the weight."""
    mc, nc, kc = pieces
    body = f"""
    SHARED V rows_[{mc * kc} / W], columns_[{nc * kc} / W];
    SHARED T *pa = (SHARED T *)rows_, *pb = (SHARED T *)columns_;
    const int group = GROUP_Z, count = batch * oh * ow, terms = channels * kh * kw;
    const int top = GROUP * rows, bottom = min(top + rows, outs);
    const int left = GROUP_Y * columns, right = min(left + columns, terms);
    const GLOBAL T *seen = x + (long)group * channels * h * w;
    const GLOBAL T *from = grad + (long)group * outs * oh * ow;
    const long image = (long)groups * channels * h * w, far = (long)groups * outs * oh * ow;
    for (int j = left; j < right; j += {nc})
        for (int l = 0; l < count; l += {kc}) {{
            const int width = min({nc}, right - j), depth = min({kc}, count - l);
            for (int jj = 0; jj < width; jj += NR)
                gather(seen, image, l, depth, oh, ow, h, w, sh, sw, dh, dw, ph, pw, kh, kw, j + jj,
                       terms, pb + jj * depth);
            for (int i = top; i < bottom; i += {mc}) {{
                const int height = min({mc}, bottom - i);
                for (int ii = 0; ii < height; ii += MR)
                    pack_grad(from + (long)(i + ii) * oh * ow, far, oh * ow, l, depth,
                              min(MR, height - ii), pa + ii * depth);
                for (int jj = 0; jj < width; jj += NR)
                    for (int ii = 0; ii < height; ii += MR)
                        micro(pa + ii * depth, pb + jj * depth, depth,
                              y + ((long)group * outs + i + ii) * terms + j + jj, terms, l == 0,
                              min(MR, height - ii), min(NR, width - jj), 0);
            }}
        }}
"""
    code = tile.code
    return Source(
        "conv_implicit_grad_weight",
        (("x", code, "in"), ("grad", code, "in"), ("y", code, "out")),
        tuple((name, "int") for name in (*SIZES, "rows", "columns")),
        body,
        (types(tile), micro(tile), PACK),
    )


def grad_weight(g: Geometry, *, units: int, shared: int) -> tuple[list[Call], int]:
    """Calls for (x, grad, y, workspace) and the workspace's bytes, none."""
    tile = Tile(g.code, rows_for(g.o))
    piece = pieces(tile, shared)
    height, width = blocks(g.o, g.terms, g.n * g.places, g.groups, units, tile, columns=piece[1])
    items = (-(-g.o // height), -(-g.terms // width), g.groups)
    kernel = weight_source(tile, piece)
    return [Call(kernel, items, (1, 1, 1), (0, 1, 2), (*numbers(g), height, width))], 0
