"""Batches of arrays, in an order that is a function of (seed, epoch) and of nothing else.

The order of an epoch sorts the samples by 64-bit keys: two words of Philox4x32-10 for each sample,
under a key made from the seed and the epoch. So it is the same on every machine, with every NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from singa_core.checks import as_integer, as_number, check_flag, check_integer, check_seed
from singa_core.errors import ArgumentError, ShapeError
from singa_core.host import host_data
from singa_core.kernels.array.random import philox
from singa_core.random import derive_key
from singa_core.tensor import Tensor

Host = npt.NDArray[Any]
Batch = tuple[Host, ...] | dict[str, Host]
Order = npt.NDArray[np.int64]

# Numbers of streams under a seed, far from those of singa_core.random, which start at 0.
_SHUFFLE: Final = 2**32
_SPLIT: Final = 2**32 + 1


class ArrayLoader:
    """Cuts arrays into batches along their first axis; each epoch has an order of its own.

    `for batch in loader` is one epoch, the next such loop the next one; a loop that was left early
    counts as a whole epoch. `loader.epoch(e)` gives the batches of any epoch and changes nothing. A
    batch is a tuple of new C-contiguous host arrays, or a dict if a dict was given.

    Args:
        arrays: at least one array, all of one length; or one dict of arrays. Tensors are taken to
            the host. Arrays in files (`numpy.memmap`) stay there but for the batch at hand.
        batch_size: samples in a batch, >= 1; the last one of an epoch is shorter if need be.
        shuffle: False keeps the order of the arrays.
        seed: 0 <= seed < 2**64.
        drop_last: leave out a last batch that would be shorter.

    Raises:
        ShapeError: for arrays without a first axis, of different lengths, or without samples.
        ArgumentError: for a batch size or a seed out of range, and where no batch would be left.

    >>> loader = ArrayLoader(np.arange(5), batch_size=2, shuffle=False)
    >>> [x.tolist() for x, in loader]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        *arrays: Any,
        batch_size: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        named = len(arrays) == 1 and isinstance(arrays[0], Mapping)
        self.names = tuple(arrays[0]) if named else None
        self.arrays = _host_arrays("ArrayLoader", arrays[0].values() if named else arrays)
        self.samples = len(self.arrays[0])
        self.batch_size = check_integer("ArrayLoader", "batch_size", batch_size, 1)
        self.shuffle = check_flag("ArrayLoader", "shuffle", shuffle)
        check_flag("ArrayLoader", "drop_last", drop_last)
        self.seed = check_seed("ArrayLoader", seed)
        if drop_last and batch_size > self.samples:
            rule = "batch_size <= number of samples with drop_last"
            raise ArgumentError("ArrayLoader", rule, f"{batch_size} > {self.samples}")
        whole, rest = divmod(self.samples, self.batch_size)
        self._batches = whole + (rest > 0 and not drop_last)
        self._epoch, self._batch = 0, 0
        self._resumed = False

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self._batches

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from batch `start` on; none where it has no more than that."""
        order = self._order(check_integer("ArrayLoader.epoch", "epoch", epoch, 0))
        start = check_integer("ArrayLoader.epoch", "start", start, 0)
        return (self._cut(order, batch) for batch in range(start, self._batches))

    def __iter__(self) -> Iterator[Batch]:
        """The next epoch, or what `restore` left to do of one."""
        if self._batch and not self._resumed:
            self._epoch, self._batch = self._epoch + 1, 0
        self._resumed = False
        return self._run(self._epoch, self._batch)

    def _run(self, epoch: int, start: int) -> Iterator[Batch]:
        for number, batch in enumerate(self.epoch(epoch, start), start + 1):
            # counted when it is handed out: a checkpoint is made after the step on it
            last = number == self._batches
            self._epoch, self._batch = (epoch + 1, 0) if last else (epoch, number)
            yield batch

    def _order(self, epoch: int) -> Order | None:
        return permutation(self.samples, self.seed, epoch) if self.shuffle else None

    def _cut(self, order: Order | None, batch: int) -> Batch:
        part = slice(batch * self.batch_size, (batch + 1) * self.batch_size)
        chosen = part if order is None else order[part]
        cuts = [
            array[chosen].astype(array.dtype.newbyteorder("="), order="C", copy=order is None)
            for array in self.arrays  # chosen by order is a copy already
        ]
        return tuple(cuts) if self.names is None else dict(zip(self.names, cuts, strict=True))

    def state(self) -> dict[str, int | bool]:
        """Where the next batch comes from, for a checkpoint: plain numbers."""
        return {"epoch": self._epoch, "batch": self._batch, **self._identity()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state()` was taken: the next loop gives the rest of that epoch.

        Raises: ArgumentError if the state is that of another order, or out of range.
        """
        for name, ours in self._identity().items():
            if state.get(name) != ours:
                rule = f"a state of {name} = {ours}"
                raise ArgumentError("ArrayLoader.restore", rule, state.get(name))
        epoch = check_integer("ArrayLoader.restore", "epoch", state.get("epoch"), 0)
        batch = check_integer("ArrayLoader.restore", "batch", state.get("batch"), 0)
        if batch >= self._batches:
            raise ArgumentError("ArrayLoader.restore", f"batch < {self._batches}", batch)
        self._epoch, self._batch, self._resumed = epoch, batch, True

    def _identity(self) -> dict[str, int | bool]:
        """What a place in an epoch means nothing without."""
        return {
            "seed": self.seed,
            "samples": self.samples,
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
        }


