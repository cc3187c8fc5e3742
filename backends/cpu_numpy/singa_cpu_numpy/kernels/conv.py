from __future__ import annotations

import dataclasses

from singa_cpu_numpy.kernels import (
    conv_depthwise,
    conv_images,
    conv_rows,
    conv_winograd,
    numpy,
)
from singa_cpu_numpy.kernels.conv_geometry import as_planes, geometry

FEW_PLACES = 64  # of an image: products with fewer columns are slow


def way(g):
    """The module that has the fastest kernels for this geometry."""
    if g.c == 1 and g.groups > 1:
        return conv_depthwise
    if conv_winograd.fits(g):
        return conv_winograd
    return conv_images if by_images(g) else conv_rows


def by_images(g):
    """True where copying what each image's windows see is cheaper than turning x and y."""
    if g.pointwise:
        return g.h * g.w >= FEW_PLACES or g.n == 1
    # ns for each place of y, as measured: a copy in long runs, in short ones, of turned elements
    copied = g.k * (0.25 if g.stride[1] == 1 and g.ow >= 16 else 0.7)
    turned = g.c * g.h * g.w / (g.oh * g.ow) * (0.7 + 0.13 * g.kw) + g.o * 0.7
    return copied < turned


@numpy.prepared("conv", "T,T->T", "T,T,T->T", T="f32 f64")
def conv(target, ins, outs, *, stride, padding, dilation, groups):
    g = geometry(ins[0], outs[0], ins[1], stride, padding, dilation, groups)
    if g is None:
        return None
    launch, nbytes = way(g).forward(g)

    def run(x, weight, *rest):
        *bias, y, workspace = rest
        launch(as_planes(x), as_planes(weight), *bias, as_planes(y), workspace)

    return run, nbytes


@numpy.prepared("conv_grad_weight", "T,T->T", T="f32 f64")
def conv_grad_weight(target, ins, outs, *, kernel, stride, padding, dilation, groups):
    g = geometry(ins[0], ins[1], outs[0], stride, padding, dilation, groups)
    if g is None:
        return None
    launch, nbytes = way(g).grad_weight(g)

    def run(x, grad, y, workspace):
        launch(as_planes(x), as_planes(grad), as_planes(y), workspace)

    return run, nbytes


@numpy.prepared("conv_grad_input", "T,T->T", T="f32 f64")
def conv_grad_input(target, ins, outs, *, size, stride, padding, dilation, groups):
    g = geometry(outs[0], ins[0], ins[1], stride, padding, dilation, groups)
    if g is None:
        return None
    chosen, back = way(g), turned(g)
    if chosen is conv_depthwise or (chosen is conv_images and g.pointwise):
        launch, nbytes = chosen.grad_input(g)
    elif back is not None:
        by_winograd = conv_winograd.fits(back)
        launch, nbytes = (conv_winograd if by_winograd else conv_rows).forward(back, turned=True)
    else:
        launch, nbytes = conv_rows.grad_input(g)

    def run(grad, weight, y, workspace):
        launch(as_planes(grad), as_planes(weight), as_planes(y), workspace)

    return run, nbytes


def turned(g):
    """The convolution of grad with the turned weight, where that is hardly more work; else None."""
    before = tuple(
        d * (k - 1) - p for d, k, p in zip(g.dilation, (g.kh, g.kw), g.before, strict=True)
    )
    if g.stride != (1, 1) or min(before) < 0 or g.h * g.w > 1.2 * g.oh * g.ow:
        return None
    return dataclasses.replace(g, c=g.o, o=g.c, h=g.oh, w=g.ow, oh=g.h, ow=g.w, before=before)
