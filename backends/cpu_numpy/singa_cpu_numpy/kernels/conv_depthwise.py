"""Convolution with one channel in a group: products of long runs and one weight, added up.

A channel of x lies in memory with its padding, its rows as long as those of a canvas for y: what
all windows see at one place of the kernel is then one run, and a few of its elements belong to no
window. With a stride, x is dealt out into stride * stride such planes.
"""

from __future__ import annotations

import numpy as np

from singa_cpu_numpy import threads
from singa_cpu_numpy.kernels.conv_geometry import carve, scratch, seen

RUN_BYTES = 1 << 17


class Canvas:
    """The planes of x and the canvas of y."""

    def __init__(self, g):
        (sh, sw), (dh, dw) = g.stride, g.dilation
        self.width = g.ow + dw * (g.kw - 1) // sw
        self.rows = g.oh + dh * (g.kh - 1) // sh
        self.run = (g.oh - 1) * self.width + g.ow  # from the first to the last window
        self.places = []  # (row and column in the kernel, plane, where its run begins)
        for i in range(g.kh):
            for j in range(g.kw):
                (row, a), (column, b) = divmod(i * dh, sh), divmod(j * dw, sw)
                self.places.append((i, j, a * sw + b, row * self.width + column))
        channel = (sh * sw * self.rows + g.oh) * self.width * g.dtype.itemsize
        self.n = max(min(RUN_BYTES * 4 // (channel * g.groups), g.n), 1)
        self.c = max(min(RUN_BYTES * 4 // channel, g.groups), 1)

    def shapes(self, g):
        """Planes of x, canvas of y, a term."""
        canvas = (self.n, self.c, g.oh * self.width)
        return (self.n, self.c, g.stride[0] * g.stride[1], self.rows * self.width), canvas, canvas

    def parts(self, g):
        """Slices of images and of channels."""
        return [
            (slice(i, min(i + self.n, g.n)), slice(j, min(j + self.c, g.groups)))
            for i in range(0, g.n, self.n)
            for j in range(0, g.groups, self.c)
        ]


def deal(g, canvas, x, planes, back=False):
    """x (n, c, h, w) -> planes, 0 outside of it; or `back` again."""
    (sh, sw), (top, left) = g.stride, g.before
    laid = planes.reshape(*x.shape[:2], sh, sw, canvas.rows, canvas.width)
    if back:
        x.fill(0)
    else:
        planes.fill(0)
    for a in range(sh):
        r0, r1, i = seen(g.h, canvas.rows, sh, a - top)
        for b in range(sw):
            c0, c1, j = seen(g.w, canvas.width, sw, b - left)
            if r0 < r1 and c0 < c1:
                part = x[:, :, i : i + (r1 - r0 - 1) * sh + 1 : sh]
                part = part[..., j : j + (c1 - c0 - 1) * sw + 1 : sw]
                own = laid[:, :, a, b, r0:r1, c0:c1]
                np.copyto(*((part, own) if back else (own, part)))


def windows_of(g, canvas, flat):
    """The elements of a canvas (n, c, oh * width) that are windows: (n, c, oh, ow)."""
    return flat.reshape(*flat.shape[:2], g.oh, canvas.width)[..., : g.ow]


def prepare(g, body):
    """launch(*handles, workspace): `body` on every part, with its planes, canvas and a term."""
    canvas = Canvas(g)
    parts = canvas.parts(g)
    workers = threads.workers(g.work * 8, len(parts))  # these operations take longer than products
    each = scratch(*canvas.shapes(g))

    def launch(*handles):
        *handles, workspace = handles
        memory = workspace.view(g.dtype)

        def part(worker):
            own = memory[worker * each : (worker + 1) * each]
            for images, channels in parts[worker::workers]:
                n, c = images.stop - images.start, channels.stop - channels.start
                shapes = [(n, c, *shape[2:]) for shape in canvas.shapes(g)]
                body(canvas, handles, images, channels, *carve(own, *shapes)[:-1])

        threads.share(part, workers)

    return launch, workers * each * g.dtype.itemsize


def forward(g):
    """launch(x, weight, [bias,] y, workspace)."""

    def body(canvas, handles, images, channels, planes, flat, term):
        x, weight, *bias, y = handles
        weight = weight.reshape(g.groups, g.o, g.kh, g.kw)
        deal(g, canvas, x[images, channels], planes)
        sums, term = flat[..., : canvas.run], term[..., : canvas.run]
        for m in range(g.o):
            target = sums
            for i, j, plane, start in canvas.places:
                seen_here = planes[:, :, plane, start : start + canvas.run]
                np.multiply(seen_here, weight[channels, m, i, j, None], target)
                if target is term:
                    np.add(sums, term, sums)
                target = term
            made = windows_of(g, canvas, flat)
            out = y.reshape(g.n, g.groups, g.o, g.oh, g.ow)[images, channels, m]
            if bias:
                np.add(made, bias[0].reshape(g.groups, g.o)[channels, m, None, None], out)
            else:
                np.copyto(out, made)

    return prepare(g, body)


def grad_input(g):
    """launch(grad, weight, y, workspace)."""

    def body(canvas, handles, images, channels, planes, flat, term):
        grad, weight, y = handles
        weight = weight.reshape(g.groups, g.o, g.kh, g.kw)
        planes.fill(0)
        flat.fill(0)
        grads, term = flat[..., : canvas.run], term[..., : canvas.run]
        for m in range(g.o):
            own = grad.reshape(g.n, g.groups, g.o, g.oh, g.ow)[images, channels, m]
            np.copyto(windows_of(g, canvas, flat), own)
            for i, j, plane, start in canvas.places:
                target = planes[:, :, plane, start : start + canvas.run]
                np.multiply(grads, weight[channels, m, i, j, None], term)
                np.add(target, term, target)
        deal(g, canvas, y[images, channels], planes, back=True)

    return prepare(g, body)


def grad_weight(g):
    """launch(x, grad, y, workspace)."""
    canvas = Canvas(g)
    blocks = range(0, g.groups, canvas.c)
    workers = threads.workers(g.work * 8, len(blocks))
    sums = (canvas.n, canvas.c)
    each = scratch(*canvas.shapes(g), sums)

    def launch(x, grad, y, workspace):
        memory = workspace.view(g.dtype)
        y = y.reshape(g.groups, g.o, g.kh, g.kw)
        y.fill(0)

        def part(worker):
            own = memory[worker * each : (worker + 1) * each]
            for start in blocks[worker::workers]:
                channels = slice(start, min(start + canvas.c, g.groups))
                for i in range(0, g.n, canvas.n):
                    add_images(slice(i, min(i + canvas.n, g.n)), channels, own)

        def add_images(images, channels, own):
            n, c = images.stop - images.start, channels.stop - channels.start
            shapes = [(n, c, *shape[2:]) for shape in canvas.shapes(g)]
            planes, flat, _, dots, _ = carve(own, *shapes, (n, c))
            deal(g, canvas, x[images, channels], planes)
            flat.fill(0)
            grads = flat[..., : canvas.run]
            for m in range(g.o):
                seen_from = grad.reshape(g.n, g.groups, g.o, g.oh, g.ow)[images, channels, m]
                np.copyto(windows_of(g, canvas, flat), seen_from)
                for i, j, plane, start in canvas.places:
                    np.vecdot(planes[:, :, plane, start : start + canvas.run], grads, dots)
                    y[channels, m, i, j] += dots.sum(axis=0)

        threads.share(part, workers)

    return launch, workers * each * g.dtype.itemsize
