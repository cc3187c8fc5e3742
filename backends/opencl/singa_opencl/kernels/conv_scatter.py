"""Gradient of convolution for its input where windows overlap little or stand apart.

A work item makes some channels of one image: products of the weight with the grads, some taps by
some places at a time, are added to what the window there has seen. No matrix of columns exists.
"""

from __future__ import annotations

from functools import cache

from singa_core.kernels.c.dialect import Call, Source
from singa_opencl.kernels.conv_geometry import Geometry, pack_weight, packed_size, panels
from singa_opencl.kernels.gemm import BLOCK_BYTES, Tile, products, rows_for, types

ROUNDS = 3  # work items for each unit, at least


def band(g: Geometry) -> int:
    """Places of a row of grads, zeros added to whole vectors where the stride along it is one."""
    return -(-g.ow // g.vector) * g.vector if vectored(g) else g.ow


def vectored(g: Geometry) -> bool:
    """Whole vectors of products can be added to neighbours."""
    return g.stride[1] == 1 and g.ow >= g.vector


def plane(g: Geometry) -> tuple[int, int]:
    """(rows, columns) of a channel of x with the padding that windows see."""
    rows = (g.oh - 1) * g.stride[0] + (g.kh - 1) * g.dilation[0] + 1
    columns = (band(g) - 1) * g.stride[1] + (g.kw - 1) * g.dilation[1] + 1
    return max(rows, g.before[0] + g.h), max(columns, g.before[1] + g.w)


def laid(g: Geometry, tile: Tile) -> int:
    """Elements of the grads of an image in panels of columns."""
    return -(-g.oh * band(g) // tile.columns) * tile.columns * g.o


def tile_for(g: Geometry) -> Tile:
    """The rows of a tile are channels of x, at one tap."""
    return Tile(g.code, rows_for(g.c))


def fits(g: Geometry, shared: int) -> bool:
    """True if the grads of an image and a channel of x can be kept at hand."""
    rows, columns = plane(g)
    tile = tile_for(g)
    size = laid(g, tile) * 2 + tile.rows * rows * columns  # twice: the places too
    return size * g.itemsize <= min(shared, BLOCK_BYTES)


@cache
def source(tile: Tile, grads: int, own: int, places: int, whole: bool) -> Source:
    """The kernel.

    Taps are the outermost loop: what is added to neighbours lies far apart in time, since a load
    that meets only a part of a store just made has to wait for it.

    Args:
        grads: elements for the grads of an image.
        own: elements for the channels of x that a work item makes.
        places: of grads, whole vectors in each row.
        whole: products are added vector by vector.
    """
    step = tile.width if whole else 1
    if whole:
        add = " ".join(
            f"{{ SHARED U *e = (SHARED U *)(to + goes[p / W + {j}]); *e += t[i * NR / W + {j}]; }}"
            for j in range(tile.vectors)
        )
    else:
        add = "const T *e = (const T *)t + i * NR; "
        add += "for (int j = 0; j < NR; j++) to[goes[p + j]] += e[j];"
    body = f"""
    SHARED V laid_[({grads} + W - 1) / W], made_[({own} + W - 1) / W];
    SHARED int goes[{places} / {step}];
    SHARED T *laid = (SHARED T *)laid_, *made = (SHARED T *)made_;
    const int n = GROUP, group = GROUP_Z, size = oh * ow;
    const GLOBAL T *from = grad + ((long)n * groups + group) * outs * oh * real;
    for (int p = 0; p < size; p += NR)
        for (int o = 0; o < outs; o++)
            for (int j = 0; j < NR; j++) {{
                const int q = p + j, row = q / ow, column = q % ow;
                laid[p * outs + o * NR + j] = q < size && column < real
                    ? from[((long)o * oh + row) * real + column] : 0;
            }}
    for (int i = 0; i < (size + NR - 1) / NR * NR / {step}; i++) {{ /* zeros go to the first */
        const int q = i * {step};
        goes[i] = q < size ? q / ow * sh * columns + q % ow * sw : 0;
    }}
    const int first = GROUP_Y * taken, last = min(first + taken, channels);
    for (int i = 0; i < (last - first) * rows * columns; i++) made[i] = 0;
    for (int tap = 0; tap < taps; tap++)
        for (int c = first; c < last; c += MR) {{
            const GLOBAL T *a = weight
                + (((long)group * taps + tap) * panels + c / MR) * MR * outs;
            SHARED T *here = made + ((c - first) * rows + tap / kw * dh) * columns + tap % kw * dw;
            const int own = min(MR, last - c);
            for (int p = 0; p < size; p += NR) {{
                V t[MR * NR / W];
                products(a, laid + p * outs, outs, t);
                SHARED T *to = here;
                for (int i = 0; i < own; i++, to += rows * columns) {{
                    {add}
                }}
            }}
        }}
    for (int c = first; c < last; c++)
        for (int i = 0; i < h; i++) {{
            const SHARED T *e = made + ((c - first) * rows + ph + i) * columns + pw;
            GLOBAL T *to = y + ((((long)n * groups + group) * channels + c) * h + i) * w;
            for (int j = 0; j < w; j++) to[j] = e[j];
        }}
"""
    ints = ("channels", "h", "w", "outs", "oh", "ow", "real", "taps", "kw", "sh", "sw", "dh", "dw")
    ints += ("ph", "pw", "rows", "columns", "groups", "panels", "taken")
    code = tile.code
    return Source(
        "conv_scatter",
        (("grad", code, "in"), ("weight", code, "in"), ("y", code, "out")),
        tuple((name, "int") for name in ints),
        body,
        (types(tile), products(tile, "GLOBAL")),
    )


def grad_input(g: Geometry, *, units: int, shared: int) -> tuple[list[Call], int]:
    """Calls for (grad, weight, y, workspace) and the workspace's bytes."""
    tile = tile_for(g)
    rows, columns = plane(g)
    grads = laid(g, tile)
    room = min(shared, BLOCK_BYTES) // g.itemsize - 2 * grads
    taken = min(max(room // (rows * columns), 1), g.c)
    while taken > 1 and g.n * g.groups * -(-g.c // taken) < ROUNDS * units:
        taken = -(-taken // 2)
    taken = -(-taken // tile.rows) * tile.rows
    count = panels(g.c, tile)
    places = -(-g.oh * band(g) // tile.columns) * tile.columns
    kernel = source(tile, grads, taken * rows * columns, places, vectored(g))
    numbers = (
        g.c, g.h, g.w, g.o, g.oh, band(g), g.ow, g.taps, g.kw, *g.stride, *g.dilation, *g.before,
        rows, columns, g.groups, count, taken,
    )  # fmt: skip
    call = Call(kernel, (g.n, -(-g.c // taken), g.groups), (1, 1, 1), (0, 3, 2), numbers)
    packed = pack_weight(g, tile, (1, 3), "columns")
    return [packed, call], packed_size(g.c, g.o, g.groups * g.taps, tile) * g.itemsize
