"""Let one slot stand for another, everywhere: what several passes end with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from singa_core.program import Instruction, Program


def rename(
    program: Program, instructions: Sequence[Instruction], same: Mapping[int, int]
) -> Program:
    """`program` with these instructions, each slot read through `same` (already resolved)."""

    def now(slots: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(same.get(slot, slot) for slot in slots)

    def pairs(items: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        return tuple((i, same.get(slot, slot)) for i, slot in items)

    return replace(
        program,
        instructions=tuple(replace(i, ins=now(i.ins)) for i in instructions),
        results=now(program.results),
        updates=pairs(program.updates),
        arg_updates=pairs(program.arg_updates),
    )
