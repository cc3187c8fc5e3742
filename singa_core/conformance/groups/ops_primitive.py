"""Group `ops.primitive`: every primitive, with every declared signature, against the oracles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from singa_core.conformance import ranges
from singa_core.conformance.cases import (
    FLOATS,
    PRIMITIVES,
    Case,
    broadcast,
    cases,
    layouts,
    same_bits,
    signatures,
    spread,
    twisted,
)
from singa_core.conformance.checking import Cases
from singa_core.conformance.edges import Trial, trials
from singa_core.conformance.groups.common import (
    compare_all,
    entry_of,
    hosts_of,
    outputs,
    reference,
    served,
    terms,
    unchanged,
)
from singa_core.conformance.larger import larger
from singa_core.conformance.oracles.common import HostArray
from singa_core.conformance.small import small
from singa_core.conformance.tolerances import expect
from singa_core.device import Device
from singa_core.dtype import DType
from singa_core.optable import OPS
from singa_core.spec import Spec
from singa_core.tensor import Tensor, tensor

of_primitives = pytest.mark.parametrize("name", PRIMITIVES)


def place(case: Case, device: Device) -> tuple[str, str, str, str]:
    """Where the matrix has this case."""
    entry = entry_of(
        device, case.op, case.attrs(), tuple(Spec(h.shape, h.dtype) for h in case.hosts())
    )
    return (case.name, case.subject, *served(entry))


def compare_sample(case: Case, device: Device, variant: int) -> None:
    """Specs as inferred, values as the oracle's, inputs as they were."""
    hosts, tensors = case.hosts(variant), case.tensors(device, variant)
    outs = case.call(device, *tensors)
    promised = case.infer()
    expect(tuple(y.spec for y in outs) == promised, f"got {[y.spec for y in outs]}")
    expect(all(y.device is device for y in outs), "a result is on another device")
    compare_all(case.name, hosts_of(outs), reference(case, hosts), terms(hosts))
    unchanged(tensors, hosts)


def compare_layout(
    case: Case, device: Device, hosts: list[HostArray], views: Mapping[int, Tensor]
) -> None:
    """The values of packed inputs, for some that are walked in another way."""
    for at, x in views.items():
        expect(same_bits(x.numpy(), hosts[at]), "a view of the input does not have its values")
    tensors = [views[at] if at in views else tensor(h, device=device) for at, h in enumerate(hosts)]
    got = hosts_of(case.call(device, *tensors))
    compare_all(case.name, got, reference(case, hosts), terms(hosts))
    unchanged(tensors, hosts)


@of_primitives
def test_primitive_samples(name: str, device: Device, case: Cases) -> None:
    """The op's own samples; twice, since the second call meets what the first left in caches."""
    for one in cases(name, device):
        cell = place(one, device)
        for variant in (0, 1):
            detail = f"{one.subject}-{one.number}" + ("-again" if variant else "")
            case.check(detail, compare_sample, one, device, variant, cell=cell)


@of_primitives
def test_primitive_layouts(name: str, device: Device, case: Cases) -> None:
    """Transposed, reversed, with gaps, and broadcast: each input in turn."""
    for one in cases(name, device):
        hosts, cell = one.hosts(), place(one, device)
        for at, host in enumerate(hosts):
            start = f"{one.subject}-{one.number}-input{at}"
            for layout, x in layouts(host, device):
                detail = f"{start}-{layout}"
                case.check(detail, compare_layout, one, device, hosts, {at: x}, cell=cell)
            if host.size > 1 and may_repeat(name, at):
                repeated = [*hosts[:at], spread(host), *hosts[at + 1 :]]
                x = broadcast(host, device)
                detail = f"{start}-broadcast"
                case.check(detail, compare_layout, one, device, repeated, {at: x}, cell=cell)


def may_repeat(name: str, at: int) -> bool:
    """True if input `at` may have any values, so that they may repeat."""
    return not (name == "random_bits" or (name in ("scatter", "put") and at == 1))


