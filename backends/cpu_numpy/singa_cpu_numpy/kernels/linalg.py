from __future__ import annotations

import math

import numpy as np

from singa_core.spec import Spec
from singa_cpu_numpy.kernels import numpy


@numpy.prepared("matmul", "T,T->T", strides=True, T="f32 f64")
def matmul(target, ins, outs):
    a, b = ins
    if len(b.shape) > 2:
        return np.matmul
    if len(a.shape) == 2:
        return lambda a, b, y: np.dot(a, b, y)  # less overhead than matmul
    if not isinstance(a, Spec):  # strided: its leading axes may not fold
        return np.matmul
    k, n = b.shape
    rows = math.prod(a.shape[:-1])
    # One product of many rows instead of a small one for each leading index.
    return lambda a, b, y: np.dot(a.reshape(rows, k), b, y.reshape(rows, n))


@numpy.kernel("matmul", "T,T->T", strides=True, T="i32 i64")
def matmul_of_integers(a, b, y):  # BLAS has none; einsum walks rows, np.matmul columns
    np.einsum("...ik,...kj->...ij", a, b, out=y)
