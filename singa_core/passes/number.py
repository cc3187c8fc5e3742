"""Number the values of a recording: Nodes become instructions over integer slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from singa_core.node import Source, Value
from singa_core.program import Instruction, Program
from singa_core.spec import Spec

if TYPE_CHECKING:
    from singa_core.recorder import Recorder


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
    slots: dict[Value, int] = {}
    specs: list[Spec] = []
    constants = {}

    def define(value: Value) -> int:
        slots[value] = len(specs)
        specs.append(value[0].specs[value[1]])
        return slots[value]

    def use(value: Value) -> int:
        node = value[0]
        if isinstance(node, Source):
            if node.kind == "leaf" and node.inputs:  # an assigned leaf names the assigned value
                aliased = node.inputs[0]
                return use(aliased) if aliased else define(value)
            if value not in slots and node.kind == "const":
                constants[define(value)] = node.payload
        return slots[value]

    args = tuple(define((t.node, 0)) for t in recorder.args if t.node is not None)
    cells = tuple(define((source, 0)) for source in recorder.cells.values())
    scalars = tuple(define((source, 0)) for source in recorder.scalars)
    instructions = []
    for node in recorder.nodes:
        ins = tuple(use(value) for value in node.inputs or () if value is not None)
        outs = tuple(define((node, i)) for i in range(len(node.specs)))
        instructions.append(Instruction(node.entry.op.name, node.entry.attrs, ins, outs))
    return Program(
        results=tuple(use(value) for value in results),
        updates=tuple((i, use(value)) for i, value in updates),
        arg_updates=tuple((i, use(value)) for i, value in arg_updates),
        specs=tuple(specs),
        instructions=tuple(instructions),
        args=args,
        cells=cells,
        scalars=scalars,
        constants=constants,
    )
