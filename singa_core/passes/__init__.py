"""Passes: each takes a Program and gives an equivalent one.

number: recorded Nodes -> Program
lower:  composites without a kernel -> their decomposition
fold:   work on constants, and work that does nothing
cse:    the same instruction twice
prune:  instructions whose results nobody needs
fuse:   scalar operations that feed each other -> one instruction, for devices that compile it
together: small updates of state -> one launch, for devices where launches cost much
roots:  (no pass) whose bytes each slot has
waits:  (no pass) who waits for whom
order:  the same instructions so that their plan needs fewer bytes
place:  roots, views and packed copies, for one device
plan:   which memory each temporary root gets
eager:  (no pass) what the recording takes without graphs, for comparison
"""

from __future__ import annotations

from singa_core.device import Device
from singa_core.passes.cse import cse
from singa_core.passes.fold import fold
from singa_core.passes.fuse import fuse
from singa_core.passes.lower import lower
from singa_core.passes.number import number
from singa_core.passes.order import order
from singa_core.passes.prune import prune
from singa_core.passes.together import together
from singa_core.program import Program

__all__ = [
    "ALGORITHMS",
    "cse",
    "fold",
    "fuse",
    "lower",
    "number",
    "optimise",
    "order",
    "prune",
    "together",
]

ALGORITHMS = ("memory", "sequence")
"""What a graph's order is chosen for: the lowest peak, or to be the recorded one."""


def optimise(program: Program, device: Device, algorithm: str = "memory") -> Program:
    """The passes every Program goes through before it is loaded."""
    program = prune(cse(fold(lower(prune(program), device), device)))
    program = together(fuse(program, device), device)
    return order(program, device) if algorithm == "memory" else program
