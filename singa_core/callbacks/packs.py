"""PackEvents: what a training tells is told to the installed packs as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singa_core.callbacks.base import Callback
from singa_core.plugins import packs

if TYPE_CHECKING:
    from singa_core.training import Training


class PackEvents(Callback):
    """Each event as the hook of its name: `on_step_end` is `singa_on_step_end`.

    `fit` adds it where a pack listens. A pack that fails is left out, with a warning; the training
    goes on.
    """

    def on_setup(self, training: Training) -> None:
        packs.tell("singa_on_setup", training)

    def on_train_begin(self, training: Training) -> None:
        packs.tell("singa_on_train_begin", training)

    def on_epoch_begin(self, training: Training) -> None:
        packs.tell("singa_on_epoch_begin", training)

    def on_step_end(self, training: Training) -> None:
        packs.tell("singa_on_step_end", training)

    def on_epoch_end(self, training: Training) -> None:
        packs.tell("singa_on_epoch_end", training)

    def on_interrupted(self, training: Training) -> None:
        packs.tell("singa_on_interrupted", training)

    def on_train_end(self, training: Training) -> None:
        packs.tell("singa_on_train_end", training)
