"""Steps of Adam and its relatives. See `optim` for what all steps share."""

from __future__ import annotations

from typing import Any

from singa_core.ops.base import wide
from singa_core.ops.elementwise_pairs import maximum
from singa_core.ops.optim import CORRECTION, Step, decayed, step_samples
from singa_core.spec import Spec
from singa_core.tensor import Tensor

__all__ = ["adam_step", "amsgrad_step"]

_RATES = (CORRECTION, CORRECTION)


class AdamStep(Step):
    """Adam: along the mean gradient, in units of its root mean square.

    m' = beta1 * m + (1 - beta1) * grad, v' = beta2 * v + (1 - beta2) * grad**2,
    p' = p - lr * (m' / correction1) / (sqrt(v' / correction2) + eps).
    At step t = 1, 2, ... correction1 is 1 - beta1**t and correction2 is 1 - beta2**t.

    Args:
        beta1: decay of m, 0 <= beta1 < 1.
        beta2: decay of v, 0 <= beta2 < 1.
        decoupled: weight decay takes lr * weight_decay * p from p and leaves grad alone (AdamW).

    Shapes: p, m, v, grad (...), lr, correction1, correction2 () -> p, m, v (...).
    Dtype: floats, kept; see `optim`.
    Source: arXiv:1412.6980, algorithm 1; decoupled: arXiv:1711.05101, algorithm 2.

    >>> from singa_core import tensor
    >>> p, m, v = adam_step(
    ...     tensor([1.0]), tensor([0.0]), tensor([0.0]), tensor([3.0]),
    ...     tensor(0.5), tensor(0.1), tensor(0.001),
    ... )
    >>> round(p.tolist()[0], 4)  # the first step is as long as lr
    0.5
    """

    name = "adam_step"
    samples = (
        *step_samples(2, *_RATES),
        *step_samples(2, *_RATES, beta1=0.8, eps=1e-6, weight_decay=0.1),
        *step_samples(2, *_RATES, weight_decay=0.1, decoupled=True),
    )

    def infer(  # noqa: PLR0913  (the tensors and rates of the algorithm)
        self,
        p: Spec,
        m: Spec,
        v: Spec,
        grad: Spec,
        lr: Spec,
        correction1: Spec,
        correction2: Spec,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled: bool = False,
    ) -> tuple[Spec, Spec, Spec]:
        scalars = {"lr": lr, "correction1": correction1, "correction2": correction2}
        self.check(p, grad, scalars, m=m, v=v)
        self.check_rates(beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay)
        return p, m, v

    def forward(
        self,
        p: Tensor,
        m: Tensor,
        v: Tensor,
        grad: Tensor,
        lr: Tensor,
        correction1: Tensor,
        correction2: Tensor,
        **attrs: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        x, g, lr = _decay(p, grad, lr, attrs)
        m_new, v_new = _moments(m, v, g, attrs)
        y = x - lr / correction1 * m_new / _root(v_new, correction2, attrs["eps"])
        return y.astype(p.dtype), m_new.astype(m.dtype), v_new.astype(v.dtype)


class AmsgradStep(Step):
    """Adam that never forgets its largest v: top' = max(top, v') takes the place of v' in p'.

    Corrections, rates and `decoupled` are those of adam_step.

    Shapes: p, m, v, top, grad (...), lr, correction1, correction2 () -> p, m, v, top (...).
    Dtype: floats, kept; see `optim`.
    Source: arXiv:1904.09237, algorithm 2, with the corrections that PyTorch has.
    """

    name = "amsgrad_step"
    samples = (
        *step_samples(3, *_RATES),
        *step_samples(3, *_RATES, weight_decay=0.1, decoupled=True),
    )

    def infer(  # noqa: PLR0913  (the tensors and rates of the algorithm)
        self,
        p: Spec,
        m: Spec,
        v: Spec,
        top: Spec,
        grad: Spec,
        lr: Spec,
        correction1: Spec,
        correction2: Spec,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled: bool = False,
    ) -> tuple[Spec, Spec, Spec, Spec]:
        scalars = {"lr": lr, "correction1": correction1, "correction2": correction2}
        self.check(p, grad, scalars, m=m, v=v, top=top)
        self.check_rates(beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay)
        return p, m, v, top

    def forward(
        self,
        p: Tensor,
        m: Tensor,
        v: Tensor,
        top: Tensor,
        grad: Tensor,
        lr: Tensor,
        correction1: Tensor,
        correction2: Tensor,
        **attrs: Any,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x, g, lr = _decay(p, grad, lr, attrs)
        m_new, v_new = _moments(m, v, g, attrs)
        top_new = maximum(wide(top), v_new)
        y = x - lr / correction1 * m_new / _root(top_new, correction2, attrs["eps"])
        return (
            y.astype(p.dtype),
            m_new.astype(m.dtype),
            v_new.astype(v.dtype),
            top_new.astype(top.dtype),
        )


def _decay(
    p: Tensor, grad: Tensor, lr: Tensor, attrs: dict[str, Any]
) -> tuple[Tensor, Tensor, Tensor]:
    """The parameter and the gradient after weight decay of either kind; lr, all of one dtype."""
    rate = attrs["weight_decay"]
    if not attrs["decoupled"]:
        x, g = decayed(p, grad, rate)
        return x, g, lr.astype(x.dtype)
    x, g = decayed(p, grad, 0.0)
    lr = lr.astype(x.dtype)  # before any product: with float64 parameters its digits count
    return x - x * (lr * rate) if rate else x, g, lr


def _moments(m: Tensor, v: Tensor, g: Tensor, attrs: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The running averages of g and of its square."""
    beta1, beta2 = attrs["beta1"], attrs["beta2"]
    return (
        wide(m) * beta1 + g * (1.0 - beta1),
        wide(v) * beta2 + g * g * (1.0 - beta2),
    )


def _root(v: Tensor, correction: Tensor, eps: float) -> Tensor:
    """The root of v / correction, away from 0; the correction, 0-d, has the digits of v."""
    return v.sqrt() / correction.astype(v.dtype).sqrt() + eps


adam_step, amsgrad_step = AdamStep(), AmsgradStep()
