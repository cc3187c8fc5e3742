"""Gradient of convolution for its weight: products of grads and what the windows saw, by vectors.

A work item makes the weights of some channels of y by some of x, over the whole batch. It keeps
`OUTS` channels of grads by `TAPS` taps in registers while it goes along rows; the elements of a
vector are added at the very end. Some images at a time are looked at, so that they stay at hand.
"""

from __future__ import annotations

from functools import cache

from singa_core.kernels.c.dialect import Call, Source
from singa_opencl.kernels.conv_direct import COPY
from singa_opencl.kernels.conv_geometry import Geometry
from singa_opencl.kernels.gemm import BLOCK_BYTES, Tile, rounded, types

SUM_BYTES = 128 << 10  # of sums in a work item
IMAGE_BYTES = 96 << 10  # of images looked at together
# Cycles of an element that is copied (in a row, or one of several) or read from a distant cache.
COPY_PLAIN, COPY_STRIDED, READ = 0.4, 2.0, 0.25
PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)


def fits(g: Geometry, shared: int) -> bool:
    """True where rows are long enough for vectors and one image's channel pair can be copied."""
    if g.ow < g.vector or 4 * g.ow < 3 * span(g):
        return False
    size = (seen_plane(g) + grad_plane(g)) * g.itemsize * 4 + g.taps * 64 * g.itemsize
    return size <= min(shared, BLOCK_BYTES) - SUM_BYTES


