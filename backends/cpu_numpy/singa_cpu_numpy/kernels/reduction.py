from __future__ import annotations

import math

import numpy as np

from singa_core.kernels import ANY, INTS
from singa_cpu_numpy.kernels import numpy

SIGNED = "b1 i8 i16 i32 i64"
UNSIGNED = "u8 u16 u32 u64"


def _reduce(op, function, *signatures, **types):
    """`ufunc.reduce` without the Python function that NumPy wraps around it."""

    def prepare(target, ins, outs, *, axis, keepdims):
        dtype = outs[0].dtype.numpy
        return lambda x, y: function.reduce(x, axis, dtype, y, keepdims)

    numpy.prepared(op, *signatures, strides=True, **types)(prepare)


def _accumulate(op, function, *signatures, **types):
    def prepare(target, ins, outs, *, axis):
        dtype = outs[0].dtype.numpy
        return lambda x, y: function.accumulate(x, axis, dtype, y)

    numpy.prepared(op, *signatures, strides=True, **types)(prepare)


_SUMS = ("F->F", "I->i64", "U->u64")
_KINDS = {"F": "f32 f64", "I": SIGNED, "U": UNSIGNED}
_reduce("sum", np.add, *_SUMS, **_KINDS)
_reduce("prod", np.multiply, *_SUMS, **_KINDS)
_reduce("max", np.maximum, "T->T", T=f"{INTS} f16 f32 f64")
_reduce("min", np.minimum, "T->T", T=f"{INTS} f16 f32 f64")
_accumulate("cumsum", np.add, *_SUMS, **_KINDS)
_accumulate("cumprod", np.multiply, *_SUMS, **_KINDS)


@numpy.kernel("argmax", "T->i64", strides=True, T=ANY)
def argmax(x, y, *, axis, keepdims):
    x.argmax(axis, y, keepdims=keepdims)


@numpy.kernel("argmin", "T->i64", strides=True, T=ANY)
def argmin(x, y, *, axis, keepdims):
    x.argmin(axis, y, keepdims=keepdims)


@numpy.prepared("mean", "T->T", strides=True, T="f32 f64")
def mean(target, ins, outs, *, axis, keepdims):
    dtype, shape = outs[0].dtype.numpy, ins[0].shape
    count = np.array(math.prod(shape[a] for a in axis), dtype)

    def launch(x, y):
        np.add.reduce(x, axis, dtype, y, keepdims)
        np.divide(y, count, y)

    return launch
