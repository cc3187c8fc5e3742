from __future__ import annotations

import math

import numpy as np

from singa_core.kernels import ANY, INTS
from singa_core.kernels.array.indexing import PLACES, check_places
from singa_cpu_numpy.kernels import numpy


@numpy.kernel("gather", "T,I->T", strides=True, T=ANY, I=INTS)
def gather(x, i, y, *, axis, role):
    _check("gather", i, x.shape[axis], role)
    i = i.astype(np.intp, copy=False)  # NumPy does not take uint64
    np.take(x, i, axis, y, "wrap")  # mode "raise" would check again, and buffer y to do so


@numpy.prepared("scatter_add", "T,I,T->T", strides=True, T=f"{INTS} f32 f64", I=PLACES)
def scatter_add(target, ins, outs, *, axis):
    shape = ins[0].shape
    n, outer, inner = shape[axis], math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    before, after = np.arange(outer)[:, None, None] * (n * inner), np.arange(inner)

    def launch(x, i, v, y):
        _check("scatter_add", i, n)
        np.copyto(y, x)
        # np.add.at has a fast path for one flat index only
        rows = i.reshape(-1, 1).astype(np.intp) % max(n, 1) * inner
        flat = before + rows + after
        np.add.at(y.reshape(-1), flat.reshape(-1), v.reshape(-1))

    return launch


def _check(op, i, n, role=None):
    """`check_places` in two passes without temporaries; the slow one finds the culprit."""
    least = -n if role is None else 0
    if i.size and not (least <= np.minimum.reduce(i, None) and np.maximum.reduce(i, None) < n):
        check_places(op, i, n, role)
