from __future__ import annotations

import math

import numpy as np

from singa_core.spec import Spec
from singa_cpu_numpy import threads
from singa_cpu_numpy.kernels import numpy

# Multiplications in a product for which OpenBLAS would not use several threads.
SMALL = 1 << 18
UNIT = 16  # rows or columns of a part: whole vectors


@numpy.prepared("matmul", "T,T->T", strides=True, T="f32 f64")
def matmul(target, ins, outs):
    a, b = ins
    if len(b.shape) > 2:
        return stacked(a.shape, b.shape, outs[0].shape)
    if len(a.shape) == 2:
        return product(*a.shape, b.shape[1])
    if not isinstance(a, Spec):  # strided: its leading axes may not fold
        return np.matmul
    k, n = b.shape
    rows = math.prod(a.shape[:-1])
    # One product of many rows instead of a small one for each leading index.
    launch = product(rows, k, n)
    return lambda a, b, y: launch(a.reshape(rows, k), b, y.reshape(rows, n))


def product(m, k, n):
    """The launch for a product of two matrices, (m, k)(k, n): threads share a large one."""
    parts = threads.workers(2.0 * m * k * n, max(m, n) // UNIT)
    if parts == 1:
        plain = m * k * n <= SMALL or threads.blas().threads in (None, 1)
        return _dot if plain else _alone
    by_rows = m >= n
    slices = threads.parts_of(m if by_rows else n, parts, UNIT)

    def launch(a, b, y):
        def task(i):
            part = slices[i]
            if by_rows:
                np.matmul(a[part], b, y[part])
            else:
                np.matmul(a, b[:, part], y[:, part])

        threads.share(task, len(slices))

    return launch


def _dot(a, b, y):
    np.dot(a, b, y)  # less overhead than matmul


def _alone(a, b, y):
    with threads.blas():
        np.dot(a, b, y)


def stacked(a, b, y):
    """The launch for products of stacks of matrices: threads share the first axis."""
    work = 2.0 * math.prod(y) * a[-1]
    parts = threads.workers(work, y[0])
    if parts == 1:
        return np.matmul
    slices = threads.parts_of(y[0], parts)
    # an operand with fewer axes, or one of size 1 here, goes to all parts
    cut_a, cut_b = (len(x) == len(y) and x[0] == y[0] for x in (a, b))

    def launch(a, b, y):
        def task(i):
            part = slices[i]
            np.matmul(a[part] if cut_a else a, b[part] if cut_b else b, y[part])

        threads.share(task, len(slices))

    return launch


@numpy.kernel("matmul", "T,T->T", strides=True, T="i32 i64")
def matmul_of_integers(a, b, y):  # BLAS has none; einsum walks rows, np.matmul columns
    np.einsum("...ik,...kj->...ij", a, b, out=y)
