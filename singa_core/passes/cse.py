"""Common subexpressions: one instruction, or one constant, for several that say the same.

Every op is a pure function of its inputs (random bits take their state as an input), so equal
instructions have equal results.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from singa_core.passes.rename import rename
from singa_core.program import Program


def cse(program: Program) -> Program:
    """The Program with repeats removed."""
    same: dict[int, int] = {}
    first: dict[Any, tuple[int, ...]] = {}
    constants = {}
    for slot, value in program.constants.items():
        # the bytes, not the value: -0.0 == 0.0, and NaN != NaN
        found = first.setdefault(("const", program.specs[slot], value.tobytes()), (slot,))
        if found == (slot,):
            constants[slot] = value
        else:
            same[slot] = found[0]
    kept = []
    for instruction in program.instructions:
        ins = tuple(same.get(slot, slot) for slot in instruction.ins)
        specs = tuple(program.specs[slot] for slot in instruction.outs)
        # by their text: 1 == 1.0 == True, and 0.0 == -0.0
        key = (instruction.op, repr(instruction.attrs), ins, specs)
        found = first.setdefault(key, instruction.outs)
        if found is instruction.outs:
            kept.append(replace(instruction, ins=ins))
        else:
            same.update(zip(instruction.outs, found, strict=True))
    return rename(replace(program, constants=constants), kept, same)
