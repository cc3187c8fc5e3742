"""Batches of windows of a long sequence, at places that are a function of (seed, epoch)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from singa_core.checks import check_integer
from singa_core.data.epochs import Epochs, Stream, keys
from singa_core.errors import ShapeError

Host = npt.NDArray[Any]
Windows = tuple[Host, Host]


class WindowLoader(Epochs[Windows]):
    """Windows at random places of a sequence, each with the window one item later as its target.

    For a model that tells the next item. An epoch is as many batches as you say. Epochs, places
    among them and checkpoints are as `Epochs` says.

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
        super().__init__(check_integer(where, "batches", batches, 1), seed)
        if self.sequence.ndim != 1 or len(self.sequence) <= self.length:
            rule = f"a sequence (n,) with n > length = {length}"
            raise ShapeError(where, rule, self.sequence.shape, sequence=self.sequence)

    def _made(self, epoch: int, start: int) -> Iterator[Windows]:
        places = self._places(epoch)
        return (self._cut(places[batch]) for batch in range(start, self.batches))

    def _places(self, epoch: int) -> npt.NDArray[np.int64]:
        """Where the windows of an epoch begin, (batches, batch_size)."""
        wide = keys(self.seed, Stream.WINDOWS, epoch, self.batches * self.batch_size)
        room = np.uint64(len(self.sequence) - self.length)
        places: npt.NDArray[np.int64] = (wide % room).astype(np.int64)
        return places.reshape(self.batches, self.batch_size)

    def _cut(self, places: npt.NDArray[np.int64]) -> tuple[Host, Host]:
        index = places[:, None] + np.arange(self.length)
        return self.sequence[index], self.sequence[index + 1]

    def _identity(self) -> dict[str, int | bool]:
        return {
            "seed": self.seed,
            "items": len(self.sequence),
            "length": self.length,
            "batch_size": self.batch_size,
            "batches": self.batches,
        }
