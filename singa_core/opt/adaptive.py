"""Steps shrunk by the size of past gradients: RMSprop and Adagrad."""

from __future__ import annotations

from collections.abc import Iterable

from singa_core import ops
from singa_core.errors import ArgumentError
from singa_core.opt.optimizer import Optimizer
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
        params: for `step` and `zero_grad`.

    Source: Tieleman & Hinton, Neural Networks for Machine Learning, lecture 6.5, 2012.
    """

    def __init__(
        self,
        lr: float | Schedule = 0.01,
        *,
        decay: float = 0.99,
        eps: float = 1e-8,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        params: Iterable[Tensor] | None = None,
    ) -> None:
        for name, rate in (("decay", decay), ("momentum", momentum)):
            if not 0 <= rate < 1:
                raise ArgumentError("RMSprop", f"0 <= {name} < 1", rate)
        check_positive("RMSprop", eps, weight_decay)
        super().__init__(lr, params)
        self.decay = decay
        self.eps = eps
        self.momentum = momentum
        self.weight_decay = weight_decay

    def update(self, param: Tensor, grad: Tensor, rate: Tensor) -> None:
        v = self.slot(param, "v")
        rates = {"decay": self.decay, "eps": self.eps, "weight_decay": self.weight_decay}
        if not self.momentum:
            update(ops.rmsprop_step, (param, v, grad, rate), (param, v), **rates)
            return
        m = self.slot(param, "m")
        update(
            ops.rmsprop_momentum_step, (param, v, m, grad, rate), (param, v, m),
            momentum=self.momentum, **rates,
        )  # fmt: skip


class Adagrad(Optimizer):
    """v <- v + g g; p <- p - lr g / (sqrt(v) + eps).

    Args:
        lr: learning rate >= 0, or a schedule.
        eps: added to the root of v, > 0.
        weight_decay: L2 factor >= 0.
        params: for `step` and `zero_grad`.

    Source: Duchi, Hazan, Singer, JMLR 12, 2011, figure 1 (diagonal).
    """

    def __init__(
        self,
        lr: float | Schedule = 0.01,
        *,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        params: Iterable[Tensor] | None = None,
    ) -> None:
        check_positive("Adagrad", eps, weight_decay)
        super().__init__(lr, params)
        self.eps = eps
        self.weight_decay = weight_decay

    def update(self, param: Tensor, grad: Tensor, rate: Tensor) -> None:
        v = self.slot(param, "v")
        update(
            ops.adagrad_step, (param, v, grad, rate), (param, v),
            eps=self.eps, weight_decay=self.weight_decay,
        )  # fmt: skip


def check_positive(name: str, eps: float, weight_decay: float) -> None:
    """Raises: ArgumentError unless eps > 0 and weight_decay >= 0."""
    if eps <= 0:
        raise ArgumentError(name, "eps > 0", eps)
    if weight_decay < 0:
        raise ArgumentError(name, "weight_decay >= 0", weight_decay)
