"""Convolution without a matrix of columns: vectors of places in a row, times weights in panels.

A work item makes some rows of y, for some channels, of one image. Unless no window sees padding
and the stride along rows is one, it first copies what these rows see: zeros stand where x ends,
and columns that are `stride` apart stand side by side, so that all loads are of neighbours.
"""

from __future__ import annotations

from functools import cache

from singa_core.kernels.c.dialect import Call, Source
from singa_opencl.kernels.conv_geometry import Geometry, pack_weight, packed_size, panels
from singa_opencl.kernels.gemm import BLOCK_BYTES, Tile, multiply, rows_for, sums, types

REGION_BYTES = 160 << 10  # of x that a work item copies: half of a second-level cache at most
ROUNDS = 3  # work items for each unit, at least


def fits(g: Geometry, shared: int) -> bool:
    """True where rows are long enough for vectors, and what a row of y sees can be copied."""
    copies = not (g.inside and g.stride[1] == 1)
    return g.ow >= g.vector and (not copies or region(g, 1) <= min(shared, BLOCK_BYTES))


def lines(g: Geometry, rows: int) -> int:
    """Rows of x that `rows` rows of y see."""
    return (rows - 1) * g.stride[0] + (g.kh - 1) * g.dilation[0] + 1


def phase(g: Geometry) -> int:
    """Columns of x of one phase (column modulo stride) that a row of y sees."""
    return g.ow + (g.kw - 1) * g.dilation[1] // g.stride[1]


def region(g: Geometry, rows: int) -> int:
    """Bytes of what `rows` rows of y see, copied."""
    return g.c * lines(g, rows) * g.stride[1] * phase(g) * g.itemsize


