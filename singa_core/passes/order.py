"""Order: another order of the same instructions, with a lower peak of live bytes.

A greedy walk takes, among the instructions that are ready, the one after which the fewest bytes
are alive; in ties the one recorded first. It is kept only if its peak is lower than the recorded
order's. Old values of cells are read before the new ones are made, where that can be, so that
updates may be written in place.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from singa_core.optable import OPS
from singa_core.program import Program


def order(program: Program) -> Program:
    """The Program in the order of lowest peak that was found."""
    flow = Flow(program)
    greedy = flow.greedy()
    recorded = list(range(len(program.instructions)))
    if flow.peak(greedy) >= flow.peak(recorded):
        return program
    return program.with_instructions([program.instructions[i] for i in greedy])


def live_peak(program: Program) -> int:
    """The most bytes alive at once, of what instructions make, in the Program's order."""
    flow = Flow(program)
    return flow.peak(range(len(program.instructions)))


class Flow:
    """Who makes what, who reads it, and how many bytes it has.

    A view is its input's bytes seen otherwise, so bytes belong to *roots*.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.root: dict[int, int] = {}
        for instruction in program.instructions:
            if OPS[instruction.op].is_view:
                source = instruction.ins[0]
                self.root[instruction.outs[0]] = self.root.get(source, source)
        self.makes = [
            [slot for slot in i.outs if slot not in self.root] for i in program.instructions
        ]
        self.reads = [{self.root.get(slot, slot) for slot in i.ins} for i in program.instructions]
        made = {slot for slots in self.makes for slot in slots}
        self.size = {slot: program.specs[slot].nbytes for slot in made}
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
        for number, roots in enumerate(self.reads):
            for root in roots:
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

    def greedy(self) -> list[int]:
        """The order described in the module's text."""
        waits = [len(numbers) for numbers in self.before]
        after: list[list[int]] = [[] for _ in waits]
        for number, numbers in enumerate(self.before):
            for first in numbers:
                after[first].append(number)
        uses = self._uses()
        ready = [(self._growth(n, uses), n) for n, count in enumerate(waits) if not count]
        heapq.heapify(ready)
        done: list[int] = []
        while ready:
            growth, number = heapq.heappop(ready)
            now = self._growth(number, uses)
            if now < growth:  # a read elsewhere has made it the last reader of something
                heapq.heappush(ready, (now, number))
                continue
            done.append(number)
            for root in self.reads[number]:
                uses[root] -= 1
            for number_after in after[number]:
                waits[number_after] -= 1
                if not waits[number_after]:
                    heapq.heappush(ready, (self._growth(number_after, uses), number_after))
            # only readers of these roots may have changed
            ready = [
                (self._growth(n, uses), n) if self.reads[n] & self.reads[number] else (g, n)
                for g, n in ready
            ]
            heapq.heapify(ready)
        return done

    def _uses(self) -> dict[int, int]:
        uses: dict[int, int] = {}
        for roots in self.reads:
            for root in roots:
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
