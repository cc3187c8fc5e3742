from __future__ import annotations

import numpy as np

from singa_cpu_numpy.kernels import numpy

# A step passes over the same arrays several times: beyond this many elements it goes tile by tile,
# so that they stay in cache. Smaller tiles cost more in calls than they save.
TILE = 131072
# Up to here a scratch of NumPy's own, no larger than its ufuncs' buffers, costs less than a
# declared one.
FEW = 8192


def tiled(step, spec, scalars, scratches=1):
    """Launch `step(*ins, *outs, *scratches)`, over flat tiles if there is much to do.

    `scalars` are the positions of the inputs that are 0-d. An output may be the same array as an
    input: a step reads an element before it writes over it.
    """
    size, shape, dtype = spec.itemcount, spec.shape, spec.dtype.numpy

    def whole(*handles):
        flat = handles[-1].view(dtype)
        parts = [flat[i * size : (i + 1) * size].reshape(shape) for i in range(scratches)]
        step(*handles[:-1], *parts)

    def in_tiles(*handles):
        flat = [a if i in scalars else a.reshape(-1) for i, a in enumerate(handles[:-1])]
        scratch = handles[-1].view(dtype).reshape(scratches, TILE)
        for start in range(0, size, TILE):
            end = min(start + TILE, size)
            tiles = [a if i in scalars else a[start:end] for i, a in enumerate(flat)]
            step(*tiles, *scratch[:, : end - start])

    def tiny(*handles):
        step(*handles, *[np.empty(shape, dtype) for _ in range(scratches)])

    if size <= FEW:
        return tiny
    launch = whole if size <= TILE else in_tiles
    return launch, scratches * min(size, TILE) * dtype.itemsize


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

    return tiled(step, outs[0], scalars={2})


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

    return tiled(step, outs[0], scalars={3})


@numpy.prepared("adam_step", "T,T,T,T,f32,f32,f32->T,T,T", in_place=True, T="f32 f64")
def adam_step(target, ins, outs, *, beta1, beta2, eps, weight_decay, decoupled):
    if weight_decay and not decoupled:
        return None  # needs a third scratch; its decomposition serves it
    dtype = outs[0].dtype.numpy
    keep1, share1, keep2, share2, small, rate = (
        np.array(value, dtype)
        for value in (beta1, 1.0 - beta1, beta2, 1.0 - beta2, eps, weight_decay)
    )

    def step(  # noqa: PLR0913  (the arrays of the rule)
        p, m, v, grad, lr, correction1, correction2, p_new, m_new, v_new, t, u
    ):
        lr = lr.astype(dtype)
        np.multiply(grad, share1, t)
        np.multiply(m, keep1, m_new)
        np.add(m_new, t, m_new)
        np.multiply(grad, grad, t)
        np.multiply(t, share2, t)
        np.multiply(v, keep2, v_new)
        np.add(v_new, t, v_new)
        np.sqrt(v_new, t)
        np.divide(t, np.sqrt(correction2.astype(dtype)), t)
        np.add(t, small, t)
        np.multiply(lr / correction1.astype(dtype), m_new, u)
        np.divide(u, t, u)
        if weight_decay:
            np.multiply(p, lr * rate, t)
            p = np.subtract(p, t, p_new)
        np.subtract(p, u, p_new)

    return tiled(step, outs[0], scalars={4, 5, 6}, scratches=2)
