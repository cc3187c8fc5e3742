"""Group `ops.composite`: every composite twice, as the device serves it and by its decomposition.

So the decompositions cannot rot where a backend has kernels, and a wrong kernel is told apart from
a wrong decomposition.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from singa_core import kernels
from singa_core.conformance.cases import COMPOSITES, FLOATS, Case, cases, layouts, without_kernels
from singa_core.conformance.checking import Cases
from singa_core.conformance.groups.ops_primitive import (
    compare_layout,
    compare_sample,
    floats_in_range,
    over_range,
    place,
)
from singa_core.conformance.larger import larger
from singa_core.device import Device
from singa_core.mode import no_grad

of_composites = pytest.mark.parametrize("name", COMPOSITES)
ALL: frozenset[str] = frozenset(COMPOSITES)
QUICK = ("float32", "float64")


def owned(device: Device) -> frozenset[str]:
    """The composites that the device has kernels for."""
    tables = [kernels.table(language) for language in device.languages]
    return frozenset(name for name in COMPOSITES if any(t.signatures(name) for t in tables))


@contextmanager
def lowered(device: Device) -> Iterator[bool]:
    """Composites without their kernels; False if there are none."""
    if not owned(device):
        yield False
        return
    with without_kernels(ALL, device):
        yield True


def walk(name: str, device: Device, case: Cases, every: list[Case]) -> None:
    """Each case as served, and lowered."""
    for one in every:
        case.check(f"{one.subject}-{one.number}", check, one, device, cell=place(one, device))
    with lowered(device) as differs:
        for one in every if differs else ():
            where = (name, one.subject, "lowered", "")
            case.check(f"lowered-{one.subject}-{one.number}", check, one, device, cell=where)


def check(one: Case, device: Device) -> None:
    """Values without a tape, which would expand composites that have no gradient of their own."""
    with no_grad():
        compare_sample(one, device, 0)


@of_composites
def test_composite_samples(name: str, device: Device, case: Cases) -> None:
    """The op's own samples."""
    walk(name, device, case, list(cases(name, device)))


@of_composites
def test_composite_larger(name: str, device: Device, case: Cases) -> None:
    """Sizes beside powers of two."""
    walk(name, device, case, list(larger(name, device, FLOATS if case.full else ("float32",))))


@of_composites
def test_composite_range(name: str, device: Device, case: Cases) -> None:
    """Scalar functions over the whole range of each float type, NaN and infinity included."""

    def run(dtype: str) -> None:
        with no_grad():
            over_range(name, dtype, device)

    dtypes = floats_in_range(name, device)
    for dtype in dtypes:
        case.check(f"{dtype}-range", run, dtype)
    with lowered(device) as differs:
        for dtype in dtypes if differs else ():
            case.check(f"lowered-{dtype}-range", run, dtype, cell=(name, dtype, "lowered", ""))


@of_composites
def test_composite_layouts(name: str, device: Device, case: Cases) -> None:
    """Transposed, reversed, with gaps: each input in turn."""
    for one in cases(name, device, None if case.full else QUICK):
        hosts, where = one.hosts(), place(one, device)
        for at, host in enumerate(hosts):
            for layout, x in layouts(host, device):
                detail = f"{one.subject}-{one.number}-input{at}-{layout}"
                case.check(detail, compare_layout, one, device, hosts, {at: x}, cell=where)


__all__ = [name for name in dir() if name.startswith("test_")]
