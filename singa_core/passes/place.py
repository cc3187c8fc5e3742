"""Place every slot: which instructions launch, which are views, and where packed copies are needed.

A *root* is memory of its own; a view is a root seen through strides and an offset. What comes out
is a list of launches over roots, for the default executable; it depends on the device's kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from singa_core.device import Device
from singa_core.errors import KernelMissing
from singa_core.optable import OPS, title
from singa_core.program import Instruction, Program
from singa_core.resolve import Entry, find_entry
from singa_core.spec import AnyForm, Spec

# Launches. Backward often needs the copy that forward has made: to keep it costs more than a copy.
NEAR: Final = 16


@dataclass(frozen=True)
class Place:
    """Where a slot lies: a root, the layout over it, and the element offset."""

    root: int
    form: AnyForm
    offset: int = 0


@dataclass
class Step:
    """One launch: the kernel that serves it, input places and output roots."""

    entry: Entry
    ins: list[Place]
    outs: list[int]
    text: str

    @property
    def title(self) -> str:
        """The operation, with its members if it is a group."""
        return title(self.entry.op.name, self.entry.options)


def _text(instruction: Instruction) -> str:
    """An instruction for reports and errors: what a group is made of would be too long."""
    name = title(instruction.op, instruction.options)
    if name == instruction.op:
        return str(instruction)
    return str(Instruction(name, (), instruction.ins, instruction.outs))


@dataclass
class Placed:
    """A Program with every slot placed.

    Args:
        roots: spec of the memory of each root.
        steps: launches in order.
        args, cells, scalars, constants: root of each source.
        results: root of each result, then of each value assigned to an argument; no root is given
            out twice.
        writes: (cell number, root of its new value): the root is the cell's own where the new value
            is computed in place.
    """

    roots: list[Spec] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    args: list[int] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    scalars: list[int] = field(default_factory=list)
    constants: dict[int, int] = field(default_factory=dict)
    results: list[int] = field(default_factory=list)
    writes: list[tuple[int, int]] = field(default_factory=list)
    views: int = 0
    copies: int = 0

    def covers(self, place: Place) -> bool:
        """True if a place is the whole of its root, as it is."""
        return place.form is self.roots[place.root] and place.offset == 0


class _Placer:
    def __init__(self, program: Program, device: Device, near: int) -> None:
        self.program = program
        self.device = device
        self.near = near
        self.placed = Placed()
        self.places: dict[int, Place] = {}
        self.packed: dict[Place, tuple[Place, int]] = {}  # a copy, and its last reader's number

    def root(self, spec: Spec) -> int:
        self.placed.roots.append(spec)
        return len(self.placed.roots) - 1

    def source(self, slot: int) -> int:
        spec = self.program.specs[slot]
        root = self.root(spec)
        self.places[slot] = Place(root, spec)
        return root

    def instruction(self, instruction: Instruction) -> None:
        op = OPS[instruction.op]
        attrs = op.pack(instruction.options)
        ins = [self.places[slot] for slot in instruction.ins]
        entry = find_entry(self.device, op, attrs, tuple(p.form for p in ins))
        unserved = entry.launch is None and entry.form is None
        if unserved:  # a kernel that declines these strides, or that takes none
            for i in entry.needs_pack or range(len(ins)):
                ins[i] = self.pack(ins[i])
            entry = find_entry(self.device, op, attrs, tuple(p.form for p in ins))
        if entry.form is not None:
            offset = ins[0].offset + entry.offset
            self.places[instruction.outs[0]] = Place(ins[0].root, entry.form, offset)
            self.placed.views += 1
            return
        if entry.launch is None:
            dtypes = [spec.dtype.name for spec in entry.in_specs]
            raise KernelMissing(op.name, dtypes, self.device, ["no kernel takes these inputs"])
        outs = [self.source(slot) for slot in instruction.outs]
        self.placed.steps.append(Step(entry, ins, outs, _text(instruction)))

    def pack(self, place: Place) -> Place:
        """A packed copy of a place, shared by those who need one soon."""
        if isinstance(place.form, Spec):
            return place
        number = len(self.placed.steps)
        found = self.packed.get(place)
        if found is None or number - found[1] > self.near:
            found = self.copy(place), number
        self.packed[place] = found[0], number
        return found[0]

    def copy(self, place: Place, *, at: int | None = None) -> Place:
        """A launch that copies a place to a root of its own, at the end or at position `at`."""
        entry = find_entry(self.device, OPS["copy"], (), (place.form,))
        root = self.root(entry.specs[0])
        steps = self.placed.steps
        position = len(steps) if at is None else at
        steps.insert(position, Step(entry, [place], [root], f"copy {entry.specs[0]}"))
        self.placed.copies += 1
        return Place(root, entry.specs[0])


def place(program: Program, device: Device, *, near: int = NEAR) -> Placed:
    """Launches and roots of a Program on a device.

    Args: near: a packed copy that nobody has read for so many launches is made anew.
    """
    placer = _Placer(program, device, near)
    placed = placer.placed
    placed.args = [placer.source(slot) for slot in program.args]
    placed.cells = [placer.source(slot) for slot in program.cells]
    placed.scalars = [placer.source(slot) for slot in program.scalars]
    placed.constants = {slot: placer.source(slot) for slot in program.constants}
    held = len(placed.roots)  # roots below are not the program's to give away
    for instruction in program.instructions:
        placer.instruction(instruction)
    ends = _ends(program, placer, held)
    count, updates = len(program.results), len(program.updates)
    placed.results = ends[:count] + ends[count + updates :]
    new = ends[count : count + updates]
    placed.writes = [(cell, root) for (cell, _), root in zip(program.updates, new, strict=True)]
    _write_in_place(placed)
    return placed


def _ends(program: Program, placer: _Placer, held: int) -> list[int]:
    """A whole root for each end. A source, a view or a second use is copied.

    A copy of a source is made first of all: later the cell may hold its new value already.
    """
    given: set[int] = set()
    ends = []
    for slot in program.ends:
        place = placer.places[slot]
        if place.root < held:
            place = placer.copy(place, at=0)
        elif place.root in given or not placer.placed.covers(place):
            place = placer.copy(place)
        given.add(place.root)
        ends.append(place.root)
    return ends


def _write_in_place(placed: Placed) -> None:
    """Let the producer of a cell's new value write over the old one, where nobody reads that later.

    Every reader of the old value must come before the producer, or be the producer itself if its
    kernel allows an output to be one of its inputs.
    """
    readers: dict[int, list[int]] = {}
    producer: dict[int, int] = {}
    for number, step in enumerate(placed.steps):
        for p in step.ins:
            readers.setdefault(p.root, []).append(number)
        for root in step.outs:
            producer[root] = number
    renamed: dict[int, int] = {}
    for cell, root in placed.writes:
        own = placed.cells[cell]
        at = producer[root]
        if may_overwrite(placed, placed.steps[at], root, own) and max(readers.get(own, [at])) <= at:
            renamed[root] = own
    placed.writes = [(cell, renamed.get(root, root)) for cell, root in placed.writes]
    _rename_roots(placed, renamed)


def may_overwrite(placed: Placed, step: Step, output: int, own: int) -> bool:
    """True if the step may write its output root over root `own`, which it may read.

    One of several outputs may only take the place of the input at its own position: a kernel may
    write it before it has read the others for the last time.
    """
    uses = [i for i, p in enumerate(step.ins) if p.root == own]
    if not uses:
        return True
    kernel = step.entry.kernel
    if kernel is None or not kernel.in_place or kernel.returning or len(uses) > 1:
        return False
    in_line = len(step.outs) == 1 or step.outs.index(output) == uses[0]
    return in_line and placed.covers(step.ins[uses[0]])


def _rename_roots(placed: Placed, new: Mapping[int, int]) -> None:
    for step in placed.steps:
        step.outs = [new.get(root, root) for root in step.outs]
        step.ins = [Place(new[p.root], p.form, p.offset) if p.root in new else p for p in step.ins]
