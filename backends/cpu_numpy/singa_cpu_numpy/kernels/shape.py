from __future__ import annotations

import numpy as np

from singa_core.kernels import ANY
from singa_core.kernels.array.shape import region
from singa_cpu_numpy.kernels import numpy


@numpy.kernel("concat", "T*->T", strides=True, T=ANY)
def concat(*arrays, axis):
    *xs, y = arrays
    np.concatenate(xs, axis, y)


@numpy.prepared("set_slice", "T,T->T", strides=True, in_place=True, T=ANY)
def set_slice(target, ins, outs, *, start, step):
    x, v = ins
    places = region(start, step, v.shape)
    whole = x.shape == v.shape

    def launch(x, v, y):
        # y may be v where v covers everything, so x must not be copied over it
        if y is not x and not whole:
            np.copyto(y, x)
        y[places] = v

    return launch
