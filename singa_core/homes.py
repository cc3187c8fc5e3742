"""State homes: cells whose value stays in one place, and the right to write over an old value.

A value may be overwritten only if nobody else holds it. Holders are found by counting: the
references to the cell's Array (snapshots, aliases and saved inputs of a tape hold the same object)
and the other Arrays on its storage (views). Where the interpreter cannot count (no `getrefcount`,
or threads without a global lock), everything counts as held: then values are copied, and nothing
else changes.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from singa_core.storage import Array, copy_storage, empty_array

if TYPE_CHECKING:
    from singa_core.tensor import Tensor

_gil = getattr(sys, "_is_gil_enabled", lambda: True)
CAN_COUNT = hasattr(sys, "getrefcount") and _gil()


class _Probe:
    """Stands in for a cell and its array when the counts are calibrated."""

    array: Any
    storage: Any


references = sys.getrefcount if CAN_COUNT else lambda _: -1


def counts(cell: Any) -> tuple[int, int]:
    """References to the cell's Array, and to that Array's storage."""
    return sys.getrefcount(cell.array), sys.getrefcount(cell.array.storage)


def _calibrate() -> tuple[int, int]:
    """What `counts` gives where only the cell holds the array, and only the array its storage."""
    cell, array = _Probe(), _Probe()
    cell.array, array.storage = array, object()
    del array
    return counts(cell)


ALONE = _calibrate() if CAN_COUNT else (0, 0)


def is_held(cell: Any) -> bool:
    """True if anybody but `cell.array` may still look at its value. For cells without a home."""
    if not CAN_COUNT or cell.array is None:
        return True
    # as `counts` does, written out: eager updates ask for every cell
    if references(cell.array) != ALONE[0] or references(cell.array.storage) != ALONE[1]:
        return True
    marks = cell.array.storage.marks
    return marks is not None and marks.exported


def rebind(cell: Tensor, array: Array) -> None:
    """Let a cell name the value of a packed `array` of its spec.

    History is dropped; a leaf stays one.
    """
    if not cell.is_leaf:
        cell.node, cell.index = None, 0
    if array is cell.array:
        return
    if cell.home is None:
        cell.array = array
    else:
        claim(cell)
        write(cell, array)
        cell.home.mark().lost = False
    device = array.storage.device
    if not device.capabilities.synchronous:  # a late error may mean that nothing was written
        device.state.unsettled.add(array.storage if cell.home is None else cell.home)


def write(cell: Tensor, source: Array) -> None:
    """Copy the bytes of a packed `source` over the cell's own."""
    target = cell.array
    if target is None or not target.spec.nbytes:
        return
    size = target.spec.dtype.itemsize
    target.storage.device.copy(
        source.storage.buffer, source.offset * size,
        target.storage.buffer, target.offset * size, target.spec.nbytes,
    )  # fmt: skip


def settle(cell: Tensor) -> None:
    """Give a cell of a packed value a home: storage of its own that executables may write into."""
    array = cell.array
    if cell.home is not None or array is None:
        return
    home = empty_array(array.storage.device, array.spec)
    marks = home.storage.mark()
    marks.pinned, marks.cell = True, weakref.ref(cell)
    marks.lost = array.storage.lost
    cell.array = home
    write(cell, array)
    cell.home = home.storage


def claim(cell: Tensor) -> None:
    """Make a homed cell the only holder of its home: others get a copy of the old value."""
    home = cell.home
    if home is None or cell.array is None:
        return
    shared = not CAN_COUNT or counts(cell)[0] > ALONE[0]
    marks = home.marks
    watched = marks.arrays if marks is not None else []
    if not shared and not watched:
        return
    others = [a for ref in watched if (a := ref()) is not None and a is not cell.array]
    watched.clear()
    if not shared and not others:
        return
    twin = copy_storage(home)
    if home.lost:
        twin.lose()
    for other in others:
        other.move_to(twin)
    if shared:
        old = cell.array
        cell.array = Array(home, old.spec, old.spec, 0, old._handle)
        old.move_to(twin)
