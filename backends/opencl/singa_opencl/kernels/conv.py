from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from singa_core.kernels.c.dialect import Call
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
from singa_opencl.kernels.conv_geometry import Found, Geometry, Windows, geometry
from singa_opencl.kernels.product import Product

Answer = Found | list[Call] | None
Pairs = tuple[tuple[int, int], ...]
WASTE = 1.3  # more multiply-adds than this, and scattering the products of the grads is cheaper
FEW_PLACES = 64  # of an image: products with fewer columns are slow


@own.calls("conv", "T,T->T", "T,T,T->T", T="f32 f64")
def conv(
    target: Any, ins: Sequence[AnyForm], outs: Sequence[Spec], *, stride: Shape, padding: Pairs,
    dilation: Shape, groups: int,
) -> Answer:  # fmt: skip
    g = geometry(ins[0], outs[0], ins[1], Windows(stride, padding, dilation, groups))
    biased = len(ins) == 3
    if g is None:
        return None
    if target.family == "gpu":
        return in_tiles(target, g, "conv", biased=biased)
    if by_images(g) and not biased:
        return [pointwise(target, g, (g.terms, 1))]
    return forward(target, g, biased=biased)


@own.calls("conv_grad_input", "T,T->T", T="f32 f64")
def conv_grad_input(
    target: Any, ins: Sequence[AnyForm], outs: Sequence[Spec], *, size: Shape, stride: Shape,
    padding: Pairs, dilation: Shape, groups: int,
) -> Answer:  # fmt: skip
    g = geometry(outs[0], ins[0], ins[1], Windows(stride, padding, dilation, groups))
    if g is None:
        return None
    if target.family == "gpu":
        return in_tiles(target, g, "conv_grad_input")
    back = turned(g)
    if by_images(g):
        return [pointwise(target, g.swapped, (1, g.c))]
    if back is not None and (g.h * g.w <= WASTE * g.places or not scatters(target, g)):
        return forward(target, back, turned=True)
    if scatters(target, g):
        return conv_scatter.grad_input(target, g)
    return None


@own.calls("conv_grad_weight", "T,T->T", T="f32 f64")
def conv_grad_weight(
    target: Any, ins: Sequence[AnyForm], outs: Sequence[Spec], *, kernel: Shape, stride: Shape,
    padding: Pairs, dilation: Shape, groups: int,
) -> Answer:  # fmt: skip
    g = geometry(ins[0], ins[1], outs[0], Windows(stride, padding, dilation, groups))
    if g is None:
        return None
    if target.family == "gpu":
        return in_tiles(target, g, "conv_grad_weight")
    way: Any = conv_weight if conv_weight.fits(g, target.shared) else conv_implicit
    found: Found = way.grad_weight(target, g)
    return found


def in_tiles(target: Any, g: Geometry, name: str, *, biased: bool = False) -> Answer:
    """For devices with thousands of work items, if their groups are large enough."""
    return [conv_tiled.product(g, name, biased=biased)] if tiled.fits(target, g.code) else None


def forward(target: Any, g: Geometry, *, biased: bool = False, turned: bool = False) -> Found:
    """By the fastest way that takes this geometry."""
    ways = (conv_winograd, conv_direct)
    way: Any = next((w for w in ways if w.fits(g, target.shared)), conv_implicit)
    found: Found = way.forward(target, g, biased=biased, turned=turned)
    return found


def scatters(target: Any, g: Geometry) -> bool:
    """Products of the grads of an image can be added where they belong."""
    return conv_scatter.fits(g, target.shared)


def by_images(g: Geometry) -> bool:
    """A plain product for each image: nothing has to be gathered."""
    return g.pointwise and g.groups == 1 and (g.places >= FEW_PLACES or g.n == 1)


def pointwise(target: Any, g: Geometry, weight: tuple[int, int]) -> Call:
    """y (n, o, places) from x (n, c, places) and a weight with these strides along (o, c)."""
    sizes, batch = (g.o, g.places, g.c), ((g.n, 0, g.c * g.places),)
    made = gemm.product(Product(g.code, sizes, weight, (g.places, 1), batch), target)
    return replace(made, operands=(1, 0, 2))  # the weight stands left of x


def turned(g: Geometry) -> Geometry | None:
    """The convolution of grad with the turned weight; None for a stride or too much padding."""
    (down, right), (top, left) = g.dilation, g.before
    before = down * (g.kh - 1) - top, right * (g.kw - 1) - left
    if g.stride != (1, 1) or min(before) < 0:
        return None
    return replace(g.swapped, h=g.oh, w=g.ow, oh=g.h, ow=g.w, before=before)
