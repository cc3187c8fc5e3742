"""Memory and launches on the host, by NumPy. Buffers are C-contiguous ndarrays, handles any."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from singa_core.device import Capabilities, Device, HostBytes
from singa_core.dtype import DType
from singa_core.errors import DeviceError
from singa_core.spec import Shape, Spec
from singa_cpu_numpy import kernels  # registers what "numpy" has
from singa_cpu_numpy.threads import configure

NAME = "cpu_numpy"
ALIGNMENT = 64
Array = npt.NDArray[Any]


class NumpyDevice(Device):
    """The host's memory, and NumPy to compute on it."""

    def __init__(self) -> None:
        capabilities = Capabilities(
            alignment=ALIGNMENT,
            host=True,
            synchronous=True,
            concurrent=True,
            capacity=physical_memory(),
        )
        super().__init__(NAME, 0, capabilities, languages=(kernels.LANGUAGE, "array"))

    def alloc(self, nbytes: int) -> Array:
        raw = np.empty(nbytes + ALIGNMENT, np.uint8)
        start = -raw.__array_interface__["data"][0] % ALIGNMENT
        return raw[start : start + nbytes]

    def empty(self, spec: Spec) -> tuple[Array, Array]:
        array = np.empty(spec.shape, spec.dtype.numpy)
        return array, array

    def maker(self, spec: Spec) -> Callable[[], tuple[Array, Array]]:
        empty, shape, dtype = np.empty, spec.shape, spec.dtype.numpy

        def make() -> tuple[Array, Array]:
            array = empty(shape, dtype)
            return array, array

        return make

    def free(self, buffer: Array) -> None:
        """Python frees it when the last handle is gone."""

    def upload(self, buffer: Array, offset: int, host: HostBytes) -> None:
        as_bytes(buffer)[offset : offset + host.size] = host

    def download(self, buffer: Array, offset: int, host: HostBytes) -> None:
        host[...] = as_bytes(buffer)[offset : offset + host.size]

    def copy(self, source: Array, start: int, target: Array, offset: int, nbytes: int) -> None:
        as_bytes(target)[offset : offset + nbytes] = as_bytes(source)[start : start + nbytes]

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def bind(self, buffer: Array, offset: int, shape: Shape, strides: Shape, dtype: DType) -> Array:
        size = dtype.itemsize
        steps = [stride * size for stride in strides]
        # bytes where the dtype (bfloat16) does not export its memory as a buffer
        memory = buffer if buffer.dtype.kind != "V" else as_bytes(buffer).data
        return np.ndarray(shape, dtype.numpy, memory, offset * size, steps)

    def target(self, language: str) -> Any:
        return np

    def adopt(self, result: Any) -> tuple[Array, Array] | None:
        if not isinstance(result, np.ndarray):
            result = np.asarray(result)  # NumPy makes scalars of 0-d results
        elif result.base is not None or not result.flags.carray:
            return None
        return result, result

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return _QUIET.run(function, *args)
        except RuntimeError:
            if not _INSIDE.get():
                raise
        return function(*args)  # a call within a call: this thread's context is entered already


# NumPy keeps what to do about overflow, NaN and division by zero in a context variable. Running a
# launch in a context of its own costs a tenth of entering and leaving np.errstate.
_INSIDE = contextvars.ContextVar("singa_cpu_numpy_inside", default=False)


class _Quiet(threading.local):
    """A context for each thread, since no two may be in the same one."""

    def __init__(self) -> None:
        context = contextvars.Context()
        context.run(configure)
        context.run(_INSIDE.set, True)
        self.run = context.run


_QUIET = _Quiet()


def as_bytes(buffer: Array) -> HostBytes:
    """The bytes of a buffer, without a copy."""
    return buffer.reshape(-1).view(np.uint8)


def physical_memory() -> int | None:
    """Bytes of memory in this machine, None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def open_device(index: int) -> Device:
    """The host. Raises: DeviceError, since there is only one."""
    if index != 0:
        raise DeviceError(NAME, "device index 0, the only one", index)
    return NumpyDevice()
