from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from singa_core.kernels.c.dialect import INT_LIMIT, Call
from singa_core.spec import AnyForm, Shape, Spec
from singa_opencl.kernels import (
    conv_direct,
    conv_implicit,
    conv_scatter,
    conv_tiled,
    conv_weight,
    conv_winograd,
    gemm,
    own,
    tiled,
)
from singa_opencl.kernels.conv_geometry import Geometry, geometry

Found = tuple[list[Call], int] | list[Call] | None
Pairs = tuple[tuple[int, int], ...]
WASTE = 1.3  # more multiply-adds than this, and scattering the products of the grads is cheaper
FEW_PLACES = 64  # of an image: products with fewer columns are slow


def placed(
    x: AnyForm, y: AnyForm, weight: AnyForm, stride: Shape, padding: Pairs, dilation: Shape,
    groups: int,
) -> Geometry | None:  # fmt: skip
    """The geometry, unless indices do not fit."""
    g = geometry(x, y, weight, stride, padding, dilation, groups)
    sizes = (x.itemcount, y.itemcount, weight.itemcount)
    return g if g is not None and max(sizes) <= INT_LIMIT else None


@own.calls("conv", "T,T->T", "T,T,T->T", T="f32 f64")
def conv(
    target: Any, ins: Sequence[AnyForm], outs: Sequence[Spec], *, stride: Shape, padding: Pairs,
    dilation: Shape, groups: int,
) -> Found:  # fmt: skip
    g = placed(ins[0], outs[0], ins[1], stride, padding, dilation, groups)
    biased = len(ins) == 3
    if g is None:
        return None
    if target.family == "gpu":
        return in_tiles(target, g, "conv", biased=biased)
    if by_images(g) and not biased:
        return [pointwise(target, g, (0, 1), (g.terms, 1))]
    return forward(target, g, biased=biased)


@own.calls("conv_grad_input", "T,T->T", T="f32 f64")
def conv_grad_input(
    target: Any, ins: Sequence[AnyForm], outs: Sequence[Spec], *, size: Shape, stride: Shape,
    padding: Pairs, dilation: Shape, groups: int,
) -> Found:  # fmt: skip
    g = placed(outs[0], ins[0], ins[1], stride, padding, dilation, groups)
    if g is None:
        return None
    if target.family == "gpu":
        return in_tiles(target, g, "conv_grad_input")
    back = turned(g)
    if by_images(g):
        swapped = conv_direct.swapped(g)
        return [pointwise(target, swapped, (0, 1), (1, g.c))]
    if back is not None and (g.h * g.w <= WASTE * g.places or not scatters(target, g)):
        return forward(target, back, turned=True)
    if scatters(target, g):
        return conv_scatter.grad_input(g, units=target.units, shared=target.shared)
    return None


@own.calls("conv_grad_weight", "T,T->T", T="f32 f64")
def conv_grad_weight(
    target: Any, ins: Sequence[AnyForm], outs: Sequence[Spec], *, kernel: Shape, stride: Shape,
    padding: Pairs, dilation: Shape, groups: int,
) -> Found:  # fmt: skip
    g = placed(ins[0], ins[1], outs[0], stride, padding, dilation, groups)
    if g is None:
        return None
    if target.family == "gpu":
        return in_tiles(target, g, "conv_grad_weight")
    way: Any = conv_weight if conv_weight.fits(g, target.shared) else conv_implicit
    calls: list[Call] = way.grad_weight(g, units=target.units, shared=target.shared)
    return calls


def in_tiles(target: Any, g: Geometry, name: str, *, biased: bool = False) -> Found:
    """For devices with thousands of work items, if their groups are large enough."""
    return [conv_tiled.call(g, name, biased=biased)] if tiled.fits(target, g.code) else None


def forward(target: Any, g: Geometry, *, biased: bool = False, turned: bool = False) -> Found:
    """By the fastest way that takes this geometry."""
    ways = (conv_winograd, conv_direct)
    way: Any = next((w for w in ways if w.fits(g, target.shared)), conv_implicit)
    found: tuple[list[Call], int] = way.forward(
        g, biased=biased, turned=turned, units=target.units, shared=target.shared
    )
    return found


def scatters(target: Any, g: Geometry) -> bool:
    """Products of the grads of an image can be added where they belong."""
    return conv_scatter.fits(g, target.shared)


def by_images(g: Geometry) -> bool:
    """A plain product for each image: nothing has to be gathered."""
    return g.pointwise and g.groups == 1 and (g.places >= FEW_PLACES or g.n == 1)


def pointwise(target: Any, g: Geometry, operands: tuple[int, int], weight: tuple[int, int]) -> Call:
    """y (n, o, places) from x (n, c, places) and a weight with these strides along (o, c)."""
    x, w = operands
    batch = ((g.n, 0, g.c * g.places),)
    sizes = (g.o, g.places, g.c)
    made = gemm.product(g.code, sizes, weight, (g.places, 1), batch, target=target)
    return replace(made, operands=(w, x, 2))


def turned(g: Geometry) -> Geometry | None:
    """The convolution of grad with the turned weight; None for a stride or too much padding."""
    before = tuple(
        d * (k - 1) - p for d, k, p in zip(g.dilation, (g.kh, g.kw), g.before, strict=True)
    )
    if g.stride != (1, 1) or min(before) < 0:
        return None
    return replace(g, c=g.o, o=g.c, h=g.oh, w=g.ow, oh=g.h, ow=g.w, before=(before[0], before[1]))
