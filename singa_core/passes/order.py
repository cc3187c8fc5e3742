"""Order: another order of the same instructions, whose plan needs fewer bytes.

Three are tried, and the one with the smallest plan is kept, the recorded one if none is smaller. A
greedy walk takes, among the instructions that are ready, the one after which the fewest bytes are
alive, in ties the one recorded first. A cautious one does so only where an instruction gives back
at least what it takes, and keeps to the recorded order else. In all of them what frees nothing
waits until it is needed. Old values of cells are read before the new ones are made, where that can
be, so that updates may be written in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from singa_core.device import Device
from singa_core.passes.place import place
from singa_core.passes.plan import plan
from singa_core.passes.roots import roots
from singa_core.passes.waits import followers, in_turn, makers
from singa_core.program import Program


def order(program: Program, device: Device) -> Program:
    """The Program in the order of lowest peak on `device` that was found."""
    flow = Flow(program)
    best, least = program, planned_bytes(program, device)
    recorded = list(range(len(program.instructions)))
    for numbers in (recorded, flow.greedy(), flow.greedy(cautious=True)):
        late = flow.late(numbers)
        if late == recorded:
            continue
        found = program.with_instructions([program.instructions[i] for i in late])
        nbytes = planned_bytes(found, device)
        if nbytes < least:
            best, least = found, nbytes
    return best


def planned_bytes(program: Program, device: Device) -> int:
    """Bytes of temporaries and workspaces when the Program runs in its order."""
    return plan(place(program, device), device.capabilities).nbytes


class Flow:
    """Who makes what, who reads it, and how many bytes it has.

    A view is its input's bytes seen otherwise, so bytes belong to *roots*.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.root = roots(program)
        self.makes = [
            [slot for slot in i.outs if slot not in self.root] for i in program.instructions
        ]
        self.reads = [{self.root.get(slot, slot) for slot in i.ins} for i in program.instructions]
        made = {slot for slots in self.makes for slot in slots}
        self.size = {slot: program.specs[slot].nbytes for slot in made}
        # most new values of cells are written over the old ones, and take no bytes
        new = {self.root.get(slot, slot) for _, slot in program.updates}
        self.size.update((root, 0) for root in new & made)
        # results and new values of cells are alive to the end
        self.kept = {self.root.get(slot, slot) for slot in program.ends}
        self.before = self._before()

    def _before(self) -> list[set[int]]:
        """For each instruction, those that must come first."""
        maker = makers(self.program)
        before = self._feeding(maker)
        behind = self._behind(before)
        readers: dict[int, list[int]] = {}
        for number, read in enumerate(self.reads):
            for root in read:
                readers.setdefault(root, []).append(number)
        for cell, slot in self.program.updates:
            producer = maker.get(self.root.get(slot, slot))
            if producer is None:
                continue
            for reader in readers.get(self.program.cells[cell], ()):
                # not where the reader itself waits for the new value
                if reader != producer and not behind[reader] >> producer & 1:
                    before[producer].add(reader)
        # the wishes of two updates may contradict each other
        return before if len(in_turn(before)) == len(before) else self._feeding(maker)

    def _feeding(self, maker: Mapping[int, int]) -> list[set[int]]:
        """For each instruction, those whose results it reads."""
        return [{maker[slot] for slot in i.ins if slot in maker} for i in self.program.instructions]

    @staticmethod
    def _behind(before: Sequence[set[int]]) -> list[int]:
        """For each instruction, a bit set of all that it waits for, directly or not."""
        behind: list[int] = []
        for numbers in before:  # recorded order is one that works
            bits = 0
            for number in numbers:
                bits |= behind[number] | 1 << number
            behind.append(bits)
        return behind

    def greedy(self, *, cautious: bool = False) -> list[int]:
        """The orders described in the module's text."""
        waits = [len(numbers) for numbers in self.before]
        after, uses = followers(self.before), self._uses()

        def growth(number: int) -> int:
            by = self._growth(number, uses)
            return min(by, 1) if cautious else by

        ready = {n: growth(n) for n, count in enumerate(waits) if not count}
        done: list[int] = []
        while ready:
            number = min(ready, key=lambda n: (ready[n], n))
            del ready[number]
            done.append(number)
            read = self.reads[number]
            for root in read:
                uses[root] -= 1
            for n in ready:  # only readers of the same may now be the last ones
                if self.reads[n] & read:
                    ready[n] = growth(n)
            for later in after[number]:
                waits[later] -= 1
                if not waits[later]:
                    ready[later] = growth(later)
        return done

    def late(self, numbers: Sequence[int]) -> list[int]:
        """The same order, but whatever frees no memory comes right before what needs it.

        So a constant tensor, say, is not made long before its use. An instruction that is the last
        to read something stays where it is.
        """
        after = followers(self.before)
        place = {number: float(i) for i, number in enumerate(numbers)}
        last: dict[int, float] = {}
        for number in numbers:
            last.update(dict.fromkeys(self.reads[number], place[number]))
        for number in reversed(numbers):
            needed = min((place[n] for n in after[number]), default=None)
            if needed is None or needed <= place[number] + 1:
                continue
            freed = (r for r in self.reads[number] if r in self.size and r not in self.kept)
            if all(last[root] >= needed for root in freed):
                # of several before the same one, the earliest in the old order comes first
                place[number] = needed - 1 + (place[number] + 1) / (len(numbers) + 1)
        return sorted(numbers, key=place.__getitem__)

    def _uses(self) -> dict[int, int]:
        uses: dict[int, int] = {}
        for read in self.reads:
            for root in read:
                uses[root] = uses.get(root, 0) + 1
        return uses

    def _growth(self, number: int, uses: Mapping[int, int]) -> int:
        """By how many bytes the live set grows with an instruction."""
        made = sum(self.size[slot] for slot in self.makes[number])
        freed = sum(
            self.size[root]
            for root in self.reads[number]
            if root in self.size and uses[root] == 1 and root not in self.kept
        )
        return made - freed
