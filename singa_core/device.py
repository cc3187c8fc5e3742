"""Device: what a backend implements, and what core keeps for each one.

A backend subclasses `Device`: six memory calls, `bind`, and the kernel languages it speaks. A
*buffer* is whatever its `alloc` returns; only the backend looks into it. A *handle* is what its
kernels get: `bind` makes one from a buffer, an element offset, a shape, strides in elements and a
dtype, and core keeps it on the `Array`.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from singa_core.dtype import ALL, DType
from singa_core.spec import Shape, Spec

if TYPE_CHECKING:
    from singa_core.program import Executable, Program
    from singa_core.storage import Storage

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
        parameters: bytes of arguments that one launch can take; fused groups are kept that small.
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
    parameters: int = 1024
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

    def timed(self, function: Callable[..., Any], *args: Any) -> float:
        """Run a launch of an executable, and tell the seconds it took. Called within `call`.

        A device with a clock of its own should ask that one: the host's also measures how long it
        takes to wake up, which is longer than many kernels.
        """
        self.synchronize()
        start = time.perf_counter()
        function(*args)
        self.synchronize()
        return time.perf_counter() - start

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
