"""References of the optimisers' steps, element by element on Python floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle, real

Floats = tuple[float, ...]


def step(rule: Callable[..., Floats], tensors: int) -> Oracle:
    """A rule for one element as one for arrays: `tensors` of them, then scalars."""

    def run(*arrays: HostArray, **attrs: Any) -> HostArray | tuple[HostArray, ...]:
        elements = [real(a).reshape(-1).tolist() for a in arrays[:tensors]]
        rates = [float(real(a)) for a in arrays[tensors:]]
        rows = [rule(*values, *rates, **attrs) for values in zip(*elements, strict=True)]
        count = len(rule(*[1.0] * tensors, *[1.0] * len(rates), **attrs))
        outs = np.array(rows, float).reshape(-1, count).T
        results = tuple(out.reshape(arrays[0].shape) for out in outs)
        return results if count > 1 else results[0]

    return run


def sgd(p: float, grad: float, lr: float, *, weight_decay: float = 0.0) -> Floats:
    """Gradient descent."""
    return (p - lr * (grad + weight_decay * p),)


def momentum_sgd(
    p: float, m: float, grad: float, lr: float, *,
    momentum: float = 0.9, dampening: float = 0.0, nesterov: bool = False,
    weight_decay: float = 0.0,
) -> Floats:  # fmt: skip
    """With a running sum of gradients."""
    g = grad + weight_decay * p
    m = momentum * m + (1.0 - dampening) * g
    return p - lr * (g + momentum * m if nesterov else m), m


def adagrad(
    p: float, v: float, grad: float, lr: float, *, eps: float = 1e-10, weight_decay: float = 0.0
) -> Floats:
    """In units of all gradients so far."""
    g = grad + weight_decay * p
    v = v + g**2
    return p - lr * g / (math.sqrt(v) + eps), v


def rmsprop(
    p: float, v: float, grad: float, lr: float, *,
    decay: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0,
) -> Floats:  # fmt: skip
    """In units of recent gradients."""
    g = grad + weight_decay * p
    v = decay * v + (1.0 - decay) * g**2
    return p - lr * g / (math.sqrt(v) + eps), v


def rmsprop_momentum(
    p: float, v: float, m: float, grad: float, lr: float, *, momentum: float = 0.9, **attrs: float
) -> Floats:
    """With a running sum of steps."""
    moved, v = rmsprop(p, v, grad, 1.0, **attrs)
    m = momentum * m + (p - moved)
    return p - lr * m, v, m


def adam(*values: float, decoupled: bool = False, **attrs: float) -> Floats:
    """Adam, with or without a top."""
    p, m, v, *top, grad, lr, correction1, correction2 = values
    beta1, beta2 = attrs.get("beta1", 0.9), attrs.get("beta2", 0.999)
    decay = attrs.get("weight_decay", 0.0)
    g = grad if decoupled else grad + decay * p
    x = p * (1.0 - lr * decay) if decoupled else p
    m, v = beta1 * m + (1.0 - beta1) * g, beta2 * v + (1.0 - beta2) * g**2
    top = [max(t, v) for t in top]
    root = math.sqrt((top or [v])[0] / correction2)
    return (x - lr * (m / correction1) / (root + attrs.get("eps", 1e-8)), m, v, *top)


TABLE: dict[str, Oracle] = {
    "sgd_step": step(sgd, 2),
    "sgd_momentum_step": step(momentum_sgd, 3),
    "adagrad_step": step(adagrad, 3),
    "rmsprop_step": step(rmsprop, 3),
    "rmsprop_momentum_step": step(rmsprop_momentum, 4),
    "adam_step": step(adam, 4),
    "amsgrad_step": step(adam, 5),
}
