"""Steps of optimisers: new values of a parameter and its state, from a gradient.

They are pure; `update(op, inputs, cells)` writes the results over the old values. `lr` and the bias
corrections are 0-d tensors, so that they may change from step to step without a new graph. They are
called under `no_grad`; put on a tape, they are differentiated through their decomposition.

What all of these share:

    Shapes: p, grad and state of one shape, lr and corrections () -> p and state.
    Dtype: floats; grad has that of p, and results keep their own. Where p is float16 or bfloat16
        the arithmetic is done in float32, and state may be float32.
    weight_decay: weight_decay * p is added to grad first, >= 0.
    eps: keeps a divisor away from 0, >= 0.
    Raises: ShapeError; DTypeError; ArgumentError for a rate outside its range.
"""

from __future__ import annotations

import math
from typing import Any

from singa_core.checks import check_number
from singa_core.errors import ArgumentError, DTypeError, ShapeError
from singa_core.operation import Operation
from singa_core.ops.base import check_kind, wide
from singa_core.sample import In, Sample, sample
from singa_core.spec import Spec
from singa_core.tensor import Tensor

__all__ = ["adagrad_step", "rmsprop_momentum_step", "rmsprop_step", "sgd_momentum_step", "sgd_step"]

_LR = In((), "float32", 0.01, 0.1)
CORRECTION = In((), "float32", 0.1, 0.9)


def step_samples(state: int, *rates: In, **attrs: Any) -> tuple[Sample, ...]:
    """Steps of a matrix, a scalar and an empty parameter, with `state` positive state values."""
    return tuple(
        sample(In(shape), *[In(shape, low=0.1)] * state, In(shape), _LR, *rates, **attrs)
        for shape in ((3, 4), (), (0, 2))
    )


class Step(Operation):
    """What the steps share: their checks, and weight decay."""

    def check(self, p: Spec, grad: Spec, scalars: dict[str, Any], **state: Spec) -> None:
        """Raises: ShapeError or DTypeError unless everything fits p."""
        named: dict[str, Any] = {"p": p, **state, "grad": grad}
        check_kind(self.name, "float", **named, **scalars)
        for operand, spec in named.items():
            if spec.shape != p.shape:
                rule = f"{operand}.shape == p.shape"
                raise ShapeError(self.name, rule, f"{spec.shape} and {p.shape}", **named)
        if grad.dtype is not p.dtype:
            got = f"{grad.dtype} and {p.dtype}"
            raise DTypeError(self.name, "grad.dtype == p.dtype", got, **named)
        for operand, spec in scalars.items():
            if spec.shape:
                raise ShapeError(self.name, f"{operand}.shape == ()", spec.shape, **scalars)

    def check_rates(self, **rates: float) -> None:
        """Raises: ArgumentError for a negative rate, or a decay of an average of 1 or more."""
        for rate, value in rates.items():
            below_one = rate in ("momentum", "beta1", "beta2", "decay")
            check_number(self.name, rate, value, 0.0, 1.0 if below_one else math.inf, ends="[)")


def decayed(p: Tensor, grad: Tensor, weight_decay: float) -> tuple[Tensor, Tensor]:
    """The parameter and the gradient in the type to compute in, the latter with weight decay."""
    p, grad = wide(p), wide(grad)
    return p, grad + p * weight_decay if weight_decay else grad


class SgdStep(Step):
    """Gradient descent, p' = p - lr * grad.

    Shapes: p, grad (...), lr () -> p (...). Dtype: floats, kept; see the module's text.
    Source: H. Robbins, S. Monro, Annals of Mathematical Statistics 22 (1951), 400-407.

    >>> from singa_core import tensor
    >>> sgd_step(tensor([1.0]), tensor([2.0]), tensor(0.25)).tolist()
    [0.5]
    """

    name = "sgd_step"
    samples = step_samples(0) + step_samples(0, weight_decay=0.1)

    def infer(self, p: Spec, grad: Spec, lr: Spec, *, weight_decay: float = 0.0) -> Spec:
        self.check(p, grad, {"lr": lr})
        self.check_rates(weight_decay=weight_decay)
        return p

    def forward(self, p: Tensor, grad: Tensor, lr: Tensor, *, weight_decay: float) -> Tensor:
        x, g = decayed(p, grad, weight_decay)
        return (x - lr * g).astype(p.dtype)


class SgdMomentumStep(Step):
    """Gradient descent with momentum.

    m' = momentum * m + (1 - dampening) * grad, p' = p - lr * m', with Nesterov's momentum
    p' = p - lr * (grad + momentum * m'). The state m starts as zeros. PyTorch starts it as the
    first gradient, not dampened. That differs if dampening is not 0: to agree, start m as
    dampening / momentum times the first gradient.

    Args:
        momentum: 0 <= momentum < 1.
        dampening: 0 <= dampening <= 1; must be 0 with nesterov.

    Shapes: p, m, grad (...), lr () -> p, m (...). Dtype: floats, kept; see the module's text.
    Source: I. Sutskever and others, ICML 2013, eq. 1 to 4, with lr outside of m.
    """

    name = "sgd_momentum_step"
    samples = (
        *step_samples(1),
        *step_samples(1, momentum=0.8, dampening=0.5, weight_decay=0.1),
        *step_samples(1, nesterov=True),
    )

    def infer(
        self,
        p: Spec,
        m: Spec,
        grad: Spec,
        lr: Spec,
        *,
        momentum: float = 0.9,
        dampening: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ) -> tuple[Spec, Spec]:
        self.check(p, grad, {"lr": lr}, m=m)
        self.check_rates(momentum=momentum, weight_decay=weight_decay)
        check_number(self.name, "dampening", dampening, 0.0, 1.0)
        if nesterov and (dampening or not momentum):
            got = f"{momentum} and {dampening}"
            raise ArgumentError(self.name, "momentum > 0 and dampening == 0 with nesterov", got)
        return p, m

    def forward(
        self,
        p: Tensor,
        m: Tensor,
        grad: Tensor,
        lr: Tensor,
        *,
        momentum: float,
        dampening: float,
        nesterov: bool,
        weight_decay: float,
    ) -> tuple[Tensor, Tensor]:
        x, g = decayed(p, grad, weight_decay)
        new = wide(m) * momentum + (g * (1.0 - dampening) if dampening else g)
        direction = g + new * momentum if nesterov else new
        return (x - lr * direction).astype(p.dtype), new.astype(m.dtype)


