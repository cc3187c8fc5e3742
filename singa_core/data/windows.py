"""Batches of windows of a long sequence, at places that are a function of (seed, epoch)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from singa_core.checks import check_integer
from singa_core.errors import ArgumentError, ShapeError
from singa_core.kernels.array.random import philox
from singa_core.random import derive_key

Host = npt.NDArray[Any]

_WINDOWS: Final = 2**32 + 3  # number of the stream, beside those of the other loaders


class WindowLoader:
    """Windows at random places of a sequence, each with the window one item later as its target.

    For a model that tells the next item. An epoch is as many batches as you say; which windows are
    in it depends on (seed, epoch) alone. `for x, target in loader` is one epoch, the next such loop
    the next one; a loop that was left early counts as a whole epoch.

    Shapes: x (batch_size, length), target the same: target[i, j] is what follows x[i, j]. New
        C-contiguous host arrays, of the sequence's dtype.

    Args:
        sequence: (n,), n > length.
        length: items in a window, >= 1.
        batch_size: windows in a batch, >= 1.
        batches: in an epoch, >= 1.
        seed: 0 <= seed < 2**64.

    Raises: ShapeError for another sequence; ArgumentError.

    >>> x, target = next(iter(WindowLoader(np.arange(4), 3, batch_size=1, batches=5)))
    >>> x.tolist(), target.tolist()
    ([[0, 1, 2]], [[1, 2, 3]])
    """

    def __init__(
        self, sequence: npt.ArrayLike, length: int, *, batch_size: int, batches: int, seed: int = 0
    ) -> None:
        where = "WindowLoader"
        self.sequence = np.asarray(sequence)
        self.length = check_integer(where, "length", length, 1)
        self.batch_size = check_integer(where, "batch_size", batch_size, 1)
        self.batches = check_integer(where, "batches", batches, 1)
        self.seed = check_integer(where, "seed", seed, 0)
        if self.seed >= 2**64:
            raise ArgumentError(where, "seed < 2**64", seed)
        if self.sequence.ndim != 1 or len(self.sequence) <= self.length:
            rule = f"a sequence (n,) with n > length = {length}"
            raise ShapeError(where, rule, self.sequence.shape, sequence=self.sequence)
        self._epoch, self._batch = 0, 0
        self._resumed = False

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self.batches

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Host, Host]]:
        """The batches of an epoch, from batch `start` on; changes nothing."""
        places = self._places(check_integer("WindowLoader", "epoch", epoch, 0))
        return (self._cut(places[batch]) for batch in range(start, self.batches))

    def __iter__(self) -> Iterator[tuple[Host, Host]]:
        """The next epoch, or what `restore` left to do of one."""
        if self._batch and not self._resumed:
            self._epoch, self._batch = self._epoch + 1, 0
        self._resumed = False
        return self._run(self._epoch, self._batch)

    def _run(self, epoch: int, start: int) -> Iterator[tuple[Host, Host]]:
        for number, batch in enumerate(self.epoch(epoch, start), start + 1):
            # counted when it is handed out: a checkpoint is made after the step on it
            last = number == self.batches
            self._epoch, self._batch = (epoch + 1, 0) if last else (epoch, number)
            yield batch

    def _places(self, epoch: int) -> npt.NDArray[np.int64]:
        """Where the windows of an epoch begin, (batches, batch_size)."""
        n = self.batches * self.batch_size
        inner = philox(np, derive_key(self.seed, _WINDOWS), epoch, 2)  # a key for each epoch
        words = philox(np, (int(inner[0]), int(inner[1])), 0, 2 * n).astype(np.uint64)
        wide = words[0::2] << np.uint64(32) | words[1::2]
        room = np.uint64(len(self.sequence) - self.length)
        places: npt.NDArray[np.int64] = (wide % room).astype(np.int64)
        return places.reshape(self.batches, self.batch_size)

    def _cut(self, places: npt.NDArray[np.int64]) -> tuple[Host, Host]:
        index = places[:, None] + np.arange(self.length)
        return self.sequence[index], self.sequence[index + 1]

    def state(self) -> dict[str, int]:
        """Where the next batch comes from, for a checkpoint: plain numbers."""
        return {"epoch": self._epoch, "batch": self._batch, **self._identity()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state()` was taken: the next loop gives the rest of that epoch.

        Raises: ArgumentError if the state is that of another loader, or out of range.
        """
        where = "WindowLoader.restore"
        for name, ours in self._identity().items():
            if state.get(name) != ours:
                raise ArgumentError(where, f"a state of {name} = {ours}", state.get(name))
        epoch = check_integer(where, "epoch", state.get("epoch"), 0)
        batch = check_integer(where, "batch", state.get("batch"), 0)
        if batch >= self.batches:
            raise ArgumentError(where, f"batch < {self.batches}", batch)
        self._epoch, self._batch, self._resumed = epoch, batch, True

    def _identity(self) -> dict[str, int]:
        """What a place in an epoch means nothing without."""
        return {
            "seed": self.seed,
            "items": len(self.sequence),
            "length": self.length,
            "batch_size": self.batch_size,
            "batches": self.batches,
        }
