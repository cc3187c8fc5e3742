from __future__ import annotations

import numpy as np

from singa_cpu_numpy.kernels import numpy

# A step passes over the same arrays several times: beyond this many elements it goes tile by tile,
# so that they stay in cache. Smaller tiles cost more in calls than they save.
TILE = 131072


def tiled(step, spec, scalar):
    """Launch `step(*ins, *outs, scratch)`, over flat tiles if there is much to do.

    `scalar` is the position of the one input that is 0-d. An output may be the same array as an
    input: a step reads an element before it writes over it.
    """
    size, shape, dtype = spec.itemcount, spec.shape, spec.dtype.numpy

    def whole(*handles):
        step(*handles[:-1], handles[-1].view(dtype).reshape(shape))

    def in_tiles(*handles):
        flat = [a if i == scalar else a.reshape(-1) for i, a in enumerate(handles[:-1])]
        scratch = handles[-1].view(dtype)
        for start in range(0, size, TILE):
            end = min(start + TILE, size)
            tiles = [a if i == scalar else a[start:end] for i, a in enumerate(flat)]
            step(*tiles, scratch[: end - start])

    launch = whole if size <= TILE else in_tiles
    return launch, min(size, TILE) * dtype.itemsize


def decay(weight_decay, dtype):
    """`decayed(p, grad, scratch)`: the gradient with weight decay, in scratch if there is some."""
    rate = np.array(weight_decay, dtype)

    def decayed(p, grad, scratch):
        np.multiply(p, rate, scratch)
        return np.add(grad, scratch, scratch)

    return decayed if weight_decay else lambda p, grad, scratch: grad


@numpy.prepared("sgd_step", "T,T,T->T", in_place=True, T="f32 f64")
def sgd_step(target, ins, outs, *, weight_decay):
    decayed = decay(weight_decay, outs[0].dtype.numpy)

    def step(p, grad, lr, p_new, scratch):
        np.multiply(lr, decayed(p, grad, scratch), scratch)
        np.subtract(p, scratch, p_new)

    return tiled(step, outs[0], scalar=2)


@numpy.prepared("sgd_momentum_step", "T,T,T,T->T,T", in_place=True, T="f32 f64")
def sgd_momentum_step(target, ins, outs, *, momentum, dampening, nesterov, weight_decay):
    if nesterov:
        return None  # needs a second scratch; its decomposition serves it
    dtype = outs[0].dtype.numpy
    decayed = decay(weight_decay, dtype)
    keep, share = np.array(momentum, dtype), np.array(1.0 - dampening, dtype)

    def step(p, m, grad, lr, p_new, m_new, scratch):
        grad = decayed(p, grad, scratch)
        if dampening:
            grad = np.multiply(grad, share, scratch)
        np.multiply(m, keep, m_new)
        np.add(m_new, grad, m_new)
        np.multiply(lr, m_new, scratch)
        np.subtract(p, scratch, p_new)

    return tiled(step, outs[0], scalar=3)
