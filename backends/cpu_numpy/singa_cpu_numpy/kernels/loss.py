from __future__ import annotations

import math

import numpy as np

from singa_core.errors import OutOfRange
from singa_cpu_numpy.kernels import numpy


@numpy.prepared("softmax_cross_entropy", "T,I->T,T", strides=True, T="f32 f64", I="i32 i64")
def softmax_cross_entropy(target, ins, outs):
    classes, rows = outs[1].shape[-1], outs[0].itemcount
    starts = np.arange(rows) * classes
    flat, column = (rows, classes), (rows, 1)

    def launch(logits, labels, losses, log_probs):
        labels = labels.reshape(rows)
        check(labels, classes)
        x, y = logits.reshape(flat), log_probs.reshape(flat)
        np.subtract(x, np.maximum.reduce(x, axis=1, keepdims=True), y)
        total = np.add.reduce(np.exp(y), axis=1, keepdims=True).reshape(column)
        np.subtract(y, np.log(total, total), y)
        np.negative(y.reshape(-1)[starts + labels], losses.reshape(rows))

    return launch if rows else lambda *handles: None


@numpy.prepared("softmax_cross_entropy_grad", "T,T,I->T", strides=True, T="f32 f64", I="i32 i64")
def softmax_cross_entropy_grad(target, ins, outs):
    classes, rows = outs[0].shape[-1], math.prod(outs[0].shape[:-1])
    starts = np.arange(rows) * classes
    flat = (rows, classes)

    def launch(grad, log_probs, labels, y):
        y = y.reshape(flat)
        np.exp(log_probs.reshape(flat), y)
        y.reshape(-1)[starts + labels.reshape(rows)] -= 1.0
        np.multiply(y, grad.reshape(rows, 1), y)

    return launch if rows else lambda *handles: None


def check(labels, classes):
    """Raises: OutOfRange unless all labels lie in [0, classes)."""
    # as unsigned numbers, negative labels are large: one maximum tells both ends
    unsigned = labels.view(f"u{labels.itemsize}")
    if np.maximum.reduce(unsigned) >= classes:
        rule = f"0 <= label < {classes}"
        bad = labels[(unsigned >= classes).argmax()]
        raise OutOfRange("softmax_cross_entropy", rule, int(bad))
