"""Plan: which memory each temporary root gets, so that few bytes serve many values.

A root is alive from the launch that writes it to the last that reads it, through whatever view. An
output takes the memory of an input that dies with the same launch, where the kernel allows that.
Then every piece gets an offset in one arena, largest first at the lowest place that is free all its
life; on a device without sub-buffers, whole buffers are used again instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from singa_core.device import Capabilities
from singa_core.passes.place import Placed, Step
from singa_core.spec import Spec


@dataclass
class Piece:
    """Memory that one or several roots have, one after the other: bytes, first and last launch."""

    nbytes: int
    first: int
    last: int
    roots: list[int] = field(default_factory=list)


@dataclass
class Plan:
    """Where temporary roots and workspaces lie.

    Args:
        offsets: root -> (buffer, byte offset in it).
        workspaces: launch number -> (buffer, byte offset).
        buffers: bytes of each buffer; with sub-buffers there is one, the arena.
        bound: the most bytes of temporaries that are alive at once: no plan can have fewer.
    """

    offsets: dict[int, tuple[int, int]]
    workspaces: dict[int, tuple[int, int]]
    buffers: list[int]
    bound: int

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(self.buffers)


def plan(placed: Placed, capabilities: Capabilities) -> Plan:
    """Memory for every root that launches write, but for results and what lies in homes."""
    pieces, workspaces = lifetimes(placed)
    align = capabilities.alignment
    everything = [*pieces, *workspaces.values()]
    bound = live_bytes(everything, len(placed.steps))
    if capabilities.sub_buffers:
        places, buffers = in_arena(everything, align)
    else:
        places, buffers = in_buffers(everything)
    offsets = {root: places[id(piece)] for piece in pieces for root in piece.roots}
    found = {number: places[id(piece)] for number, piece in workspaces.items()}
    return Plan(offsets, found, buffers, bound)


def lifetimes(placed: Placed) -> tuple[list[Piece], dict[int, Piece]]:
    """Pieces for temporaries, outputs over dying inputs merged; and one for each workspace."""
    fixed = {*placed.args, *placed.cells, *placed.scalars, *placed.constants.values()}
    fixed.update(placed.results)
    late = {root for _, root in placed.writes}  # copied to a home after the last launch
    end = len(placed.steps)
    last = {}
    for number, step in enumerate(placed.steps):
        last.update({where.root: number for where in step.ins})
    last.update(dict.fromkeys(late, end))
    pieces: list[Piece] = []
    piece_of: dict[int, Piece] = {}
    workspaces = {}
    for number, step in enumerate(placed.steps):
        for root in step.outs:
            if root in fixed or root in piece_of:
                continue
            nbytes, dies = placed.roots[root].nbytes, max(last.get(root, number), number)
            heir = dying_input(step, root, number, last, piece_of, placed)
            if heir is None:
                piece_of[root] = Piece(nbytes, number, dies, [root])
                pieces.append(piece_of[root])
            else:
                piece_of[root] = heir
                heir.roots.append(root)
                heir.last = dies
        if step.entry.workspace is not None and step.entry.workspace.nbytes:
            workspaces[number] = Piece(step.entry.workspace.nbytes, number, number)
    return pieces, workspaces


def dying_input(
    step: Step,
    root: int,
    number: int,
    last: dict[int, int],
    piece_of: dict[int, Piece],
    placed: Placed,
) -> Piece | None:
    """The piece of an input that the only output of a launch may take over, if there is one."""
    kernel = step.entry.kernel
    if kernel is None or not kernel.in_place or kernel.returning or len(step.outs) != 1:
        return None
    spec = placed.roots[root]
    for where in step.ins:
        piece = piece_of.get(where.root)
        if piece is None or where.form is not spec or not placed.covers(where):
            continue
        once = sum(other.root == where.root for other in step.ins) == 1
        if once and piece.last == number and last.get(where.root) == number:
            return piece
    return None


def live_bytes(pieces: Sequence[Piece], launches: int) -> int:
    """The most bytes alive at one launch."""
    change = [0] * (launches + 2)
    for piece in pieces:
        change[piece.first] += piece.nbytes
        change[piece.last + 1] -= piece.nbytes
    live = highest = 0
    for step in change:
        live += step
        highest = max(highest, live)
    return highest


def in_arena(
    pieces: Sequence[Piece], alignment: int
) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """Offsets in one buffer: largest first, each at the lowest place that is free all its life."""
    done: list[tuple[int, int, Piece]] = []  # (start, end, piece), by start
    places = {}
    size = 0
    for piece in sorted(pieces, key=lambda p: (-p.nbytes, p.first)):
        start = 0
        for begin, end, other in done:
            if other.first > piece.last or other.last < piece.first:
                continue
            if begin - start >= piece.nbytes:
                break
            start = max(start, -(-end // alignment) * alignment)
        places[id(piece)] = (0, start)
        done.append((start, start + piece.nbytes, piece))
        done.sort(key=lambda entry: entry[0])
        size = max(size, start + piece.nbytes)
    return places, [size] if pieces else []


def in_buffers(pieces: Sequence[Piece]) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """Whole buffers, used again: the smallest free one that fits, else the largest grows."""
    buffers: list[int] = []
    busy_until: list[int] = []
    places = {}
    for piece in sorted(pieces, key=lambda p: (p.first, -p.nbytes)):
        free = [b for b, until in enumerate(busy_until) if until < piece.first]
        fitting = [b for b in free if buffers[b] >= piece.nbytes]
        if fitting:
            chosen = min(fitting, key=lambda b: buffers[b])
        elif free:
            chosen = max(free, key=lambda b: buffers[b])
            buffers[chosen] = piece.nbytes
        else:
            chosen = len(buffers)
            buffers.append(piece.nbytes)
            busy_until.append(0)
        busy_until[chosen] = piece.last
        places[id(piece)] = (chosen, 0)
    return places, buffers


def scratch_spec(nbytes: int) -> Spec:
    """Bytes of a workspace."""
    return Spec((nbytes,), "uint8")
