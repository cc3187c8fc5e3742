"""The Gaussian error linear unit and its gradient."""

from __future__ import annotations

import math
from typing import Any, Literal

from singa_core.errors import ShapeError
from singa_core.operation import Needs, Operation
from singa_core.ops.base import FloatUnary, Grads, check_kind, once_rounded, unary_samples
from singa_core.ops.elementwise import erf, exp
from singa_core.sample import sample
from singa_core.spec import Spec
from singa_core.tensor import Tensor

__all__ = ["gelu", "gelu_grad"]

Formula = Literal["none", "tanh"]


class Gelu(FloatUnary):
    """Gaussian error linear unit, y = x * P(X <= x) for a standard normal X.

    To the rounding of x / 2: far below 0, where y is tiny, few of its digits are right.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Args: approximate: "none" for erf, "tanh" for the formula of the paper.
    Source: arXiv:1606.08415, section 2.
    """

    name = "gelu"
    keeps = ("x",)
    samples = (*unary_samples(), sample((3, 4), approximate="tanh"), sample((), approximate="tanh"))

    def infer(self, x: Spec, *, approximate: Formula = "none") -> Spec:
        return super().infer(x)

    @once_rounded
    def forward(self, x: Tensor, *, approximate: str) -> Any:
        if approximate == "tanh":
            return x * 0.5 * (_inner(x).tanh() + 1.0)
        return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1.0)

    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs, approximate: str) -> Grads:
        return (gelu_grad(grad, x, approximate=approximate),)


class GeluGrad(Operation):
    """Gradient of gelu, dx = grad * (P(X <= x) + x * p(x)) with the density p of X.

    Shapes: grad, x -> dx, all the same. Dtype: floats of one dtype.
    Args: approximate: that of gelu.
    Raises: ShapeError unless grad has the shape of x; DTypeError.
    Source: derivative of `gelu`.
    """

    name = "gelu_grad"
    promotes = True
    samples = (
        sample((3, 4), (3, 4)),
        sample((7,), (7,), approximate="tanh"),
        sample((), ()),
        sample((0, 3), (0, 3)),
    )

    def infer(self, grad: Spec, x: Spec, *, approximate: Formula = "none") -> Spec:
        check_kind(self.name, "float", grad=grad, x=x)
        if grad.shape != x.shape:
            got = f"{grad.shape} != {x.shape}"
            raise ShapeError(self.name, "grad.shape == x.shape", got, grad=grad, x=x)
        return grad

    @once_rounded
    def forward(self, grad: Tensor, x: Tensor, *, approximate: str) -> Any:
        if approximate == "tanh":
            t = _inner(x).tanh()
            slope = _ROOT * (x * x * (3.0 * _CUBIC) + 1.0)
            return grad * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * slope)
        below = (erf(x * math.sqrt(0.5)) + 1.0) * 0.5
        density = exp(x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))
        return grad * (below + x * density)


_ROOT, _CUBIC = math.sqrt(2.0 / math.pi), 0.044715


def _inner(x: Tensor) -> Tensor:
    return (x + x * x * x * _CUBIC) * _ROOT


gelu, gelu_grad = Gelu(), GeluGrad()
