"""Order: another order of the same instructions, whose plan needs fewer bytes.

Three are tried, and the one with the smallest plan is kept, the recorded one if none is smaller. A
greedy walk takes, among the instructions that are ready, the one after which the fewest bytes are
alive, in ties the one recorded first. A cautious one does so only where an instruction gives back
at least what it takes, and keeps to the recorded order else. In all of them what frees nothing
waits until it is needed. Old values of cells are read before the new ones are made, where that can
be, so that updates may be written in place.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from singa_core.device import Device
from singa_core.passes.place import place
from singa_core.passes.plan import plan
from singa_core.passes.roots import roots
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
        maker = {slot: n for n, i in enumerate(self.program.instructions) for slot in i.outs}
        before = [
            {maker[slot] for slot in i.ins if slot in maker} for i in self.program.instructions
        ]
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
        return before if acyclic(before) else self._data_only(maker)

    def _data_only(self, maker: Mapping[int, int]) -> list[set[int]]:
        """Without the wishes of updates, where two of them contradict each other."""
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
        after: list[list[int]] = [[] for _ in waits]
        for number, numbers in enumerate(self.before):
            for first in numbers:
                after[first].append(number)
        uses = self._uses()

        def entry(number: int) -> tuple[int, int]:
            growth = self._growth(number, uses)
            return (min(growth, 1) if cautious else growth), number

        ready = [entry(n) for n, count in enumerate(waits) if not count]
        heapq.heapify(ready)
        done: list[int] = []
        while ready:
            popped = heapq.heappop(ready)
            number = popped[1]
            now = entry(number)
            if now < popped:  # a read elsewhere has made it the last reader of something
                heapq.heappush(ready, now)
                continue
            done.append(number)
            for root in self.reads[number]:
                uses[root] -= 1
            for number_after in after[number]:
                waits[number_after] -= 1
                if not waits[number_after]:
                    heapq.heappush(ready, entry(number_after))
            # only readers of these roots may have changed
            read = self.reads[number]
            ready = [entry(n) if self.reads[n] & read else (g, n) for g, n in ready]
            heapq.heapify(ready)
        return done

    def late(self, numbers: Sequence[int]) -> list[int]:
        """The same order, but whatever frees no memory comes right before what needs it.

        So a constant tensor, say, is not made long before its use. An instruction that is the last
        to read something stays where it is.
        """
        after: list[list[int]] = [[] for _ in self.before]
        for number, firsts in enumerate(self.before):
            for first in firsts:
                after[first].append(number)
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

    def peak(self, numbers: Sequence[int]) -> int:
        """The most bytes alive at once when instructions run in this order."""
        uses = self._uses()
        live = highest = 0
        for number in numbers:
            live += sum(self.size[slot] for slot in self.makes[number])
            highest = max(highest, live)
            for slot in self.makes[number]:
                if not uses.get(slot) and slot not in self.kept:
                    live -= self.size[slot]
            for root in self.reads[number]:
                uses[root] -= 1
                if not uses[root] and root in self.size and root not in self.kept:
                    live -= self.size[root]
        return highest


def acyclic(before: Sequence[set[int]]) -> bool:
    """True if there is an order that respects `before`."""
    waits = [len(numbers) for numbers in before]
    after: list[list[int]] = [[] for _ in waits]
    for number, numbers in enumerate(before):
        for first in numbers:
            after[first].append(number)
    ready = [n for n, count in enumerate(waits) if not count]
    done = 0
    while ready:
        done += 1
        for number in after[ready.pop()]:
            waits[number] -= 1
            if not waits[number]:
                ready.append(number)
    return done == len(waits)
