"""Device, Storage, Array: where values live, and who counts the bytes.

A backend subclasses `Device`: six memory calls, `bind`, and the kernel languages it speaks. Core
owns everything else here. A *buffer* is whatever the backend's `alloc` returns; only the backend
looks into it. A *handle* is what its kernels get: `bind` makes one from a buffer, an element
offset, a shape, strides in elements and a dtype, and core caches it on the Array.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from singa_core.dtype import ALL, DType
from singa_core.errors import DeviceFailure, OutOfDeviceMemory, SingaError, StateLost
from singa_core.spec import AnyForm, Shape, Spec

if TYPE_CHECKING:
    from singa_core.program import Executable, Program

Buffer = Any
Handle = Any
HostBytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Capabilities:
    """What a device can do, in facts that core asks about; never a name.

    Args:
        dtypes: types it stores and computes.
        alignment: bytes to which the offset of a value inside an arena is rounded up.
        sub_buffers: `bind` accepts any aligned offset of a larger buffer.
        host: its memory is host memory, so that `bind` gives NumPy arrays.
        synchronous: a launch has finished, or has failed, when it returns.
        concurrent: kernels may be launched from several threads at once.
        capacity: bytes it can hold, None if not known.
        largest: bytes of its largest buffer, None if one may take all of it.
        fuses: ops that its kernel of `fused` may be made of; none: graphs are not fused.
        batches: ops that its kernel of `together` may be made of; none: every update is a launch.
        family: "cpu" runs one work item per core, "gpu" thousands; kernels are chosen by it.
    """

    dtypes: frozenset[DType] = frozenset(ALL)
    alignment: int = 64
    sub_buffers: bool = True
    host: bool = False
    synchronous: bool = False
    concurrent: bool = False
    capacity: int | None = None
    largest: int | None = None
    fuses: frozenset[str] = frozenset()
    batches: frozenset[str] = frozenset()
    family: str = "cpu"


@dataclass(slots=True)
class Memory:
    """Bytes that core holds on one device: now, at most since `reset_peak`, and requests."""

    current: int = 0
    peak: int = 0
    allocations: int = 0

    def reset_peak(self) -> None:
        """Let `peak` start again from `current`."""
        self.peak = self.current


@dataclass
class DeviceState:
    """What core keeps per device: the dispatch table, constants, the launch lock.

    `unsettled` holds the state that replays have written since the device last said that all is
    well; `scalars` holds the last run-time scalar of each dtype; `faults` counts how often state
    was lost. `arena` is the scratch memory of executables.
    """

    entries: dict[Any, Any] = field(default_factory=dict)
    constants: dict[Any, Any] = field(default_factory=dict)
    scalars: dict[Any, Any] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    unsettled: weakref.WeakSet[Storage] = field(default_factory=weakref.WeakSet)
    faults: int = 0
    arena: weakref.ref[Any] | None = None


class Fixed(NamedTuple):
    """A launch ready to be replayed: `function(*args)`; `put(position, handle)` exchanges one."""

    function: Callable[..., Any]
    args: Sequence[Any]
    put: Callable[[int, Any], None]


class Device(ABC):
    """One place where arrays live and kernels run. Backends subclass it: docs/write-a-backend.md.

    Args:
        backend: the backend's entry-point name.
        index: which of its devices this is.
        capabilities: what it can do.
        languages: kernel languages in order of preference; see `singa_core.kernels`.

    Class attributes:
        driver: the device and what drives it, with versions, as its maker says it; for reports.
    """

    driver: str = ""

    def __init__(
        self,
        backend: str,
        index: int = 0,
        capabilities: Capabilities | None = None,
        languages: Sequence[str] = ("array",),
    ) -> None:
        self.backend = backend
        self.index = index
        self.name: Final = backend if index == 0 else f"{backend}:{index}"
        self.capabilities = capabilities or Capabilities()
        self.languages = tuple(languages)
        self.memory = Memory()
        self.state = DeviceState()
        _DEVICES.add(self)
        if not self.capabilities.concurrent:
            for name in ("call", "upload", "download", "copy", "synchronize"):
                setattr(self, name, one_at_a_time(getattr(self, name), self.state.lock))

    @abstractmethod
    def alloc(self, nbytes: int) -> Buffer:
        """A buffer of at least `nbytes` (0 is allowed), aligned to `capabilities.alignment`.

        Raises: MemoryError if it does not fit; core turns it into OutOfDeviceMemory.
        """

    @abstractmethod
    def free(self, buffer: Buffer) -> None:
        """Give the buffer back. Core calls it once per buffer; it must not raise."""

    @abstractmethod
    def upload(self, buffer: Buffer, offset: int, host: HostBytes) -> None:
        """Copy host bytes to `buffer` at byte `offset`. `host` may be changed once this returns."""

    @abstractmethod
    def download(self, buffer: Buffer, offset: int, host: HostBytes) -> None:
        """Fill `host` from byte `offset` of `buffer`, after all pending work."""

    @abstractmethod
    def copy(self, source: Buffer, start: int, target: Buffer, offset: int, nbytes: int) -> None:
        """Copy bytes between two buffers of this device that do not overlap."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for pending work. Raises what went wrong in it."""

    @abstractmethod
    def bind(
        self, buffer: Buffer, offset: int, shape: Shape, strides: Shape, dtype: DType
    ) -> Handle:
        """The handle a kernel gets. `offset` and `strides` count elements; strides may be <= 0."""

    def target(self, language: str) -> Any:
        """What kernels of `language` are prepared against (a namespace, a dialect, a context)."""
        return self

    def empty(self, spec: Spec) -> tuple[Buffer, Handle]:
        """A new buffer and its packed handle in one call: eager's hot path; override for speed."""
        buffer = self.alloc(spec.nbytes)
        return buffer, self.bind(buffer, 0, spec.shape, spec.strides, spec.dtype)

    def maker(self, spec: Spec) -> Callable[[], tuple[Buffer, Handle]]:
        """`empty(spec)` as a function without arguments, asked for once per kind of output."""
        return partial(self.empty, spec)

    def adopt(self, result: Any) -> tuple[Buffer, Handle] | None:
        """Own what a returning kernel made, if it is packed; None lets core copy it."""
        return None

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a launch, or a whole replay, under the device's arithmetic rules.

        NaN, infinity, overflow and division by zero are values, not events: nothing warns.
        """
        return function(*args)

    def fix(self, launch: Callable[..., Any], handles: list[Any]) -> Fixed:
        """A launch with its handles, made once by an executable and called at every replay.

        A device whose kernels keep their arguments sets them here. A handle that is not known yet,
        or not any more, is None.
        """
        return Fixed(launch, handles, handles.__setitem__)

    def load(self, program: Program) -> Executable | None:
        """An Executable for a Program, or None for core's loop over the eager kernels."""
        return None

    def memory_info(self) -> Mapping[str, int | None]:
        """Bytes in use by core's count, the peak since the last reset, and the capacity."""
        memory = self.memory
        return {
            "current": memory.current,
            "peak": memory.peak,
            "allocations": memory.allocations,
            "capacity": self.capabilities.capacity,
        }

    def __deepcopy__(self, memo: object) -> Device:
        return self  # a copy of a layer stays where the layer is

    def __repr__(self) -> str:
        return self.name


def one_at_a_time(method: Callable[..., Any], lock: threading.RLock) -> Callable[..., Any]:
    """`method`, of which (and of others with this lock) one call is on its way at any time."""

    def called(*args: Any) -> Any:
        with lock:
            return method(*args)

    return called


_DEVICES: weakref.WeakSet[Device] = weakref.WeakSet()


def forget_entries() -> None:
    """Let every device look anew for who serves an op: kernels were added."""
    for device in list(_DEVICES):
        device.state.entries.clear()


def _after_fork() -> None:
    """A forked child has no other threads, so nobody in it holds a lock that was held."""
    for device in _DEVICES:
        device.state.lock._at_fork_reinit()  # type: ignore[attr-defined]  # as the standard library


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


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
        device = self.device
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


__all__ = [
    "Array", "Buffer", "Capabilities", "Device", "DeviceState", "Fixed", "Handle", "HostBytes",
    "Memory", "Storage", "allocate", "as_bytes", "copy_storage", "empty_array", "forget_entries",
    "from_host", "synchronize", "to_host", "wait_for", "watch",
]  # fmt: skip
