"""References of softmax and of the normalisations."""

from __future__ import annotations

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle, on_real


def log_softmax(x: HostArray, *, axis: int = -1) -> HostArray:
    """Logarithms of the shares, by NumPy's pairwise logaddexp."""
    return x - np.logaddexp.reduce(x, axis=axis, keepdims=True)


def softmax(x: HostArray, *, axis: int = -1) -> HostArray:
    """The shares."""
    y: HostArray = np.exp(log_softmax(x, axis=axis))
    return y


def layer_norm(x: HostArray, weight: HostArray, bias: HostArray, *, eps: float = 1e-5) -> HostArray:
    """Mean 0 and variance 1 over the last axes."""
    axes = tuple(range(x.ndim - weight.ndim, x.ndim))
    if not x.size:
        return x
    mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    y: HostArray = (x - mean) / np.sqrt(variance + eps) * weight + bias
    return y


TABLE: dict[str, Oracle] = {
    "softmax": on_real(softmax),
    "log_softmax": on_real(log_softmax),
    "layer_norm": on_real(layer_norm),
}
