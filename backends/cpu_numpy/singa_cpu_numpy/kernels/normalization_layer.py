from __future__ import annotations

import numpy as np

from singa_cpu_numpy import threads
from singa_cpu_numpy.kernels import numpy
from singa_cpu_numpy.kernels.conv_geometry import carve, scratch

TILE_BYTES = 1 << 18
COST = 50.0  # of one element, in floating-point operations of a matrix product


class Rows:
    """x (..., *d) as tiles of rows of d elements."""

    def __init__(self, x, weight):
        self.d, self.dtype = weight.itemcount, x.dtype.numpy
        self.rows = x.itemcount // self.d
        n = max(TILE_BYTES // (self.d * self.dtype.itemsize), 1)
        self.n = threads.tile(self.rows, n, threads.workers(COST * x.itemcount, self.rows))
        self.starts = range(0, self.rows, self.n)
        self.ones = np.ones(max(self.n, self.d), self.dtype)  # BLAS adds up faster than NumPy
        self.workers = threads.workers(COST * x.itemcount, len(self.starts))

    def tiles(self, worker, *arrays):
        """The tiles of one worker."""
        for start in self.starts[worker :: self.workers]:
            yield [a[start : start + self.n] for a in arrays]

    def mean(self, x, out):
        """Mean of each row, as a column."""
        np.matmul(x, self.ones[: self.d], out[:, 0])
        return np.divide(out, self.d, out)

    def total(self, x, out):
        """Sum of all rows."""
        return np.matmul(self.ones[: len(x)], x, out)

    def inverse_root(self, x, eps, out):
        """1 / sqrt(mean square + eps) of each row, as a column."""
        np.vecdot(x, x, out[:, 0])
        np.divide(out, self.d, out)
        np.add(out, eps, out)
        np.sqrt(out, out)
        return np.reciprocal(out, out)


@numpy.prepared("layer_norm", "T,T,T->T", T="f32 f64")
def layer_norm(target, ins, outs, *, eps):
    if not ins[0].itemcount:
        return None
    g = Rows(ins[0], ins[1])
    each = scratch((g.n, 1))

    def launch(x, weight, bias, y, workspace):
        x, y = x.reshape(g.rows, g.d), y.reshape(g.rows, g.d)
        weight, bias, memory = weight.reshape(-1), bias.reshape(-1), workspace.view(g.dtype)

        def part(worker):
            column, _ = carve(memory[worker * each : (worker + 1) * each], (g.n, 1))
            for xs, ys in g.tiles(worker, x, y):
                one = column[: len(xs)]
                np.subtract(xs, g.mean(xs, one), ys)
                np.multiply(ys, g.inverse_root(ys, eps, one), ys)
                np.multiply(ys, weight, ys)
                np.add(ys, bias, ys)

        threads.share(part, g.workers)

    return launch, g.workers * each * g.dtype.itemsize


@numpy.prepared("layer_norm_grad", "T,T,T->T,T,T", T="f32 f64")
def layer_norm_grad(target, ins, outs, *, eps):
    if not ins[0].itemcount:
        return None
    g = Rows(ins[1], ins[2])
    shapes = ((2, g.d), (g.d,), (g.n, g.d), (g.n, 1), (g.n, 1))
    each = scratch(*shapes)

    def launch(grad, x, weight, dx, dweight, dbias, workspace):
        grad, x, dx = (a.reshape(g.rows, g.d) for a in (grad, x, dx))
        weight, memory = weight.reshape(-1), workspace.view(g.dtype)
        sums = [carve(memory[i * each :], shapes[0])[0] for i in range(g.workers)]

        def part(worker):
            own = memory[worker * each : (worker + 1) * each]
            total, row, terms, one, two, _ = carve(own, *shapes)
            total.fill(0)
            for grads, xs, out in g.tiles(worker, grad, x, dx):
                term, mean, scale = (a[: len(xs)] for a in (terms, one, two))
                np.subtract(xs, g.mean(xs, mean), out)
                np.multiply(out, g.inverse_root(out, eps, scale), out)
                total[0] += g.total(np.multiply(grads, out, term), row)
                total[1] += g.total(grads, row)
                # dx = (h - mean of h - normal * mean of h * normal) * scale, h = grad * weight
                np.multiply(grads, weight, term)
                np.multiply(out, np.vecdot(term, out)[:, None] / g.dtype.type(g.d), out)
                np.subtract(term, out, out)
                np.subtract(out, g.mean(term, mean), out)
                np.multiply(out, scale, out)

        threads.share(part, g.workers)
        for other in sums[1:]:
            np.add(sums[0], other, sums[0])
        dweight.reshape(-1)[...], dbias.reshape(-1)[...] = sums[0]

    return launch, g.workers * each * g.dtype.itemsize
