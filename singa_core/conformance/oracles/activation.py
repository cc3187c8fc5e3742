"""References of the activation functions: the textbook's formula, of one Python float."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from singa_core.conformance.oracles.common import HostArray, Oracle, each, real


def sigmoid(x: float) -> float:
    """Logistic function."""
    return 1.0 / (1.0 + math.exp(-x))


def softplus(x: float, beta: float = 1.0) -> float:
    """Smooth rectifier."""
    return math.log1p(math.exp(beta * x)) / beta


def gelu(x: float, approximate: str = "none") -> float:
    """Gaussian error linear unit."""
    if approximate == "tanh":
        return 0.5 * x * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * math.erfc(-x / math.sqrt(2.0))


def gelu_slope(x: float, approximate: str) -> float:
    """Derivative of `gelu`."""
    if approximate == "tanh":
        t = math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))
        inner = math.sqrt(2.0 / math.pi) * (1.0 + 3.0 * 0.044715 * x**2)
        return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t**2) * inner
    density = math.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi)
    return 0.5 * math.erfc(-x / math.sqrt(2.0)) + x * density


def gelu_grad(grad: HostArray, x: HostArray, approximate: str = "none") -> HostArray:
    """Gradient of `gelu`."""
    slope: HostArray = each(lambda v: gelu_slope(v, approximate))(x)
    return real(grad) * slope


def leaky_relu(x: float, alpha: float = 0.01) -> float:
    """Rectifier that leaks."""
    return x if x > 0 else alpha * x


def elu(x: float, alpha: float = 1.0) -> float:
    """Exponential linear unit."""
    return x if x > 0 else alpha * (math.exp(x) - 1.0)


def celu(x: float, alpha: float = 1.0) -> float:
    """Continuously differentiable elu."""
    return max(x, 0.0) + min(0.0, alpha * (math.exp(x / alpha) - 1.0))


def selu(x: float) -> float:
    """Self-normalising unit, with the numbers of arXiv:1706.02515, appendix A."""
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def hard_sigmoid(x: float) -> float:
    """Straight lines."""
    return min(max(x + 3.0, 0.0), 6.0) / 6.0


def hard_tanh(x: float, low: float = -1.0, high: float = 1.0) -> float:
    """Straight lines."""
    return sorted((low, x, high))[1]


def with_attrs(function: Oracle) -> Oracle:
    """A function of one float and attributes, for every element."""
    return lambda x, **attrs: each(lambda v: function(v, **attrs))(x)


def prelu(x: HostArray, weight: HostArray) -> Any:
    """Rectifier with a learned leak."""
    x, weight = real(x), real(weight)
    return np.maximum(x, 0.0) + weight * np.minimum(x, 0.0)


def relu_grad(grad: HostArray, y: HostArray) -> HostArray:
    """What passes a rectifier backward."""
    return real(grad) * (real(y) > 0)


TABLE: dict[str, Oracle] = {
    "relu": each(lambda x: max(x, 0.0)),
    "relu_grad": relu_grad,
    "sigmoid": each(sigmoid),
    "log_sigmoid": each(lambda x: math.log(sigmoid(x))),
    "softplus": with_attrs(softplus),
    "gelu": with_attrs(gelu),
    "gelu_grad": gelu_grad,
    "silu": each(lambda x: x * sigmoid(x)),
    "mish": each(lambda x: x * math.tanh(softplus(x))),
    "leaky_relu": with_attrs(leaky_relu),
    "elu": with_attrs(elu),
    "celu": with_attrs(celu),
    "selu": each(selu),
    "hard_tanh": with_attrs(hard_tanh),
    "hard_sigmoid": each(hard_sigmoid),
    "hard_swish": each(lambda x: x * hard_sigmoid(x)),
    "softsign": each(lambda x: x / (1.0 + abs(x))),
    "prelu": prelu,
}
