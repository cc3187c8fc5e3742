from __future__ import annotations

import math

import numpy as np

from singa_core.spec import Spec
from singa_cpu_numpy.kernels import numpy
from singa_cpu_numpy.kernels.chunks import in_chunks, numbers
from singa_cpu_numpy.kernels.elementwise import FLOATS, bits_of, erf_of


@numpy.kernel("sigmoid", "T->T", strides=True, in_place=True, T=FLOATS)
def sigmoid(x, y):
    np.negative(x, y)
    np.exp(y, y)  # infinity for large negative x, of which 1 / (1 + y) makes the 0 it should be
    np.add(y, 1, y)
    np.reciprocal(y, y)


_ROW = 4096


@numpy.prepared("relu", "T->T", strides=True, in_place=True, T=f"f16 {FLOATS}")
def relu(target, ins, outs):
    size, dtype = outs[0].itemcount, outs[0].dtype.numpy
    if size < _ROW or not isinstance(ins[0], Spec):
        zero = np.zeros((), dtype)
        return lambda x, y: np.maximum(x, zero, out=y)
    # beside a whole row of zeros np.maximum has a vectorised loop: a third of the time
    zeros, whole = np.zeros(_ROW, dtype), size // _ROW * _ROW

    def launch(x, y):
        x, y = x.reshape(-1), y.reshape(-1)
        np.maximum(x[:whole].reshape(-1, _ROW), zeros, out=y[:whole].reshape(-1, _ROW))
        np.maximum(x[whole:], zeros[: size - whole], out=y[whole:])

    return launch


@numpy.prepared("relu_grad", "T,T->T", strides=True, T=FLOATS)
def relu_grad(target, ins, outs):
    # The bits of grad times 0 or 1: neither a branch that mispredicts nor inf * 0.
    bits, zero = bits_of(outs[0]), np.zeros((), outs[0].dtype.numpy)

    def launch(grad, y, gx):
        gx = gx.view(bits)
        np.copyto(gx, y > zero)
        np.multiply(grad.view(bits), gx, gx)

    return launch


@numpy.prepared("gelu", "T->T", in_place=True, T=FLOATS)
def gelu(target, ins, outs, *, approximate):
    dtype = outs[0].dtype.numpy
    root, half, one = numbers(dtype, math.sqrt(0.5), 0.5, 1.0)
    if approximate == "none":
        if dtype != np.float32:
            return None

        def bend(x, t, u, v):
            erf_of(np.multiply(x, root, u), t, v)

    else:
        inner = inner_of(dtype)

        def bend(x, t, u, v):
            np.tanh(inner(x, u), t)

    def step(x, y, t, u, v):
        bend(x, t, u, v)
        np.add(t, one, t)
        np.multiply(x, half, y)
        np.multiply(y, t, y)

    return in_chunks(step, outs[0], 3)


@numpy.prepared("gelu_grad", "T,T->T", in_place=True, T=FLOATS)
def gelu_grad(target, ins, outs, *, approximate):
    dtype = outs[0].dtype.numpy
    if approximate == "none":
        return in_chunks(exact_slope(dtype), outs[0], 3) if dtype == np.float32 else None
    return in_chunks(tanh_slope(dtype), outs[0], 3)


def exact_slope(dtype):
    root, half, one, below, share = numbers(
        dtype, math.sqrt(0.5), 0.5, 1.0, -0.5, 1.0 / math.sqrt(2.0 * math.pi)
    )

    def step(grad, x, dx, t, u, v):
        erf_of(np.multiply(x, root, u), t, v)
        np.add(t, one, t)
        np.multiply(t, half, t)
        np.multiply(x, x, u)
        np.exp(np.multiply(u, below, u), u)
        np.multiply(u, share, u)
        np.add(t, np.multiply(x, u, u), t)
        np.multiply(grad, t, dx)

    return step


def tanh_slope(dtype):
    inner = inner_of(dtype)
    half, one, root, cubic = numbers(dtype, 0.5, 1.0, _ROOT, 3.0 * _CUBIC)

    def step(grad, x, dx, t, u, v):
        np.tanh(inner(x, u), t)
        np.multiply(t, t, u)
        np.subtract(one, u, u)
        np.multiply(x, x, v)
        np.multiply(v, cubic, v)
        np.multiply(np.add(v, one, v), root, v)
        np.multiply(np.multiply(u, v, u), x, u)
        np.add(np.add(t, one, t), u, t)
        np.multiply(t, half, t)
        np.multiply(grad, t, dx)

    return step


_ROOT, _CUBIC = math.sqrt(2.0 / math.pi), 0.044715


def inner_of(dtype):
    """What the formula of the paper takes the tanh of."""
    root, cubic = numbers(dtype, _ROOT, _CUBIC)

    def inner(x, out):
        np.multiply(x, x, out)
        np.multiply(out, x, out)
        np.multiply(out, cubic, out)
        return np.multiply(np.add(x, out, out), root, out)

    return inner
