"""Memory and synchronisation on one OpenCL device: one context, one queue that keeps the order."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

from singa_core.device import Capabilities, Device, Fixed, HostBytes
from singa_core.dtype import ALL, DType, float64
from singa_core.errors import DeviceError, DeviceFailure, OutOfDeviceMemory, OutOfRange
from singa_core.kernels.c.fused import FUSES
from singa_core.kernels.c.together import BATCHES
from singa_core.spec import Shape, Spec
from singa_opencl import choice
from singa_opencl.check import check_vectors
from singa_opencl.kernels import LANGUAGE  # registers this backend's own
from singa_opencl.program import Compiler, Handle, Launch, enqueue, kernels_of

NAME = "opencl"
SPAWN = 'try: multiprocessing.get_context("spawn")'

AHEAD, MARKS = 0.02, 4
"""Seconds of queuing that the host may be ahead of the device, and in how many parts."""
STAGED = 4 << 20
"""Bytes up to which what is uploaded is copied first, so that the host need not wait."""
IN_FLIGHT = 64 << 20
"""Bytes that may be allocated before the queue is waited for: what was freed meanwhile stays with
pending work, and the host is faster than the device."""


class OpenCLDevice(Device):
    """One device of one driver.

    Args:
        index: which of the devices that `choice` has found.
        device: the driver's own object for it.
    """

    def __init__(self, index: int, device: cl.Device) -> None:
        doubles = "cl_khr_fp64" in device.extensions
        capabilities = Capabilities(
            dtypes=frozenset(ALL) if doubles else frozenset(ALL) - {float64},
            alignment=max(device.mem_base_addr_align // 8, 64),
            capacity=device.global_mem_size,
            largest=device.max_mem_alloc_size,
            parameters=device.max_parameter_size,
            family=choice.family_of(device),
            fuses=FUSES,
            batches=BATCHES,
        )
        self.compiler = Compiler(device, capabilities)
        self.native = device
        self.driver = f"{device.platform.name} {device.driver_version}, {device.name.strip()}"
        self.context: Any = None
        self.queue: Any = None
        self.faults: Any = None  # words in which kernels tell of wrong indices
        self._faults_read = np.zeros(3, np.int64)  # the same, as last read: found, site, value
        self._opened = False
        self._clocked: cl.CommandQueue | None = None
        self._staged: deque[cl.Event] = deque()
        self._marks: deque[cl.Event] = deque()  # ends of what was queued until some moments
        self._due = 0.0  # when the next one is
        self._fresh = 0  # bytes allocated since the queue was last known to be empty
        self._opening = threading.Lock()
        super().__init__(NAME, index, capabilities, languages=(LANGUAGE, "c"))
        _MADE.add(self)

    # -- the context, made on first use ------------------------------------------------------------

    def open(self) -> None:
        """Make the context and the queue; for family `cpu`, see that vectors are computed right.

        Raises: DeviceFailure if they are not.
        """
        with self._opening:
            if self._opened:
                return
            self.context = cl.Context([self.native])
            self.queue = cl.CommandQueue(self.context, self.native)
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            self.faults = cl.Buffer(self.context, flags, hostbuf=self._faults_read)
            self.compiler.open(self.context, self.queue, self.faults)
            if self.capabilities.family == "cpu":
                check_vectors(self)
            self._opened = True

    def target(self, language: str) -> Compiler:
        if not self._opened:
            self.open()
        return self.compiler

    # -- memory ------------------------------------------------------------------------------------

    def alloc(self, nbytes: int) -> cl.Buffer:
        if not self._opened:
            self.open()
        known = self.capabilities
        # drivers promise memory that they may not have when a kernel wants it
        if self.memory.current + nbytes > known.capacity or nbytes > known.largest:
            raise MemoryError
        self._fresh += nbytes
        if self._fresh > IN_FLIGHT:
            self._finish()
            self._fresh = nbytes
        try:
            return self._create(nbytes)
        except cl.Error:  # there may be room when pending work gives back what was freed
            self._finish()
        try:
            return self._create(nbytes)
        except cl.Error as error:
            raise MemoryError(str(error)) from error

    def _create(self, nbytes: int) -> cl.Buffer:
        return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes or 1)

    def _finish(self) -> None:
        """Wait for all pending work."""
        self.queue.finish()
        self._settled()

    def free(self, buffer: cl.Buffer) -> None:
        """The driver keeps it until pending work is done with it."""

    def empty(self, spec: Spec) -> tuple[cl.Buffer, Handle]:
        buffer = self.alloc(spec.nbytes)
        return buffer, (buffer, 0)

    def upload(self, buffer: cl.Buffer, offset: int, host: HostBytes) -> None:
        if host.size > STAGED:
            cl.enqueue_copy(self.queue, buffer, host, dst_offset=offset, is_blocking=True)
        elif host.size:
            self._stage(buffer, offset, host.copy())

    def _stage(self, buffer: cl.Buffer, offset: int, host: HostBytes) -> None:
        """Copy from host bytes of our own, behind all pending work, without waiting for it."""
        event = cl.enqueue_copy(self.queue, buffer, host, dst_offset=offset, is_blocking=False)
        staged = self._staged
        staged.append(event)  # it keeps the bytes, and waits for its end when it goes
        while staged and staged[0].command_execution_status == cl.command_execution_status.COMPLETE:
            staged.popleft()

    def _settled(self) -> None:
        """The queue is empty."""
        self._staged.clear()
        self._marks.clear()
        self._fresh = 0

    def download(self, buffer: cl.Buffer, offset: int, host: HostBytes) -> None:
        if not host.size:
            return
        asked = self._ask_for_faults()
        cl.enqueue_copy(self.queue, host, buffer, src_offset=offset, is_blocking=True)
        self._settled()
        if asked is not None:
            self._tell_faults()

    def copy(
        self, source: cl.Buffer, start: int, target: cl.Buffer, offset: int, nbytes: int
    ) -> None:
        if nbytes:
            enqueue_copy(self.queue, source, start, target, offset, nbytes)

    def synchronize(self) -> None:
        if self._opened:
            asked = self._ask_for_faults()
            self._finish()
            if asked is not None:
                self._tell_faults()

    def _ask_for_faults(self) -> cl.Event | None:
        """Read what kernels have found, behind all pending work, if any could find something."""
        if not self.compiler.sites:
            return None
        return cl.enqueue_copy(self.queue, self._faults_read, self.faults, is_blocking=False)

    def _tell_faults(self) -> None:
        """Raises: OutOfRange if a kernel has met a wrong index."""
        found, site, value = self._faults_read.tolist()
        if found:
            self._faults_read[:] = 0
            cl.enqueue_copy(self.queue, self.faults, self._faults_read, is_blocking=True)
            op, rule = self.compiler.sites[site]
            if found == 2:  # unsigned
                value %= 2**64
            raise OutOfRange(op, rule, value)

    def bind(
        self, buffer: cl.Buffer, offset: int, shape: Shape, strides: Shape, dtype: DType
    ) -> Handle:
        return buffer, offset * dtype.itemsize

    # -- launches ----------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        if not self._opened:
            self.open()
        now = time.perf_counter()
        if now > self._due:
            self._keep_up(now)
        try:
            if self.compiler.waiting:
                self.compiler.make()
            made = function(*args)
        except cl.MemoryError as error:  # found out when a kernel wanted its buffers
            known, in_use = self.capabilities, self.memory.current
            raise OutOfDeviceMemory(self, 0, in_use, known.capacity) from error
        self.queue.flush()
        return made

    def _keep_up(self, now: float) -> None:
        """Wait for what was queued some time ago: the host is faster than the device.

        What is pending takes memory of the driver's, and time when somebody wants a value. It is
        bounded by the host's time, since to queue a kernel takes some, whatever the kernel does.
        Called before a launch, so that an interrupt finds nothing half done.
        """
        self._due = now + AHEAD / MARKS
        self._marks.append(cl.enqueue_marker(self.queue))
        if len(self._marks) > MARKS:
            self._marks.popleft().wait()

    def fix(self, launch: Callable[..., Any], handles: list[Any]) -> Fixed:
        if not isinstance(launch, Launch):
            return super().fix(launch, handles)
        return launch.fixed(handles)

    def timed(self, function: Callable[..., Any], *args: Any) -> float:
        """By the device's clock, from the start of each kernel to its end.

        A clock costs each launch something, so there is a queue of its own with one, which takes
        turns with the other.
        """
        if self._clocked is None:
            timing = cl.command_queue_properties.PROFILING_ENABLE
            self._clocked = cl.CommandQueue(self.context, self.native, properties=timing)
        queue = self._clocked
        self.queue.finish()
        if function == self.copy:
            events = [enqueue_copy(queue, *args)]
        else:
            events = [enqueue(queue, *work[1:]) for work in kernels_of(function, args)]
        if not events:
            return super().timed(function, *args)
        queue.finish()
        return sum(event.profile.end - event.profile.start for event in events) * 1e-9

    # -- forks -------------------------------------------------------------------------------------

    def give_up(self) -> None:
        """In a forked child: every call is refused. The driver's threads are the parent's.

        A queue and an event may wait for work when they are freed, which would be for ever. So they
        are not freed, not even when the interpreter ends.
        """
        for held in (self.queue, self._clocked, *self._staged):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))

        def refuse(*args: Any) -> Any:
            raise DeviceFailure(f"{self}: {choice.FORKED}\n{SPAWN}")

        used = ("call", "alloc", "upload", "download", "copy", "synchronize", "target", "open")
        for name in used:
            setattr(self, name, refuse)


def enqueue_copy(
    queue: cl.CommandQueue,
    source: cl.Buffer, start: int, target: cl.Buffer, offset: int, nbytes: int,
) -> cl.Event:  # fmt: skip
    """Copy bytes between buffers, behind what is pending."""
    return cl.enqueue_copy(
        queue, target, source, src_offset=start, dst_offset=offset, byte_count=nbytes
    )


_MADE: weakref.WeakSet[OpenCLDevice] = weakref.WeakSet()


def _after_fork() -> None:
    for device in _MADE:
        device.give_up()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def open_device(index: int) -> Device:
    """Device `index` of those found. Raises: DeviceError; DeviceFailure in a forked process."""
    if choice.forked():
        raise DeviceFailure(f"{choice.FORKED}\n{SPAWN}")
    devices = choice.choose(os.environ.get(choice.DEVICE) or "").devices
    if not 0 <= index < len(devices):
        raise DeviceError(NAME, f"0 <= index < {len(devices)}", index)
    return OpenCLDevice(index, devices[index])
