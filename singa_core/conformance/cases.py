"""The walk over every op: its samples, with every dtype that a sample and a device allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from singa_core import kernels, ops
from singa_core.attributes import Attrs
from singa_core.conformance.oracles.common import HostArray
from singa_core.device import Device
from singa_core.dtype import BY_CODE, DType, as_dtype
from singa_core.kernels import Kernel, KernelTable
from singa_core.operation import Operation
from singa_core.optable import OPS
from singa_core.resolve import casts_for
from singa_core.sample import Sample
from singa_core.spec import Spec
from singa_core.tensor import Tensor, tensor

FLOATS: Final = ("float32", "float64", "float16", "bfloat16")
SETS: Final = {
    "float": FLOATS,
    "number": (*FLOATS, "int32", "int64", "uint8"),
    "any": (*FLOATS, "int32", "int64", "uint8", "bool"),
}
NAMES: Final = sorted(OPS)
PRIMITIVES: Final = [n for n in NAMES if n in ops.PRIMITIVES or OPS[n].is_view]
COMPOSITES: Final = [n for n in NAMES if OPS[n].is_composite]
SHARED: Final = "array"  # the language whose signatures every backend owes


@dataclass(frozen=True)
class Case:
    """One sample of one op, with the sets of dtypes in it read as `dtype`."""

    name: str
    number: int
    sample: Sample
    dtype: str

    @property
    def op(self) -> Operation:
        """The operation."""
        return OPS[self.name]

    def hosts(self, variant: int = 0) -> list[HostArray]:
        """Input values; another variant has others, of the same kind."""
        return self.sample.draw(
            f"{self.name}/{variant}" if variant else self.name, self.number, self.dtype
        )

    def tensors(self, device: Device, variant: int = 0) -> list[Tensor]:
        """Input values on a device."""
        return [tensor(host, device=device) for host in self.hosts(variant)]

    def call(self, device: Device, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The public call; outputs as a tuple."""
        where = {} if self.sample.inputs else {"device": device}
        made = self.op(*tensors, **self.sample.attrs, **where)
        return made if isinstance(made, tuple) else (made,)

    def dtypes(self) -> set[DType]:
        """Types that the device must have."""
        named = [i.dtype if i.dtype not in SETS else self.dtype for i in self.sample.inputs]
        chosen = self.sample.attrs.get("dtype")
        return {as_dtype(d) for d in (*named, *([chosen] if chosen is not None else []))}

    @property
    def subject(self) -> str:
        """The dtype that tables list it under."""
        if self.dtype != "fixed":
            return self.dtype
        dtypes = self.dtypes()
        return next((d.name for d in dtypes if d.is_floating), "fixed")

    def specs(self) -> list[Spec]:
        """The inputs' specs, with the types that a kernel gets."""
        op, specs = self.op, [Spec(h.shape, h.dtype) for h in self.hosts()]
        casts = (casts_for(op, tuple(specs)) if op.promotes else None) or (None,) * len(specs)
        return [s.with_dtype(d) if d else s for s, d in zip(specs, casts, strict=True)]

    def infer(self) -> tuple[Spec, ...]:
        """The specs that the op promises, from specs alone."""
        op, specs = self.op, self.specs()
        options = op.settle(*specs, **dict(zip(op.attributes, self.attrs(), strict=True)))
        made = op.infer(*specs, **options)
        return made if isinstance(made, tuple) else (made,)

    def attrs(self) -> Attrs:
        """The attributes as the engine keeps them."""
        return self.op.pack(dict(self.sample.attrs))

    def __str__(self) -> str:
        inputs = ", ".join(f"{i.dtype} {i.shape}" for i in self.sample.inputs)
        attrs = "".join(f", {k}={v!r}" for k, v in self.sample.attrs.items())
        return f"{self.name} sample {self.number} as {self.dtype}: ({inputs}{attrs})"


def samples_of(name: str) -> tuple[Sample, ...]:
    """The samples that an op declares; none if it declares nothing."""
    return tuple(getattr(OPS[name], "samples", ()))


