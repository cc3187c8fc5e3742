"""Gradient of convolution for its input where windows overlap little or stand apart.

A work item makes some channels of one image: products of the weight with the grads, some taps by
some places at a time, are added to what the window there has seen. No matrix of columns exists:
the grads of the image lie in panels of columns, the weight in panels of rows for each tap, and a
tile of their product is in registers until it is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from string import Template

from singa_core.kernels.c.dialect import Source, Target
from singa_core.kernels.c.geometry import grouped
from singa_opencl.kernels.conv_geometry import (
    ROUNDS,
    Found,
    Geometry,
    pack_columns,
    packed_bytes,
    panels,
    positions,
)
from singa_opencl.kernels.registers import Tile, across, products, room_for, rows_for, types
from singa_opencl.kernels.text import call, numbers, operands


@dataclass(frozen=True)
class Variant:
    """What the text of the kernel depends on.

    Args:
        tile: channels of x at one tap by places of grads.
        grads: elements for the grads of an image.
        own: elements for the channels of x that a work item makes.
        places: of grads, whole tiles of them.
        whole: products are added vector by vector.
    """

    tile: Tile
    grads: int
    own: int
    places: int
    whole: bool


def vectored(g: Geometry) -> bool:
    """Whole vectors of products can be added to neighbours."""
    return g.stride[1] == 1 and g.ow >= g.vector


def band(g: Geometry) -> int:
    """Places of a row of grads, zeros added to whole vectors where the stride along it is one."""
    return grouped(g.ow, g.vector) if vectored(g) else g.ow


def plane(g: Geometry) -> tuple[int, int]:
    """(rows, columns) of a channel of x with the padding that windows see."""
    columns = (band(g) - 1) * g.stride[1] + (g.kw - 1) * g.dilation[1] + 1
    return max(g.lines(g.oh), g.before[0] + g.h), max(columns, g.before[1] + g.w)


def places(g: Geometry, tile: Tile) -> int:
    """Places of the grads of an image in panels of columns."""
    return grouped(g.oh * band(g), tile.columns)


def tile_for(g: Geometry) -> Tile:
    """The rows of a tile are channels of x, at one tap."""
    return Tile(g.code, rows_for(g.c))


def fits(g: Geometry, shared: int) -> bool:
    """True if the grads of an image and a channel of x can be kept at hand."""
    rows, columns = plane(g)
    tile = tile_for(g)
    size = 2 * places(g, tile) * g.o + tile.rows * rows * columns  # twice: the places too
    return size * g.itemsize <= room_for(shared)


def cut(g: Geometry, tile: Tile, target: Target) -> int:
    """Channels of x of a work item: whole panels of the weight."""
    rows, columns = plane(g)
    room = room_for(target.shared) // g.itemsize - 2 * places(g, tile) * g.o
    taken = min(max(room // (rows * columns), 1), g.c)
    while taken > 1 and g.n * g.groups * -(-g.c // taken) < ROUNDS * target.units:
        taken = -(-taken // 2)
    return grouped(taken, tile.rows)


_ADD_VECTOR = "{{ SHARED U *e = (SHARED U *)(to + goes[p / W + {j}]); *e += t[i * NR / W + {j}]; }}"
_ADD_EACH = (
    "const T *e = (const T *)t + i * NR; for (int j = 0; j < NR; j++) to[goes[p + j]] += e[j];"
)
# The grads of an image, in panels of columns; and where, from the first tap on, each is added.
_LAY = """
    SHARED V laid_[($GRADS + W - 1) / W], made_[($OWN + W - 1) / W];
    SHARED int goes[$PLACES / $STEP];
    SHARED T *laid = (SHARED T *)laid_, *made = (SHARED T *)made_;
    const int n = GROUP, group = GROUP_Z, size = oh * ow;
    const GLOBAL T *from = grad + ((long)n * groups + group) * outs * oh * real;
    for (int p = 0; p < size; p += NR)
        for (int o = 0; o < outs; o++)
            for (int j = 0; j < NR; j++) {
                const int q = p + j, row = q / ow, column = q % ow;
                laid[p * outs + o * NR + j] = q < size && column < real
                    ? from[((long)o * oh + row) * real + column] : 0;
            }
    for (int i = 0; i < (size + NR - 1) / NR * NR / $STEP; i++) { /* zeros go to the first */
        const int q = i * $STEP;
        goes[i] = q < size ? q / ow * sh * columns + q % ow * sw : 0;
    }
"""
# Taps are the outermost loop: what is added to neighbours lies far apart in time, since a load
# that meets only a part of a store just made has to wait for it.
_ADD = """\
    const int first = GROUP_Y * taken, last = min(first + taken, channels);
    for (int i = 0; i < (last - first) * rows * columns; i++) made[i] = 0;
    for (int tap = 0; tap < taps; tap++)
        for (int c = first; c < last; c += MR) {
            const GLOBAL T *a = weight
                + (((long)group * taps + tap) * panels + c / MR) * MR * outs;
            SHARED T *here = made + ((c - first) * rows + tap / kw * dh) * columns + tap % kw * dw;
            const int own = min(MR, last - c);
            for (int p = 0; p < size; p += NR) {
                V t[MR * NR / W];
                products(a, laid + p * outs, outs, t);
                SHARED T *to = here;
                for (int i = 0; i < own; i++, to += rows * columns) {
                    $add
                }
            }
        }
"""
# The channels without their padding.
_STORE = """\
    for (int c = first; c < last; c++)
        for (int i = 0; i < h; i++) {
            const SHARED T *e = made + ((c - first) * rows + ph + i) * columns + pw;
            GLOBAL T *to = y + ((((long)n * groups + group) * channels + c) * h + i) * w;
            for (int j = 0; j < w; j++) to[j] = e[j];
        }
"""
_BODY = Template(_LAY + _ADD + _STORE)


@cache
def source(v: Variant) -> Source:
    """The kernel."""
    tile = v.tile
    body = _BODY.substitute(
        GRADS=v.grads, OWN=v.own, PLACES=v.places, STEP=tile.width if v.whole else 1,
        add=across(tile, _ADD_VECTOR) if v.whole else _ADD_EACH,
    )  # fmt: skip
    return Source(
        "conv_scatter",
        operands(tile.code, "grad weight"),
        numbers(
            "channels h w outs oh ow real taps kw sh sw dh dw ph pw rows columns groups panels "
            "taken"
        ),
        body,
        (types(tile), products(tile, "GLOBAL")),
    )


def grad_input(target: Target, g: Geometry) -> Found:
    """Calls for (grad, weight, y, workspace) and the workspace's bytes."""
    tile = tile_for(g)
    (rows, columns), laid, taken = plane(g), places(g, tile), cut(g, tile, target)
    kernel = source(Variant(tile, laid * g.o, taken * rows * columns, laid, vectored(g)))
    values = g.numbers | {
        "ow": band(g), "real": g.ow, "rows": rows, "columns": columns, "panels": panels(g.c, tile),
        "taken": taken,
    }  # fmt: skip
    weight, used = positions()
    items = (g.n, -(-g.c // taken), g.groups)
    calls = [pack_columns(g, tile, weight), call(kernel, items, used, values)]
    return calls, packed_bytes(g.c, g.o, g.groups * g.taps, tile)
