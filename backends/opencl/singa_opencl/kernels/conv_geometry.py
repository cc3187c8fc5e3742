"""What the kernels of convolutions have in common: geometry, and weights in panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from singa_core.kernels.c.dialect import Call, Source
from singa_core.spec import AnyForm, Shape
from singa_opencl.kernels.gemm import Tile, types


@dataclass(frozen=True)
class Geometry:
    """One convolution over rows and columns; a single spatial axis counts as one row.

    Channels (c of x, o of y) are those of one group.
    """

    code: str
    n: int
    groups: int
    c: int
    h: int
    w: int
    o: int
    kh: int
    kw: int
    oh: int
    ow: int
    stride: tuple[int, int]
    before: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def taps(self) -> int:
        """Places of the kernel."""
        return self.kh * self.kw

    @property
    def terms(self) -> int:
        """Terms of one sum."""
        return self.c * self.taps

    @property
    def places(self) -> int:
        """Places of y in an image."""
        return self.oh * self.ow

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return 8 if self.code == "f64" else 4

    @property
    def vector(self) -> int:
        """Elements of a vector."""
        return Tile(self.code, 1).width

    @property
    def inside(self) -> bool:
        """No window sees padding."""
        tops = (self.before[0], self.before[1])
        spans = (
            (self.oh - 1) * self.stride[0] + (self.kh - 1) * self.dilation[0] + 1,
            (self.ow - 1) * self.stride[1] + (self.kw - 1) * self.dilation[1] + 1,
        )
        return tops == (0, 0) and spans[0] <= self.h and spans[1] <= self.w

    @property
    def pointwise(self) -> bool:
        """y at a place depends on x at that place only."""
        return (self.kh, self.kw, *self.stride) == (1, 1, 1, 1) and (self.h, self.w) == (
            self.oh,
            self.ow,
        )


def geometry(
    x: AnyForm,
    y: AnyForm,
    weight: AnyForm,
    stride: Shape,
    padding: Sequence[tuple[int, int]],
    dilation: Shape,
    groups: int,
) -> Geometry | None:
    """From the forms of x, y and weight; None where another way has to be found."""
    if len(x.shape) > 4 or 0 in (*x.shape, *y.shape, *weight.shape):
        return None
    before = tuple(pair[0] for pair in padding)
    if len(x.shape) == 3:
        stride, dilation, before = (1, *stride), (1, *dilation), (0, *before)
    (n, _, h, w), (_, out, oh, ow), (_, c, kh, kw) = map(planes, (x.shape, y.shape, weight.shape))
    two = (stride[0], stride[1]), (before[0], before[1]), (dilation[0], dilation[1])
    return Geometry(x.dtype.code, n, groups, c, h, w, out // groups, kh, kw, oh, ow, *two)


def planes(shape: Shape) -> Shape:
    """A shape with two spatial axes."""
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])


def panels(rows: int, tile: Tile) -> int:
    """How many panels of the tile's rows there are."""
    return -(-rows // tile.rows)


def packed_size(rows: int, depth: int, groups: int, tile: Tile) -> int:
    """Elements of weights in panels."""
    return groups * panels(rows, tile) * tile.rows * depth


@cache
def pack_source(tile: Tile) -> Source:
    """Weights (rows, outer, taps of the kernel) in panels [set][panel][outer][r][s][row].

    A set is a group, or each of the `inner` parts of a group.
    """
    body = """
    const int panel = GROUP, set = GROUP_Y;
    const GLOBAL T *from = weight + start + set / inner * sg + set % inner * sp
        + (long)panel * MR * si;
    GLOBAL T *to = packed + ((long)set * panels + panel) * MR * outer * kh * kw;
    const int own = min(MR, rows - panel * MR);
    for (int l = 0; l < outer; l++)
        for (int r = 0; r < kh; r++)
            for (int s = 0; s < kw; s++, to += MR) {
                const GLOBAL T *e = from + l * sl + r * sr + s * ss;
                for (int i = 0; i < MR; i++) to[i] = i < own ? e[i * si] : 0;
            }
"""
    ints = ("rows", "outer", "kh", "kw", "inner", "panels")
    longs = ("start", "sg", "sp", "si", "sl", "sr", "ss")
    return Source(
        f"pack_weight_{tile.rows}",
        (("weight", tile.code, "in"), ("packed", tile.code, "out")),
        (*((name, "int") for name in ints), *((name, "long") for name in longs)),
        body,
        (types(tile),),
    )


def pack_weight(g: Geometry, tile: Tile, operands: tuple[int, int], kind: str) -> Call:
    """The call that puts the weight (groups * o, c, kh, kw) into panels.

    Args:
        kind: "plain", rows are o; "turned", rows are c and taps go back to front; "columns", a set
            for each tap of a group, rows are c and terms are o.
    """
    taps, own = g.taps, g.c * g.taps
    sizes: tuple[int, ...]
    if kind == "plain":
        sizes = (g.o, g.c, g.kh, g.kw, 1)
        steps = (0, g.o * own, 0, own, taps, g.kw, 1)
    elif kind == "turned":
        sizes = (g.c, g.o, g.kh, g.kw, 1)
        steps = (taps - 1, g.o * own, 0, taps, own, -g.kw, -1)
    else:
        sizes = (g.c, g.o, 1, 1, taps)
        steps = (0, g.o * own, 1, taps, own, 0, 0)
    count = panels(sizes[0], tile)
    items = (count, g.groups * sizes[4], 1)
    return Call(pack_source(tile), items, (1, 1, 1), operands, (*sizes, count, *steps))
