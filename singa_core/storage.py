"""Storage and Array: values on a device, and what is told when a device's memory calls fail.

A Storage owns one buffer and counts its bytes. An Array is a storage seen through a form, from an
offset on; it keeps the handle that `bind` has made of them.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from singa_core.device import Buffer, Device, Handle, HostBytes
from singa_core.errors import DeviceFailure, OutOfDeviceMemory, SingaError, StateLost
from singa_core.spec import AnyForm, Spec


class Marks:
    """What is special about a Storage, and is not about most.

    `pinned` storage (a state home) is overwritten by replays, so the Arrays that look at it are
    remembered in `arrays` and can be moved away first. `exported`: the host may still see the
    memory, so it is never overwritten. `lost`: a replay failed while it wrote here. `cell`: the
    Tensor whose home it is.
    """

    __slots__ = ("arrays", "cell", "exported", "lost", "pinned")

    def __init__(self) -> None:
        self.arrays: list[weakref.ref[Array]] = []
        self.cell: weakref.ref[Any] | None = None
        self.exported = False
        self.lost = False
        self.pinned = False


class Storage:
    """Owner of one device buffer, and the one place where bytes are counted."""

    __slots__ = ("__weakref__", "buffer", "device", "marks", "nbytes")

    def __init__(self, device: Device, buffer: Buffer, nbytes: int) -> None:
        self.device = device
        self.buffer = buffer
        self.nbytes = nbytes
        self.marks: Marks | None = None
        # no lock: no bytecode in here gives another thread its turn
        memory = device.memory
        memory.allocations += 1
        memory.current += nbytes
        if memory.current > memory.peak:
            memory.peak = memory.current

    def mark(self) -> Marks:
        """The marks, made on first use."""
        if self.marks is None:
            self.marks = Marks()
        return self.marks

    @property
    def pinned(self) -> bool:
        """True for a state home."""
        return self.marks is not None and self.marks.pinned

    @property
    def exported(self) -> bool:
        """True if the host may still look at this memory."""
        return self.marks is not None and self.marks.exported

    @property
    def lost(self) -> bool:
        """True if a failed replay left it half written."""
        return self.marks is not None and self.marks.lost

    def lose(self) -> None:
        """Say that what is here is neither old nor new: whoever reads it is told."""
        marks = self.mark()
        marks.lost = True
        self.device.state.faults += 1
        cell = marks.cell() if marks.cell is not None else None
        if cell is not None and cell.array is not None:
            cell.array.unbind()  # the next kernel that is given the cell asks for its handle

    def __del__(self) -> None:
        try:
            device = self.device
        except AttributeError:  # interrupted before anything was counted
            return
        device.memory.current -= self.nbytes
        device.free(self.buffer)


class Array:
    """A value's bytes on a device: storage, layout, element offset, and the cached handle."""

    __slots__ = ("__weakref__", "form", "offset", "spec", "storage", "_handle")

    def __init__(
        self, storage: Storage, spec: Spec, form: AnyForm, offset: int, handle: Handle = None
    ) -> None:
        self.storage = storage
        self.spec = spec
        self.form = form
        self.offset = offset
        self._handle = handle

    @property
    def handle(self) -> Handle:
        """What kernels get; bound on first use."""
        if self._handle is None:
            form, storage = self.form, self.storage
            if storage.lost:
                raise lost_value("a kernel")
            try:
                self._handle = storage.device.bind(
                    storage.buffer, self.offset, form.shape, form.strides, form.dtype
                )
            except Exception as error:
                raise trouble(storage.device, "bind", error) from error
        return self._handle

    @property
    def packed(self) -> bool:
        """True if the elements lie in C order without gaps."""
        return self.form is self.spec

    def look(self, spec: Spec, form: AnyForm, offset: int) -> Array:
        """Another look at the same bytes, `offset` elements further on."""
        array = Array(self.storage, spec, form, self.offset + offset)
        if self.storage.marks is not None:
            watch(array)
        return array

    def move_to(self, storage: Storage) -> None:
        """Look at another storage of the same layout: so holders of an old value are moved."""
        self.storage = storage
        self._handle = None

    def unbind(self) -> None:
        """Forget the handle."""
        self._handle = None