@of_primitives
def test_primitive_signatures(name: str, device: Device, case: Cases) -> None:
    """Every signature: empty, without axes, and in all layouts if no sample has it in these."""
    sampled = {types_of(one) for one in cases(name, device) if terms(one.hosts()).number > 1}
    for ins, outs, _ in signatures(name, device):
        types = (tuple(ins), tuple(outs))
        start = f"{','.join(d.code for d in ins)}->{','.join(d.code for d in outs)}"
        for kind, one in small(name, ins, outs):
            cell = place(one, device)
            if kind != "packed":
                case.check(f"{start}-{kind}", compare_sample, one, device, 0, cell=cell)
            elif types not in sampled:
                case.check(f"{start}-packed", compare_sample, one, device, 0, cell=cell)
                case.check(f"{start}-strided", all_strided, one, device, cell=cell)
                case.check(f"{start}-broadcast", all_broadcast, one, device, cell=cell)


def types_of(case: Case) -> tuple[tuple[DType, ...], tuple[DType, ...]]:
    """The signature that a sample is served by; an input that may be repeated is in it once."""
    ins = [spec.dtype for spec in case.specs()]
    return tuple(ins[:1] if case.name == "concat" else ins), tuple(y.dtype for y in case.infer())


def all_strided(case: Case, device: Device) -> None:
    """Each input in memory that is walked backwards, in steps and across."""
    hosts = case.hosts()
    compare_layout(case, device, hosts, {i: twisted(h, device) for i, h in enumerate(hosts)})


def all_broadcast(case: Case, device: Device) -> None:
    """Each input whose values may repeat as one row, over and over."""
    hosts = case.hosts()
    views = {i: broadcast(h, device) for i, h in enumerate(hosts) if may_repeat(case.name, i)}
    repeated = [spread(h) if i in views else h for i, h in enumerate(hosts)]
    compare_layout(case, device, repeated, views)


@of_primitives
def test_primitive_edges(name: str, device: Device, case: Cases) -> None:
    """NaN, infinity, zeros of both signs, the ends of each type, ties of rounding.

    At level full, once more in memory that is walked in other ways.
    """
    for ins, outs, _ in signatures(name, device):
        for trial in trials(name, ins, outs):
            cell = (name, (ins or outs)[0].name, "native", "")
            detail = f"{(ins or outs)[0]}-{trial.name}"
            case.check(detail, run_trial, name, trial, device, outs, tensor, cell=cell)
            if case.full and trial.inputs:
                case.check(f"{detail}-strided", run_trial, name, trial, device, outs, twisted)


@of_primitives
def test_primitive_larger(name: str, device: Device, case: Cases) -> None:
    """Sizes beside powers of two, where vectors and tiles have tails."""
    for one in larger(name, device, FLOATS if case.full else ("float32", "float16")):
        detail = f"{one.subject}-{one.number}"
        case.check(detail, compare_sample, one, device, 0, cell=place(one, device))


@of_primitives
def test_primitive_range(name: str, device: Device, case: Cases) -> None:
    """Scalar functions over the whole range of each float type."""
    for dtype in floats_in_range(name, device):
        cell = (name, dtype, "native", "")
        case.check(f"{dtype}-range", over_range, name, dtype, device, cell=cell)


def floats_in_range(name: str, device: Device) -> list[str]:
    """The types that a scalar function of floats is tried in; none for other ops."""
    if name not in ranges.UNARY and name not in ranges.PAIRS:
        return []
    there = {d.name for d in device.capabilities.dtypes}
    return [d for d in ranges.DTYPES if d in there and ranges.can_judge(d)]


def over_range(name: str, dtype: str, device: Device) -> None:
    """All of a type's range, and its edges."""
    hosts = ranges.inputs_of(name, dtype)
    y = OPS[name](*[tensor(host, device=device) for host in hosts])
    expect(y.dtype.name == dtype, f"got {y.dtype}, needs {dtype}")
    ranges.judge(name, dtype, y.numpy(), hosts)


def run_trial(
    name: str, trial: Trial, device: Device, outs: list[DType], lay: Callable[..., Tensor]
) -> None:
    """One trial, and its judges; `lay` puts the inputs on the device."""
    tensors = [lay(host, device=device) for host in trial.inputs]
    where: dict[str, Any] = {} if tensors else {"device": device}
    made = outputs(OPS[name](*tensors, **trial.attrs, **where))
    expect([y.dtype for y in made] == outs, f"got {[y.dtype for y in made]}, needs {outs}")
    for judge, y in zip(trial.judges, made, strict=True):
        judge(np.ascontiguousarray(y.numpy()))
    unchanged(tensors, trial.inputs)


__all__ = [name for name in dir() if name.startswith("test_")]
