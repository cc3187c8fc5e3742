"""Gradient of convolution for its weight: products of grads and what the windows saw, by vectors.

A work item makes the weights of some channels of y by some of x, over the whole batch. It keeps
`OUTS` channels of grads by `TAPS` taps in registers while it goes along rows; the elements of a
vector are added at the very end. Some images at a time are looked at, so that they stay at hand.
Where rows have padding, a stride or an end inside a vector, it looks at copies with zeros there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from string import Template

from singa_core.kernels.c.dialect import Source, Target
from singa_core.kernels.c.geometry import grouped
from singa_opencl.kernels.conv_geometry import COPY_LINE, Found, Geometry
from singa_opencl.kernels.registers import Tile, room_for, types
from singa_opencl.kernels.text import call, numbers, operands

SUM_BYTES = 128 << 10  # of sums in a work item
IMAGE_BYTES = 96 << 10  # of images looked at together
# Cycles of an element that is copied (in a row, or one of several) or read from a distant cache.
COPY_PLAIN, COPY_STRIDED, READ = 0.4, 2.0, 0.25
PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)


@dataclass(frozen=True)
class Variant:
    """What the text of the kernel depends on.

    Args:
        code: the dtype of all operands.
        outs, taps: in registers.
        stride: along rows.
        vectors: of a row where there are few of them, so that the loop disappears; else 0.
        sums: elements of scratch for sums.
        seen: elements of scratch for copies of x; 0 for none.
        grads: elements of scratch for copies of grads; 0 for none.
    """

    code: str
    outs: int
    taps: int
    stride: int
    vectors: int
    sums: int
    seen: int
    grads: int

    @property
    def spaces(self) -> dict[str, str]:
        """The memory that vectors of x and of grads are loaded from."""
        return {
            "space_x": "SHARED" if self.seen else "GLOBAL",
            "space_g": "SHARED" if self.grads else "GLOBAL",
        }


# --- what is copied, and how the work is cut ---------------------------------------------------


def fits(g: Geometry, shared: int) -> bool:
    """True where rows are long enough for vectors and one image's channel pair can be copied."""
    if g.ow < g.vector or 4 * g.ow < 3 * span(g):
        return False
    size = (seen_plane(g) + grad_plane(g)) * g.itemsize * 4 + g.taps * 64 * g.itemsize
    return size <= room_for(shared) - SUM_BYTES


def span(g: Geometry) -> int:
    """Columns of a row of grads in whole vectors."""
    return grouped(g.ow, g.vector)


def phase(g: Geometry) -> int:
    """Columns of x of one phase (column modulo stride) that a row of grads in vectors meets."""
    return span(g) + (g.kw - 1) * g.dilation[1] // g.stride[1]


def met_plane(g: Geometry) -> int:
    """Elements of a channel of x, or of its padding, that an image's grads meet."""
    return g.lines(g.oh) * g.stride[1] * phase(g)


def copies_x(g: Geometry) -> bool:
    """x has to be copied: padding, or a stride along rows, or vectors that reach too far."""
    return not (g.inside and g.stride[1] == 1 and span(g) == g.ow)


def seen_plane(g: Geometry) -> int:
    """Elements of a copied channel of x."""
    return met_plane(g) if copies_x(g) else 0


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
    sums = grouped(o, outs) * grouped(c * g.taps, taps) * g.vector
    return sums, c * seen_plane(g), o * grad_plane(g)


def cut(g: Geometry, target: Target) -> tuple[int, int]:
    """(channels of y, of x) of a work item: those that keep all units busy and read least."""
    outs, _ = tile_for(g)
    limit = room_for(target.shared) // g.itemsize
    best, chosen = float("inf"), (outs, 1)
    for o, c in pairs(g, outs):
        sums, x, grad = scratch(g, o, c)
        if (o, c) != chosen and (sums * g.itemsize > SUM_BYTES or sums + x + grad > limit):
            continue
        cycles = cost(g, o, c, target.units)
        if cycles < best:
            best, chosen = cycles, (o, c)
    return chosen


