"""Number the values of a recording: Nodes become instructions over integer slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from singa_core.node import Source, Value
from singa_core.program import Instruction, Program
from singa_core.spec import Spec

if TYPE_CHECKING:
    from singa_core.recorder import Recorder


class _Slots:
    """Slots of values, given out as the values are met."""

    def __init__(self) -> None:
        self.numbers: dict[Value, int] = {}
        self.specs: list[Spec] = []
        self.constants: dict[int, Any] = {}

    def define(self, value: Value) -> int:
        """A new slot."""
        self.numbers[value] = len(self.specs)
        self.specs.append(value[0].specs[value[1]])
        return self.numbers[value]

    def use(self, value: Value) -> int:
        """The slot of a value; constants get theirs here."""
        node = value[0]
        while isinstance(node, Source) and node.inputs:  # an assigned leaf names what was assigned
            value = node.inputs[0] or value
            node = value[0]
        if value not in self.numbers and isinstance(node, Source) and node.kind == "const":
            self.constants[self.define(value)] = node.payload
        return self.numbers[value]

    def pairs(self, items: Sequence[tuple[int, Value]]) -> tuple[tuple[int, int], ...]:
        """(number, value) pairs with slots for values."""
        return tuple((i, self.use(value)) for i, value in items)


def number(
    recorder: Recorder,
    results: Sequence[Value],
    updates: Sequence[tuple[int, Value]] = (),
    arg_updates: Sequence[tuple[int, Value]] = (),
) -> Program:
    """The Program of a recording.

    Args:
        recorder: the finished recording; its cells are numbered in the order they were met.
        results: values that go back to the caller.
        updates: (cell number, its new value).
        arg_updates: (argument number, value assigned to it).
    """
    slots = _Slots()
    args = tuple(slots.define((t.node, 0)) for t in recorder.args if t.node is not None)
    cells = tuple(slots.define((source, 0)) for source in recorder.cells.values())
    scalars = tuple(slots.define((source, 0)) for source in recorder.scalars)
    instructions = []
    for node in recorder.nodes:
        ins = tuple(slots.use(value) for value in node.inputs or () if value is not None)
        outs = tuple(slots.define((node, i)) for i in range(len(node.specs)))
        instructions.append(Instruction(node.entry.op.name, node.entry.attrs, ins, outs))
    return Program(
        results=tuple(slots.use(value) for value in results),
        updates=slots.pairs(updates),
        arg_updates=slots.pairs(arg_updates),
        specs=tuple(slots.specs),
        instructions=tuple(instructions),
        args=args,
        cells=cells,
        scalars=scalars,
        constants=slots.constants,
    )
