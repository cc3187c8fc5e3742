"""Samples: small inputs on which every op is checked, on every device.

A sample is data about data: shapes, dtypes and ranges. Values are drawn from a generator seeded by
the op's name and the sample's number, so they are the same everywhere, and lie away from kinks by
choice of range.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from singa_core.dtype import as_dtype
from singa_core.spec import Spec


@dataclass(frozen=True)
class In:
    """One input: its shape and where its values come from.

    Args:
        shape: sizes of the axes; may contain 0.
        dtype: a dtype name; "float" stands for every floating type of the device, "number" and
            "any" for the wider sets.
        low, high: range of the values (integers: low <= v < high).
        values: the values themselves, instead of random ones.
        distinct: values at least 0.05 apart, so that sorting and maxima have no ties.
        grad: False where no gradient is checked for this input.
    """

    shape: tuple[int, ...] = ()
    dtype: str = "float"
    low: float = -2.0
    high: float = 2.0
    values: Any = None
    distinct: bool = False
    grad: bool = True

    def draw(self, rng: np.random.Generator, dtype: str) -> npt.NDArray[Any]:
        """The values as an array of `dtype` (used where `self.dtype` names a set)."""
        concrete = dtype if self.dtype in ("float", "number", "any") else self.dtype
        target = as_dtype(concrete)
        if self.values is not None:
            return np.asarray(self.values).astype(target.numpy)
        if target.kind == "bool":
            return rng.integers(0, 2, self.shape).astype(bool)
        if target.is_integer:
            low = max(self.low, 0) if target.kind == "uint" else self.low
            return rng.integers(int(low), max(int(self.high), int(low) + 1), self.shape).astype(
                target.numpy
            )
        size = int(np.prod(self.shape))
        if self.distinct:
            grid = self.low + 0.05 * np.arange(size)
            return rng.permutation(grid).reshape(self.shape).astype(target.numpy)
        return rng.uniform(self.low, self.high, self.shape).astype(target.numpy)


@dataclass(frozen=True)
class Sample:
    """Inputs and attributes of one call."""

    inputs: tuple[In, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    level: Literal["full", "forward"] = "full"

    def draw(self, name: str, number: int, dtype: str) -> list[npt.NDArray[Any]]:
        """The input values for op `name`, sample `number`, with sets read as `dtype`."""
        rng = np.random.default_rng([zlib.crc32(name.encode()), number])
        return [one.draw(rng, dtype) for one in self.inputs]


def sample(*inputs: In | tuple[int, ...], **attrs: Any) -> Sample:
    """A Sample; a bare shape stands for `In(shape)`."""
    return Sample(tuple(i if isinstance(i, In) else In(i) for i in inputs), attrs)


def output_counts(op: Any) -> Iterator[int]:
    """How many outputs an op has, by each of its samples; nothing for an op without samples."""
    for number, one in enumerate(getattr(op, "samples", ())):
        specs = [Spec(host.shape, host.dtype) for host in one.draw(op.name, number, "float32")]
        attrs = dict(zip(op.attributes, op.pack(dict(one.attrs)), strict=True))
        made = op.infer(*specs, **op.settle(*specs, **attrs))
        yield len(made) if isinstance(made, tuple) else 1
