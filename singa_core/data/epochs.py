"""Epochs of a loader, and a place among them that a checkpoint can hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from singa_core.checks import check_integer, check_seed
from singa_core.errors import ArgumentError
from singa_core.kernels.array.random import philox
from singa_core.random import derive_key

B = TypeVar("B")


class Stream(IntEnum):
    """Streams of data under a seed, far from those of `singa_core.random`, which start at 0."""

    SHUFFLE = 2**32
    SPLIT = 2**32 + 1
    PLACES = 2**32 + 2
    WINDOWS = 2**32 + 3


def keys(seed: int, stream: Stream, epoch: int, count: int) -> npt.NDArray[np.uint64]:
    """64 random bits for each of `count` items of an epoch, the same on every machine."""
    inner = philox(np, derive_key(seed, stream), epoch, 2)  # a key for each epoch
    words = philox(np, (int(inner[0]), int(inner[1])), 0, 2 * count).astype(np.uint64)
    found: npt.NDArray[np.uint64] = words[0::2] << np.uint64(32) | words[1::2]
    return found


class Epochs(ABC, Generic[B]):
    """A loader whose every epoch is a function of (seed, epoch), so that its place is two numbers.

    `for batch in loader` is one epoch, the next such loop the next one; a loop that was left early
    counts as a whole epoch.

    Args:
        batches: in an epoch, >= 1.
        seed: 0 <= seed < 2**64.
    """

    def __init__(self, batches: int, seed: int) -> None:
        self.batches = batches
        self.seed = check_seed(type(self).__name__, seed)
        self._epoch, self._batch = 0, 0
        self._resumed = False

    @abstractmethod
    def _identity(self) -> dict[str, int | bool]:
        """What a place in an epoch means nothing without."""

    @abstractmethod
    def _made(self, epoch: int, start: int) -> Iterator[B]:
        """The batches of an epoch, from batch `start` on."""

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self.batches

    def epoch(self, epoch: int, start: int = 0) -> Iterator[B]:
        """The batches of an epoch, from batch `start` on; none where it has no more than that.

        The loader's own place stays where it is. Raises: ArgumentError for a negative number.
        """
        where = f"{type(self).__name__}.epoch"
        epoch = check_integer(where, "epoch", epoch, 0)
        return self._made(epoch, check_integer(where, "start", start, 0))

    def __iter__(self) -> Iterator[B]:
        """The next epoch, or what `restore` left to do of one."""
        if self._batch and not self._resumed:
            self._epoch, self._batch = self._epoch + 1, 0
        self._resumed = False
        return self._run(self._epoch, self._batch)

    def _run(self, epoch: int, start: int) -> Iterator[B]:
        for number, batch in enumerate(self.epoch(epoch, start), start + 1):
            # counted when it is handed out: a checkpoint is made after the step on it
            last = number == self.batches
            self._epoch, self._batch = (epoch + 1, 0) if last else (epoch, number)
            yield batch

    def state(self) -> dict[str, int | bool]:
        """Where the next batch comes from, for a checkpoint: plain numbers."""
        return {"epoch": self._epoch, "batch": self._batch, **self._identity()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state()` was taken: the next loop gives the rest of that epoch.

        Raises: ArgumentError if the state is that of another loader, or out of range.
        """
        where = f"{type(self).__name__}.restore"
        for name, ours in self._identity().items():
            if state.get(name) != ours:
                raise ArgumentError(where, f"a state of {name} = {ours}", state.get(name))
        epoch = check_integer(where, "epoch", state.get("epoch"), 0)
        batch = check_integer(where, "batch", state.get("batch"), 0)
        if batch >= self.batches:
            raise ArgumentError(where, f"batch < {self.batches}", batch)
        self._epoch, self._batch, self._resumed = epoch, batch, True
