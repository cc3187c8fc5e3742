"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from singa_core import ops
from singa_core.checks import check_number
from singa_core.errors import ArgumentError
from singa_core.operation import Bound
from singa_core.opt.optimizer import Optimizer, Params
from singa_core.opt.schedule import Schedule
from singa_core.scalars import scalar
from singa_core.tensor import Tensor
from singa_core.update import update


class Adam(Optimizer):
    """Adaptive moments: m and v are running means of g and g*g, corrected for their start at zero.

    Args:
        lr: learning rate >= 0, or a schedule.
        betas: decay of m and v, each 0 <= beta < 1.
        eps: added to the root of v, > 0.
        weight_decay: L2 factor >= 0, added to the gradient.
        params: what it works on, see `Optimizer`.

    Source: Kingma & Ba, "Adam: a method for stochastic optimization", 2015, algorithm 1.
    """

    slots = ("m", "v")
    decoupled = False

    def __init__(
        self,
        lr: float | Schedule = 0.001,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        params: Params | None = None,
    ) -> None:
        name = type(self).__name__
        super().__init__(lr, params)
        if not isinstance(betas, Sequence) or len(betas) != 2:
            raise ArgumentError(name, "betas (beta1, beta2)", repr(betas))
        self.beta1 = check_number(name, "betas[0]", betas[0], 0.0, 1.0, ends="[)")
        self.beta2 = check_number(name, "betas[1]", betas[1], 0.0, 1.0, ends="[)")
        self.eps = check_number(name, "eps", eps, 0.0, ends="(]")
        self.weight_decay = check_number(name, "weight_decay", weight_decay, 0.0)

    def prepare(self, device: Any) -> Any:
        return (
            scalar(self._rate, device=device),
            scalar(self._correction1, device=device),
            scalar(self._correction2, device=device),
        )

    def _correction1(self) -> float:
        return 1 - self.beta1**self.steps.value

    def _correction2(self) -> float:
        return 1 - self.beta2**self.steps.value

    def rule(self) -> Bound:
        return ops.adam_step.bound(
            beta1=self.beta1, beta2=self.beta2, eps=self.eps,
            weight_decay=self.weight_decay, decoupled=self.decoupled,
        )  # fmt: skip

    def update(self, param: Tensor, grad: Tensor, rate: Any) -> None:
        m, v = self.slot(param, "m"), self.slot(param, "v")
        update(self.settled_rule(), (param, m, v, grad, *rate), (param, m, v))


class AdamW(Adam):
    """Adam with decoupled weight decay: p <- p - lr weight_decay p, apart from the gradient.

    Args: as Adam; weight_decay defaults to 0.01.

    Source: Loshchilov & Hutter, "Decoupled weight decay regularization", 2019, algorithm 2.
    """

    decoupled = True

    def __init__(
        self,
        lr: float | Schedule = 0.001,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        params: Params | None = None,
    ) -> None:
        super().__init__(lr, betas=betas, eps=eps, weight_decay=weight_decay, params=params)
