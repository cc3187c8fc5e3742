from __future__ import annotations

import math

import numpy as np

from singa_core.spec import Spec
from singa_cpu_numpy.kernels import numpy
from singa_cpu_numpy.kernels.linalg import product


@numpy.prepared("linear", "T,T->T", "T,T,T->T", strides=True, T="f32 f64")
def linear(target, ins, outs):
    x, weight = ins[0], ins[1]
    if len(x.shape) != 2 and not isinstance(x, Spec):
        return None  # strided leading axes may not fold into rows
    (k, n), rows = weight.shape, math.prod(x.shape[:-1])
    multiply = product(rows, k, n)

    def affine(x, weight, bias, y):
        multiply(x, weight, y)
        np.add(y, bias, y)

    launch = multiply if len(ins) == 2 else affine
    if len(x.shape) == 2:
        return launch
    return lambda x, *rest: launch(x.reshape(rows, k), *rest[:-1], rest[-1].reshape(rows, n))