def permutation(n: int, seed: int, epoch: int) -> Order:
    """The order of n samples in an epoch; see the module's docstring.

    >>> permutation(5, seed=0, epoch=0).tolist()
    [0, 1, 4, 2, 3]
    """
    return _sorted_by_keys(n, derive_key(seed, _SHUFFLE), epoch)


def train_test_split(
    *arrays: Any, test: int | float, seed: int = 0
) -> tuple[tuple[Host, ...], tuple[Host, ...]]:
    """Two disjoint random parts of arrays: ((x, y, ...) to train on, (x, y, ...) to test on).

    Args:
        arrays: at least one array, all of one length.
        test: samples in the test part: how many, or which share (a float, 0 < test < 1).
        seed: 0 <= seed < 2**64; the split is a function of it and of the length.

    Raises:
        ShapeError: as ArrayLoader.
        ArgumentError: if a part would be empty, or for a seed out of range.
    """
    hosts = _host_arrays("train_test_split", arrays)
    n = len(hosts[0])
    share = as_number(test)
    shared = isinstance(share, float) and 0.0 < share < 1.0
    count = round(n * share) if shared and share is not None else as_integer(test)
    if count is None or not 0 < count < n:
        rule = f"0 < test < {n} samples, or a share 0.0 < test < 1.0 that leaves some for each part"
        raise ArgumentError("train_test_split", rule, repr(test))
    order = _sorted_by_keys(n, derive_key(check_seed("train_test_split", seed), _SPLIT), 0)
    parts = order[count:], order[:count]
    train, tested = (tuple(np.ascontiguousarray(a[part]) for a in hosts) for part in parts)
    return train, tested


def _sorted_by_keys(n: int, key: tuple[int, int], block: int) -> Order:
    inner = philox(np, key, block, 2)  # a key for each epoch
    words = philox(np, (int(inner[0]), int(inner[1])), 0, 2 * n).astype(np.uint64)
    return np.argsort(words[0::2] << np.uint64(32) | words[1::2], kind="stable")


# -- what is refused -----------------------------------------------------------------------------


def _host_arrays(where: str, arrays: Any) -> list[Host]:
    """The arrays on the host, none copied that is there."""
    hosts = [np.asarray(a) if isinstance(a, Tensor) else host_data(where, a) for a in arrays]
    if not hosts:
        raise ArgumentError(where, "one array or more", "none")
    named: dict[str, Any] = {f"arrays[{i}]": host for i, host in enumerate(hosts)}
    if any(host.ndim == 0 for host in hosts):
        raise ShapeError(where, "arrays with an axis of samples", "a single number", **named)
    lengths = [len(host) for host in hosts]
    if len(set(lengths)) > 1:
        got = " and ".join(map(str, dict.fromkeys(lengths)))
        raise ShapeError(where, "arrays of one length", got, **named)
    if lengths[0] == 0:
        raise ShapeError(where, "at least one sample", 0, **named)
    return hosts
