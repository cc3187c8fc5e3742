"""Group `graph`: a replay is what eager does, for every op, for state, and whatever callers do.

Bit for bit where the executable is core's loop over the same kernels; a backend that fuses, or
loads programs itself, is held to the tolerances of the ops.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from singa_core.autograd import gradients
from singa_core.conformance.cases import FLOATS, NAMES, Case, cases, same_bits
from singa_core.conformance.checking import Cases, Unsupported
from singa_core.conformance.groups import graph_state
from singa_core.conformance.groups.autograd import wanted_of
from singa_core.conformance.groups.common import hosts_of, level, terms
from singa_core.conformance.oracles.common import HostArray, wide
from singa_core.conformance.programs import agree, compare, made, noise
from singa_core.conformance.tolerances import GRADIENT, Terms, differs, expect
from singa_core.conformance.tolerances import compare as close
from singa_core.device import Device
from singa_core.engine import GraphFunction, graph
from singa_core.tensor import Tensor, tensor

PROGRAMS: Final = 150
QUICK: Final = ("float32", "float64")


def loops(device: Device) -> bool:
    """True if the device leaves programs to core's loop, which runs eager's own kernels."""
    able = device.capabilities
    return type(device).load is Device.load and not able.fuses and not able.batches


def same_as_eager(
    device: Device, name: str, eager: HostArray, replayed: HostArray, met: Terms
) -> None:
    """Raises: Mismatch unless a replay gives what eager gives."""
    if loops(device):
        expect(same_bits(eager, replayed), f"eager  {eager!r}\nreplay {replayed!r}")
    else:
        close(name, replayed, wide(eager), met)


@pytest.mark.parametrize("name", NAMES)
def test_replays(name: str, device: Device, case: Cases) -> None:
    """Three replays with three inputs, all results held: each is eager's."""
    for one in cases(name, device, None if case.full else QUICK):
        case.check(f"{one.subject}-{one.number}", replays, one, device)


def replays(case: Case, device: Device) -> None:
    """See `test_replays`."""
    recorded = GraphFunction(lambda *xs: case.call(device, *xs), device=device)
    variants = (0, 1, 2) if case.sample.inputs else (0, 0, 0)
    eager = [hosts_of(case.call(device, *case.tensors(device, v))) for v in variants]
    replayed = [recorded(*case.tensors(device, v)) for v in variants]
    expect(recorded.records == 1, f"recorded {recorded.records} times for one kind of input")
    for wanted, got in zip(eager, replayed, strict=True):
        for a, b in zip(wanted, got, strict=True):
            same_as_eager(device, case.name, a, b.numpy(), terms(case.hosts()))


@pytest.mark.parametrize("name", NAMES)
def test_recorded_gradients(name: str, device: Device, case: Cases) -> None:
    """Forward and backward in one graph, replayed with other inputs."""
    for one in cases(name, device, QUICK if case.full else ("float32",)):
        wanted = wanted_of(one)
        if wanted and one.dtype in FLOATS:
            case.check(f"{one.dtype}-{one.number}-gradient", gradient, one, device, wanted)


def gradient(case: Case, device: Device, wanted: list[int]) -> None:
    """See `test_recorded_gradients`."""

    def step(*inputs: Tensor) -> Any:
        outs = [y for y in case.call(device, *inputs) if y.requires_grad]
        if not outs:
            return ()
        seeds = [y.detach() * 0.5 + 1.0 for y in outs]
        return tuple(gradients(outs, [inputs[i] for i in wanted], seeds, allow_unused=True))

    def fresh(variant: int) -> list[Tensor]:
        tensors = case.tensors(device, variant)
        for i in wanted:
            tensors[i].requires_grad = True
        return tensors

    recorded = GraphFunction(step, device=device)
    eager = [step(*fresh(v)) for v in (0, 1)]
    replayed = [recorded(*fresh(v)) for v in (0, 1)]
    for ours, theirs in zip(eager, replayed, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            expect((a is None) == (b is None), "one of eager and replay has no gradient")
            if a is None:
                continue
            if loops(device):
                expect(same_bits(a.numpy(), b.numpy()), f"eager  {a}\nreplay {b}")
            else:
                x, y = wide(a.numpy()), wide(b.numpy())
                bound = GRADIENT[a.dtype.name]
                differs("gradient", y, x, bound, bound * float(np.abs(x).max(initial=1.0)))


@pytest.mark.parametrize("name", graph_state.SCENES)
def test_scenes(name: str, device: Device, case: Cases) -> None:
    """State, arguments and results in every role they can have; see `graph_state`."""
    scene = graph_state.SCENES[name]
    for alg in ("memory", "sequence"):
        case.check(alg, scene, device, alg)


@level("full")
def test_programs(device: Device, case: Cases) -> None:
    """Random programs over cells, views, updates, gradients and draws."""

    def check(seed: int, alg: str) -> None:
        want, got, function = compare(device, *made(seed), alg)
        for i, (a, b) in enumerate(zip(want, got, strict=True)):
            expect(a == b if loops(device) else agree(a, b), f"fact {i} of program {seed} differs")
        expect(all(want[-1]), "results that were held have changed")
        function.clear()

    try:
        for seed in range(PROGRAMS):
            case.check(seed, check, seed, "sequence" if seed % 3 == 0 else "memory")
    finally:
        noise.clear()


# -- memory ---------------------------------------------------------------------------------------


def recorded_step(device: Device) -> tuple[Callable[[Tensor], Any], Tensor]:
    """A graph with state and a few temporaries, and an argument for it."""
    weight = tensor(np.full((64, 64), 0.01, np.float32), device=device)

    def step(x: Tensor) -> Tensor:
        h = ((x @ weight).tanh() @ weight).exp()
        weight.assign(weight * 0.5 + h * 0.001)
        return (h * 2.0).sum()

    x = tensor(np.random.default_rng(0).uniform(-1, 1, (64, 64)).astype(np.float32), device=device)
    return graph(step, device=device), x


def test_replays_allocate_nothing(device: Device, case: Cases) -> None:
    """A hundred replays leave core's counters as they were."""

    def check() -> None:
        step, x = recorded_step(device)
        for _ in range(3):
            step(x)
        held = device.memory.allocations, device.memory.current
        for _ in range(100):
            step(x)
        now = device.memory.allocations, device.memory.current
        expect(now == held, f"(allocations, bytes) went from {held} to {now} in 100 replays")

    case.check("", check)


def test_planned_peak(device: Device, case: Cases) -> None:
    """A replay needs no more memory than its plan says; a graph that is dropped gives it back."""

    def check() -> None:
        gc.collect()
        before = device.memory.current
        step, x = recorded_step(device)
        step(x)
        report = step.recordings[0].executable.report()  # type: ignore[attr-defined]
        device.memory.reset_peak()
        start = device.memory.current
        for _ in range(3):
            step(x)
        grown = device.memory.peak - start
        expect(grown == 0, f"replays need {grown} bytes more than what is held")
        if "planned_peak" not in report:
            raise Unsupported
        extra = start - before - 2 * x.spec.nbytes  # the argument, and the state
        bound = report["bytes"] + 4096
        expect(extra <= bound, f"{extra} bytes are held, the plan says {report['bytes']}")
        del step
        gc.collect()
        left = device.memory.current - before - x.spec.nbytes
        expect(left <= 4096, f"{left} bytes are left of a graph that was dropped")

    case.check("", check)


__all__ = [name for name in dir() if name.startswith("test_")]
