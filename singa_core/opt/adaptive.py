"""Steps shrunk by the size of past gradients: RMSprop and Adagrad."""

from __future__ import annotations

from singa_core import ops
from singa_core.checks import check_number
from singa_core.operation import Bound
from singa_core.opt.optimizer import Optimizer, Params
from singa_core.opt.schedule import Schedule
from singa_core.tensor import Tensor
from singa_core.update import update


class RMSprop(Optimizer):
    """v <- decay v + (1 - decay) g g; p <- p - lr g / (sqrt(v) + eps), with momentum if asked for.

    Args:
        lr: learning rate >= 0, or a schedule.
        decay: of the running mean of squares, 0 <= decay < 1.
        eps: added to the root of v, > 0.
        momentum: 0 <= momentum < 1.
        weight_decay: L2 factor >= 0.
        params: what it works on, see `Optimizer`.

    Source: Tieleman & Hinton, Neural Networks for Machine Learning, lecture 6.5, 2012.
    """

    slots = ("v", "m")

    def __init__(
        self,
        lr: float | Schedule = 0.01,
        *,
        decay: float = 0.99,
        eps: float = 1e-8,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        params: Params | None = None,
    ) -> None:
        super().__init__(lr, params)
        self.decay = check_number("RMSprop", "decay", decay, 0.0, 1.0, ends="[)")
        self.eps = check_number("RMSprop", "eps", eps, 0.0, ends="(]")
        self.momentum = check_number("RMSprop", "momentum", momentum, 0.0, 1.0, ends="[)")
        self.weight_decay = check_number("RMSprop", "weight_decay", weight_decay, 0.0)

    def rule(self) -> Bound:
        rates = {"decay": self.decay, "eps": self.eps, "weight_decay": self.weight_decay}
        if not self.momentum:
            return ops.rmsprop_step.bound(**rates)
        return ops.rmsprop_momentum_step.bound(momentum=self.momentum, **rates)

    def update(self, param: Tensor, grad: Tensor, rate: Tensor) -> None:
        v = self.slot(param, "v")
        if not self.momentum:
            update(self.settled_rule(), (param, v, grad, rate), (param, v))
        else:
            m = self.slot(param, "m")
            update(self.settled_rule(), (param, v, m, grad, rate), (param, v, m))


class Adagrad(Optimizer):
    """v <- v + g g; p <- p - lr g / (sqrt(v) + eps).

    Args:
        lr: learning rate >= 0, or a schedule.
        eps: added to the root of v, > 0.
        weight_decay: L2 factor >= 0.
        params: what it works on, see `Optimizer`.

    Source: Duchi, Hazan, Singer, JMLR 12, 2011, figure 1 (diagonal).
    """

    slots = ("v",)

    def __init__(
        self,
        lr: float | Schedule = 0.01,
        *,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        params: Params | None = None,
    ) -> None:
        super().__init__(lr, params)
        self.eps = check_number("Adagrad", "eps", eps, 0.0, ends="(]")
        self.weight_decay = check_number("Adagrad", "weight_decay", weight_decay, 0.0)

    def rule(self) -> Bound:
        return ops.adagrad_step.bound(eps=self.eps, weight_decay=self.weight_decay)

    def update(self, param: Tensor, grad: Tensor, rate: Tensor) -> None:
        v = self.slot(param, "v")
        update(self.settled_rule(), (param, v, grad, rate), (param, v))
