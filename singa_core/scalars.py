"""Numbers that change from step to step without a new recording: learning rates, counters.

A recorded graph reads them through its host program, in recorded order; eager code reads them at
once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from singa_core.checks import check_integer
from singa_core.device import Device
from singa_core.dtype import DTypeLike, as_dtype
from singa_core.errors import ArgumentError
from singa_core.mode import MODE
from singa_core.recorder import symbolic_only
from singa_core.spec import Spec
from singa_core.storage import from_host
from singa_core.tensor import Tensor, as_device, number_key, zero_d

Number = bool | int | float | np.number[Any]


class Counter:
    """A host integer that recorded code may advance: each replay advances it again."""

    __slots__ = ("_value",)

    def __init__(self, value: int = 0) -> None:
        self._value = check_integer("Counter", "value", value)

    @property
    def value(self) -> int:
        """The count. Raises: RecordingError while a graph is recorded, where it would be frozen."""
        if MODE.get().recorder is not None:
            raise symbolic_only("Counter.value")
        return self._value

    @value.setter
    def value(self, value: int) -> None:
        value = check_integer("Counter", "value", value)
        recorder = MODE.get().recorder
        if recorder is not None:
            recorder.effect(lambda: self.rewind(value), self)
        else:
            self._value = value

    def advance(self, by: int = 1) -> None:
        """Count on, now or at this place of each replay."""
        by = by if type(by) is int else check_integer("Counter", "by", by)
        recorder = MODE.get().recorder
        if recorder is not None:
            recorder.effect(lambda: self.advance(by), self)
        else:
            self._value += by

    def moment(self) -> int:
        """The count, for the engine."""
        return self._value

    def rewind(self, moment: int) -> None:
        """Set the count, for the engine."""
        self._value = moment


def scalar(
    source: Callable[[], Number] | Number,
    *,
    dtype: DTypeLike = "float32",
    device: Device | str | None = None,
) -> Tensor:
    """A 0-d tensor of a number that is asked for anew at each replay.

    Args:
        source: a function without arguments, called now, or before each replay; or a number.
        dtype: of the tensor.
        device: where to put it; None for the default.

    Raises: ArgumentError if it does not give a number.

    >>> rate = 0.1
    >>> scalar(lambda: rate * 2).shape
    ()
    """
    kind = as_dtype(dtype)
    recorder = MODE.get().recorder
    if recorder is not None:
        read = _Reading(source if callable(source) else lambda: source)
        return recorder.scalar(read, Spec((), kind))
    value = checked(source() if callable(source) else source)
    where = as_device(device)
    key, kept = number_key(value, kind), where.state.scalars
    if kept.get(kind, (None,))[0] != key:  # the last one is kept, since a rate often stays
        kept[kind] = key, from_host(where, zero_d(value, kind), Spec((), kind))
    return Tensor(kept[kind][1])


def checked(value: Any) -> bool | int | float:
    """A number as Python's own. Raises: ArgumentError for anything else."""
    if not isinstance(value, bool | int | float | np.number):
        raise ArgumentError("scalar", "a function that gives a number", repr(value))
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class _Reading:
    """A source that is checked at each reading. Two of one source are equal: they share a slot."""

    source: Callable[[], Any]

    def __call__(self) -> Number:
        return checked(self.source())
