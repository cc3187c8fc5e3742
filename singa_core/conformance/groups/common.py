"""What tests of several groups share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from singa_core.conformance.cases import Case, same_bits
from singa_core.conformance.oracles import ORACLES
from singa_core.conformance.oracles.common import HostArray, wide
from singa_core.conformance.tolerances import Terms, compare, expect
from singa_core.device import Device
from singa_core.dtype import as_dtype
from singa_core.operation import Operation
from singa_core.resolve import Entry, find_entry
from singa_core.spec import Spec
from singa_core.tensor import Tensor

Test = TypeVar("Test", bound=Callable[..., object])


def level(name: str) -> Callable[[Test], Test]:
    """A test for runs at this level and above; without it, the level of its group."""

    def mark(function: Test) -> Test:
        function.singa_level = name  # type: ignore[attr-defined]  # read by the plugin
        return function

    return mark


def hosts_of(tensors: Iterable[Tensor]) -> list[HostArray]:
    """The values on the host."""
    return [t.numpy() for t in tensors]


def outputs(made: Any) -> tuple[Any, ...]:
    """One or several results as a tuple."""
    return tuple(made) if isinstance(made, tuple | list) else (made,)


def reference(case: Case, hosts: list[HostArray]) -> tuple[Any, ...]:
    """What the oracle says."""
    with np.errstate(all="ignore"):
        return outputs(ORACLES[case.name](*hosts, **case.sample.attrs))


def terms(hosts: list[HostArray]) -> Terms:
    """What one element of a result may gather: inputs, or products of the first two."""
    floats = [np.abs(wide(h)) for h in hosts if as_dtype(h.dtype).is_floating]
    largest = [float(x[np.isfinite(x)].max(initial=0.0)) for x in floats]
    most = max(*largest, math.prod(largest[:2]), 0.0)
    return Terms(max([h.size for h in hosts], default=1), most)


def compare_all(name: str, got: Iterable[HostArray], wanted: Iterable[Any], met: Terms) -> None:
    """Raises: Mismatch unless all outputs are the references."""
    for y, reference in zip(got, wanted, strict=True):
        compare(name, y, reference, met)


def unchanged(tensors: Iterable[Tensor], hosts: Iterable[HostArray]) -> None:
    """Raises: Mismatch if a kernel has written into an input."""
    for i, (x, host) in enumerate(zip(tensors, hosts, strict=True)):
        expect(same_bits(x.numpy(), host), f"input {i} was changed")


def entry_of(device: Device, op: Operation, attrs: Any, specs: tuple[Spec, ...]) -> Entry | None:
    """What the device has for an op on packed inputs; None if the op calls others instead."""
    try:
        return find_entry(device, op, attrs, specs)
    except Exception:  # what is wrong with it will be told by the case itself
        return None


def served(entry: Entry | None) -> tuple[str, str]:
    """(way, language) in which a device serves an op."""
    if entry is None:
        return "native", ""
    if entry.kernel is not None:
        return "native", entry.kernel.language
    return ("native", "view") if entry.form is not None else ("lowered", "")