def span(g: Geometry) -> int:
    """Columns of a row of grads in whole vectors."""
    return -(-g.ow // g.vector) * g.vector


def phase(g: Geometry) -> int:
    """Columns of x of one phase (column modulo stride) that a row of grads in vectors meets."""
    return span(g) + (g.kw - 1) * g.dilation[1] // g.stride[1]


def lines(g: Geometry) -> int:
    """Rows of x that an image's grads meet."""
    return (g.oh - 1) * g.stride[0] + (g.kh - 1) * g.dilation[0] + 1


def copies_x(g: Geometry) -> bool:
    """x has to be copied: padding, or a stride along rows, or vectors that reach too far."""
    return not (g.inside and g.stride[1] == 1 and span(g) == g.ow)


def seen_plane(g: Geometry) -> int:
    """Elements of a copied channel of x."""
    return lines(g) * g.stride[1] * phase(g) if copies_x(g) else 0


def grad_plane(g: Geometry) -> int:
    """Elements of a copied channel of grads."""
    return g.oh * span(g) if span(g) != g.ow else 0


def tile_for(g: Geometry) -> tuple[int, int]:
    """(channels of y, taps) in registers."""
    if g.o == 1:
        return 1, 8
    return (3, 4) if g.o % 3 == 0 or g.o > 8 else (2, 6)


def scratch(g: Geometry, o: int, c: int) -> tuple[int, int, int]:
    """Elements of the sums of o channels of y by c of x, and of one image's copies of x and y."""
    outs, taps = tile_for(g)
    sums = -(-o // outs) * outs * -(-c * g.taps // taps) * taps * g.vector
    return sums, c * seen_plane(g), o * grad_plane(g)


def cut(g: Geometry, units: int, shared: int) -> tuple[int, int]:
    """(channels of y, of x) of a work item: those that keep all units busy and read least.

    What a channel of x is read for again is every block of channels of y, and the other way round.
    """
    outs, _ = tile_for(g)
    limit = min(shared, BLOCK_BYTES) // g.itemsize
    copy = COPY_STRIDED if g.stride[1] > 1 else COPY_PLAIN
    read_x = g.c * lines(g) * g.stride[1] * phase(g) * (copy if copies_x(g) else READ)
    read_g = g.o * g.oh * span(g) * (COPY_PLAIN if grad_plane(g) else READ)
    work = g.o * g.c * g.taps * g.oh * span(g) / g.vector / 2
    best, chosen = float("inf"), (outs, 1)
    for o in sorted({min(rounded(-(-g.o // p), outs), g.o) for p in PARTS}):
        for c in sorted({-(-g.c // p) for p in PARTS}):
            sums, x, grad = scratch(g, o, c)
            if (o, c) != chosen and (sums * g.itemsize > SUM_BYTES or sums + x + grad > limit):
                continue
            blocks_o, blocks_c = -(-g.o // o), -(-g.c // c)
            items = g.groups * blocks_o * blocks_c
            waste = o * blocks_o * c * blocks_c / (g.o * g.c)
            cost = work * waste + read_x * blocks_o + read_g * blocks_c
            cost *= units * -(-items // units) / items if items < 8 * units else 1.0
            if cost < best:
                best, chosen = cost, (o, c)
    return chosen


def short(g: Geometry) -> int:
    """Vectors of a row where there are few of them: the loop over them disappears; else 0."""
    count = span(g) // g.vector
    return count if count <= 2 else 0


def micro(outs: int, taps: int, vectors: int, seen: str, grads: str) -> str:
    """Sums of some channels by some taps over rows and images."""
    pairs = [(i, j) for i in range(outs) for j in range(taps)]
    read = "\n".join(f"    V s{i}_{j} = sums[{i * taps + j}];" for i, j in pairs)
    write = "\n".join(f"    sums[{i * taps + j}] = s{i}_{j};" for i, j in pairs)
    loads_g = " ".join(
        f"const V g{i} = *(const {grads} U *)(g + {i} * gplane);" for i in range(outs)
    )
    rows = "\n".join(
        f"                {{ const V e = *(const {seen} U *)(x + d{j}); "
        + " ".join(f"s{i}_{j} += g{i} * e;" for i in range(outs))
        + " }"
        for j in range(taps)
    )
    given = ", ".join(f"const int d{j}" for j in range(taps))
    width = f"{vectors} * W" if vectors else "columns"
    return f"""
FUNCTION void micro(const {seen} T *x, const {grads} T *g, SHARED V *sums, int images, int oh,
                    int columns, int ximage, int xline, int gimage, int gplane, {given})
{{
{read}
    for (int n = 0; n < images; n++, x += ximage, g += gimage) {{
        const {seen} T *start = x;
        const {grads} T *begin = g;
        for (int t = 0; t < oh; t++, start += xline, begin += columns) {{
            const {seen} T *x = start;
            const {grads} T *g = begin;
            for (int u = 0; u < {width}; u += W, x += W, g += W) {{
                {loads_g}
{rows}
            }}
        }}
    }}
{write}
}}
"""


@cache
def source(
    code: str, outs: int, taps: int, step: int, vectors: int, sums: int, seen: int, grads: int
) -> Source:
    """The kernel for a stride `step` along rows; sums, seen and grads are elements of scratch."""
    tile = Tile(code, 1)
    space_x, space_g = ("SHARED" if seen else "GLOBAL"), ("SHARED" if grads else "GLOBAL")
    offsets = ", ".join(f"d[{j}]" for j in range(taps))
    copy_x = f"""
        {{
            SHARED T *to = (SHARED T *)seen_;
            for (int n = 0; n < images; n++)
                for (int c = c0; c < c1; c++)
                    for (int l = 0; l < lines; l++) {{
                        const GLOBAL T *row = x + (((long)(n0 + n) * groups + group) * channels + c)
                            * h * w;
                        const int at = l - ph;
                        for (int p = 0; p < {step}; p++, to += phase)
                            if (at < 0 || at >= h)
                                for (int i = 0; i < phase; i++) to[i] = 0;
                            else
                                copy_line(row + (long)at * w, w, p - pw, {step}, phase, to);
                    }}
        }}
        const SHARED T *xs = (const SHARED T *)seen_;
"""
    plain_x = (
        "        const GLOBAL T *xs = x + (((long)n0 * groups + group) * channels + c0) * h * w;\n"
    )
    copy_g = """
        {
            SHARED T *to = (SHARED T *)grads_;
            for (int n = 0; n < images; n++)
                for (int o = o0; o < o1; o++)
                    for (int t = 0; t < oh; t++, to += columns)
                        copy_line(grad + ((((long)(n0 + n) * groups + group) * outs + o) * oh + t)
                            * ow, ow, 0, 1, columns, to);
        }
        const SHARED T *gs = (const SHARED T *)grads_;
"""
    plain_g = (
        "        const GLOBAL T *gs = grad + (((long)n0 * groups + group) * outs + o0) * oh * ow;\n"
    )
    body = f"""
    SHARED V sums[{sums} / W];
    {f"SHARED V seen_[({seen} + W - 1) / W];" if seen else ""}
    {f"SHARED V grads_[({grads} + W - 1) / W];" if grads else ""}
    /* the last block starts earlier rather than being smaller; its first channels are others' */
    const int group = GROUP_Z, o0 = min(GROUP * some_o, outs - some_o), o1 = o0 + some_o;
    const int c0 = GROUP_Y * some_c, c1 = min(c0 + some_c, channels), total = (c1 - c0) * taps;
    const int ximage = {"(c1 - c0)" if seen else "groups * channels"} * xplane;
    const int gimage = {"some_o" if grads else "groups * outs"} * gplane;
    const int count_o = (some_o + {outs - 1}) / {outs}, count_t = (total + {taps - 1}) / {taps};
    for (int i = 0; i < count_o * count_t * {outs * taps}; i++) sums[i] = 0;
    for (int n0 = 0; n0 < batch; n0 += some_n) {{
        const int images = min(some_n, batch - n0);
{copy_x if seen else plain_x}{copy_g if grads else plain_g}
        for (int a = 0; a < count_o; a++) {{
            /* the last channels once more, where their number is no multiple */
            const int o = min(a * {outs}, some_o - {outs});
            for (int b = 0; b < count_t; b++) {{
                int d[{taps}];
                for (int j = 0; j < {taps}; j++) {{
                    const int tap = min(b * {taps} + j, total - 1);
                    const int c = tap / taps, r = tap % taps / kw, s = tap % kw * dw;
                    d[j] = c * xplane + r * dh * xrow + s % {step} * phase + s / {step};
                }}
                micro(xs, gs + o * gplane, sums + (a * count_t + b) * {outs * taps}, images, oh,
                      columns, ximage, sh * xrow, gimage, gplane, {offsets});
            }}
        }}
    }}
    for (int a = 0; a < count_o; a++)
        for (int i = 0; i < {outs}; i++) {{
            const int o = min(a * {outs}, some_o - {outs}) + i;
            if (o0 + o < GROUP * some_o) continue;
            GLOBAL T *to = y + (((long)group * outs + o0 + o) * channels + c0) * taps;
            for (int tap = 0; tap < total; tap++) {{
                const SHARED T *e = (const SHARED T *)(sums + (a * count_t + tap / {taps})
                    * {outs * taps} + i * {taps} + tap % {taps});
                T sum = 0;
                for (int j = 0; j < W; j++) sum += e[j];
                to[tap] = sum;
            }}
        }}
"""
    ints = (
        "batch",
        "groups",
        "channels",
        "h",
        "w",
        "outs",
        "oh",
        "ow",
        "taps",
        "kw",
        "sh",
        "dh",
        "dw",
    )
    ints += ("ph", "pw", "lines", "phase", "columns", "xrow", "xplane", "gplane")
    ints += ("some_o", "some_c", "some_n")
    return Source(
        "conv_grad_weight",
        (("x", code, "in"), ("grad", code, "in"), ("y", code, "out")),
        tuple((name, "int") for name in ints),
        body,
        (types(tile), COPY, micro(outs, taps, vectors, space_x, space_g)),
    )


def grad_weight(g: Geometry, *, units: int, shared: int) -> tuple[list[Call], int]:
    """Calls for (x, grad, y, workspace) and the workspace's bytes, none."""
    outs, taps = tile_for(g)
    o, c = cut(g, units, shared)
    sums, copy_x, copy_g = scratch(g, o, c)
    copied_x = copies_x(g)
    xplane = seen_plane(g) if copied_x else g.h * g.w
    gplane = grad_plane(g) or g.places
    some = min(max(IMAGE_BYTES // ((c * xplane + o * gplane) * g.itemsize), 1), g.n)
    kernel = source(g.code, outs, taps, g.stride[1], short(g), sums, some * copy_x, some * copy_g)
    xrow = phase(g) * g.stride[1] if copied_x else g.w
    numbers = (
        g.n, g.groups, g.c, g.h, g.w, g.o, g.oh, g.ow, g.taps, g.kw, g.stride[0], *g.dilation,
        *g.before, lines(g), phase(g), span(g), xrow, xplane, gplane, o, c, some,
    )  # fmt: skip
    items = (-(-g.o // o), -(-g.c // c), g.groups)
    return [Call(kernel, items, (1, 1, 1), (0, 1, 2), numbers)], 0
