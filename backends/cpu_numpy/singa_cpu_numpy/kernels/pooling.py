"""Pooling, some planes (channels of images) at a time: first along columns, then along rows."""

from __future__ import annotations

import math

import numpy as np

from singa_cpu_numpy import threads
from singa_cpu_numpy.kernels import numpy
from singa_cpu_numpy.kernels.conv_geometry import carve, scratch

TILE_BYTES = 1 << 20  # of x in a tile
COST = 50.0  # of one element, in floating-point operations of a matrix product


class Windows:
    """How windows stand over rows and columns, and which planes make a tile."""

    def __init__(self, x, y, kernel, stride, padding, dilation):
        if len(kernel) == 1:
            kernel, stride, dilation = (1, *kernel), (1, *stride), (1, *dilation)
            padding = ((0, 0), *padding)
        self.count = math.prod(x.shape[:2])
        self.size = x.shape[2:] if len(x.shape) == 4 else (1, x.shape[2])
        self.out = y.shape[2:] if len(y.shape) == 4 else (1, y.shape[2])
        self.kernel, self.stride, self.dilation = kernel, stride, dilation
        self.before = tuple(before for before, _ in padding)
        self.dtype = x.dtype.numpy
        spans = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in self._axes()]
        self.extent = tuple(spans)  # rows and columns that windows see
        self.padded = any(self.before) or any(
            span > n for span, n in zip(spans, self.size, strict=True)
        )
        apart = all(s >= d * (k - 1) + 1 for _, s, d, k in self._axes())
        self.apart = apart and not self.padded  # no element is seen twice
        self.tight = self.apart and self.kernel == self.stride and self.extent == self.size
        planes = max(TILE_BYTES // (math.prod(self.size) * self.dtype.itemsize), 1)
        work = COST * self.count * math.prod(self.size)
        self.planes = threads.tile(self.count, planes, threads.workers(work, self.count))
        self.starts = range(0, self.count, self.planes)
        self.workers = threads.workers(work, len(self.starts))

    def _axes(self):
        return zip(self.out, self.stride, self.dilation, self.kernel, strict=True)

    def rows(self, x, i):
        """What windows see in row i of the kernel."""
        start, s = i * self.dilation[0], self.stride[0]
        return x[:, start : start + (self.out[0] - 1) * s + 1 : s]

    def columns(self, x, j):
        """What windows see in column j of the kernel."""
        start, s = j * self.dilation[1], self.stride[1]
        return x[:, :, start : start + (self.out[1] - 1) * s + 1 : s]

    def places(self):
        """Rows and columns of the kernel in C order."""
        return [(i, j) for i in range(self.kernel[0]) for j in range(self.kernel[1])]

    def pad(self, x, memory, value):
        """The elements that windows see, x (planes, h, w) itself where no padding is among them."""
        if not self.padded:
            return x, memory
        made, rest = carve(memory, (len(x), *self.extent))
        made.fill(value)
        inner, part = self.inner(made, x)
        inner[...] = part
        return made, rest

    def inner(self, made, x):
        """The elements of x in a padded array, and in x."""
        (top, left), (h, w) = self.before, self.extent
        rows, columns = min(self.size[0], h - top), min(self.size[1], w - left)
        return made[:, top : top + rows, left : left + columns], x[:, :rows, :columns]

    def run(self, body, handles, workspace, each):
        """`body(*tiles of the handles, memory)` for all tiles."""
        memory = workspace.view(self.dtype)
        flat = [h.reshape(self.count, -1) for h in handles]
        sizes = [self.size if f.shape[1] == math.prod(self.size) else self.out for f in flat]
        whole = [f.reshape(self.count, *size) for f, size in zip(flat, sizes, strict=True)]

        def part(worker):
            own = memory[worker * each : (worker + 1) * each]
            for start in self.starts[worker :: self.workers]:
                body(*(h[start : start + self.planes] for h in whole), own)

        threads.share(part, self.workers)

    def launch(self, body, *shapes):
        """(launch, workspace): shapes are those of the scratch of one tile, without its planes.

        That of x with its padding is added where there is padding.
        """
        shapes = (self.extent, *shapes) if self.padded else shapes
        each = scratch(*((self.planes, *shape) for shape in shapes))

        def launch(*handles):
            self.run(body, handles[:-1], handles[-1], each)

        return launch, self.workers * each * self.dtype.itemsize


def geometry(x, y, kernel, stride, padding, dilation=None):
    """None where the decomposition has to serve."""
    if len(kernel) > 2 or not (x.itemcount and y.itemcount):
        return None
    return Windows(x, y, kernel, stride, padding, dilation or (1,) * len(kernel))


# -- the largest --------------------------------------------------------------------------------


@numpy.prepared("max_pool", "T->T", T="f32 f64")
def max_pool(target, ins, outs, *, kernel, stride, padding, dilation, ceil_mode):
    g = geometry(ins[0], outs[0], kernel, stride, padding, dilation)
    if g is None:
        return None

    def body(x, y, memory):
        x, memory = g.pad(x, memory, -np.inf)
        x = x[:, :, : g.extent[1]]
        if g.kernel[0] > 1:
            high, _ = carve(memory, (len(x), g.out[0], g.extent[1]))
            np.maximum(g.rows(x, 0), g.rows(x, 1), out=high)
            for i in range(2, g.kernel[0]):
                np.maximum(high, g.rows(x, i), out=high)
        else:
            high = g.rows(x, 0)
        if g.kernel[1] == 1:
            np.copyto(y, g.columns(high, 0))
            return
        np.maximum(g.columns(high, 0), g.columns(high, 1), out=y)
        for j in range(2, g.kernel[1]):
            np.maximum(y, g.columns(high, j), out=y)

    return g.launch(body, (g.out[0], g.extent[1]))


@numpy.prepared("max_pool_grad", "T,T,T->T", T="f32 f64")
def max_pool_grad(target, ins, outs, *, kernel, stride, padding, dilation, ceil_mode):
    g = geometry(ins[1], ins[0], kernel, stride, padding, dilation)
    if g is None:
        return None
    bits = np.dtype(f"i{g.dtype.itemsize}")
    places = g.places()

    def body(grad, x, y, dx, memory):
        x, memory = g.pad(x, memory, -np.inf)
        target, memory = (dx, memory) if g.apart else carve(memory, (len(x), *g.extent))
        mask, flags, memory = carve(memory, y.shape, y.shape)
        # the bits of a grad times 0 or 1: neither a branch that mispredicts, nor inf * 0
        grad, mask = grad.view(bits), mask.view(bits)
        left, hit = (flags.view(np.bool_).reshape(2, -1)[i] for i in (0, 1))
        left, hit = (f[: y.size].reshape(y.shape) for f in (left, hit))
        left.fill(True)
        if not g.tight:
            target.fill(0)
        for i, j in places:
            if (i, j) == places[-1]:
                hit = left  # somebody has to take it, also where nothing equals NaN
            else:
                np.equal(g.columns(g.rows(x, i), j), y, out=hit)
                np.logical_and(hit, left, out=hit)
                np.logical_xor(left, hit, out=left)
            np.copyto(mask, hit)
            place = g.columns(g.rows(target, i), j)
            if g.apart:
                np.multiply(grad, mask, out=place.view(bits))
            else:
                np.multiply(grad, mask, out=mask)
                np.add(place, mask.view(g.dtype), out=place)
        if not g.apart:
            finish(g, target, dx)

    return g.launch(body, *(() if g.apart else (g.extent,)), g.out, g.out)


def finish(g, target, dx):
    """What was gathered in a padded array, to dx."""
    inner, part = g.inner(target, dx)
    if part.size < dx.size:
        dx.fill(0)
    part[...] = inner


# -- the mean -----------------------------------------------------------------------------------


def counts(g, padding, include, one_axis):
    """How many elements each window averages, as (rows, columns), or a number if it is one."""
    pairs = ((0, 0), *padding) if one_axis else padding
    axes = []
    for n, count, s, k, (before, after) in zip(
        g.size, g.out, g.stride, g.kernel, pairs, strict=True
    ):
        low, high = (-before, n + after) if include else (0, n)
        starts = np.arange(count) * s - before
        axes.append(np.minimum(starts + k, high) - np.maximum(starts, low))
    made = np.multiply.outer(*axes).astype(g.dtype)
    return made if (made != made[0, 0]).any() else made[0, 0]


def mean_geometry(x, y, kernel, stride, padding, count_include_pad):
    g = geometry(x, y, kernel, stride, padding)
    return g, g and counts(g, padding, count_include_pad, len(kernel) == 1)


@numpy.prepared("avg_pool", "T->T", T="f32 f64")
def avg_pool(target, ins, outs, *, kernel, stride, padding, ceil_mode, count_include_pad):
    g, count = mean_geometry(ins[0], outs[0], kernel, stride, padding, count_include_pad)
    if g is None:
        return None

    def body(x, y, memory):
        x, memory = g.pad(x, memory, 0)
        x = x[:, :, : g.extent[1]]
        if g.kernel[0] > 1:
            total, _ = carve(memory, (len(x), g.out[0], g.extent[1]))
            np.add(g.rows(x, 0), g.rows(x, 1), out=total)
            for i in range(2, g.kernel[0]):
                np.add(total, g.rows(x, i), out=total)
        else:
            total = g.rows(x, 0)
        if g.kernel[1] == 1:
            np.divide(g.columns(total, 0), count, out=y)
            return
        np.add(g.columns(total, 0), g.columns(total, 1), out=y)
        for j in range(2, g.kernel[1]):
            np.add(y, g.columns(total, j), out=y)
        np.divide(y, count, out=y)

    return g.launch(body, (g.out[0], g.extent[1]))


@numpy.prepared("avg_pool_grad", "T->T", T="f32 f64")
def avg_pool_grad(target, ins, outs, *, kernel, stride, padding, count_include_pad, **rest):
    g, count = mean_geometry(outs[0], ins[0], kernel, stride, padding, count_include_pad)
    if g is None:
        return None

    def body(grad, dx, memory):
        share, memory = carve(memory, grad.shape)
        np.divide(grad, count, out=share)
        if g.apart:
            if not g.tight:
                dx.fill(0)
            for i, j in g.places():
                np.copyto(g.columns(g.rows(dx, i), j), share)
            return
        wide, target, _ = carve(memory, (len(dx), g.out[0], g.extent[1]), (len(dx), *g.extent))
        wide.fill(0)
        target.fill(0)
        for j in range(g.kernel[1]):
            place = g.columns(wide, j)
            np.add(place, share, out=place)
        for i in range(g.kernel[0]):
            place = g.rows(target, i)
            np.add(place, wide, out=place)
        finish(g, target, dx)

    more = () if g.apart else ((g.out[0], g.extent[1]), g.extent)
    return g.launch(body, g.out, *more)
