"""The device, as singa-core wants to see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from singa_core.device import Capabilities, Device, HostBytes
from singa_core.dtype import DType
from singa_core.spec import Shape
from singa_outsider import library as lib

CAPACITY = 2**32  # bytes


class OutsiderDevice(Device):
    """A buffer is the library's Memory, a handle its Array."""

    def __init__(self, index: int) -> None:
        capabilities = Capabilities(alignment=16, capacity=CAPACITY, synchronous=True)
        super().__init__("outsider", index, capabilities, languages=("array",))

    def alloc(self, nbytes: int) -> lib.Memory:
        if self.memory.current + nbytes > CAPACITY:
            raise MemoryError(f"outsider: {nbytes} bytes do not fit")
        return lib.Memory(nbytes)

    def free(self, buffer: lib.Memory) -> None:
        """Python frees it with the last reference."""

    def upload(self, buffer: lib.Memory, offset: int, host: HostBytes) -> None:
        lib.to_device(buffer, offset, host)

    def download(self, buffer: lib.Memory, offset: int, host: HostBytes) -> None:
        lib.to_host(buffer, offset, host)

    def copy(
        self, source: lib.Memory, start: int, target: lib.Memory, offset: int, nbytes: int
    ) -> None:
        lib.between(source, start, target, offset, nbytes)

    def synchronize(self) -> None:
        """A launch has finished when it returns."""

    def bind(
        self, buffer: lib.Memory, offset: int, shape: Shape, strides: Shape, dtype: DType
    ) -> lib.Array:
        size = dtype.itemsize
        steps = [stride * size for stride in strides]
        return lib.array_over(buffer, offset * size, shape, steps, dtype.numpy)

    def target(self, language: str) -> Any:
        return lib.library

    def adopt(self, result: lib.Array) -> tuple[lib.Memory, lib.Array] | None:
        memory = lib.memory_of(result)
        return None if memory is None else (memory, result)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)


def open_device(index: int) -> Device:
    """One of the two."""
    return OutsiderDevice(index)