def cases(name: str, device: Device, only: tuple[str, ...] | None = None) -> Iterator[Case]:
    """Every case of an op that the device can compute."""
    for number, sample in enumerate(samples_of(name)):
        sets = [SETS[i.dtype] for i in sample.inputs if i.dtype in SETS]
        for dtype in min(sets, key=len) if sets else ("fixed",):
            case = Case(name, number, sample, dtype)
            if only and sets and dtype not in only:
                continue
            if case.dtypes() <= device.capabilities.dtypes:
                yield case


def signatures(name: str, device: Device) -> list[tuple[list[DType], list[DType], bool]]:
    """What a backend owes of a primitive: (types in, types out, is the input repeated).

    These are the signatures of the shared language all of whose types the device declares.
    """
    owed = []
    for text in kernels.table(SHARED).signatures(name):
        sides = [[c for c in side.split(",") if c] for side in text.split("->")]
        ins, outs = ([BY_CODE[code.rstrip("*")] for code in side] for side in sides)
        if {*ins, *outs} <= device.capabilities.dtypes:
            owed.append((ins, outs, "*" in text))
    return owed


@contextmanager
def told(case: object) -> Iterator[None]:
    """A failure inside is told with the case."""
    try:
        yield
    except BaseException as error:  # pytest's own among them
        error.add_note(str(case))
        raise


def same_bits(a: HostArray, b: HostArray) -> bool:
    """Equal, NaN for NaN and zero for zero."""
    return (a.shape, a.dtype) == (b.shape, b.dtype) and a.tobytes() == b.tobytes()


def layouts(host: HostArray, device: Device) -> Iterator[tuple[str, Tensor]]:
    """The same values in memory that is walked in other ways."""
    if not host.ndim:
        return
    axes = tuple(reversed(range(host.ndim)))
    turned = tensor(np.ascontiguousarray(host.transpose(axes)), device=device)
    yield "transposed", OPS["permute_dims"](turned, axes=axes)
    everywhere = (slice(None, None, -1),) * host.ndim
    yield "reversed", tensor(np.ascontiguousarray(host[everywhere]), device=device)[everywhere]
    sparse = host
    for axis in range(host.ndim):
        sparse = np.repeat(sparse, 2, axis)
    yield "gaps", tensor(sparse, device=device)[(slice(1, None, 2),) * host.ndim]


def twisted(host: HostArray, device: Device) -> Tensor:
    """The same values in memory that is walked in all of these ways at once."""
    for axis in range(host.ndim):
        host = np.repeat(host, 2, axis)
    stored = np.ascontiguousarray(np.flip(host).transpose())
    axes = tuple(reversed(range(host.ndim)))
    made: Tensor = OPS["permute_dims"](tensor(stored, device=device), axes=axes)
    return made[(slice(None, None, -2),) * host.ndim]


def spread(host: HostArray) -> HostArray:
    """The values of a broadcast: each axis but the last says one thing over and over."""
    first = host[(slice(0, 1),) * (host.ndim - 1)] if host.ndim > 1 else host[:1]
    return np.ascontiguousarray(np.broadcast_to(first, host.shape))


def broadcast(host: HostArray, device: Device) -> Tensor:
    """`spread(host)` in the memory of one row: strides of 0."""
    first = host[(slice(0, 1),) * (host.ndim - 1)] if host.ndim > 1 else host[:1]
    row = tensor(np.ascontiguousarray(first), device=device)
    made: Tensor = OPS["broadcast_to"](row, shape=host.shape)
    return made


@contextmanager
def without_kernels(names: frozenset[str], device: Device) -> Iterator[None]:
    """Let composites be served by their decompositions."""
    find, entries = KernelTable.find, device.state.entries

    def blind(table: KernelTable, op: str, ins: Any, outs: Any) -> Kernel | None:
        return None if op in names else find(table, op, ins, outs)

    entries.clear()
    setattr(KernelTable, "find", blind)  # noqa: B010  (for a moment, behind the checker's back)
    try:
        yield
    finally:
        setattr(KernelTable, "find", find)  # noqa: B010
        entries.clear()
