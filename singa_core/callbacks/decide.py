"""Callbacks that end a training, or slow it down, when it no longer improves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from singa_core.callbacks.base import Best, Callback
from singa_core.checks import check_integer, check_number
from singa_core.errors import ArgumentError
from singa_core.opt.optimizer import Optimizer
from singa_core.opt.schedule import Schedule

if TYPE_CHECKING:
    from singa_core.training import Training


class EarlyStopping(Callback):
    """End the training when a metric has not improved for some epochs.

    Args:
        metric: a name in the rows of the history.
        patience: after how many epochs in a row without improvement, >= 1.
        mode: "min" if lower is better, "max" if higher is.
        min_delta: an improvement is more than this.
    """

    def __init__(
        self, metric: str = "val_loss", *, patience: int = 3, mode: str = "min",
        min_delta: float = 0.0,
    ) -> None:  # fmt: skip
        self.patience = check_integer("EarlyStopping", "patience", patience, 1)
        self._best = Best("EarlyStopping", metric, mode, min_delta)
        self._bad = 0

    def on_setup(self, training: Training) -> None:
        self._best.begin(training)
        self._bad = 0

    def on_epoch_end(self, training: Training) -> None:
        value = self._best.read(training)
        self._bad = 0 if self._best.improves(value) else self._bad + 1
        if self._bad >= self.patience:
            best = "never" if self._best.value is None else f"{self._best.value:.4g} at best"
            training.stop(f"{self._best.metric} has not improved for {self._bad} epochs, {best}")

    def state(self) -> dict[str, Any]:
        return {"best": self._best.value, "bad": self._bad}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._best.value, self._bad = state.get("best"), int(state.get("bad", 0))


@dataclass(frozen=True)
class Scaled:
    """A schedule times a factor, but no lower than `floor` where the schedule is above it."""

    schedule: Schedule
    factor: float
    floor: float = 0.0

    def __call__(self, step: int) -> float:
        rate = self.schedule(step)
        return min(rate, max(rate * self.factor, self.floor))


class ReduceOnPlateau(Callback):
    """Multiply the learning rate by a factor when a metric has not improved for some epochs.

    Works on `model.optimizer`, with a rate or any schedule.

    Args:
        metric: a name in the rows of the history.
        factor: 0 < factor < 1.
        patience: epochs without improvement that are borne.
        mode: "min" if lower is better, "max" if higher is.
        threshold: an improvement is more than this share of the best value.
        cooldown: epochs after a reduction that are not judged.
        floor: lowest rate.

    The rules are those of PyTorch's ReduceLROnPlateau.
    """

    def __init__(
        self, metric: str = "val_loss", *, factor: float = 0.1, patience: int = 10,
        mode: str = "min", threshold: float = 1e-4, cooldown: int = 0, floor: float = 0.0,
    ) -> None:  # fmt: skip
        where = "ReduceOnPlateau"
        self.factor = check_number(where, "factor", factor, 0.0, 1.0, ends="()")
        self.patience = check_integer(where, "patience", patience, 0)
        self.threshold = check_number(where, "threshold", threshold, 0.0)
        self.cooldown = check_integer(where, "cooldown", cooldown, 0)
        self.floor = check_number(where, "floor", floor, 0.0)
        self._best = Best(where, metric, mode)
        self._bad = self._cooling = self._reductions = 0
        self._schedule: Schedule | None = None

    def on_setup(self, training: Training) -> None:
        optimizer = self._optimizer(training)
        self._schedule = optimizer._schedule
        self._best.begin(training)
        self._bad = self._cooling = self._reductions = 0

    def on_train_begin(self, training: Training) -> None:
        self._set(training)

    def on_epoch_end(self, training: Training) -> None:
        value, best = self._best.read(training), self._best.value
        self._best.min_delta = self.threshold * abs(best) if best is not None else 0.0
        self._bad = 0 if self._best.improves(value) else self._bad + 1
        if self._cooling:
            self._cooling, self._bad = self._cooling - 1, 0
        if self._bad > self.patience:
            self._bad, self._cooling = 0, self.cooldown
            self._reductions += 1
            self._set(training)

    def _set(self, training: Training) -> None:
        if self._reductions and self._schedule is not None:
            factor = self.factor**self._reductions
            self._optimizer(training).lr = Scaled(self._schedule, factor, self.floor)

    def _optimizer(self, training: Training) -> Optimizer:
        optimizer = training.model.optimizer
        if not isinstance(optimizer, Optimizer):
            got = type(optimizer).__name__
            raise ArgumentError("ReduceOnPlateau", "an Optimizer as model.optimizer", got)
        return optimizer

    def state(self) -> dict[str, Any]:
        numbers = {"bad": self._bad, "cooling": self._cooling, "reductions": self._reductions}
        return {"best": self._best.value, **numbers}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._best.value = state.get("best")
        self._bad, self._cooling = state.get("bad", 0), state.get("cooling", 0)
        self._reductions = state.get("reductions", 0)
