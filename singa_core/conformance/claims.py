"""What a device's capabilities say of it, put to the test: each denial, and each promise."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from singa_core import kernels
from singa_core.conformance.checking import Unsupported, raises
from singa_core.conformance.tolerances import differs, expect, same_values
from singa_core.device import Device
from singa_core.dtype import float32
from singa_core.engine import GraphFunction
from singa_core.errors import OutOfRange
from singa_core.kernels.c import CallTable
from singa_core.optable import OPS
from singa_core.passes.fuse import FUSED_OPERAND
from singa_core.resolve import Entry, find_entry
from singa_core.spec import Spec
from singa_core.storage import as_bytes
from singa_core.tensor import Tensor, tensor

SCALAR: Final = ("neg", "abs", "add", "sub", "mul", "maximum")
"""Operations of which a chain of any two is exact on small whole numbers."""

PATIENCE: Final = 1.0
"""Seconds that a thread inside a device waits for a second one, where that may come."""


def works(device: Device) -> None:
    """Raises: Mismatch unless the device still computes."""
    got = (tensor([1.0, 2.0], device=device) * 2.0 + 1.0).tolist()
    expect(got == [3.0, 5.0], f"after the error 1 * 2 + 1 and 2 * 2 + 1 give {got}")


def host(device: Device) -> None:
    """Handles are NumPy arrays of the memory itself; or the host has copies only."""
    before, after = (np.arange(6, dtype=np.float32).reshape(2, 3) + n for n in (0, 9))
    x = tensor(before, device=device)
    array = x.array
    expect(array is not None, "a tensor without an array")
    handle: Any = array.handle if array is not None else None
    seen = x.numpy()
    if array is not None:
        device.upload(array.storage.buffer, 0, as_bytes(after))
    same_values("what was uploaded", x.numpy(), after)
    if device.capabilities.host:
        expect(isinstance(handle, np.ndarray), f"a handle is a {type(handle).__name__}")
        same_values("a handle", handle, after)
    else:
        expect(not isinstance(handle, np.ndarray), "a handle is host memory: say host=True")
        same_values("a copy of what was there before", seen, before)


def sub_buffers(device: Device) -> None:
    """Temporaries share an arena, at aligned offsets; or each has a buffer of its own."""
    able = device.capabilities
    step = GraphFunction(lambda x: ((x @ x + 1.0) @ x).exp() @ (x * 2.0), device=device)
    x = tensor(np.eye(9, dtype=np.float32) * 0.1, device=device)
    eager = step.function(x).numpy()
    differs("a planned graph", step(x).numpy(), eager, 1e-6, 1e-8)
    plan = getattr(step.recordings[0].executable, "plan", None)
    if plan is None:
        raise Unsupported
    offsets = [offset for _, offset in plan.offsets.values()]
    expect(len(offsets) > 1, "no temporaries were planned")
    if able.sub_buffers:
        wrong = [offset for offset in offsets if offset % able.alignment]
        expect(not wrong, f"offsets {wrong} are not aligned to {able.alignment}")
    else:
        expect(set(offsets) == {0}, f"without sub-buffers there are offsets {offsets}")


def concurrent(device: Device) -> None:
    """Calls of several threads at once come to no harm; or no two are inside at once.

    A device that says True may still let them wait for each other, by a lock of its own. What their
    launches compute is `device::threads`.
    """
    works(device)
    several = device.capabilities.concurrent
    inside, most = [0], [0]
    met, wrong = threading.Event(), []

    def enter() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        if most[0] > 1:
            met.set()
        if not met.wait(PATIENCE if several else 0.002) and several:
            met.set()  # they wait for each other
        inside[0] -= 1

    def work() -> None:
        try:
            for _ in range(5):
                device.call(enter)
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not wrong, "; ".join(wrong[:2]))
    if not several:
        expect(most[0] == 1, f"{most[0]} threads were inside the device at once")


def synchronous(device: Device) -> None:
    """A launch that fails has said so when it returns; or at the next wait, and only there."""
    x = OPS["full"](shape=(5, 3), value=1.0, dtype="float32", device=device)
    wrong = tensor(np.array([0, 9, 1]), device=device)
    with raises(OutOfRange):
        y = OPS["gather"](x, wrong, axis=0)
        if not device.capabilities.synchronous:
            y.numpy()
    works(device)


def capacity(device: Device) -> None:
    """A number of bytes above what is in use; or not known."""
    known = device.capabilities.capacity
    told = device.memory_info()["capacity"]
    expect(told == known, f"memory_info says {told}, capabilities {known}")
    used = device.memory.current
    expect(known is None or known >= used, f"{used} bytes of {known}")


def fuses(device: Device) -> None:
    """Chains of the ops that are named are one launch; or every op is one."""
    able = device.capabilities.fuses
    names = [name for name in SCALAR if name in able] if able else SCALAR
    if not names:
        raise Unsupported  # it fuses other ops only
    first, second = (*names, *names)[:2]

    def chain(x: Tensor, y: Tensor) -> Any:
        return _apply(second, _apply(first, x, y), y)

    x, y = (tensor(np.arange(-3, 3, dtype=np.float32) * n, device=device) for n in (1, 2))
    step = GraphFunction(chain, device=device)
    same_values("a chain", step(x, y).numpy(), chain(x, y).numpy())
    launched(step, "fused", wanted=bool(able))


def parameters(device: Device) -> None:
    """Chains have as many operands as are expected to fit; where bytes are told, all are taken.

    Only kernels in C tell how many bytes of arguments a launch has. Those of other languages are
    tried with one operand for every `FUSED_OPERAND` bytes, which is what the core makes use of.
    """
    able = device.capabilities
    name = next((name for name in ("add", "maximum") if name in able.fuses), None)
    if name is None:
        raise Unsupported  # nothing makes launches of many operands

    def chain(*xs: Tensor) -> Any:
        return functools.reduce(OPS[name], xs)

    xs = operands(device, able.parameters // FUSED_OPERAND + 1)
    step = GraphFunction(chain, device=device)
    same_values("a chain of many operands", step(*xs).numpy(), chain(*xs).numpy())
    launched(step, "fused", wanted=True)
    count = fullest(device, name)
    if count is not None:
        xs = operands(device, count)
        y = OPS["fused"](*xs, **chained(name, count))
        same_values("a launch with all the arguments", y.numpy(), chain(*xs).numpy())


def operands(device: Device, count: int) -> list[Tensor]:
    """Five whole numbers in each of as many tensors, no two alike."""
    return [tensor(np.arange(5, dtype=np.float32) + n, device=device) for n in range(count)]


def chained(name: str, count: int) -> dict[str, Any]:
    """The attributes of `fused` for an op between each two of `count` values."""
    first = (name, (), (0, 1), float32)
    more = [(name, (), (count + n, n + 2), float32) for n in range(count - 2)]
    return {"steps": (first, *more), "results": (2 * count - 2,)}


def fullest(device: Device, name: str) -> int | None:
    """How many inputs of a chain fill the arguments of a launch; None if its kernel tells not.

    Raises: Mismatch if such a launch is declined.
    """
    fused, form = OPS["fused"], Spec((5,), "float32")

    def entry_of(count: int) -> Entry:
        attrs = tuple(chained(name, count).values())
        return find_entry(device, fused, attrs, (form,) * count)

    kernel = entry_of(2).kernel
    table = None if kernel is None else kernels.table(kernel.language)
    if kernel is None or not isinstance(table, CallTable):
        return None
    calls_of, target = table.calls_of(kernel), device.target(kernel.language)

    def nbytes(count: int) -> int:
        made = calls_of(target, (form,) * count, (form,), **chained(name, count))
        calls = made[0] if isinstance(made, tuple) else made
        return max((call.parameters for call in calls or ()), default=0)

    most, count = device.capabilities.parameters, 2
    while 0 < nbytes(count + 1) <= most:
        count += 1
    served = entry_of(count).kernel is kernel
    expect(served, f"a launch with {nbytes(count)} of {most} bytes of arguments is declined")
    return count


def _apply(name: str, x: Tensor, y: Tensor) -> Any:
    return OPS[name](x) if name in ("neg", "abs") else OPS[name](x, y)


def batches(device: Device) -> None:
    """Small updates of the ops that are named are one launch together; or each is its own."""
    able = device.capabilities.batches
    whole = "fused" in able and {"add", "mul"} <= device.capabilities.fuses
    if able and not whole and "add" not in able:
        raise Unsupported  # it joins other updates only
    cells = [tensor(np.full(3, n, np.float32), device=device) for n in range(3)]

    def update(x: Tensor) -> None:
        for cell in cells:
            cell.assign(cell * 0.5 + x if whole else cell + x)

    step = GraphFunction(update, device=device)
    values = [np.full(3, n, np.float32) for n in range(3)]
    for n in range(2):
        x = np.full(3, 2 + n, np.float32)
        step(tensor(x, device=device))
        values = [v * np.float32(0.5) + x if whole else v + x for v in values]
        for cell, wanted in zip(cells, values, strict=True):
            same_values(f"state after {n + 1} replays", cell.numpy(), wanted)
    launched(step, "together", wanted=bool(able))


def launched(step: GraphFunction, kind: str, *, wanted: bool) -> None:
    """Raises: Mismatch unless the graph has, or has no, launch of this kind."""
    report = step.recordings[0].executable.report()
    if "operations" not in report:
        raise Unsupported  # the device loads programs itself, and does not say
    titles = list(report["operations"])
    found = any(title.startswith(kind) for title in titles)
    expect(found is wanted, f"needs {'a' if wanted else 'no'} launch of {kind!r}, got {titles}")


CLAIMS: Final[Mapping[str, Callable[[Device], None]]] = MappingProxyType({
    "host": host, "sub_buffers": sub_buffers, "concurrent": concurrent,
    "synchronous": synchronous, "capacity": capacity, "fuses": fuses, "batches": batches,
    "parameters": parameters,
})  # fmt: skip