def lost_value(where: str) -> StateLost:
    """The error for reading what a failed replay has left behind."""
    return StateLost(f"{where}: this value was left half written by a replay that failed")


def watch(array: Array) -> None:
    """Remember that `array` looks at its marked storage."""
    arrays = array.storage.mark().arrays
    if len(arrays) > 16:
        arrays[:] = [ref for ref in arrays if ref() is not None]
    arrays.append(weakref.ref(array))


def allocate(device: Device, nbytes: int) -> Storage:
    """A new Storage. Raises: OutOfDeviceMemory."""
    return Storage(device, with_memory(device, nbytes, device.alloc, nbytes), nbytes)


def empty_array(device: Device, spec: Spec) -> Array:
    """A packed Array whose contents are not defined yet. Raises: OutOfDeviceMemory."""
    buffer, handle = with_memory(device, spec.nbytes, device.empty, spec)
    return Array(Storage(device, buffer, spec.nbytes), spec, spec, 0, handle)


def with_memory(device: Device, nbytes: int, call: Any, *args: Any) -> Any:
    """`call(*args)`, which allocates, with what it raises told in core's words."""
    try:
        return call(*args)
    except Exception as error:
        raise trouble(device, "alloc", error, nbytes) from error


def trouble(device: Device, stage: str, error: Exception, nbytes: int = 0) -> SingaError:
    """What a device raised in a memory call, in core's words; core's own pass through."""
    if isinstance(error, SingaError):
        return error
    if isinstance(error, MemoryError):
        known = device.capabilities
        in_use = device.memory.current
        return OutOfDeviceMemory(device, nbytes, in_use, known.capacity, known.largest)
    return DeviceFailure(f"{device}: {stage} failed with {type(error).__name__}: {error}")


def from_host(device: Device, host: npt.NDArray[Any], spec: Spec) -> Array:
    """A new packed Array with a copy of `host` (any layout or byte order; dtype as in `spec`)."""
    array = empty_array(device, spec)
    if spec.nbytes:
        packed = np.ascontiguousarray(host, dtype=spec.dtype.numpy)
        try:
            device.upload(array.storage.buffer, 0, as_bytes(packed))
        except Exception as error:
            raise trouble(device, "upload", error) from error
    return array


def to_host(array: Array) -> npt.NDArray[Any]:
    """A host copy of a packed Array."""
    out = np.empty(array.spec.shape, array.spec.dtype.numpy)
    if out.nbytes:
        start = array.offset * array.spec.dtype.itemsize
        device = array.storage.device
        wait_for(device, "download", array.storage.buffer, start, as_bytes(out))
    return out


def wait_for(device: Device, stage: str, *args: Any) -> None:
    """Call a method that waits for the device; what went wrong earlier is told here.

    Raises: StateLost if state was written since the last time all was well: it is marked lost; else
        what core itself raised late, or DeviceFailure for a native error.
    """
    unsettled = device.state.unsettled
    try:
        getattr(device, stage)(*args)
    except Exception as error:
        lost = list(unsettled)
        unsettled.clear()
        for storage in lost:
            storage.lose()
        told = f"{device}: {stage} failed with {type(error).__name__}: {error}"
        if lost:
            raise StateLost(
                f"{told}\n  after state had begun to change; "
                f"{len(lost)} cells are neither old nor new"
            ) from error
        if isinstance(error, SingaError):
            raise
        raise DeviceFailure(told) from error
    unsettled.clear()


def synchronize(device: Device) -> None:
    """Wait for the device. Raises: as `wait_for`."""
    wait_for(device, "synchronize")


def as_bytes(host: npt.NDArray[Any]) -> HostBytes:
    """The bytes of a C-contiguous array, without a copy."""
    return host.reshape(-1).view(np.uint8)


def copy_storage(storage: Storage) -> Storage:
    """The same bytes in a new buffer of the same device."""
    twin = allocate(storage.device, storage.nbytes)
    if storage.nbytes:
        try:
            storage.device.copy(storage.buffer, 0, twin.buffer, 0, storage.nbytes)
        except Exception as error:
            raise trouble(storage.device, "copy", error) from error
    return twin
