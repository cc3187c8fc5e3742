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


def layer_norm_grad(
    grad: HostArray, x: HostArray, weight: HostArray, *, eps: float = 1e-5
) -> tuple[HostArray, HostArray, HostArray]:
    """By the matrix of derivatives of one sample after the other."""
    d = weight.size
    g, rows, w = grad.reshape(-1, d), x.reshape(-1, d), weight.reshape(d)
    dx, dweight, dbias = np.zeros(rows.shape), np.zeros(d), np.zeros(d)
    for i, row in enumerate(rows):
        s = np.sqrt(row.var() + eps)
        normal = (row - row.mean()) / s
        jacobian = (np.eye(d) - 1.0 / d - np.outer(normal, normal) / d) / s
        dx[i] = jacobian @ (g[i] * w)
        dweight += g[i] * normal
        dbias += g[i]
    return dx.reshape(x.shape), dweight.reshape(weight.shape), dbias.reshape(weight.shape)


def rms_norm(x: HostArray, weight: HostArray, *, eps: float = 1e-6) -> HostArray:
    """A mean square of 1 over the last axes."""
    rows = x.reshape(-1, weight.size)
    root = np.sqrt(np.einsum("ij,ij->i", rows, rows) / weight.size + eps)
    y: HostArray = (rows / root[:, None]).reshape(x.shape) * weight
    return y


def group_norm(
    x: HostArray, weight: HostArray, bias: HostArray, *, groups: int, eps: float = 1e-5
) -> HostArray:
    """Group by group."""
    y, size = x.copy(), x.shape[1] // groups
    for n in range(x.shape[0]):
        for start in range(0, x.shape[1], size):
            part = x[n, start : start + size]
            y[n, start : start + size] = (part - part.mean()) / np.sqrt(part.var() + eps)
    shape = (-1, *(1 for _ in x.shape[2:]))
    return y * weight.reshape(shape) + bias.reshape(shape)


def channels_last(x: HostArray) -> HostArray:
    """From (n, c, ...) to (places, c)."""
    moved: HostArray = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])
    return moved


def channels_second(rows: HostArray, shape: tuple[int, ...]) -> HostArray:
    """The undoing of it."""
    n, c, *size = shape
    moved: HostArray = np.moveaxis(rows.reshape(n, *size, c), -1, 1)
    return moved


def batch_norm(
    x: HostArray, weight: HostArray, bias: HostArray, *, eps: float = 1e-5
) -> tuple[HostArray, HostArray, HostArray]:
    """Channels last, as rows."""
    rows = channels_last(x)
    if not len(rows):
        return x, 0.0 * weight, 0.0 * weight
    mean, variance = rows.mean(axis=0), rows.var(axis=0)
    return batch_norm_inference(x, weight, bias, mean, variance, eps=eps), mean, variance


def batch_norm_inference(
    x: HostArray,
    weight: HostArray,
    bias: HostArray,
    mean: HostArray,
    variance: HostArray,
    *,
    eps: float = 1e-5,
) -> HostArray:
    """Channels last, as rows."""
    rows = (channels_last(x) - mean) / np.sqrt(variance + eps) * weight + bias
    return channels_second(rows, x.shape)


def batch_norm_grad(
    grad: HostArray,
    x: HostArray,
    weight: HostArray,
    mean: HostArray,
    variance: HostArray,
    *,
    eps: float = 1e-5,
) -> tuple[HostArray, HostArray, HostArray]:
    """Channels last, as rows; the moments are those given."""
    g, rows = channels_last(grad), channels_last(x)
    s, m = np.sqrt(variance + eps), max(len(rows), 1)
    normal = (rows - mean) / s
    dweight, dbias = np.einsum("mc,mc->c", g, normal), np.einsum("mc->c", g)
    dx = weight / s * (g - dbias / m - normal * dweight / m)
    return channels_second(dx, x.shape), dweight, dbias


TABLE: dict[str, Oracle] = {
    "softmax": on_real(softmax),
    "log_softmax": on_real(log_softmax),
    "layer_norm": on_real(layer_norm),
    "layer_norm_grad": on_real(layer_norm_grad),
    "rms_norm": on_real(rms_norm),
    "group_norm": on_real(group_norm),
    "batch_norm": on_real(batch_norm),
    "batch_norm_grad": on_real(batch_norm_grad),
    "batch_norm_inference": on_real(batch_norm_inference),
}
