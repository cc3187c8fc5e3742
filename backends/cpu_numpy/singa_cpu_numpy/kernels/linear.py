from __future__ import annotations

import numpy as np

from singa_core.spec import Spec
from singa_cpu_numpy.kernels import numpy


@numpy.prepared("linear", "T,T->T", "T,T,T->T", strides=True, T="f32 f64")
def linear(target, ins, outs):
    x, weight = ins[0], ins[1]
    if len(x.shape) != 2 and not isinstance(x, Spec):
        return None  # strided leading axes may not fold into rows
    if len(ins) == 2:
        return _rows(lambda x, w, y: np.dot(x, w, y), x, weight)
    return _rows(_affine, x, weight)


def _affine(x, weight, bias, y):
    np.dot(x, weight, y)
    np.add(y, bias, y)


def _rows(launch, x, weight):
    """The launch on the rows of x, which may have any number of leading axes."""
    if len(x.shape) == 2:
        return launch
    k, n = weight.shape
    rows = int(np.prod(x.shape[:-1]))
    return lambda x, *rest: launch(x.reshape(rows, k), *rest[:-1], rest[-1].reshape(rows, n))
