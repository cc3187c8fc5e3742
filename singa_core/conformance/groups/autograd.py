"""Group `autograd`: gradients are derivatives.

Two judges. Where the device computes in float64, a gradient along a random direction equals a
difference of values on the device, to second order. In every floating type it equals the difference
of the oracle's values in float64, within the table's bound for gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from singa_core.autograd import gradients
from singa_core.conformance.cases import NAMES, SETS, Case, cases, same_bits
from singa_core.conformance.checking import Cases
from singa_core.conformance.gradcheck import check_gradients, derivative
from singa_core.conformance.groups.common import outputs, reference
from singa_core.conformance.oracles.common import HostArray, wide
from singa_core.conformance.tolerances import GRADIENT, WIDENED, expect
from singa_core.device import Device
from singa_core.dtype import as_dtype
from singa_core.tensor import Tensor, tensor

CUT = frozenset({"detach"})  # its gradient is not its derivative, on purpose


def wanted_of(case: Case) -> list[int]:
    """Which inputs of a sample get their gradient checked."""
    return [
        i
        for i, x in enumerate(case.sample.inputs)
        if x.grad and (x.dtype in SETS or x.dtype == case.dtype) and case.sample.level == "full"
    ]


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str, device: Device, case: Cases) -> None:
    """The gradient of every op, on its samples."""
    if name in CUT:
        return
    dtypes = ("float32", "float64", "float16", "bfloat16") if case.full else ("float32",)
    for one in cases(name, device):
        wanted = wanted_of(one)
        if not wanted or not as_dtype(one.dtype if one.dtype != "fixed" else "int64").is_floating:
            continue
        if one.dtype == "float64":
            case.check(f"float64-{one.number}-difference", against_itself, one, device, wanted)
        if one.dtype in dtypes:
            case.check(f"{one.dtype}-{one.number}", against_oracle, one, device, wanted)


def against_itself(case: Case, device: Device, wanted: list[int]) -> None:
    """The tape against differences on the device, first and second order."""
    check_gradients(lambda *xs: case.call(device, *xs), device, case.hosts(), wanted=wanted)


def against_oracle(case: Case, device: Device, wanted: list[int]) -> None:
    """The tape against differences of the oracle in float64, along a random direction."""
    rng = np.random.default_rng(7)
    hosts = case.hosts()
    direction = {i: rng.uniform(-1, 1, hosts[i].shape) for i in wanted}
    tensors = [tensor(h, device=device) for h in hosts]
    for i in wanted:
        tensors[i].requires_grad = True
    outs = [(k, y) for k, y in enumerate(case.call(device, *tensors)) if y.requires_grad]
    if not outs:
        return
    seeds = [rng.choice([-1.0, -0.5, 0.5, 1.0], y.shape).astype(y.dtype.numpy) for _, y in outs]
    found = gradients(
        [y for _, y in outs],
        [tensors[i] for i in wanted],
        [tensor(s, device=device) for s in seeds],
        allow_unused=True,
    )
    weights = [wide(seed) for seed in seeds]

    def value(t: float) -> float:
        moved = [_moved(h, t * direction[i]) if i in direction else h for i, h in enumerate(hosts)]
        made = outputs(reference(case, moved))
        pairs = zip(weights, (made[k] for k, _ in outs), strict=True)
        return float(sum((w * np.asarray(y, np.float64)).sum() for w, y in pairs))

    slope = derivative(value)
    parts = [
        (wide(g.numpy()), direction[i]) for i, g in zip(wanted, found, strict=True) if g is not None
    ]
    taped = float(sum((g * d).sum() for g, d in parts))
    # beside the sum of what is added up: one rounding of each element is no error
    scale = max(1.0, float(sum(np.abs(g * d).sum() for g, d in parts)))
    bound = GRADIENT[case.dtype] * WIDENED.get(("gradient", case.dtype), 1.0) * scale
    expect(
        abs(slope - taped) <= bound,
        f"along a direction the gradient is {taped!r}, the oracle's slope {slope!r}; "
        f"allowed {bound:.1e}",
    )


def _moved(host: HostArray, by: HostArray) -> HostArray:
    return np.asarray(wide(host) + by)


@pytest.mark.parametrize("name", NAMES)
def test_inputs_survive(name: str, device: Device, case: Cases) -> None:
    """A backward pass changes neither the inputs nor the incoming gradient."""
    for one in cases(name, device, ("float32",)):
        wanted = wanted_of(one)
        if one.dtype == "float32" and wanted:
            case.check(f"float32-{one.number}-inputs", inputs_survive, one, device, wanted)


def inputs_survive(case: Case, device: Device, wanted: list[int]) -> None:
    """See `test_inputs_survive`."""
    hosts, tensors = case.hosts(), case.tensors(device)
    for i in wanted:
        tensors[i].requires_grad = True
    outs: list[Tensor] = [y for y in case.call(device, *tensors) if y.requires_grad]
    if not outs:
        return
    values: list[Any] = [np.full(y.shape, 0.5, y.dtype.numpy) for y in outs]
    seeds = [tensor(v, device=device) for v in values]
    for grad in gradients(outs, [tensors[i] for i in wanted], seeds, allow_unused=True):
        if grad is not None:
            grad.numpy()
    for what, kept, before in (("input", tensors, hosts), ("gradient", seeds, values)):
        for i, (x, host) in enumerate(zip(kept, before, strict=True)):
            expect(same_bits(x.numpy(), np.asarray(host)), f"{what} {i} was changed")


__all__ = [name for name in dir() if name.startswith("test_")]
