"""Passes: each takes a Program and gives an equivalent one.

number: recorded Nodes -> Program
lower:  composites without a kernel -> their decomposition
fold:   work on constants, and work that does nothing
cse:    the same instruction twice
prune:  instructions whose results nobody needs
"""

from __future__ import annotations

from singa_core.device import Device
from singa_core.passes.cse import cse
from singa_core.passes.fold import fold
from singa_core.passes.lower import lower
from singa_core.passes.number import number
from singa_core.passes.prune import prune
from singa_core.program import Program

__all__ = ["cse", "fold", "lower", "number", "optimise", "prune"]


def optimise(program: Program, device: Device) -> Program:
    """The passes every Program goes through before it is loaded."""
    return prune(cse(fold(lower(prune(program), device), device)))
