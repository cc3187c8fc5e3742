"""Group `errors`: what cannot be done is refused with a typed error, and work goes on.

Capabilities are put to the test by `claims`, one function for each: a denial has to be true, and
what is declared has to hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from singa_core.conformance.cases import NAMES, SETS, samples_of, without_kernels
from singa_core.conformance.checking import Cases, raises
from singa_core.conformance.claims import CLAIMS, works
from singa_core.conformance.groups.common import hosts_of, outputs
from singa_core.conformance.tolerances import expect
from singa_core.device import Device, HostBytes
from singa_core.dtype import ALL, DType
from singa_core.engine import graph
from singa_core.errors import (
    DeviceError,
    DeviceFailure,
    DTypeError,
    KernelMissing,
    OutOfRange,
    ShapeError,
)
from singa_core.optable import OPS
from singa_core.resolve import find_entry
from singa_core.spec import Spec
from singa_core.storage import synchronize
from singa_core.tensor import Tensor, tensor

# -- what the device does not have ----------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_undeclared_dtypes(name: str, device: Device, case: Cases) -> None:
    """An op on a type that the device does not declare is refused, by name."""

    def check(dtype: DType) -> None:
        first = samples_of(name)[0]
        with raises(DTypeError, dtype.name):
            inputs = [tensor(h, device=device) for h in first.draw(name, 0, dtype.name)]
            hosts_of(outputs(OPS[name](*inputs, **first.attrs)))

    sets = [SETS[i.dtype] for one in samples_of(name)[:1] for i in one.inputs if i.dtype in SETS]
    for dtype in ALL:
        if dtype not in set(device.capabilities.dtypes) and sets and dtype.name in sets[0]:
            case.check(dtype, check, dtype)


def test_undeclared_results(device: Device, case: Cases) -> None:
    """What would make values of a type that the device does not declare is refused, too."""
    bits = np.array([1, 2, 3, 4], np.uint32)
    makers: dict[str, Callable[[str], Any]] = {
        "cast": lambda to: OPS["cast"](tensor([1.0], device=device), dtype=to),
        "full": lambda to: OPS["full"](shape=(2,), value=1, dtype=to, device=device),
        "iota": lambda to: OPS["iota"](size=2, dtype=to, device=device),
        "random_uniform": lambda to: OPS["random_uniform"](
            tensor(bits, device=device), shape=(2,), dtype=to
        ),
    }

    def check(name: str, dtype: DType) -> None:
        with raises(DTypeError, dtype.name):
            makers[name](dtype.name).numpy()
        works(device)

    for dtype in ALL:
        for name in makers if dtype not in device.capabilities.dtypes else ():
            fits = dtype.is_floating if name == "random_uniform" else dtype.kind != "bool"
            if fits or name in ("cast", "full"):
                case.check(f"{name}-{dtype}", check, name, dtype)


def test_missing_kernel(device: Device, case: Cases) -> None:
    """An op that nobody can serve says so: op, types, device."""

    def check() -> None:
        x = tensor([1.0], device=device)
        with (
            without_kernels(frozenset({"tanh"}), device),
            raises(KernelMissing, "tanh: no kernel for (float32)", device.name),
        ):
            OPS["tanh"](x)
        expect(abs(OPS["tanh"](x).item() - 0.76159416) < 1e-6, "tanh(1) is wrong afterwards")

    case.check("", check)


def test_shapes(device: Device, case: Cases) -> None:
    """What does not fit is refused before memory is asked for."""

    def check() -> None:
        a, b = (tensor(np.ones(n, np.float32), device=device) for n in (2, 3))
        before = device.memory.allocations
        with raises(ShapeError, "add"):
            a + b
        made = device.memory.allocations - before
        expect(made == 0, f"{made} buffers were made for nothing")

    case.check("", check)


class Elsewhere(Device):
    """Another device, of host memory and without kernels."""

    def alloc(self, nbytes: int) -> bytearray:
        """Bytes."""
        return bytearray(nbytes)

    def free(self, buffer: bytearray) -> None:
        """Nothing to do."""

    def upload(self, buffer: bytearray, offset: int, host: HostBytes) -> None:
        """Copy."""
        buffer[offset : offset + host.size] = host.tobytes()

    def download(self, buffer: bytearray, offset: int, host: HostBytes) -> None:
        """Copy."""
        host[...] = np.frombuffer(buffer, np.uint8, host.size, offset)

    def copy(self, source: Any, start: int, target: Any, offset: int, nbytes: int) -> None:
        """Copy."""
        target[offset : offset + nbytes] = source[start : start + nbytes]

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def bind(self, *where: Any) -> Any:
        """A handle that is of no use."""
        return where


def test_two_devices(device: Device, case: Cases) -> None:
    """Operands on two devices: an error that names both."""

    def check() -> None:
        here, there = (tensor([1.0], device=d) for d in (device, Elsewhere("elsewhere")))
        for a, b in ((here, there), (there, here)):
            with raises(DeviceError, device.name, "elsewhere"):
                a + b
        works(device)

    case.check("", check)


# -- indices --------------------------------------------------------------------------------------

FAR: Final = 2**31 + 5
INDEXED: Final[dict[str, Callable[[Device, Tensor], Any]]] = {
    "gather": lambda d, i: OPS["gather"](_ones(d, 5, 3), i, axis=0),
    "gather-axis1": lambda d, i: OPS["gather"](_ones(d, 3, 5), i, axis=1),
    "scatter": lambda d, i: OPS["scatter"](_ones(d, 5, 3), i, _ones(d, 3, 3), axis=0),
    "scatter_add": lambda d, i: OPS["scatter_add"](_ones(d, 5, 3), i, _ones(d, 3, 3), axis=0),
    "put": lambda d, i: OPS["put"](_ones(d, 5), i, _ones(d, 3)),
    "embedding": lambda d, i: OPS["embedding"](i, _ones(d, 5, 3)),
    "softmax_cross_entropy": lambda d, i: OPS["softmax_cross_entropy"](_ones(d, 3, 5), i),
    "negative_log_likelihood": lambda d, i: OPS["negative_log_likelihood"](_ones(d, 3, 5), i),
}


def _ones(device: Device, *shape: int) -> Tensor:
    made: Tensor = OPS["full"](shape=shape, value=1.0, dtype="float32", device=device)
    return made


@pytest.mark.parametrize("name", INDEXED)
def test_indices(name: str, device: Device, case: Cases) -> None:
    """An index outside its axis is told when the result is read, at the latest."""
    call = INDEXED[name]

    def check(kind: str, bad: int, way: str) -> None:
        good = tensor(np.array([0, 4, 1], kind), device=device)
        wrong = tensor(np.array([0, bad, 1], kind), device=device)
        function = graph(lambda i: call(device, i), device=device) if way == "graph" else None
        run = function or (lambda i: call(device, i))
        hosts_of(outputs(run(good)))
        with raises(OutOfRange):
            hosts_of(outputs(run(wrong)))
        synchronize(device)
        works(device)
        hosts_of(outputs(run(good)))

    for kind in ("int64", "int32"):
        if kind in {d.name for d in device.capabilities.dtypes}:
            for bad in (5, -6, FAR) if kind == "int64" else (5, -6):
                for way in ("eager", "graph"):
                    case.check(f"{kind}-{bad}-{way}", check, kind, bad, way)


# -- launches that fail ---------------------------------------------------------------------------


class Broken(Exception):
    """What a driver might raise."""


def test_failing_launch(device: Device, case: Cases) -> None:
    """An exception in a launch reaches the caller, in core's words, and is not told twice."""

    def broken(*handles: Any) -> None:
        raise Broken("the driver gave up")

    def direct() -> None:
        with raises(Broken):
            device.call(broken)
        works(device)

    def through_an_op() -> None:
        x = tensor([1.0, 2.0], device=device)
        entry = find_entry(device, OPS["neg"], (), (Spec((2,), "float32"),))
        launch = entry.launch
        entry.launch = broken
        try:
            with raises(DeviceFailure, "neg", device.name, "Broken: the driver gave up"):
                OPS["neg"](x).numpy()
        finally:
            entry.launch = launch
        synchronize(device)
        works(device)

    case.check("call", direct)
    case.check("op", through_an_op)


# -- what capabilities deny, or promise -----------------------------------------------------------


@pytest.mark.parametrize("name", CLAIMS)
def test_capabilities(name: str, device: Device, case: Cases) -> None:
    """What a device denies is really absent, and what it declares holds; see `claims`."""
    value = getattr(device.capabilities, name)
    told = ("unknown" if value is None else "known") if name == "capacity" else bool(value)
    case.check(told, CLAIMS[name], device)


__all__ = [name for name in dir() if name.startswith("test_")]
