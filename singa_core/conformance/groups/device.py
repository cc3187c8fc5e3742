"""Group `device`: memory goes where it should and comes back as it was."""

from __future__ import annotations

import gc
import mmap
import threading
from pathlib import Path
from typing import Any

import numpy as np

from singa_core.conformance.checking import Cases, Unsupported, raises
from singa_core.conformance.oracles.common import HostArray
from singa_core.conformance.tolerances import differs, expect, same_values, widened
from singa_core.device import Device
from singa_core.dtype import ALL, DType, as_dtype
from singa_core.errors import OutOfDeviceMemory
from singa_core.optable import OPS
from singa_core.spec import Spec
from singa_core.storage import allocate, as_bytes, synchronize
from singa_core.tensor import tensor

SIZES = (0, 1, 3, 255, 256, 257, 4096, 2**20 + 1)
MIB = 2**20


def noise(size: int, seed: int = 0) -> HostArray:
    """Random bytes."""
    return np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)


# -- bytes ----------------------------------------------------------------------------------------


def test_round_trip(device: Device, case: Cases) -> None:
    """What is uploaded is what is downloaded, of every size."""

    def check(size: int) -> None:
        storage, sent = allocate(device, size), noise(size)
        device.upload(storage.buffer, 0, sent)
        got = np.zeros(size, np.uint8)
        device.download(storage.buffer, 0, got)
        same_values("bytes", got, sent)

    for size in SIZES:
        case.check(size, check, size)


def test_parts(device: Device, case: Cases) -> None:
    """Uploads and downloads at an offset touch what they name, and nothing beside it."""

    def check(start: int, size: int) -> None:
        whole, part = noise(1000), noise(size, 1)
        storage, got = allocate(device, 1000), np.zeros(1000, np.uint8)
        device.upload(storage.buffer, 0, whole)
        device.upload(storage.buffer, start, part)
        whole[start : start + size] = part
        device.download(storage.buffer, 0, got)
        same_values("bytes", got, whole)
        some = np.zeros(size, np.uint8)
        device.download(storage.buffer, start, some)
        same_values("bytes", some, part)

    for start, size in ((0, 0), (0, 1), (1, 1), (3, 64), (128, 256), (999, 1)):
        case.check(f"{start}+{size}", check, start, size)


def test_copy(device: Device, case: Cases) -> None:
    """Bytes go from one buffer to another, at both offsets."""

    def check(start: int, offset: int, size: int) -> None:
        source, target = noise(1000), noise(1000, 1)
        a, b = allocate(device, 1000), allocate(device, 1000)
        device.upload(a.buffer, 0, source)
        device.upload(b.buffer, 0, target)
        device.copy(a.buffer, start, b.buffer, offset, size)
        target[offset : offset + size] = source[start : start + size]
        got = np.zeros(1000, np.uint8)
        device.download(b.buffer, 0, got)
        same_values("bytes", got, target)

    for start, offset, size in ((0, 0, 1000), (0, 0, 0), (7, 13, 100), (256, 0, 744), (0, 999, 1)):
        case.check(f"{start}-{offset}-{size}", check, start, offset, size)


def test_upload_is_a_copy(device: Device, case: Cases) -> None:
    """The host may change its memory once `upload` has returned."""

    def check() -> None:
        storage, sent = allocate(device, MIB), noise(MIB)
        kept = sent.copy()
        device.upload(storage.buffer, 0, sent)
        sent[...] = 0
        got = np.zeros(MIB, np.uint8)
        device.download(storage.buffer, 0, got)
        same_values("bytes", got, kept)

    case.check("", check)


def test_dtypes(device: Device, case: Cases) -> None:
    """Arrays of every declared type come back bit for bit; 0-d and empty ones too."""

    def check(dtype: DType, shape: tuple[int, ...]) -> None:
        count = int(np.prod(shape)) * dtype.itemsize
        bits = noise(count) & 1 if dtype.kind == "bool" else noise(count)
        host = bits.view(dtype.numpy).reshape(shape)
        got = tensor(host, device=device).numpy()
        expect((got.dtype, got.shape) == (host.dtype, shape), f"got {got.dtype} {got.shape}")
        if count:
            same_values("bytes", as_bytes(np.ascontiguousarray(got)), as_bytes(host))

    for dtype in ALL:
        if dtype in device.capabilities.dtypes:
            for shape in ((), (0,), (3, 0, 2), (5, 7)):
                case.check(f"{dtype}-{shape}", check, dtype, shape)


# -- order ----------------------------------------------------------------------------------------


def test_download_waits(device: Device, case: Cases) -> None:
    """A download comes after all the work that was launched before it, without a synchronize."""

    def check(n: int, steps: int) -> None:
        host = np.random.default_rng(0).uniform(-1, 1, (n, n)).astype(np.float32)
        y, wanted = tensor(host, device=device), host.astype(np.float64)
        for _ in range(steps):
            y, wanted = y * 0.5 + 1.0, wanted * 0.5 + 1.0
        differs("a chain of launches", y.numpy().astype(float), wanted, 1e-5, 0.0)

    for n, steps in ((1, 1), (8, 200), (700, 20)):
        case.check(f"{n}x{steps}", check, n, steps)


def test_upload_waits(device: Device, case: Cases) -> None:
    """An upload to memory that a launch still reads does not overtake it."""

    def check() -> None:
        host = np.full((700, 700), 1.0, np.float32)
        x = tensor(host, device=device)
        y = x
        for _ in range(20):
            y = y + x
        if x.array is not None:
            device.upload(x.array.storage.buffer, 0, as_bytes(np.zeros_like(host)))
        same_values("what was launched before", y.numpy(), host * 21)

    case.check("", check)


