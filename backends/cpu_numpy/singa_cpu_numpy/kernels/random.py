from __future__ import annotations

import numpy as np

from singa_core.kernels.array.random import fill, position
from singa_cpu_numpy.kernels import numpy


@numpy.kernel("random_bits", "u32->u32", strides=True)
def random_bits(state, y, *, shape):
    fill(np, y.reshape(-1), *position(np, state))