def tile_for(g: Geometry) -> Tile:
    """Few channels of y (depthwise) leave registers for more vectors."""
    rows = rows_for(g.o)
    return Tile(g.code, rows, max(min(12 // rows, 4), 2))


def cut(g: Geometry, tile: Tile, units: int, shared: int) -> tuple[int, int]:
    """(rows of y, panels of weights) of a work item."""
    rows, count = g.oh, panels(g.o, tile)
    copies = not (g.inside and g.stride[1] == 1)
    limit = min(REGION_BYTES, shared)
    while rows > 1 and copies and region(g, rows) > limit:
        rows = -(-rows // 2)
    most = g.n * g.groups
    while rows > 4 and most * -(-g.oh // rows) < ROUNDS * units:
        rows = -(-rows // 2)
    taken = count
    while taken > 1 and most * -(-g.oh // rows) * -(-count // taken) < ROUNDS * units:
        taken = -(-taken // 2)
    return rows, taken


def micro(tile: Tile, g: Geometry, space: str) -> str:
    """One tile of y: all terms of its sums."""
    steps = []
    for s in range(g.kw):
        at = s * g.dilation[1]
        off = f"{at % g.stride[1]} * phase + {at // g.stride[1]}"
        vectors = " ".join(
            f"const V b{j} = *(const {space} U *)(p{j} + {off});" for j in range(tile.vectors)
        )
        steps.append(f"{{ {vectors}\n        {multiply(tile)}        a += MR; }}\n")
    names = range(tile.vectors)
    bases = ", ".join(f"const {space} T *x{j}" for j in names)
    moved = ", ".join(f"*p{j} = x{j} + c * plane + r * line" for j in names)
    ends = ", ".join(f"long y{j}" for j in names)
    stores = []
    for i in range(tile.rows):
        rows = " ".join(f"*(GLOBAL U *)(y + y{j}) = s{i}_{j} + e;" for j in names)
        stores.append(
            f"    if ({i} < own) {{ const T e = bias ? bias[{i}] : 0; {rows} y += out; }}"
        )
    after = "\n".join(stores)
    return f"""
FUNCTION void micro(const GLOBAL T *a, {bases}, int channels, long plane, long line, int phase,
                    GLOBAL T *y, {ends}, long out, int own, const GLOBAL T *bias)
{{
{sums(tile)}
    for (int c = 0; c < channels; c++)
        for (int r = 0; r < {g.kh}; r++) {{
            const {space} T {moved};
            {"            ".join(steps)}
        }}
{after}
}}
"""


COPY = """
FUNCTION void copy_line(const GLOBAL T *x, int w, int first, int step, int count, SHARED T *to)
{
    int i = 0;
    for (; i < count && first + i * step < 0; i++) to[i] = 0;
    int end = (w - first + step - 1) / step;
    end = min(max(end, i), count);
    const GLOBAL T *from = x + first;
    if (step == 1) {
        for (; i + W <= end; i += W) *(SHARED U *)(to + i) = *(const GLOBAL U *)(from + i);
        for (; i < end; i++) to[i] = from[i];
    } else
        for (; i < end; i++) to[i] = from[(long)i * step];
    for (; i < count; i++) to[i] = 0;
}
"""


@cache
def source(tile: Tile, g: Geometry, copies: int, biased: bool) -> Source:
    """The kernel for these taps; `copies` is the elements of the copied region, 0 for none."""
    space = "SHARED" if copies else "GLOBAL"
    copy = f"""
    SHARED V region[({copies} + W - 1) / W];
    SHARED T *to = (SHARED T *)region;
    for (int c = 0; c < channels; c++)
        for (int l = 0; l < lines; l++) {{
            const int at = top * sh - ph + l;
            for (int p = 0; p < {g.stride[1]}; p++, to += phase)
                if (at < 0 || at >= h)
                    for (int i = 0; i < phase; i++) to[i] = 0;
                else
                    copy_line(image + ((long)c * h + at) * w, w, p - pw, {g.stride[1]}, phase, to);
        }}
    const SHARED T *seen = (const SHARED T *)region;
    const long line = phase * {g.stride[1]}, plane = lines * line;
"""
    plain = "    const GLOBAL T *seen = image + (long)top * sh * w;\n"
    plain += "    const long line = w, plane = (long)h * w;\n"
    places = "\n".join(
        f"            const int v{j} = min(v + {j}, count - 1), t{j} = v{j} / vectors, "
        f"u{j} = min(v{j} % vectors * W, ow - W);"
        for j in range(tile.vectors)
    )
    bases = ", ".join(f"seen + t{j} * sh * line + u{j}" for j in range(tile.vectors))
    ends = ", ".join(f"(long)(top + t{j}) * ow + u{j}" for j in range(tile.vectors))
    body = f"""
    const int bands = (oh + rows - 1) / rows;
    const int n = GROUP / bands, top = GROUP % bands * rows, group = GROUP_Z;
    const int own = min(rows, oh - top), lines = (own - 1) * sh + {(g.kh - 1)} * dh + 1;
    const int first = GROUP_Y * taken, last = min(first + taken, panels);
    const GLOBAL T *image = x + ((long)n * groups + group) * channels * h * w;
    const GLOBAL T *a = weight + (long)group * panels * MR * channels * {g.taps};
    GLOBAL T *made = y + ((long)n * groups + group) * outs * oh * ow;
{copy if copies else plain}
    const int vectors = (ow + W - 1) / W, count = own * vectors;
    for (int v = 0; v < count; v += {tile.vectors}) {{
{places}
        for (int panel = first; panel < last; panel++) {{
            const int o = panel * MR;
            const GLOBAL T *e = {"bias + group * outs + o" if biased else "0"};
            micro(a + (long)o * channels * {g.taps}, {bases}, channels, plane, dh * line, phase,
                  made + (long)o * oh * ow, {ends}, (long)oh * ow, outs - o, e);
        }}
    }}
"""
    ints = ("channels", "h", "w", "outs", "oh", "ow", "sh", "dh", "ph", "pw", "phase", "groups")
    ints += ("panels", "rows", "taken")
    code = tile.code
    bias = (("bias", code, "in"),) if biased else ()
    return Source(
        "conv_direct",
        (("x", code, "in"), ("weight", code, "in"), *bias, ("y", code, "out")),
        tuple((name, "int") for name in ints),
        body,
        (types(tile), COPY, micro(tile, g, space)),
    )


def taps_of(g: Geometry) -> Geometry:
    """The geometry with all sizes forgotten that the text of a kernel does not depend on."""
    stride, dilation = (1, g.stride[1]), (1, g.dilation[1])
    return Geometry(g.code, 1, 1, 1, 1, 1, 1, g.kh, g.kw, 1, 1, stride, (0, 0), dilation)


def forward(
    g: Geometry, *, biased: bool, turned: bool = False, units: int, shared: int
) -> tuple[list[Call], int]:
    """Calls for (x, weight[, bias], y, workspace) and the workspace's bytes.

    Args:
        turned: the weight is that of the convolution whose gradient this is, (c, o, kh, kw) here.
    """
    tile = tile_for(g)
    rows, taken = cut(g, tile, units, shared)
    copies = not (g.inside and g.stride[1] == 1)
    limit = min(max(REGION_BYTES, region(g, 1)), shared) // g.itemsize
    count = panels(g.o, tile)
    y = 3 if biased else 2
    kernel = source(tile, taps_of(g), limit if copies else 0, biased)
    numbers = (
        g.c, g.h, g.w, g.o, g.oh, g.ow, g.stride[0], g.dilation[0], *g.before, phase(g), g.groups,
        count, rows, taken,
    )  # fmt: skip
    items = (g.n * -(-g.oh // rows), -(-count // taken), g.groups)
    between = (2,) if biased else ()
    operands = (0, y + 1, *between, y)
    call = Call(kernel, items, (1, 1, 1), operands, numbers)
    packed = pack_weight(
        swapped(g) if turned else g, tile, (1, y + 1), "turned" if turned else "plain"
    )
    return [packed, call], packed_size(g.o, g.terms, g.groups, tile) * g.itemsize


def swapped(g: Geometry) -> Geometry:
    """The same with the channels of x and y exchanged: so the weight of the other one lies."""
    return Geometry(
        g.code, g.n, g.groups, g.o, g.h, g.w, g.c, g.kh, g.kw, g.oh, g.ow, g.stride, g.before,
        g.dilation,
    )  # fmt: skip
