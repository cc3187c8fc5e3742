"""Common subexpressions: one instruction, or one constant, for several that say the same.

Every op is a pure function of its inputs (random bits take their state as an input), so equal
instructions have equal results. A repeat of little work is left where it is if the first result
would have to be kept in memory for it, as when backward computes again what forward did.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from singa_core.optable import OPS
from singa_core.passes.rename import rename
from singa_core.passes.roots import roots
from singa_core.program import Instruction, Program

SMALL: Final = 1 << 14  # bytes: so much may be kept for a repeat


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
    lives = Lives(program)
    kept = []
    for number, instruction in enumerate(program.instructions):
        ins = tuple(same.get(slot, slot) for slot in instruction.ins)
        specs = tuple(program.specs[slot] for slot in instruction.outs)
        # by their text: 1 == 1.0 == True, and 0.0 == -0.0
        key = (instruction.op, repr(instruction.attrs), ins, specs)
        found = first.setdefault(key, instruction.outs)
        now = replace(instruction, ins=ins)
        if found is instruction.outs:
            kept.append(now)
        elif lives.costs_memory(number, now, found):
            kept.append(now)
            first[key] = instruction.outs  # for the next repeat it is the nearer one
        else:
            lives.merge(instruction.outs, found)
            same.update(zip(instruction.outs, found, strict=True))
    return rename(replace(program, constants=constants), kept, same)


class Lives:
    """Until which instruction the bytes of each slot are read, in the Program's order."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.root = roots(program)
        self.last: dict[int, int] = {}
        for number, instruction in enumerate(program.instructions):
            for slot in instruction.ins:
                self.last[self.of(slot)] = number
        end = len(program.instructions)
        for slot in (*program.sources, *program.ends):  # their memory is not the plan's
            self.last[self.of(slot)] = end

    def of(self, slot: int) -> int:
        """The slot whose bytes a slot looks at."""
        return self.root.get(slot, slot)

    def costs_memory(self, number: int, again: Instruction, found: tuple[int, ...]) -> bool:
        """True if it takes less to repeat an instruction than to keep what was found for it.

        Kept would be what nobody reads otherwise after it; against that stands what only the repeat
        still needs.
        """
        if again.outs[0] in self.root or OPS[again.op].heavy:
            return False
        size = self.program.specs
        kept = sum(size[slot].nbytes for slot in found if self.last.get(slot, 0) < number)
        needed = {self.of(slot) for slot in again.ins}
        spared = sum(size[slot].nbytes for slot in needed if self.last[slot] == number)
        return kept > max(spared, SMALL)

    def merge(self, outs: tuple[int, ...], found: tuple[int, ...]) -> None:
        """What reads `outs` reads `found` instead."""
        for slot, other in zip(outs, found, strict=True):
            root = self.of(other)
            self.last[root] = max(self.last.get(root, 0), self.last.get(self.of(slot), 0))
