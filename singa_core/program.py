"""Program: one recorded and optimised computation as pure data, and the Executable that runs it.

This is all that a backend sees of a graph: instructions over integer slots, with what is known
about each slot and where it comes from. Nothing in here points to a Tensor, a device or a function,
so a Program can be printed, stored and compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from singa_core.dtype import DType
from singa_core.spec import Spec

Attrs = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Instruction:
    """One op applied to slots: `outs = op(*ins, **attrs)`."""

    op: str
    attrs: Attrs
    ins: tuple[int, ...]
    outs: tuple[int, ...]

    @property
    def options(self) -> dict[str, Any]:
        """The attributes as keyword arguments."""
        return dict(self.attrs)

    def __str__(self) -> str:
        attrs = "".join(f", {name}={value!r}" for name, value in self.attrs)
        ins = ", ".join(f"%{slot}" for slot in self.ins)
        return f"{', '.join(f'%{slot}' for slot in self.outs)} = {self.op}({ins}{attrs})"


@dataclass(frozen=True)
class Program:
    """Instructions in an order that works, over slots numbered from 0.

    Args:
        specs: shape and dtype of every slot.
        instructions: each slot is written by at most one of them (single assignment).
        args: slot of each call argument.
        cells: slot of the old value of each state cell.
        scalars: slot of each run-time scalar, in the order of the host program.
        constants: slot -> host value (a NumPy array).
        results: slots whose values go back to the caller.
        updates: (cell number, slot): the new value of a state cell.
        arg_updates: (argument number, slot): a value assigned to an argument.
    """

    specs: tuple[Spec, ...]
    instructions: tuple[Instruction, ...]
    args: tuple[int, ...] = ()
    cells: tuple[int, ...] = ()
    scalars: tuple[int, ...] = ()
    constants: Mapping[int, Any] = field(default_factory=dict)
    results: tuple[int, ...] = ()
    updates: tuple[tuple[int, int], ...] = ()
    arg_updates: tuple[tuple[int, int], ...] = ()

    @property
    def sources(self) -> frozenset[int]:
        """Slots that no instruction writes."""
        return frozenset((*self.args, *self.cells, *self.scalars, *self.constants))

    @property
    def ends(self) -> tuple[int, ...]:
        """Slots that are needed after the last instruction."""
        updated = [slot for _, slot in (*self.updates, *self.arg_updates)]
        return (*self.results, *updated)

    @property
    def replaced(self) -> dict[int, int]:
        """Slot of the new value of a state cell -> slot of its old one."""
        return {slot: self.cells[cell] for cell, slot in self.updates}

    def specs_of(self, slots: Iterable[int]) -> tuple[Spec, ...]:
        """Shapes and dtypes of some slots."""
        return tuple(self.specs[slot] for slot in slots)

    def __eq__(self, other: object) -> bool:
        # constants are arrays, whose own == is elementwise
        if not isinstance(other, Program):
            return NotImplemented
        return self._comparable() == other._comparable()

    __hash__ = None  # type: ignore[assignment]  # constants may be large

    def _comparable(self) -> tuple[Any, ...]:
        constants = {
            slot: (self.specs[slot], value.tobytes()) for slot, value in self.constants.items()
        }
        parts = (getattr(self, part.name) for part in fields(self) if part.name != "constants")
        return (constants, *parts)

    def with_instructions(self, instructions: Sequence[Instruction]) -> Program:
        """The same Program with other instructions."""
        return replace(self, instructions=tuple(instructions))

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dicts, numbers and text, for `json.dumps`."""
        return {
            "specs": [[s.dtype.name, list(s.shape)] for s in self.specs],
            "instructions": [
                {
                    "op": i.op,
                    "attrs": {name: plain(value) for name, value in i.attrs},
                    "ins": list(i.ins),
                    "outs": list(i.outs),
                }
                for i in self.instructions
            ],
            "args": list(self.args),
            "cells": list(self.cells),
            "scalars": list(self.scalars),
            "constants": {str(slot): value.tolist() for slot, value in self.constants.items()},
            "results": list(self.results),
            "updates": [list(pair) for pair in self.updates],
            "arg_updates": [list(pair) for pair in self.arg_updates],
        }

    def lines(self) -> Iterator[str]:
        """The Program as text, a line per source, instruction and end."""
        for kind, slots in (("arg", self.args), ("cell", self.cells), ("scalar", self.scalars)):
            for number, slot in enumerate(slots):
                yield f"%{slot} = {kind} {number}: {self.specs[slot]}"
        for slot, value in self.constants.items():
            shown = value.tolist() if value.size == 1 else "..."
            yield f"%{slot} = const {shown}: {self.specs[slot]}"
        for instruction in self.instructions:
            specs = ", ".join(str(self.specs[slot]) for slot in instruction.outs)
            yield f"{instruction}: {specs}"
        for slot in self.results:
            yield f"result %{slot}"
        for cell, slot in self.updates:
            yield f"cell {cell} := %{slot}"
        for arg, slot in self.arg_updates:
            yield f"arg {arg} := %{slot}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def plain(value: Any) -> Any:
    """An attribute value in JSON's words."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value


class Timing(NamedTuple):
    """What one launch took.

    Attributes:
        name: of the operation; for a group, with its members.
        operands: dtype and shape of each input.
        seconds: by the device's own clock, if it has one.
    """

    name: str
    operands: str
    seconds: float


class Executable(ABC):
    """A Program loaded on one device, ready to run again and again.

    Attributes:
        wrote: the run under way, or the last one, has written state or come to its end.
    """

    wrote: bool = False

    @abstractmethod
    def run(self, args: Sequence[Any], scalars: Callable[[], Sequence[Any]]) -> list[Any]:
        """One run on packed argument Arrays.

        `scalars()` gives the values of the scalars. It moves counters and random streams, so it is
        called once, when memory has been found and nothing is left to refuse.

        Gives the Arrays of the results, then those of the values assigned to arguments.
        """

    @abstractmethod
    def close(self) -> None:
        """Give back memory and handles; harmless when called twice."""

    @abstractmethod
    def report(self) -> Mapping[str, Any]:
        """How each instruction is served (native, view, copy), how many launches, bytes held."""

    @abstractmethod
    def profile(
        self, args: Sequence[Any], scalars: Callable[[], Sequence[Any]]
    ) -> tuple[list[Any], list[Timing]]:
        """One run in which each launch is timed: what `run` gives, and how long each took."""
