"""Compute what is known, and drop what does nothing.

Folding uses the device's own kernels, so a folded value has the bits that a replay would compute.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy.typing as npt

from singa_core.device import Device
from singa_core.mode import Mode, use_mode
from singa_core.operation import apply
from singa_core.optable import OPS
from singa_core.passes.rename import rename
from singa_core.program import Instruction, Program
from singa_core.tensor import Tensor, tensor

LARGEST: Final = 4096  # elements: more would trade a launch for memory that is held for ever
NOTHING: Final = frozenset({"detach", "copy"})


def fold(program: Program, device: Device) -> Program:
    """The Program with constant instructions computed and no-ops renamed away."""
    constants = dict(program.constants)
    same: dict[int, int] = {}
    kept = []
    for instruction in program.instructions:
        ins = tuple(same.get(slot, slot) for slot in instruction.ins)
        now = replace(instruction, ins=ins)
        if does_nothing(now, program):
            same[now.outs[0]] = ins[0]
        elif all(slot in constants for slot in ins) and small(now, program):
            values = compute(now, [constants[slot] for slot in ins], device)
            constants.update(zip(now.outs, values, strict=True))
        else:
            kept.append(now)
    return rename(replace(program, constants=constants), kept, same)


def does_nothing(instruction: Instruction, program: Program) -> bool:
    """True for an identity: a copy, or a view or cast to what the input is already."""
    if instruction.op in NOTHING:
        return True
    if len(instruction.ins) != 1 or len(instruction.outs) != 1:
        return False
    equal = program.specs[instruction.ins[0]] is program.specs[instruction.outs[0]]
    return equal and instruction.op in ("reshape", "broadcast_to", "cast")


def small(instruction: Instruction, program: Program) -> bool:
    """True if all outputs together have few elements."""
    return sum(program.specs[slot].itemcount for slot in instruction.outs) <= LARGEST


def compute(
    instruction: Instruction, values: list[npt.NDArray[Any]], device: Device
) -> list[npt.NDArray[Any]]:
    """Run one instruction now, on the device, and bring the results back."""
    op = OPS[instruction.op]
    with use_mode(Mode(False, None)):
        inputs = [tensor(value, device=device) for value in values]
        result = apply(op, inputs, op.pack(instruction.options), device)
        results: tuple[Tensor, ...] = result if isinstance(result, tuple) else (result,)
        return [t.numpy().copy() for t in results]
