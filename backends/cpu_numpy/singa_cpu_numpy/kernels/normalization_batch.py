"""Batch normalisation, some channels at a time: a second look at them finds them in the cache.

A sample's elements of those channels are one row. Numbers of a channel are written out along such a
row: then every step is a plain loop over long rows, however few elements a channel has.
"""

from __future__ import annotations

import math

import numpy as np

from singa_cpu_numpy import threads
from singa_cpu_numpy.kernels import numpy
from singa_cpu_numpy.kernels.conv_geometry import carve, scratch

BLOCK_BYTES = 1 << 20  # of x in a block
SHORT = 512  # elements of a row, below which NumPy spends its time on beginning it
COST = 50.0  # of one element, in floating-point operations of a matrix product


class Blocks:
    """x (n, c, *size) as blocks of channels."""

    def __init__(self, x):
        self.n, self.c = x.shape[:2]
        self.size = math.prod(x.shape[2:])
        self.count, self.dtype = self.n * self.size, x.dtype.numpy
        wanted = max(BLOCK_BYTES // (self.count * self.dtype.itemsize), -(-SHORT // self.size))
        workers = threads.workers(COST * x.itemcount, self.c)
        self.channels = threads.tile(self.c, min(wanted, self.c), workers)
        self.starts = range(0, self.c, self.channels)
        self.workers = threads.workers(COST * x.itemcount, len(self.starts))
        self.ones = np.ones(self.n, self.dtype)  # BLAS adds up faster than NumPy
        row = self.channels * self.size
        self.shapes = ((self.n, row), (row,))

    def launch(self, body, planes):
        """(launch, workspace): `body(*blocks, term, row)`, the last two being scratch.

        The handles at the positions `planes` are like x; the others have a number for each channel.
        """
        each = scratch(*self.shapes)

        def launch(*handles):
            memory = handles[-1].view(self.dtype)
            flat = [h.reshape(self.n, -1) if i in planes else h for i, h in enumerate(handles[:-1])]

            def part(worker):
                own = memory[worker * each : (worker + 1) * each]
                for start in self.starts[worker :: self.workers]:
                    some = slice(start, min(start + self.channels, self.c))
                    wide = slice(some.start * self.size, some.stop * self.size)
                    blocks = [h[:, wide] if i in planes else h[some] for i, h in enumerate(flat)]
                    row = wide.stop - wide.start
                    body(*blocks, *carve(own, (self.n, row), (row,))[:-1])

            threads.share(part, self.workers)

        return launch, self.workers * each * self.dtype.itemsize

    def along(self, values, row):
        """A number of each channel, written out along a row."""
        np.copyto(row.reshape(len(values), self.size), values[:, None])
        return row

    def total(self, block, row):
        """The sum of each channel."""
        np.matmul(self.ones, block, row)
        return np.add.reduce(row.reshape(-1, self.size), 1)


@numpy.prepared("batch_norm", "T,T,T->T,T,T", T="f32 f64")
def batch_norm(target, ins, outs, *, eps):
    if not ins[0].itemcount:
        return None
    blocks = Blocks(ins[0])

    def body(x, weight, bias, y, mean, variance, term, row):
        np.divide(blocks.total(x, row), blocks.count, mean)
        np.subtract(x, blocks.along(mean, row), y)
        np.divide(blocks.total(np.multiply(y, y, term), row), blocks.count, variance)
        np.multiply(y, blocks.along(weight / np.sqrt(variance + eps), row), y)
        np.add(y, blocks.along(bias, row), y)

    return blocks.launch(body, (0, 3))


@numpy.prepared("batch_norm_inference", "T,T,T,T,T->T", T="f32 f64")
def batch_norm_inference(target, ins, outs, *, eps):
    if not ins[0].itemcount:
        return None
    blocks = Blocks(ins[0])

    def body(x, weight, bias, mean, variance, y, _, row):
        np.subtract(x, blocks.along(mean, row), y)
        np.multiply(y, blocks.along(weight / np.sqrt(variance + eps), row), y)
        np.add(y, blocks.along(bias, row), y)

    return blocks.launch(body, (0, 5))


@numpy.prepared("batch_norm_grad", "T,T,T,T,T->T,T,T", T="f32 f64")
def batch_norm_grad(target, ins, outs, *, eps):
    if not ins[0].itemcount:
        return None
    blocks = Blocks(ins[0])

    def body(grad, x, weight, mean, variance, dx, *rest):
        dweight, dbias, term, row = rest
        scale = 1 / np.sqrt(variance + eps)
        dbias[...] = blocks.total(grad, row)
        np.subtract(x, blocks.along(mean, row), dx)
        np.multiply(blocks.total(np.multiply(grad, dx, term), row), scale, dweight)
        # dx = weight * scale * (grad - dbias / m - normal * dweight / m)
        slope, share = weight * scale, weight * scale / blocks.count
        np.multiply(dx, blocks.along(-share * scale * dweight, row), dx)
        np.add(dx, np.multiply(grad, blocks.along(slope, row), term), dx)
        np.subtract(dx, blocks.along(share * dbias, row), dx)

    return blocks.launch(body, (0, 1, 5))
