"""Replace a composite that the device has no kernel for by its decomposition."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from singa_core.device import Device
from singa_core.mode import Mode, use_mode
from singa_core.optable import OPS
from singa_core.passes.number import number
from singa_core.passes.rename import rename
from singa_core.program import Instruction, Program
from singa_core.recorder import Recorder
from singa_core.resolve import find_entry
from singa_core.spec import Spec


def lower(program: Program, device: Device) -> Program:
    """The Program in ops that are views or have a kernel on `device`."""
    specs = list(program.specs)
    constants = dict(program.constants)
    same: dict[int, int] = {}
    instructions: list[Instruction] = []
    for instruction in program.instructions:
        ins = tuple(same.get(slot, slot) for slot in instruction.ins)
        taken = tuple(specs[slot] for slot in ins)
        if has_kernel(instruction, taken, device):
            instructions.append(replace(instruction, ins=ins))
            continue
        part = lower(decompose(instruction, taken, device), device)
        # slots of the part become new slots here; its arguments are the instruction's inputs
        numbers = count(len(specs))
        place = dict(zip(part.args, ins, strict=True))
        for slot, spec in enumerate(part.specs):
            if slot not in place:
                place[slot] = next(numbers)
                specs.append(spec)
        constants.update({place[slot]: value for slot, value in part.constants.items()})
        instructions += [
            replace(
                i,
                ins=tuple(map(place.__getitem__, i.ins)),
                outs=tuple(map(place.__getitem__, i.outs)),
            )
            for i in part.instructions
        ]
        same.update(
            {out: place[slot] for out, slot in zip(instruction.outs, part.results, strict=True)}
        )
    return rename(replace(program, specs=tuple(specs), constants=constants), instructions, same)


def has_kernel(instruction: Instruction, specs: tuple[Spec, ...], device: Device) -> bool:
    """True if the device serves the instruction as it is."""
    op = OPS[instruction.op]
    if op.is_view or not op.is_composite:
        return True
    return find_entry(device, op, op.pack(instruction.options), specs).launch is not None


def decompose(instruction: Instruction, specs: tuple[Spec, ...], device: Device) -> Program:
    """The op's own `forward`, recorded on placeholders."""
    recorder = Recorder(device)
    with use_mode(Mode(False, recorder)):
        result = OPS[instruction.op].forward(
            *[recorder.placeholder(spec) for spec in specs], **instruction.options
        )
    results = result if isinstance(result, tuple) else (result,)
    return number(recorder, [recorder.value(t) for t in results])
