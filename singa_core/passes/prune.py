"""Drop instructions and constants that no result and no update depends on."""

from __future__ import annotations

from dataclasses import replace

from singa_core.program import Program


def prune(program: Program) -> Program:
    """The Program without dead instructions. Run-time scalars stay: their order is the host's."""
    needed = set(program.ends)
    kept = []
    for instruction in reversed(program.instructions):
        if needed.intersection(instruction.outs):
            kept.append(instruction)
            needed.update(instruction.ins)
    constants = {slot: value for slot, value in program.constants.items() if slot in needed}
    return replace(program, instructions=tuple(reversed(kept)), constants=constants)
