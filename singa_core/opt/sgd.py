"""Stochastic gradient descent."""

from __future__ import annotations

from singa_core import ops
from singa_core.checks import check_flag, check_number
from singa_core.errors import ArgumentError
from singa_core.operation import Bound
from singa_core.opt.optimizer import Optimizer, Params
from singa_core.opt.schedule import Schedule
from singa_core.tensor import Tensor
from singa_core.update import update


class SGD(Optimizer):
    """Gradient descent with momentum: m <- momentum m + (1 - dampening) g; p <- p - lr m.

    With Nesterov: p <- p - lr (g + momentum m). Weight decay adds weight_decay p to g first.

    Args:
        lr: learning rate >= 0, or a schedule.
        momentum: 0 <= momentum < 1.
        dampening: 0 <= dampening <= 1. The buffer starts at zeros; PyTorch's starts as the first
            gradient, undampened, so that it differs there.
        nesterov: needs momentum > 0 and dampening == 0.
        weight_decay: L2 factor >= 0.
        params: what it works on, see `Optimizer`.

    Source: Sutskever et al., "On the importance of initialization and momentum", 2013, eqs. 1 to 4.
    """

    slots = ("momentum",)

    def __init__(
        self,
        lr: float | Schedule = 0.01,
        *,
        momentum: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        params: Params | None = None,
    ) -> None:
        super().__init__(lr, params)
        self.momentum = check_number("SGD", "momentum", momentum, 0.0, 1.0, ends="[)")
        self.dampening = check_number("SGD", "dampening", dampening, 0.0, 1.0)
        self.weight_decay = check_number("SGD", "weight_decay", weight_decay, 0.0)
        self.nesterov = check_flag("SGD", "nesterov", nesterov)
        if nesterov and (momentum == 0 or dampening != 0):
            got = f"momentum {momentum}, dampening {dampening}"
            raise ArgumentError("SGD", "momentum > 0 and dampening == 0 for nesterov", got)

    def rule(self) -> Bound:
        if not self.momentum:
            return ops.sgd_step.bound(weight_decay=self.weight_decay)
        return ops.sgd_momentum_step.bound(
            momentum=self.momentum, dampening=self.dampening, nesterov=self.nesterov,
            weight_decay=self.weight_decay,
        )  # fmt: skip

    def update(self, param: Tensor, grad: Tensor, rate: Tensor) -> None:
        if self.momentum:
            buffer = self.slot(param, "momentum")
            update(self.settled_rule(), (param, buffer, grad, rate), (param, buffer))
        else:
            update(self.settled_rule(), (param, grad, rate), (param,))
