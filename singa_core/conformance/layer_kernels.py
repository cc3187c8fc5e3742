"""Kernels of composites against their decompositions, on the values that a layer gives them.

A composite means what its `forward` says; a kernel is only ever speed. Here each call that a layer
makes of one with a kernel is made again, by the kernel and by the decomposition, in every float.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from singa_core import kernels
from singa_core.attributes import Attrs
from singa_core.conformance.cases import FLOATS, without_kernels
from singa_core.conformance.groups.common import hosts_of, outputs, terms
from singa_core.conformance.layer_bench import MODES, Bench, Host, size
from singa_core.conformance.tolerances import (
    EPS,
    TINY,
    Mismatch,
    Terms,
    bound,
    class_of,
    compare,
    differs,
    widened,
)
from singa_core.device import Device
from singa_core.dtype import as_dtype
from singa_core.errors import DTypeError, KernelMissing
from singa_core.kernels import Kernel
from singa_core.mode import no_grad
from singa_core.operation import Operation
from singa_core.optable import OPS
from singa_core.registry import registry
from singa_core.resolve import find_entry
from singa_core.spec import Spec
from singa_core.tensor import Tensor, tensor

ALIKE: Final = 4  # calls of one kind that are tried: the same shapes and attributes, other values


@dataclass(frozen=True)
class Called:
    """A call that a layer has made."""

    op: Operation
    attrs: Attrs
    hosts: list[Host]


def check_kernels(bench: Bench) -> None:
    """Raises: LayerFault that names the first kernel that is not its decomposition."""
    for mode, (training, tape) in MODES.items():
        layer = bench.fresh(training=training)
        step = bench.step(layer, tape)
        with watched(bench.device) as found:
            step(*bench.inputs(track=tape))
        for call in found:
            for dtype in floats_of(call, bench.device):
                _check(bench, mode, call, dtype)


def _check(bench: Bench, mode: str, call: Called, dtype: str) -> None:
    op, device, hosts = call.op, bench.device, cast(call.hosts, dtype)
    kernel = kernel_of(call, device, hosts)
    if kernel is None:
        return
    made = answers(call, device, hosts)
    wide = device if as_dtype("float64") in device.capabilities.dtypes else registry.resolve("cpu")
    with decomposed(device):
        plain = answers(call, device, hosts)
    try:
        with decomposed(wide):
            exact = answers(call, wide, cast(hosts, "float64"))
    except (DTypeError, KernelMissing):  # not an operation of this type
        exact = plain
    for got, rounded, want in zip(made, plain, exact, strict=True):
        try:
            close(op.name, got, nearer(got, rounded, want), terms(hosts))
        except Mismatch as error:
            promise = f"kernel of {op.name} ({kernel.language!r}, {kernel.signature}), {mode}"
            raise bench.fault(promise, "what its decomposition gives", error) from None
    bench.report.checks["kernel == decomposition"] += 1


# -- which calls there are -------------------------------------------------------------------------


@contextmanager
def watched(device: Device) -> Iterator[list[Called]]:
    """Run by decompositions, and note the calls of what has a kernel on the device."""
    names, found, seen = owned(device), [], dict[Any, int]()
    expand = Operation.expand

    def noting(op: Operation, tensors: Sequence[Tensor], options: dict[str, Any]) -> Any:
        if op.name in names:
            attrs = op.pack(options) if options else ()
            key = (op.name, attrs, *[t.spec for t in tensors])
            seen[key] = seen.get(key, 0) + 1
            if seen[key] <= ALIKE:
                found.append(Called(op, attrs, [t.numpy() for t in tensors]))
        return expand(op, tensors, options)

    with without_kernels(names, device):
        setattr(Operation, "expand", noting)  # noqa: B010  (for a moment, as the kernels)
        try:
            yield found
        finally:
            setattr(Operation, "expand", expand)  # noqa: B010


def owned(device: Device) -> frozenset[str]:
    """The composites that have a kernel in a language of the device, those of packs too."""
    tables = [kernels.table(language) for language in device.languages]
    return frozenset(
        name for table in tables for name in table.ops() if name in OPS and OPS[name].is_composite
    )


def floats_of(call: Called, device: Device) -> list[str]:
    """The floats in which a call is tried: its own first; none to choose for other types."""
    own = [name for h in call.hosts if (name := as_dtype(h.dtype).name) in EPS][:1]
    known = {dtype.name for dtype in device.capabilities.dtypes}
    return own + [f for f in FLOATS if f in known and f not in own] if own else [""]


def cast(hosts: Sequence[Host], dtype: str) -> list[Host]:
    """The floats among some arrays in another type."""
    return [
        h.astype(as_dtype(dtype).numpy) if dtype and as_dtype(h.dtype).is_floating else h
        for h in hosts
    ]


# -- both answers ----------------------------------------------------------------------------------


def kernel_of(call: Called, device: Device, hosts: Sequence[Host]) -> Kernel | None:
    """The kernel that serves a call, if one does."""
    try:
        forms = tuple(Spec(h.shape, h.dtype) for h in hosts)
        return find_entry(device, call.op, call.attrs, forms).kernel
    except (DTypeError, KernelMissing):  # not an operation of this type
        return None


@contextmanager
def decomposed(device: Device) -> Iterator[None]:
    """Composites by their decompositions alone, all the way down."""
    with without_kernels(owned(device), device):
        yield


def answers(call: Called, device: Device, hosts: Sequence[Host]) -> list[Host]:
    """What the device gives for a call, without a tape: kernels serve what they can."""
    options = dict(zip(call.op.attributes, call.attrs, strict=True))
    with no_grad():
        made = call.op(*[tensor(h, device=device) for h in hosts], **options)
        return hosts_of(outputs(made))


def nearer(got: Host, rounded: Host, exact: Host) -> Host:
    """For each element the decomposition's value that is nearer: rounded at each step, or not."""
    if not as_dtype(got.dtype).is_floating or got.shape != rounded.shape:
        return rounded
    a, b, c = widened(got), widened(rounded), widened(exact)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        return np.where(same | (np.abs(a - b) < np.abs(a - c)), b, c)


def close(op: str, got: Host, wanted: Host, met: Terms) -> None:
    """Raises: Mismatch beyond the kit's bounds; what the table does not name may be a reduction."""
    dtype = as_dtype(got.dtype).name
    if got.shape != wanted.shape or dtype not in EPS or class_of(op) != "computed":
        compare(op, got, wanted, met)
        return
    relative = bound("computed", dtype) * max(met.number, 1) ** 0.5
    largest = max(size(wanted), met.largest)
    differs(op, widened(got), widened(wanted), relative, max(relative * largest, TINY[dtype]))
