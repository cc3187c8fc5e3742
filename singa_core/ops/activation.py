"""Smooth activation functions and rectifiers; those of straight lines are in `activation_hard`."""

from __future__ import annotations

from typing import Any

from singa_core.checks import check_number
from singa_core.errors import ArgumentError, ShapeError
from singa_core.operation import Needs, Operation
from singa_core.ops.base import (
    FloatUnary,
    Grads,
    check_kind,
    grads_once_rounded,
    once_rounded,
    unary_samples,
)
from singa_core.ops.elementwise import exp, expm1, log1p
from singa_core.ops.elementwise_pairs import less, maximum, minimum, where
from singa_core.sample import In, sample
from singa_core.spec import Spec, broadcast_shapes
from singa_core.tensor import Tensor

__all__ = [
    "celu", "elu", "leaky_relu", "log_sigmoid", "mish", "prelu", "relu", "relu_grad",
    "selu", "sigmoid", "silu", "softplus", "softsign",
]  # fmt: skip

_POSITIVE, _NEGATIVE = In((3, 4), low=0.2, high=2.0), In((2, 3), low=-2.0, high=-0.2)
AROUND_ZERO = (sample(_POSITIVE), sample(_NEGATIVE), sample(In((), low=0.2)), sample((0, 3)))


class Relu(FloatUnary):
    """Rectified linear unit, y = max(x, 0); its gradient at 0 is 0.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: V. Nair, G. E. Hinton, ICML 2010.

    >>> from singa_core import tensor
    >>> relu(tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    name = "relu"
    keeps = ("y",)
    samples = AROUND_ZERO

    def forward(self, x: Tensor) -> Any:
        return maximum(x, 0.0)

    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (relu_grad(grad, y),)


class ReluGrad(Operation):
    """What `relu` lets through backward, dx = grad where y > 0, else 0.

    Shapes: grad, y -> dx, all the same. Dtype: floats of one dtype.
    Source: derivative of y = max(x, 0).
    """

    name = "relu_grad"
    keeps = ("y",)
    promotes = True
    samples = (
        sample((3, 4), In((3, 4), low=0.2, grad=False)),
        sample((2, 3), In((2, 3), low=-2.0, high=-0.2, grad=False)),
        sample((), In((), low=0.2, grad=False)),
        sample((0, 3), In((0, 3), grad=False)),
    )

    def infer(self, grad: Spec, y: Spec) -> Spec:
        check_kind(self.name, "float", grad=grad, y=y)
        if grad.shape != y.shape:
            got = f"{grad.shape} != {y.shape}"
            raise ShapeError(self.name, "grad.shape == y.shape", got, grad=grad, y=y)
        return grad

    def forward(self, grad: Tensor, y: Tensor) -> Any:
        return where(less(0.0, y), grad, 0.0)

    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (relu_grad(grad, y) if needs[0] else None, None)


class Sigmoid(FloatUnary):
    """Logistic function, y = 1 / (1 + e**-x), without overflow.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: y = e / (1 + e) with e = e**x below 0, 1 / (1 + e**-x) above.
    """

    name = "sigmoid"
    keeps = ("y",)
    samples = unary_samples(-3.0, 3.0)

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        e = exp(-x.abs())
        return where(less(x, 0.0), e, 1.0) / (e + 1.0)

    @grads_once_rounded
    def backward(self, grad: Tensor, y: Tensor, *, needs: Needs) -> Grads:
        return (grad * (y * (1.0 - y)),)


class LogSigmoid(FloatUnary):
    """Logarithm of `sigmoid`, y = -ln(1 + e**-x), without overflow.

    Shapes: any -> same. Dtype: floats, kept; integers give float32. Source: y = -softplus(-x).
    """

    name = "log_sigmoid"
    keeps = ("x",)
    samples = unary_samples(-3.0, 3.0)

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        return minimum(x, 0.0) - log1p(exp(-x.abs()))

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        return (grad * sigmoid(-x),)


class Softplus(FloatUnary):
    """Smooth rectifier, y = ln(1 + e**(beta * x)) / beta, without overflow.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Args: beta: sharpness, > 0.
    Source: C. Dugas et al., NIPS 2000.
    """

    name = "softplus"
    keeps = ("x",)
    samples = (*unary_samples(-3.0, 3.0), sample((3, 2), beta=2.0))

    def settle(self, x: Spec, *, beta: float = 1.0) -> dict[str, Any]:
        return {"beta": check_number(self.name, "beta", beta, 0.0, ends="(]")}

    def infer(self, x: Spec, *, beta: float = 1.0) -> Spec:
        return super().infer(x)

    @once_rounded
    def forward(self, x: Tensor, *, beta: float) -> Any:
        z = x if beta == 1.0 else x * beta
        y = maximum(z, 0.0) + log1p(exp(-z.abs()))
        return y if beta == 1.0 else y * (1.0 / beta)

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs, beta: float) -> Grads:
        return (grad * sigmoid(x if beta == 1.0 else x * beta),)


class Silu(FloatUnary):
    """Self-gated unit (swish), y = x * sigmoid(x).

    Shapes: any -> same. Dtype: floats, kept; integers give float32. Source: arXiv:1710.05941.
    """

    name = "silu"
    keeps = ("x",)
    samples = unary_samples(-3.0, 3.0)

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        return x * sigmoid(x)

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        s = sigmoid(x)
        return (grad * (s * (x * (1.0 - s) + 1.0)),)


class Mish(FloatUnary):
    """Self-gated unit, y = x * tanh(softplus(x)).

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: arXiv:1908.08681; tanh(ln u) = (u*u - 1) / (u*u + 1), with u = 1 + e**x.
    """

    name = "mish"
    keeps = ("x",)
    samples = unary_samples()

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        return x * _gate(x, exp(-x.abs()))

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        e = exp(-x.abs())
        square = (e + 1.0) * (e + 1.0)
        negative = less(x, 0.0)
        # 1 - tanh**2 by its own formula: the difference would be lost, and x may be large
        other = where(negative, 1.0, e * e)
        slope = square * other * 4.0 / (square + other) / (square + other)
        return (grad * (_gate(x, e) + x * slope * where(negative, e, 1.0) / (e + 1.0)),)


def _gate(x: Tensor, e: Tensor) -> Any:
    """tanh(softplus(x)) from e = e**-|x|."""
    below = e * (e + 2.0)  # u*u - 1 for negative x; for others both parts are divided by e**2x
    above = e * 2.0 + 1.0
    return where(less(x, 0.0), below / (below + 2.0), above / (above + e * e * 2.0))


class Slope(FloatUnary):
    """A unit with one number `alpha`."""

    samples = (*AROUND_ZERO, sample(_NEGATIVE, alpha=0.5))

    def settle(self, x: Spec, *, alpha: float = 1.0) -> dict[str, Any]:
        return {"alpha": check_number(self.name, "alpha", alpha)}

    def infer(self, x: Spec, *, alpha: float = 1.0) -> Spec:
        return super().infer(x)


class LeakyRelu(Slope):
    """Rectifier that leaks, y = x above 0, alpha * x below.

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: A. L. Maas et al., ICML 2013.
    """

    name = "leaky_relu"

    def infer(self, x: Spec, *, alpha: float = 0.01) -> Spec:
        return super().infer(x)

    @once_rounded
    def forward(self, x: Tensor, *, alpha: float = 0.01) -> Any:
        return where(less(0.0, x), x, x * alpha)


class Elu(Slope):
    """Exponential linear unit, y = x above 0, alpha * (e**x - 1) below.

    Shapes: any -> same. Dtype: floats, kept; integers give float32. Source: arXiv:1511.07289.
    """

    name = "elu"

    @once_rounded
    def forward(self, x: Tensor, *, alpha: float = 1.0) -> Any:
        below = where(less(0.0, x), 0.0, x)  # not a minimum: at 0 the gradient is the left one
        return where(less(0.0, x), x, expm1(below) * alpha)


class Celu(Slope):
    """Continuously differentiable elu, y = x above 0, alpha * (e**(x / alpha) - 1) below.

    Shapes: any -> same. Dtype: floats, kept; integers give float32. Source: arXiv:1704.07483.
    Raises: ArgumentError for an alpha of 0.
    """

    name = "celu"

    def settle(self, x: Spec, *, alpha: float = 1.0) -> dict[str, Any]:
        if alpha == 0:
            raise ArgumentError(self.name, "alpha != 0", alpha)
        return super().settle(x, alpha=alpha)

    @once_rounded
    def forward(self, x: Tensor, *, alpha: float = 1.0) -> Any:
        below = where(less(0.0, x), 0.0, x)
        return where(less(0.0, x), x, expm1(below * (1.0 / alpha)) * alpha)


class Selu(FloatUnary):
    """Self-normalising unit, y = scale * elu(x, alpha) with the paper's two numbers.

    Shapes: any -> same. Dtype: floats, kept; integers give float32. Source: arXiv:1706.02515.
    """

    name = "selu"
    samples = AROUND_ZERO

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        return elu(x, alpha=1.6732632423543772) * 1.0507009873554805


class Softsign(FloatUnary):
    """A slower tanh, y = x / (1 + |x|).

    Shapes: any -> same. Dtype: floats, kept; integers give float32.
    Source: X. Glorot, Y. Bengio, AISTATS 2010.
    """

    name = "softsign"
    keeps = ("x",)
    samples = AROUND_ZERO

    @once_rounded
    def forward(self, x: Tensor) -> Any:
        return x / (x.abs() + 1.0)

    @grads_once_rounded
    def backward(self, grad: Tensor, x: Tensor, *, needs: Needs) -> Grads:
        below = x.abs() + 1.0
        return (grad / below / below,)


class Prelu(Operation):
    """Rectifier with a learned leak, y = x above 0, weight * x below.

    Shapes: x, weight that broadcasts to it -> y like x. Dtype: floats, promoted.
    Source: arXiv:1502.01852, equation 1.
    """

    name = "prelu"
    promotes = True
    weak_float = True
    samples = (
        sample(_NEGATIVE, (3,)),
        sample(_POSITIVE, (4,)),
        sample(_NEGATIVE, ()),
        sample((0, 3), (3,)),
    )

    def infer(self, x: Spec, weight: Spec) -> Spec:
        check_kind(self.name, "float", x=x, weight=weight)
        if broadcast_shapes(self.name, x.shape, weight.shape, x=x, weight=weight) != x.shape:
            rule = "a weight that broadcasts to x.shape"
            raise ShapeError(self.name, rule, weight.shape, x=x, weight=weight)
        return x

    def forward(self, x: Tensor, weight: Tensor) -> Any:
        return where(less(0.0, x), x, x * weight)


relu, relu_grad, sigmoid, log_sigmoid = Relu(), ReluGrad(), Sigmoid(), LogSigmoid()
softplus, silu, mish = Softplus(), Silu(), Mish()
leaky_relu, elu, celu, selu = LeakyRelu(), Elu(), Celu(), Selu()
softsign, prelu = Softsign(), Prelu()
