"""Callback: what a training tells while it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from singa_core.checks import check_choice, check_number
from singa_core.errors import ArgumentError

if TYPE_CHECKING:
    from singa_core.training import Training


class Callback:
    """Base of callbacks: every event does nothing. A subclass defines those that it wants.

    Class attributes:
        last: asked after those that are not: it wants to know what they have done.
    """

    last = False

    def on_setup(self, training: Training) -> None:
        """Before everything else: a state may be restored here."""

    def on_train_begin(self, training: Training) -> None:
        """Before the first epoch of this run."""

    def on_epoch_begin(self, training: Training) -> None:
        """Before the first step of an epoch, or of what is left of one."""

    def on_step_end(self, training: Training) -> None:
        """After a step. Reading `training.loss` waits for the device."""

    def on_epoch_end(self, training: Training) -> None:
        """After an epoch, with its row in `training.history`; `training.epoch` counts it."""

    def on_interrupted(self, training: Training) -> None:
        """After Ctrl-C or a loader's failure; see `training.failure` and `training.in_step`."""

    def on_train_end(self, training: Training) -> None:
        """After everything, also if that was an error."""

    def state(self) -> dict[str, Any]:
        """What has to be in a checkpoint, as JSON."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state()` was taken; between `on_setup` and `on_train_begin`."""


class Best:
    """The best value of a metric so far."""

    def __init__(self, where: str, metric: str, mode: str, min_delta: float = 0.0) -> None:
        check_choice(where, "mode", mode, ("min", "max"))
        self.where, self.metric, self.mode = where, metric, mode
        self.min_delta = check_number(where, "min_delta", min_delta, 0.0)
        self.value: float | None = None

    def begin(self, training: Training) -> None:
        """Forget the best. Raises: ArgumentError if no epoch will have the metric."""
        if self.metric.startswith("val_") and training.validation is None:
            rule = f"a validation to have {self.metric!r}"
            raise ArgumentError(self.where, rule, "none", hint="fit(..., validation=loader)")
        self.value = None

    def read(self, training: Training) -> float:
        """The metric of the last epoch. Raises: ArgumentError if there is none."""
        row = training.history.rows[-1]
        if self.metric not in row:
            got = f"one with {', '.join(row)}"
            raise ArgumentError(self.where, f"an epoch with {self.metric!r}", got)
        return float(row[self.metric])

    def improves(self, value: float) -> bool:
        """True, and remembered, if the value is better than the best by more than min_delta."""
        if math.isnan(value):
            return False
        sign = 1.0 if self.mode == "min" else -1.0
        if self.value is not None and not sign * value < sign * self.value - self.min_delta:
            return False
        self.value = value
        return True
