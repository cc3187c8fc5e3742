"""Batches of arrays, in an order that is a function of (seed, epoch) and of nothing else.

The order of an epoch sorts the samples by 64-bit keys: two words of Philox4x32-10 for each sample,
under a key made from the seed and the epoch. So it is the same on every machine, with every NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from singa_core.checks import as_integer, as_number, check_flag, check_integer, check_seed
from singa_core.data.epochs import Epochs, Stream, keys
from singa_core.errors import ArgumentError, ShapeError
from singa_core.host import host_data
from singa_core.tensor import Tensor

Host = npt.NDArray[Any]
Batch = tuple[Host, ...] | dict[str, Host]
Order = npt.NDArray[np.int64]


class ArrayLoader(Epochs[Batch]):
    """Cuts arrays into batches along their first axis; each epoch has an order of its own.

    Epochs, places among them and checkpoints are as `Epochs` says. A batch is a tuple of new
    C-contiguous host arrays, or a dict if a dict was given.

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
        if drop_last and batch_size > self.samples:
            rule = "batch_size <= number of samples with drop_last"
            raise ArgumentError("ArrayLoader", rule, f"{batch_size} > {self.samples}")
        whole, rest = divmod(self.samples, self.batch_size)
        super().__init__(whole + (rest > 0 and not drop_last), seed)

    def _made(self, epoch: int, start: int) -> Iterator[Batch]:
        order = self._order(epoch)
        return (self._cut(order, batch) for batch in range(start, self.batches))

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

    def _identity(self) -> dict[str, int | bool]:
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
    return _sorted(keys(seed, Stream.SHUFFLE, epoch, n))


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
    order = _sorted(keys(check_seed("train_test_split", seed), Stream.SPLIT, 0, n))
    parts = order[count:], order[:count]
    train, tested = (tuple(np.ascontiguousarray(a[part]) for a in hosts) for part in parts)
    return train, tested


def _sorted(keys: npt.NDArray[np.uint64]) -> Order:
    return np.argsort(keys, kind="stable")


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
