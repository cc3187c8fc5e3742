from __future__ import annotations

from functools import partial

import numpy as np

from singa_cpu_numpy.kernels import numpy

# A step passes over the same arrays several times: beyond this many elements it goes tile by tile, so
# that they stay in cache. Smaller tiles cost more in calls than they save.
TILE = 131072


def tiled(step, spec, arrays, outs):
    """Run `step(*arrays, *outs, *scalars, scratch)`, over flat tiles if there is much to do.

    Handles come as arrays, scalars, outs, workspace. An output may be the same array as an input: a
    step reads an element before it writes over it.
    """
    size, shape, dtype = spec.itemcount, spec.shape, spec.dtype.numpy

    def whole(*handles):
        scratch = handles[-1].view(dtype).reshape(shape)
        step(*handles[:arrays], *handles[-outs - 1 : -1], *handles[arrays : -outs - 1], scratch)

    def in_tiles(*handles):
        scratch = handles[-1].view(dtype)
        scalars = handles[arrays : -outs - 1]
        flat = [a.reshape(-1) for a in (*handles[:arrays], *handles[-outs - 1 : -1])]
        for start in range(0, size, TILE):
            tiles = [a[start : start + TILE] for a in flat]
            step(*tiles, *scalars, scratch[: tiles[0].size])

    launch = whole if size <= TILE else in_tiles
    return launch, min(size, TILE) * dtype.itemsize


def decayed(p, grad, weight_decay, scratch):
    """The gradient with weight decay; in scratch if there is some."""
    if not weight_decay:
        return grad
    np.multiply(p, weight_decay, scratch)
    return np.add(grad, scratch, scratch)


def sgd(p, grad, p_new, lr, scratch, *, weight_decay):
    grad = decayed(p, grad, weight_decay, scratch)
    np.multiply(lr, grad, scratch)
    np.subtract(p, scratch, p_new)


def sgd_momentum(  # noqa: PLR0913  (the arrays and rates of the rule)
    p, m, grad, p_new, m_new, lr, scratch, *, momentum, dampening, weight_decay
):
    grad = decayed(p, grad, weight_decay, scratch)
    if dampening:
        grad = np.multiply(grad, 1.0 - dampening, scratch)
    np.multiply(m, momentum, m_new)
    np.add(m_new, grad, m_new)
    np.multiply(lr, m_new, scratch)
    np.subtract(p, scratch, p_new)


@numpy.prepared("sgd_step", "T,T,T->T", in_place=True, T="f32 f64")
def sgd_step(target, ins, outs, **attrs):
    return tiled(partial(sgd, **attrs), outs[0], arrays=2, outs=1)


@numpy.prepared("sgd_momentum_step", "T,T,T,T->T,T", in_place=True, T="f32 f64")
def sgd_momentum_step(target, ins, outs, *, nesterov, **attrs):
    if nesterov:
        return None  # needs a second scratch; its decomposition serves it
    return tiled(partial(sgd_momentum, **attrs), outs[0], arrays=3, outs=2)
