"""What kernels of convolutions have in common: geometry, lines with zeros, weights in panels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from singa_core.kernels.c.dialect import INT_LIMIT, Call, Source
from singa_core.spec import AnyForm, Shape
from singa_opencl.kernels.registers import Tile, types
from singa_opencl.kernels.text import call, numbers, operands

Found = tuple[list[Call], int]  # calls, and bytes of workspace
ROUNDS = 3  # work items for each unit, at least
SIZES = "batch groups channels h w outs oh ow kh kw sh sw dh dw ph pw"


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
        return Tile(self.code, 1).itemsize

    @property
    def vector(self) -> int:
        """Elements of a vector."""
        return Tile(self.code, 1).width

    @property
    def inside(self) -> bool:
        """No window sees padding."""
        right = (self.ow - 1) * self.stride[1] + (self.kw - 1) * self.dilation[1] + 1
        return self.before == (0, 0) and self.lines(self.oh) <= self.h and right <= self.w

    @property
    def pointwise(self) -> bool:
        """y at a place depends on x at that place only."""
        same = (self.h, self.w) == (self.oh, self.ow)
        return (self.kh, self.kw, *self.stride) == (1, 1, 1, 1) and same

    @property
    def swapped(self) -> Geometry:
        """The same with the channels of x and y exchanged: so the weight of the other one lies."""
        return replace(self, c=self.o, o=self.c)

    @property
    def numbers(self) -> dict[str, int]:
        """The values of SIZES, by name; and the number of taps."""
        sizes = (self.n, self.groups, self.c, self.h, self.w, self.o, self.oh, self.ow)
        windows = (self.kh, self.kw, *self.stride, *self.dilation, *self.before)
        found = dict(zip(SIZES.split(), (*sizes, *windows), strict=True))
        return found | {"taps": self.taps}

    def lines(self, rows: int) -> int:
        """Rows of x, or of its padding, that `rows` rows of y see."""
        return (rows - 1) * self.stride[0] + (self.kh - 1) * self.dilation[0] + 1


@dataclass(frozen=True)
class Windows:
    """The attributes of a convolution; padding is (before, after) for each spatial axis."""

    stride: Shape
    padding: tuple[tuple[int, int], ...]
    dilation: Shape
    groups: int


def geometry(x: AnyForm, y: AnyForm, weight: AnyForm, windows: Windows) -> Geometry | None:
    """From the forms of x, y and weight; None where another way has to be found."""
    forms = (x, y, weight)
    if len(x.shape) > 4 or any(0 in form.shape for form in forms):
        return None
    if max(form.itemcount for form in forms) > INT_LIMIT:
        return None
    stride, dilation = windows.stride, windows.dilation
    before = tuple(pair[0] for pair in windows.padding)
    if len(x.shape) == 3:
        stride, dilation, before = (1, *stride), (1, *dilation), (0, *before)
    (n, _, h, w), (_, out, oh, ow), (_, c, kh, kw) = (planes(form.shape) for form in forms)
    groups = windows.groups
    two = (stride[0], stride[1]), (before[0], before[1]), (dilation[0], dilation[1])
    return Geometry(x.dtype.code, n, groups, c, h, w, out // groups, kh, kw, oh, ow, *two)


def planes(shape: Shape) -> Shape:
    """A shape with two spatial axes."""
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])


# `count` elements of a line of x, `step` apart from number `first` on; 0 where it has none.
COPY_LINE = """
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


def panels(rows: int, tile: Tile) -> int:
    """How many panels of the tile's rows there are."""
    return -(-rows // tile.rows)


def packed_bytes(rows: int, depth: int, groups: int, tile: Tile) -> int:
    """Bytes of weights in panels."""
    return groups * panels(rows, tile) * tile.rows * depth * tile.itemsize


def positions(*, biased: bool = False) -> tuple[Shape, Shape]:
    """Operands of the call that packs the weight (weight, workspace) and of the one that uses it.

    The latter are x, the packed weight, the bias if there is one, and y.
    """
    bias = (2,) if biased else ()
    y = 2 + len(bias)
    return (1, y + 1), (0, y + 1, *bias, y)


_PACK_WEIGHT = """
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


@cache
def pack_source(tile: Tile) -> Source:
    """Weights (rows, outer, taps of the kernel) in panels [set][panel][outer][r][s][row].

    A set is a group, or each of the `inner` parts of a group.
    """
    return Source(
        f"pack_weight_{tile.rows}",
        operands(tile.code, "weight", "packed"),
        numbers("rows outer kh kw inner panels", "start sg sp si sl sr ss"),
        _PACK_WEIGHT,
        (types(tile),),
    )


def pack_weight(g: Geometry, tile: Tile, where: Shape, *, turned: bool = False) -> Call:
    """The call that puts the weight (groups * o, c, kh, kw) into panels whose rows are o.

    Args:
        where: the operands, as `call` takes them.
        turned: the weight is that of the convolution whose gradient g is, (groups * c, o, kh, kw);
            its taps go back to front.
    """
    taps, way = g.taps, -1 if turned else 1
    values = {
        "rows": g.o, "outer": g.c, "kh": g.kh, "kw": g.kw, "inner": 1, "panels": panels(g.o, tile),
        "start": taps - 1 if turned else 0, "sg": g.c * g.o * taps, "sp": 0,
        "si": taps if turned else g.c * taps, "sl": g.o * taps if turned else taps,
        "sr": way * g.kw, "ss": way,
    }  # fmt: skip
    return call(pack_source(tile), (values["panels"], g.groups, 1), where, values)


def pack_columns(g: Geometry, tile: Tile, where: Shape) -> Call:
    """The same with a set for each tap of a group: rows are c, and terms of its sums are o."""
    values = {
        "rows": g.c, "outer": g.o, "kh": 1, "kw": 1, "inner": g.taps, "panels": panels(g.c, tile),
        "start": 0, "sg": g.o * g.terms, "sp": 1, "si": g.taps, "sl": g.terms, "sr": 0, "ss": 0,
    }  # fmt: skip
    return call(pack_source(tile), (values["panels"], g.groups * g.taps, 1), where, values)
