"""Plan: which memory each temporary root gets, so that few bytes serve many values.

A root is alive from the launch that writes it to the last that reads it, through whatever view. An
output takes the memory of an input that dies with the same launch, where the kernel allows that.
Then every piece gets an offset in one arena, at the lowest place that is free all its life; on a
device without sub-buffers, whole buffers are used again instead.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import Any, Final

from singa_core.device import Capabilities
from singa_core.passes.place import Placed, Step

TRIES: Final = 8  # to lay pieces down, of each kind
FEW: Final = (
    400  # pieces, up to which there are so many tries: one takes the square of their number
)


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
    bound = max(live_bytes(everything), default=0)
    if capabilities.sub_buffers:
        places, buffers = in_arena(everything, align, capabilities.largest)
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


def live_bytes(pieces: Sequence[Piece]) -> list[int]:
    """The bytes alive at each launch."""
    change = [0] * (max((piece.last for piece in pieces), default=-1) + 2)
    for piece in pieces:
        change[piece.first] += piece.nbytes
        change[piece.last + 1] -= piece.nbytes
    return list(accumulate(change))


def padded(piece: Piece, alignment: int) -> Piece:
    """The piece with the bytes up to where another one may begin."""
    return Piece(-(-piece.nbytes // alignment) * alignment, piece.first, piece.last)


def in_arena(
    pieces: Sequence[Piece], alignment: int, largest: int | None = None
) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """Offsets in one buffer, each at the lowest place that is free all its life.

    Those that come first lie best: the largest, or what is alive when most is, or those that take
    most bytes times launches. Whatever ends highest comes first in another try, as long as that
    may help; many pieces get fewer tries. The smallest buffer is kept. If it is larger than
    `largest`, there are several.
    """
    if not pieces:
        return {}, []
    live = live_bytes(pieces)
    peak = live.index(max(live))
    # what is alive at once, each piece at a multiple of the alignment: hardly a plan has fewer
    bound = max(live_bytes([padded(piece, alignment) for piece in pieces]))
    tries = max(min(TRIES * FEW**2 // len(pieces) ** 2, TRIES), 1)
    orders: tuple[Callable[[Piece], Any], ...] = (
        lambda p: (-p.nbytes, p.first),
        lambda p: (not p.first <= peak <= p.last, -p.nbytes, p.first),
        lambda p: (-p.nbytes * (p.last - p.first + 1), p.first),
    )
    best: dict[int, tuple[int, int]] = {}
    least = sum(piece.nbytes + alignment for piece in pieces)
    for key in orders:
        ordered = sorted(pieces, key=key)
        for _ in range(tries if least > bound else 0):
            places, size = lay_out(ordered, alignment)
            if size < least:
                best, least = places, size
            if least <= bound:
                break
            highest = {id(p) for p in pieces if places[id(p)][1] + p.nbytes == size}
            ordered.sort(key=lambda p: id(p) not in highest)  # noqa: B023  (called at once)
    if largest is not None and least > largest:
        return in_arenas(pieces, alignment, largest)
    return best, [least]


def in_arenas(
    pieces: Sequence[Piece], alignment: int, largest: int
) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """Largest first, each in the first arena of at most `largest` bytes that has room for it."""
    arenas: list[list[Piece]] = []
    sizes: list[int] = []
    places: dict[int, tuple[int, int]] = {}
    for piece in sorted(pieces, key=lambda p: (-p.nbytes, p.first)):
        tried = (
            (number, *lay_out([*others, piece], alignment))
            for number, others in enumerate([*arenas, []])
        )
        number, laid, size = next(t for t in tried if t[2] <= largest or t[0] == len(arenas))
        if number == len(arenas):
            arenas.append([])
            sizes.append(0)
        arenas[number].append(piece)
        sizes[number] = size
        places[id(piece)] = number, laid[id(piece)][1]
    return places, sizes


def lay_out(pieces: Sequence[Piece], alignment: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Places of pieces that are laid down in this order, and the bytes from first to last."""
    done: list[tuple[int, int, Piece]] = []  # (start, end, piece), by start
    places = {}
    size = 0
    for piece in pieces:
        start = 0
        for begin, end, other in done:
            if other.first > piece.last or other.last < piece.first:
                continue
            if begin - start >= piece.nbytes:
                break
            start = max(start, -(-end // alignment) * alignment)
        places[id(piece)] = (0, start)
        insort(done, (start, start + piece.nbytes, piece), key=itemgetter(0))
        size = max(size, start + piece.nbytes)
    return places, size


def in_buffers(pieces: Sequence[Piece]) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """Whole buffers, used again, in the better of two ways."""
    return min((by_size(pieces), as_they_come(pieces)), key=lambda found: sum(found[1]))


def by_size(pieces: Sequence[Piece]) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """Largest first, each in the first buffer that is free all its life, so that none grows."""
    buffers: list[list[Piece]] = []
    places = {}
    for piece in sorted(pieces, key=lambda p: (-p.nbytes, p.first)):
        free = (
            number
            for number, others in enumerate(buffers)
            if all(o.first > piece.last or o.last < piece.first for o in others)
        )
        chosen = next(free, len(buffers))
        if chosen == len(buffers):
            buffers.append([])
        buffers[chosen].append(piece)
        places[id(piece)] = (chosen, 0)
    return places, [others[0].nbytes for others in buffers]


def as_they_come(pieces: Sequence[Piece]) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """By their first launch: the smallest free buffer that fits, else the largest grows."""
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
