"""Roots: whose bytes each slot has, before a device is asked."""

from __future__ import annotations

from singa_core.optable import OPS
from singa_core.program import Program
from singa_core.spec import Shape


def roots(program: Program) -> dict[int, int]:
    """Slot of a view -> the slot whose bytes it looks at. Others have bytes of their own.

    A view that its input's layout does not allow (a reshape of a transposed matrix) is a copy.
    """
    found: dict[int, int] = {}
    strides: dict[int, Shape] = {}
    for instruction in program.instructions:
        op = OPS[instruction.op]
        if not op.is_view:
            continue
        source, made = instruction.ins[0], instruction.outs[0]
        spec = program.specs[source]
        layout = op.view(spec.shape, strides.get(source, spec.strides), **instruction.options)
        if layout is not None:
            found[made], strides[made] = found.get(source, source), layout[0]
    return found