class AdagradStep(Step):
    """Steps shrunk by all gradients: v' = v + grad**2, p' = p - lr * grad / (sqrt(v') + eps).

    Shapes: p, v, grad (...), lr () -> p, v (...). Dtype: floats, kept; see the module's text.
    Source: J. Duchi, E. Hazan, Y. Singer, JMLR 12 (2011), 2121-2159, figure 1 (diagonal).
    """

    name = "adagrad_step"
    samples = step_samples(1) + step_samples(1, weight_decay=0.1)

    def infer(
        self,
        p: Spec,
        v: Spec,
        grad: Spec,
        lr: Spec,
        *,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
    ) -> tuple[Spec, Spec]:
        self.check(p, grad, {"lr": lr}, v=v)
        self.check_rates(eps=eps, weight_decay=weight_decay)
        return p, v

    def forward(
        self, p: Tensor, v: Tensor, grad: Tensor, lr: Tensor, *, eps: float, weight_decay: float
    ) -> tuple[Tensor, Tensor]:
        x, g = decayed(p, grad, weight_decay)
        new = wide(v) + g * g
        return (x - lr * g / (new.sqrt() + eps)).astype(p.dtype), new.astype(v.dtype)


class RmspropStep(Step):
    """Steps shrunk by recent gradients.

    v' = decay * v + (1 - decay) * grad**2, p' = p - lr * grad / (sqrt(v') + eps).

    Args:
        decay: of the running average, 0 <= decay < 1.

    Shapes: p, v, grad (...), lr () -> p, v (...). Dtype: floats, kept; see the module's text.
    Source: T. Tieleman, G. Hinton, Neural Networks for Machine Learning, lecture 6.5 (2012); eps
        outside of the root as in PyTorch.
    """

    name = "rmsprop_step"
    samples = step_samples(1) + step_samples(1, decay=0.9, weight_decay=0.1)

    def infer(
        self,
        p: Spec,
        v: Spec,
        grad: Spec,
        lr: Spec,
        *,
        decay: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> tuple[Spec, Spec]:
        self.check(p, grad, {"lr": lr}, v=v)
        self.check_rates(decay=decay, eps=eps, weight_decay=weight_decay)
        return p, v

    def forward(
        self,
        p: Tensor,
        v: Tensor,
        grad: Tensor,
        lr: Tensor,
        *,
        decay: float,
        eps: float,
        weight_decay: float,
    ) -> tuple[Tensor, Tensor]:
        x, g = decayed(p, grad, weight_decay)
        new = wide(v) * decay + g * g * (1.0 - decay)
        return (x - lr * g / (new.sqrt() + eps)).astype(p.dtype), new.astype(v.dtype)


class RmspropMomentumStep(Step):
    """rmsprop_step with momentum, m' = momentum * m + grad / (sqrt(v') + eps), p' = p - lr * m'.

    Shapes: p, v, m, grad (...), lr () -> p, v, m (...).
    Dtype: floats, kept; see the module's text.
    Source: as rmsprop_step, with PyTorch's momentum.
    """

    name = "rmsprop_momentum_step"
    samples = step_samples(2) + step_samples(2, momentum=0.5, weight_decay=0.1)

    def infer(  # noqa: PLR0913  (the tensors and rates of the algorithm)
        self,
        p: Spec,
        v: Spec,
        m: Spec,
        grad: Spec,
        lr: Spec,
        *,
        decay: float = 0.99,
        momentum: float = 0.9,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> tuple[Spec, Spec, Spec]:
        self.check(p, grad, {"lr": lr}, v=v, m=m)
        self.check_rates(decay=decay, momentum=momentum, eps=eps, weight_decay=weight_decay)
        return p, v, m

    def forward(  # noqa: PLR0913  (as above)
        self,
        p: Tensor,
        v: Tensor,
        m: Tensor,
        grad: Tensor,
        lr: Tensor,
        *,
        decay: float,
        momentum: float,
        eps: float,
        weight_decay: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        x, g = decayed(p, grad, weight_decay)
        square = wide(v) * decay + g * g * (1.0 - decay)
        new = wide(m) * momentum + g / (square.sqrt() + eps)
        return (x - lr * new).astype(p.dtype), square.astype(v.dtype), new.astype(m.dtype)


sgd_step, sgd_momentum_step = SgdStep(), SgdMomentumStep()
adagrad_step = AdagradStep()
rmsprop_step, rmsprop_momentum_step = RmspropStep(), RmspropMomentumStep()
