"""Arena: the scratch memory that all executables of a device share.

What lies in it does not survive a run, and runs are serialised by the device's lock, so one piece
of memory as large as the largest plan serves all. It goes when the last executable that uses it
goes.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from singa_core.device import Device
from singa_core.storage import Storage, allocate


class Arena:
    """Buffers that only grow; `version` counts how often one was replaced."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.buffers: list[Storage] = []
        self.version = 0

    def reserve(self, sizes: Sequence[int]) -> None:
        """Have at least these bytes in each buffer.

        A larger buffer replaces the old one, to which handles may still be bound: executables bind
        theirs anew when they see another version.

        Raises: OutOfDeviceMemory; nothing changes then.
        """
        new = {
            i: allocate(self.device, nbytes)
            for i, nbytes in enumerate(sizes)
            if i >= len(self.buffers) or self.buffers[i].nbytes < nbytes
        }
        if new:
            kept = [new.get(i, storage) for i, storage in enumerate(self.buffers)]
            self.buffers = kept + [new[i] for i in range(len(kept), len(sizes))]
            self.version += 1


def arena(device: Device) -> Arena:
    """The device's arena; made where there is none."""
    found: Arena | None = device.state.arena() if device.state.arena is not None else None
    if found is None:
        found = Arena(device)
        device.state.arena = weakref.ref(found)
    return found
