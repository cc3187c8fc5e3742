"""Convolution as one matrix product for each image, in the order that x and y have in memory.

The product's right side is all that the windows of an image see, c * kh * kw times as many elements
as y has in a channel. That is cheap where it is small (a first layer), or nothing to copy at all
(a kernel of one element: x itself).
"""

from __future__ import annotations

import numpy as np

from singa_cpu_numpy import threads
from singa_cpu_numpy.kernels.conv_geometry import carve, scratch

TILE_BYTES = 1 << 19


def blocks(g):
    """How many images at a time, and where each block of them begins."""
    size = 1 if g.pointwise else g.k * g.oh * g.ow * g.dtype.itemsize
    n = threads.tile(g.n, max(TILE_BYTES // size, 1), threads.workers(g.work, g.n))
    return n, range(0, g.n, n)


def shapes(g, n):
    """What windows see, and x with its padding."""
    if g.pointwise:
        return ()
    h = (g.oh - 1) * g.stride[0] + g.dilation[0] * (g.kh - 1) + 1
    w = (g.ow - 1) * g.stride[1] + g.dilation[1] * (g.kw - 1) + 1
    return (n, g.k, g.oh * g.ow), (n, g.c, h, w)


def columns(g, x, memory):
    """x (n, c, h, w) -> (n, c * kh * kw, oh * ow), and the scratch that is left."""
    n = len(x)
    if g.pointwise:
        return x.reshape(n, g.c, -1), memory
    made, padded, rest = carve(memory, *shapes(g, n))
    (top, left), (h, w) = g.before, padded.shape[2:]
    low, high = min(top + g.h, h), min(left + g.w, w)
    if (top, left, low, high) != (0, 0, h, w):
        padded.fill(0)
    padded[:, :, top:low, left:high] = x[:, :, : low - top, : high - left]
    image, channel, row, one = padded.strides
    steps = (g.dilation[0] * row, g.dilation[1] * one, g.stride[0] * row, g.stride[1] * one)
    shape = (n, g.c, g.kh, g.kw, g.oh, g.ow)
    seen = np.ndarray(shape, x.dtype, padded, 0, (image, channel, *steps))
    np.copyto(made.reshape(shape), seen)
    return made, rest


def forward(g):
    """launch(x, weight, [bias,] y, workspace)."""
    n, starts = blocks(g)
    workers = threads.workers(g.work, len(starts))
    each = scratch(*shapes(g, n))

    def launch(x, weight, *rest):
        *bias, y, workspace = rest
        memory = workspace.view(g.dtype)

        def part(worker):
            own = memory[worker * each : (worker + 1) * each]
            for start in starts[worker::workers]:
                for group in range(g.groups):
                    ci, co = g.channels(group)
                    seen, _ = columns(g, x[start : start + n, ci], own)
                    out = y[start : start + n, co].reshape(len(seen), g.o, -1)
                    np.matmul(weight[co].reshape(g.o, g.k), seen, out)
                    if bias:
                        np.add(out, bias[0][co, None], out)

        threads.share(part, workers)

    return launch, workers * each * g.dtype.itemsize


def grad_weight(g):
    """launch(x, grad, y, workspace): images are added up by each worker, then workers in order."""
    n = min(blocks(g)[0], 16)
    starts = range(0, g.n, n)
    workers = threads.workers(g.work, len(starts))
    total, terms = (g.groups, g.o, g.k), (n, g.o, g.k)
    each = scratch(total, terms, *shapes(g, n))

    def launch(x, grad, y, workspace):
        memory = workspace.view(g.dtype)
        sums = [carve(memory[i * each :], total)[0] for i in range(workers)]

        def part(worker):
            whole, term, own = carve(memory[worker * each : (worker + 1) * each], total, terms)
            whole.fill(0)
            for start in starts[worker::workers]:
                for group in range(g.groups):
                    ci, co = g.channels(group)
                    seen, _ = columns(g, x[start : start + n, ci], own)
                    grads = grad[start : start + n, co].reshape(len(seen), g.o, -1)
                    products = np.matmul(grads, seen.transpose(0, 2, 1), term[: len(seen)])
                    for product in products:
                        np.add(whole[group], product, whole[group])

        threads.share(part, workers)
        for other in sums[1:]:
            np.add(sums[0], other, sums[0])
        np.copyto(y.reshape(total), sums[0])

    return launch, workers * each * g.dtype.itemsize


def grad_input(g):
    """launch(grad, weight, y, workspace): only where nothing has to be added up."""
    n, starts = blocks(g)
    workers = threads.workers(g.work, len(starts))

    def launch(grad, weight, y, workspace):
        def part(worker):
            for start in starts[worker::workers]:
                for group in range(g.groups):
                    ci, co = g.channels(group)
                    grads = grad[start : start + n, co].reshape(-1, g.o, g.oh * g.ow)
                    out = y[start : start + n, ci].reshape(-1, g.c, g.h * g.w)
                    np.matmul(weight[co].reshape(g.o, g.c).T, grads, out)

        threads.share(part, workers)

    return launch, 0
