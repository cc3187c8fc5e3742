"""Fuse: scalar operations that feed each other become one instruction, if the device compiles it.

What lies between them then needs neither memory nor a launch. A group is made of operations of one
output shape; its body is a list of steps, see `ops.fused`. A step means what its operation means;
whether it has the bits of the operation run alone is up to the device that compiles the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from singa_core.device import Capabilities, Device
from singa_core.kernels import DRAW
from singa_core.passes.lower import has_kernel
from singa_core.passes.waits import in_turn, makers
from singa_core.program import Instruction, Program

FUSED_OPERAND: Final = 64
"""Bytes of arguments that an input or an output of a group is expected to need, with strides."""
MOST_STEPS: Final = 48
"""Steps of a group: their values want registers, and their text a compiler's time."""
END: Final = -1
"""The reader of what a Program gives back."""


def fuse(program: Program, device: Device) -> Program:
    """The Program with groups in place of their members, which are all of `capabilities.fuses`."""
    if not device.capabilities.fuses:
        return program
    groups = _Groups(program, device.capabilities)
    groups.grow()
    made: list[Instruction] = []
    for members in groups.in_order():
        whole = groups.fused(members) if len(members) > 1 else None
        if whole is not None and has_kernel(whole, program.specs_of(whole.ins), device):
            made.append(whole)
        else:
            made += [program.instructions[i] for i in members]
    return program.with_instructions(made)


class _Groups:
    """Instructions by group; at first each is alone. A group is known by one of its members."""

    def __init__(self, program: Program, capabilities: Capabilities) -> None:
        self.program = program
        self.most_operands = capabilities.parameters // FUSED_OPERAND
        self.maker = makers(program)
        self.fusible = [self._may_fuse(i, capabilities.fuses) for i in program.instructions]
        self.group = list(range(len(program.instructions)))
        self.members = {n: [n] for n in self.group}
        self.old = program.replaced
        self.readers: dict[int, set[int]] = {slot: set() for slot in self.maker}
        for number, instruction in enumerate(program.instructions):
            for slot in instruction.ins:
                self.readers.setdefault(slot, set()).add(number)
        for slot in program.ends:
            self.readers.setdefault(slot, set()).add(END)

    def _may_fuse(self, instruction: Instruction, fuses: frozenset[str]) -> bool:
        if instruction.op not in fuses or len(instruction.outs) != 1:
            return False
        specs = self.program.specs_of((*instruction.ins, *instruction.outs))
        # narrow numbers are rounded between two operations: they stay in memory
        return specs[-1].itemcount > 0 and not any(s.dtype.is_narrow for s in specs)

    def grow(self) -> None:
        """Put every instruction into the groups of those that feed it, where that is possible."""
        for number, instruction in enumerate(self.program.instructions):
            if not self.fusible[number] or instruction.op == DRAW:
                continue
            shape = self._shape(number)
            for slot in instruction.ins:
                first = self.maker.get(slot)
                if first is None or not self.fusible[first] or self._shape(first) != shape:
                    continue
                one, other = self.group[first], self.group[number]
                if one != other and self._fits([*self.members[one], *self.members[other]]):
                    self._join(one, other)

    def _shape(self, number: int) -> tuple[int, ...]:
        return self.program.specs[self.program.instructions[number].outs[0]].shape

    def _join(self, one: int, other: int) -> None:
        for number in self.members[other]:
            self.group[number] = one
        self.members[one] = sorted((*self.members[one], *self.members.pop(other)))

    def _fits(self, members: list[int]) -> bool:
        """True if these may be one: few enough, and none waits for another outside of them."""
        operands = len(self._inputs(members)) + len(self._results(members))
        if len(members) > MOST_STEPS or operands > self.most_operands:
            return False
        if self._states(members) & {self.program.instructions[n].outs[0] for n in members}:
            return False
        inside = {self.group[n] for n in members}
        waiting = self._feeding(members) - inside
        seen = set(waiting)
        while waiting:
            feeding = self._feeding(self.members[waiting.pop()])
            if feeding & inside:
                return False
            waiting |= feeding - seen
            seen |= feeding
        return True

    def _feeding(self, members: Iterable[int]) -> set[int]:
        """The groups whose results these read."""
        slots = (slot for n in members for slot in self.program.instructions[n].ins)
        return {self.group[self.maker[slot]] for slot in slots if slot in self.maker}

    def _states(self, members: Iterable[int]) -> set[int]:
        """The slots that draws among these read."""
        instructions = (self.program.instructions[n] for n in members)
        return {i.ins[0] for i in instructions if i.op == DRAW}

    def _inputs(self, members: Sequence[int]) -> list[int]:
        """Slots that these read and do not make, each once."""
        instructions = [self.program.instructions[n] for n in members]
        made = {slot for i in instructions for slot in i.outs}
        return list(dict.fromkeys(s for i in instructions for s in i.ins if s not in made))

    def _results(self, members: Sequence[int]) -> list[int]:
        """Slots that these make and others need."""
        inside = set(members)
        made = [self.program.instructions[n].outs[0] for n in members]
        return [slot for slot in made if not self.readers[slot] <= inside]

    def _in_line(self, ins: list[int], results: list[int]) -> tuple[list[int], list[int]]:
        """Old values of cells in the places of the new ones, which may be written over them."""
        updated = [slot for slot in results if self.old.get(slot) in ins]
        olds = [self.old[slot] for slot in updated]
        return (
            olds + [slot for slot in ins if slot not in olds],
            updated + [slot for slot in results if slot not in updated],
        )

    def in_order(self) -> list[list[int]]:
        """The groups in an order that works, as near to the recorded one as it can be."""
        everybody = [self.members.get(n, []) for n in range(len(self.group))]
        waits = [self._feeding(members) - {n} for n, members in enumerate(everybody)]
        return [everybody[n] for n in in_turn(waits) if everybody[n]]

    def fused(self, members: Sequence[int]) -> Instruction:
        """The instruction that stands for these."""
        ins, results = self._in_line(self._inputs(members), self._results(members))
        numbers = {slot: n for n, slot in enumerate(ins)}
        steps: list[Any] = []
        for n in members:
            instruction = self.program.instructions[n]
            out = instruction.outs[0]
            taken = tuple(numbers[slot] for slot in instruction.ins)
            steps.append((instruction.op, instruction.attrs, taken, self.program.specs[out].dtype))
            numbers[out] = len(numbers)
        attrs = (("steps", tuple(steps)), ("results", tuple(numbers[slot] for slot in results)))
        return Instruction("fused", attrs, tuple(ins), tuple(results))
