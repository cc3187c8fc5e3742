"""Who waits for whom among the instructions of a Program, and an order that respects it."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence

from singa_core.program import Program


def makers(program: Program) -> dict[int, int]:
    """Slot -> the number of the instruction that writes it."""
    return {slot: number for number, i in enumerate(program.instructions) for slot in i.outs}


def followers(before: Sequence[Collection[int]]) -> list[list[int]]:
    """For each number those that wait for it; `before` has for each those that it waits for."""
    after: list[list[int]] = [[] for _ in before]
    for number, firsts in enumerate(before):
        for first in firsts:
            after[first].append(number)
    return after


def in_turn(before: Sequence[Collection[int]]) -> list[int]:
    """All numbers, none before those it waits for, the smallest first where there is a choice.

    Those that wait for themselves, through whatever others, are left out.
    """
    after, waits = followers(before), [len(firsts) for firsts in before]
    ready = [number for number, count in enumerate(waits) if not count]  # sorted, so a heap
    done = []
    while ready:
        number = heapq.heappop(ready)
        done.append(number)
        for later in after[number]:
            waits[later] -= 1
            if not waits[later]:
                heapq.heappush(ready, later)
    return done