def pairs(g: Geometry, outs: int) -> Iterator[tuple[int, int]]:
    """The numbers of channels of y and of x that are tried."""
    for o in sorted({min(grouped(-(-g.o // p), outs), g.o) for p in PARTS}):
        for c in sorted({-(-g.c // p) for p in PARTS}):
            yield o, c


def cost(g: Geometry, o: int, c: int, units: int) -> float:
    """Cycles, if a work item takes so many channels of y and of x.

    What a channel of x is read for again is every block of channels of y, and the other way round.
    """
    copy = COPY_STRIDED if g.stride[1] > 1 else COPY_PLAIN
    read_x = g.c * met_plane(g) * (copy if copies_x(g) else READ)
    read_g = g.o * g.oh * span(g) * (COPY_PLAIN if grad_plane(g) else READ)
    work = g.o * g.c * g.taps * g.oh * span(g) / g.vector / 2
    blocks_o, blocks_c = -(-g.o // o), -(-g.c // c)
    waste = o * blocks_o * c * blocks_c / (g.o * g.c)
    cycles = work * waste + read_x * blocks_o + read_g * blocks_c
    items = g.groups * blocks_o * blocks_c
    return cycles * (units * -(-items // units) / items if items < 8 * units else 1.0)


def short(g: Geometry) -> int:
    """Vectors of a row where there are few of them: the loop over them disappears; else 0."""
    count = span(g) // g.vector
    return count if count <= 2 else 0


# --- the inner loop: sums of some channels by some taps over rows and images -------------------

_MICRO = Template("""
FUNCTION void micro(const $space_x T *x, const $space_g T *g, SHARED V *sums, int images, int oh,
                    int columns, int ximage, int xline, int gimage, int gplane, $offsets)
{
$read
    for (int n = 0; n < images; n++, x += ximage, g += gimage) {
        const $space_x T *start = x;
        const $space_g T *begin = g;
        for (int t = 0; t < oh; t++, start += xline, begin += columns) {
            const $space_x T *x = start;
            const $space_g T *g = begin;
            for (int u = 0; u < $width; u += W, x += W, g += W) {
                $loads
$rows
            }
        }
    }
$write
}
""")


def micro(v: Variant) -> str:
    """The function; s<i>_<j> is the sum of channel i and tap j, d<j> where tap j sees x."""
    outs, taps, spaces = range(v.outs), range(v.taps), v.spaces
    sums = [(f"s{i}_{j}", f"sums[{i * v.taps + j}]") for i in outs for j in taps]
    load = f"*(const {spaces['space_g']} U *)"
    return _MICRO.substitute(
        spaces,
        offsets=", ".join(f"const int d{j}" for j in taps),
        read="\n".join(f"    V {register} = {kept};" for register, kept in sums),
        width=f"{v.vectors} * W" if v.vectors else "columns",
        loads=" ".join(f"const V g{i} = {load}(g + {i} * gplane);" for i in outs),
        rows="\n".join(add_tap(v, j) for j in taps),
        write="\n".join(f"    {kept} = {register};" for register, kept in sums),
    )


def add_tap(v: Variant, j: int) -> str:
    """What tap j sees, times the grads of all channels."""
    adds = " ".join(f"s{i}_{j} += g{i} * e;" for i in range(v.outs))
    load = f"*(const {v.spaces['space_x']} U *)(x + d{j})"
    return f"                {{ const V e = {load}; {adds} }}"


# --- the kernel --------------------------------------------------------------------------------

_COPIED_X = Template("""
        {
            SHARED T *to = (SHARED T *)seen_;
            for (int n = 0; n < images; n++)
                for (int c = c0; c < c1; c++)
                    for (int l = 0; l < lines; l++) {
                        const GLOBAL T *row = x + (((long)(n0 + n) * groups + group) * channels + c)
                            * h * w;
                        const int at = l - ph;
                        for (int p = 0; p < $STEP; p++, to += phase)
                            if (at < 0 || at >= h)
                                for (int i = 0; i < phase; i++) to[i] = 0;
                            else
                                copy_line(row + (long)at * w, w, p - pw, $STEP, phase, to);
                    }
        }
        const SHARED T *xs = (const SHARED T *)seen_;
""")
_X_IN_PLACE = """\
        const GLOBAL T *xs = x + (((long)n0 * groups + group) * channels + c0) * h * w;
"""
_COPIED_GRADS = """
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
_GRADS_IN_PLACE = """\
        const GLOBAL T *gs = grad + (((long)n0 * groups + group) * outs + o0) * oh * ow;
"""
# Some images at a time: tiles of sums go over them, $OUTS channels by $TAPS taps each.
_ADD = """
    SHARED V sums[$SUMS / W];
    $scratch_x
    $scratch_g
    /* the last block starts earlier rather than being smaller; its first channels are others' */
    const int group = GROUP_Z, o0 = min(GROUP * some_o, outs - some_o), o1 = o0 + some_o;
    const int c0 = GROUP_Y * some_c, c1 = min(c0 + some_c, channels), total = (c1 - c0) * taps;
    const int ximage = $own_c * xplane;
    const int gimage = $own_o * gplane;
    const int count_o = (some_o + $OUTS_1) / $OUTS, count_t = (total + $TAPS_1) / $TAPS;
    for (int i = 0; i < count_o * count_t * $TILE; i++) sums[i] = 0;
    for (int n0 = 0; n0 < batch; n0 += some_n) {
        const int images = min(some_n, batch - n0);
$take_x$take_g
        for (int a = 0; a < count_o; a++) {
            /* the last channels once more, where their number is no multiple */
            const int o = min(a * $OUTS, some_o - $OUTS);
            for (int b = 0; b < count_t; b++) {
                int d[$TAPS];
                for (int j = 0; j < $TAPS; j++) {
                    const int tap = min(b * $TAPS + j, total - 1);
                    const int c = tap / taps, r = tap % taps / kw, s = tap % kw * dw;
                    d[j] = c * xplane + r * dh * xrow + s % $STEP * phase + s / $STEP;
                }
                micro(xs, gs + o * gplane, sums + (a * count_t + b) * $TILE, images, oh,
                      columns, ximage, sh * xrow, gimage, gplane, $offsets);
            }
        }
    }
"""
# The elements of each vector of sums added, where the channel is this work item's own.
_STORE = """\
    for (int a = 0; a < count_o; a++)
        for (int i = 0; i < $OUTS; i++) {
            const int o = min(a * $OUTS, some_o - $OUTS) + i;
            if (o0 + o < GROUP * some_o) continue;
            GLOBAL T *to = y + (((long)group * outs + o0 + o) * channels + c0) * taps;
            for (int tap = 0; tap < total; tap++) {
                const SHARED T *e = (const SHARED T *)(sums + (a * count_t + tap / $TAPS)
                    * $TILE + i * $TAPS + tap % $TAPS);
                T sum = 0;
                for (int j = 0; j < W; j++) sum += e[j];
                to[tap] = sum;
            }
        }
"""
_BODY = Template(_ADD + _STORE)


def looked_at(v: Variant) -> dict[str, str]:
    """The parts of the body that say where x and the grads are: in copies, or where they are."""
    found = {
        "scratch_x": "", "own_c": "groups * channels", "take_x": _X_IN_PLACE,
        "scratch_g": "", "own_o": "groups * outs", "take_g": _GRADS_IN_PLACE,
    }  # fmt: skip
    if v.seen:
        scratch = f"SHARED V seen_[({v.seen} + W - 1) / W];"
        copy = _COPIED_X.substitute(STEP=v.stride)
        found |= {"scratch_x": scratch, "own_c": "(c1 - c0)", "take_x": copy}
    if v.grads:
        scratch = f"SHARED V grads_[({v.grads} + W - 1) / W];"
        found |= {"scratch_g": scratch, "own_o": "some_o", "take_g": _COPIED_GRADS}
    return found


@cache
def source(v: Variant) -> Source:
    """The kernel."""
    body = _BODY.substitute(
        looked_at(v), SUMS=v.sums, OUTS=v.outs, TAPS=v.taps, OUTS_1=v.outs - 1, TAPS_1=v.taps - 1,
        TILE=v.outs * v.taps, STEP=v.stride, offsets=", ".join(f"d[{j}]" for j in range(v.taps)),
    )  # fmt: skip
    return Source(
        "conv_grad_weight",
        operands(v.code, "x grad"),
        numbers(
            "batch groups channels h w outs oh ow taps kw sh dh dw ph pw lines phase columns "
            "xrow xplane gplane some_o some_c some_n"
        ),
        body,
        (types(Tile(v.code, 1)), COPY_LINE, micro(v)),
    )


def grad_weight(target: Target, g: Geometry) -> Found:
    """Calls for (x, grad, y, workspace) and the workspace's bytes, none."""
    o, c = cut(g, target)
    sums, copied_x, copied_g = scratch(g, o, c)
    xplane, gplane = seen_plane(g) or g.h * g.w, grad_plane(g) or g.places
    some = min(max(IMAGE_BYTES // ((c * xplane + o * gplane) * g.itemsize), 1), g.n)
    kernel = source(
        Variant(g.code, *tile_for(g), g.stride[1], short(g), sums, some * copied_x, some * copied_g)
    )
    values = g.numbers | {
        "lines": g.lines(g.oh), "phase": phase(g), "columns": span(g),
        "xrow": phase(g) * g.stride[1] if copies_x(g) else g.w, "xplane": xplane, "gplane": gplane,
        "some_o": o, "some_c": c, "some_n": some,
    }  # fmt: skip
    return [call(kernel, (-(-g.o // o), -(-g.c // c), g.groups), (0, 1, 2), values)], 0