def test_synchronize(device: Device, case: Cases) -> None:
    """Waiting is allowed at any time, also when there is nothing to wait for."""

    def check() -> None:
        synchronize(device)
        synchronize(device)
        y = tensor([1.0, 2.0], device=device) + 1.0
        synchronize(device)
        expect(y.tolist() == [2.0, 3.0], f"got {y.tolist()}")

    case.check("", check)


def test_threads(device: Device, case: Cases) -> None:
    """Several threads at once, each with values of its own."""

    def check() -> None:
        wrong: list[str] = []

        def work(number: int) -> None:
            try:
                for _ in range(25):
                    y = tensor(np.full(1000, number, np.float32), device=device)
                    for _ in range(4):
                        y = y * 2.0 - number
                    if set(y.tolist()) != {float(number)}:
                        wrong.append(f"thread {number} got {y.tolist()[:3]}")
            except Exception as error:
                wrong.append(f"thread {number}: {type(error).__name__}: {error}")

        threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expect(not wrong, "; ".join(wrong[:3]))

    case.check("", check)


# -- handles --------------------------------------------------------------------------------------


def test_empty(device: Device, case: Cases) -> None:
    """`empty` and `maker` give new memory each time, and handles that kernels can use."""

    def check(make: Any) -> None:
        spec = Spec((3,), "float32")
        made = [make(spec) for _ in range(3)]
        try:
            for n, (buffer, _) in enumerate(made):
                device.upload(buffer, 0, as_bytes(np.full(3, n, np.float32)))
            for n, (buffer, _) in enumerate(made):
                got = np.zeros(3, np.float32)
                device.download(buffer, 0, as_bytes(got))
                same_values("one of three", got, np.full(3, n, np.float32))
        finally:
            for buffer, _ in made:
                device.free(buffer)

    case.check("empty", check, device.empty)
    case.check("maker", check, lambda spec: device.maker(spec)())


def test_offsets(device: Device, case: Cases) -> None:
    """A value may lie at any element of a buffer; in an arena, at any aligned byte."""

    def check(dtype: DType, offset: int) -> None:
        host = noise(64 * dtype.itemsize).view(dtype.numpy)
        if dtype.is_floating:
            host = np.arange(64).astype(dtype.numpy)
        x = tensor(host, device=device)
        y = OPS["slice"](x, start=(offset,), size=(8,))
        wanted = widened(host[offset : offset + 8])
        same_values(f"at {offset}", widened(y.numpy()), wanted)
        packed = OPS["copy"](y)
        same_values("copied", widened(packed.numpy()), wanted)

    for name in ("float32", "float64", "int64", "int32", "uint8", "float16"):
        if as_dtype(name) in device.capabilities.dtypes:
            for offset in (0, 1, 7, 32):
                case.check(f"{name}-{offset}", check, as_dtype(name), offset)


# -- how much -------------------------------------------------------------------------------------


def test_out_of_memory(device: Device, case: Cases) -> None:
    """What cannot be had is a typed error, nothing has changed, and work goes on."""

    def check(size: int) -> None:
        x, held = tensor([1.0, 2.0], device=device), device.memory.current
        with raises(OutOfDeviceMemory, device.name, str(size)):
            allocate(device, size)
        now = device.memory.current
        expect(now == held, f"{now - held} bytes are still counted")
        expect((x + 1.0).tolist() == [2.0, 3.0], "work does not go on")

    case.check("more-than-any-device-has", check, 2**60)
    able = device.capabilities
    if able.capacity is not None:
        case.check("more-than-the-capacity", check, 2 * able.capacity + 1)
    if able.largest is not None:
        case.check("more-than-the-largest", check, able.largest + 1)


def test_memory_comes_back(device: Device, case: Cases) -> None:
    """Tensors that are gone are gone: by core's count, and by the operating system's."""

    def counted() -> None:
        gc.collect()
        before = device.memory.current
        x = tensor(np.ones((64, 64), np.float32), device=device)
        for _ in range(50):
            y = (x @ x).sum() + x.T.exp()[0]
        y.numpy()
        del x, y
        gc.collect()
        # the device's cache of constants may have grown
        left = device.memory.current - before
        expect(left < 4096, f"{left} bytes are held by nobody")

    def buffers(round_of: Any) -> None:
        sizes = []
        for _ in range(5):  # a queue may hold many buffers, and an allocator keep what it has had
            for _ in range(48):
                round_of()
            synchronize(device)
            sizes.append(resident())
        # what leaks does so every time
        grown = min(sizes[-1] - sizes[-2], sizes[-2] - sizes[-3]) / MIB
        expect(grown < 48, f"the process grows by {grown:.0f} MiB in 48 rounds of 4 MiB")

    host = np.ones(MIB, np.float32)
    case.check("counted", counted)
    case.check("uploads", buffers, lambda: tensor(host, device=device))
    x = tensor(host, device=device)
    case.check("launches", buffers, lambda: x + x)


def resident() -> int:
    """Bytes of this process in memory. Raises: Unsupported where the system does not tell."""
    pages = Path("/", "proc", "self", "statm")
    if not pages.exists():
        raise Unsupported
    return int(pages.read_text("ascii").split()[1]) * mmap.PAGESIZE


def test_memory_info(device: Device, case: Cases) -> None:
    """What the device says of its memory are numbers, and they are core's."""

    def check() -> None:
        info = device.memory_info()
        expect({"current", "peak", "capacity"} <= set(info), f"got {sorted(info)}")
        x = tensor(np.zeros(1000, np.float32), device=device)
        grown = (device.memory_info()["current"] or 0) - (info["current"] or 0)
        expect(grown == 4000, f"4000 bytes are counted as {grown}")
        del x

    case.check("", check)


__all__ = [name for name in dir() if name.startswith("test_")]
