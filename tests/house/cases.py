"""The walk over every op: its samples, with every dtype that a sample and a device allow."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from singa_core import ops
from singa_core.dtype import as_dtype
from singa_core.kernels import KernelTable
from singa_core.optable import OPS
from singa_core.sample import Sample
from singa_core.tensor import Tensor, tensor

FLOATS = ("float32", "float64", "float16", "bfloat16")
SETS = {
    "float": FLOATS,
    "number": (*FLOATS, "int32", "int64", "uint8"),
    "any": (*FLOATS, "int32", "int64", "uint8", "bool"),
}
NAMES = sorted(OPS)
ALL_OPS = ops  # importing it is what fills the table


@dataclass(frozen=True)
class Case:
    """One sample of one op, with the sets of dtypes in it read as `dtype`."""

    name: str
    number: int
    sample: Sample
    dtype: str

    @property
    def op(self):
        return OPS[self.name]

    def hosts(self, variant: int = 0) -> list[np.ndarray]:
        """Input values; another variant has others, of the same kind."""
        return self.sample.draw(
            f"{self.name}/{variant}" if variant else self.name, self.number, self.dtype
        )

    def tensors(self, device, variant: int = 0) -> list[Tensor]:
        return [tensor(host, device=device) for host in self.hosts(variant)]

    def call(self, device, *tensors) -> tuple[Tensor, ...]:
        """The public call; outputs as a tuple."""
        where = {} if self.sample.inputs else {"device": device}
        made = self.op(*tensors, **self.sample.attrs, **where)
        return made if isinstance(made, tuple) else (made,)

    def dtypes(self) -> set:
        """Types that the device must have."""
        named = [i.dtype if i.dtype not in SETS else self.dtype for i in self.sample.inputs]
        chosen = self.sample.attrs.get("dtype")
        return {as_dtype(d) for d in (*named, *([chosen] if chosen is not None else []))}

    def __str__(self) -> str:
        inputs = ", ".join(f"{i.dtype} {i.shape}" for i in self.sample.inputs)
        attrs = "".join(f", {k}={v!r}" for k, v in self.sample.attrs.items())
        return f"{self.name} sample {self.number} as {self.dtype}: ({inputs}{attrs})"


def cases(name: str, device, only: tuple[str, ...] | None = None) -> Iterator[Case]:
    """Every case of an op that the device can compute, each told in the error it leads to."""
    for number, sample in enumerate(OPS[name].samples):
        sets = [SETS[i.dtype] for i in sample.inputs if i.dtype in SETS]
        for dtype in min(sets, key=len) if sets else ("fixed",):
            case = Case(name, number, sample, dtype)
            if only and sets and dtype not in only:
                continue
            if case.dtypes() <= device.capabilities.dtypes:
                yield case


@contextmanager
def told(case):
    """A failure inside is told with the case."""
    try:
        yield
    except BaseException as error:  # pytest's own among them
        error.add_note(str(case))
        raise


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal, NaN for NaN and zero for zero."""
    return (a.shape, a.dtype) == (b.shape, b.dtype) and a.tobytes() == b.tobytes()


def layouts(host: np.ndarray, device) -> Iterator[tuple[str, Tensor]]:
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
    yield "with gaps", tensor(sparse, device=device)[(slice(1, None, 2),) * host.ndim]


@contextmanager
def without_kernels(name: str, device):
    """Let a composite be served by its decomposition."""
    find, entries = KernelTable.find, device.state.entries

    def blind(table, op, ins, outs):
        return None if op == name else find(table, op, ins, outs)

    entries.clear()
    KernelTable.find = blind
    try:
        yield
    finally:
        KernelTable.find = find
        entries.clear()
