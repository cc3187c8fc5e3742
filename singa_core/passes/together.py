"""Together: small updates of state that nobody waits for become one launch.

Only small ones: until it runs, what it reads has to stay, and large gradients are better freed one
by one. On a device where a launch costs little, nothing changes; see `Capabilities.batches`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from singa_core.device import Device
from singa_core.passes.lower import has_kernel
from singa_core.program import Instruction, Program

JOINED_OPERAND: Final = 24
"""Bytes of arguments that an input or an output of a part is expected to need, with its numbers."""
SMALL: Final = 1 << 18
"""Bytes that an update writes, at most."""


def together(program: Program, device: Device) -> Program:
    """The Program with launches of several updates, which are all of `capabilities.batches`."""
    batches = device.capabilities.batches
    if not batches:
        return program
    old = program.replaced
    read = {slot for i in program.instructions for slot in i.ins}
    ends = list(program.ends)

    def joins(instruction: Instruction) -> bool:
        outs = instruction.outs
        if instruction.op not in batches or any(s in read or ends.count(s) != 1 for s in outs):
            return False
        # every result is written over the cell that it comes from
        own = all(slot in old and instruction.ins.count(old[slot]) == 1 for slot in outs)
        return own and sum(program.specs[slot].nbytes for slot in outs) <= SMALL

    numbers = [n for n, i in enumerate(program.instructions) if joins(i)]
    made: dict[int, Instruction] = {}
    gone: set[int] = set()
    for group in _groups(
        numbers, program.instructions, device.capabilities.parameters // JOINED_OPERAND
    ):
        parts = [program.instructions[n] for n in group]
        one = _joined(parts, old)
        if one is not None and has_kernel(one, program.specs_of(one.ins), device):
            made[group[-1]] = one
            gone.update(group)
    kept = [
        made.get(n, i) for n, i in enumerate(program.instructions) if n in made or n not in gone
    ]
    return program.with_instructions(kept)


def _groups(
    numbers: Sequence[int], instructions: Sequence[Instruction], most: int
) -> Iterator[list[int]]:
    """Neighbours, as many as have `most` operands; nobody alone."""
    group: list[int] = []
    operands = 0
    for number in numbers:
        more = len(instructions[number].ins) + len(instructions[number].outs)
        if operands + more > most:
            if len(group) > 1:
                yield group
            group, operands = [], 0
        group.append(number)
        operands += more
    if len(group) > 1:
        yield group


def _joined(parts: Sequence[Instruction], old: dict[int, int]) -> Instruction | None:
    """One instruction, whose first inputs are the cells that its outputs are written over."""
    outs = [slot for part in parts for slot in part.outs]
    ins = [old[slot] for slot in outs]
    read = [slot for part in parts for slot in dict.fromkeys(part.ins)]
    if any(read.count(slot) > 1 for slot in ins):
        return None  # a part would read what another has written
    ins += [slot for slot in dict.fromkeys(read) if slot not in ins]
    places = {slot: n for n, slot in enumerate(ins)}
    told = tuple((p.op, p.attrs, tuple(places[slot] for slot in p.ins), len(p.outs)) for p in parts)
    return Instruction("together", (("parts", told),), tuple(ins), tuple(outs))
