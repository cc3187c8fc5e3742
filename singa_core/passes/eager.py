"""What the same recording takes where every operation is run at once: graphs are compared with it.

Nothing in here changes a Program.
"""

from __future__ import annotations

from dataclasses import replace

from singa_core.device import Device
from singa_core.mode import Mode, use_mode
from singa_core.passes.lower import has_kernel, lower
from singa_core.passes.place import Placed, place
from singa_core.passes.plan import Piece, live_bytes
from singa_core.program import Program


def eager_peak(recorded: Program, device: Device) -> int:
    """The least that eager execution of a recording has alive at its peak, state aside.

    Each value is made in memory of its own, with the kernel's workspace beside it, and freed after
    the last operation that reads it. Python code that holds on to values takes more. New values of
    cells count only where they cannot be written over the old ones.
    """
    with use_mode(Mode(False, None)):
        # results are alive to the end of a step, where hardly anything else is
        placed = place(
            replace(lower(recorded, device), results=(), arg_updates=()), device, near=-1
        )
    return max(live_bytes(lives(placed)), default=0)


def lives(placed: Placed) -> list[Piece]:
    """A piece for each root that launches write, and for each workspace."""
    held = {*placed.args, *placed.cells, *placed.scalars, *placed.constants.values()}
    last: dict[int, int] = {}
    for number, step in enumerate(placed.steps):
        last.update({where.root: number for where in step.ins})
    pieces = []
    for number, step in enumerate(placed.steps):
        for root in step.outs:
            if root not in held:
                nbytes, end = placed.roots[root].nbytes, max(last.get(root, number), number)
                pieces.append(Piece(nbytes, number, end, [root]))
        if step.entry.workspace is not None:
            pieces.append(Piece(step.entry.workspace.nbytes, number, number))
    return pieces


def lowered(recorded: Program, device: Device) -> int:
    """How many recorded instructions the device has no kernel for: their decompositions run."""
    with use_mode(Mode(False, None)):
        return sum(
            not has_kernel(i, recorded.specs_of(i.ins), device) for i in recorded.instructions
        )
