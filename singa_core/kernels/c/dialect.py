"""The C dialect: what a kernel is made of, and what a device adds to make it compile.

A kernel is text in a small C99 subset. Stored elements and computed ones have types of their own:
`f16` and `bf16` are stored in 16 bits and computed in float, `b1` is stored as a byte. A kernel
reads element i of operand x by `LD_<code>(x, i)` and writes it by `ST_<code>(x, i, v)`; macros name
the rest (`KERNEL KERNEL_IN_GROUPS GLOBAL SHARED BARRIER GID LID GROUP GROUP_SIZE MULHI FUNCTION`).
The text before it, the *prelude*, defines them: one for OpenCL, one for CUDA.

A `Call` is a kernel with its geometry and numbers, but without memory: pure data, which a device
turns into a launch. No kernel counts on values of the host, so all of them can be tested without a
device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from singa_core.device import Capabilities
from singa_core.dtype import BY_CODE, DType
from singa_core.kernels import Launch

# dtype code: (type in memory, type to compute in)
TYPES: Final = {
    "b1": ("uchar", "int"), "i8": ("char", "int"), "i16": ("short", "int"), "i32": ("int", "int"),
    "i64": ("long", "long"), "u8": ("uchar", "uint"), "u16": ("ushort", "uint"),
    "u32": ("uint", "uint"), "u64": ("ulong", "ulong"), "f16": ("ushort", "float"),
    "bf16": ("ushort", "float"), "f32": ("float", "float"), "f64": ("double", "double"),
}  # fmt: skip
# type of a number among the arguments: NumPy's name for it
NUMBERS: Final = {
    "int": "int32", "uint": "uint32", "long": "int64", "ulong": "uint64", "float": "float32",
    "double": "float64",
}  # fmt: skip
WIDTH: Final = 8
"""Floats in a vector, where a device computes on vectors; see `prelude` for why not more."""

FAULT: Final = -1
"""The position of the device's fault words among the operands of a call."""
INT_LIMIT: Final = 2**30
"""Above it an index has 64 bits: 32 are enough for the sum of two that are not above."""


def stored(dtype: DType) -> str:
    """The C type of an element in memory."""
    return TYPES[dtype.code][0]


def computed(dtype: DType) -> str:
    """The C type in which an element is computed."""
    return TYPES[dtype.code][1]


@dataclass(frozen=True)
class Source:
    """One kernel as text: its operands, its numbers, its body, and functions before it.

    Args:
        name: of the kernel; also what errors call it.
        operands: (name, dtype code, "in", "out" or "inout") of each buffer. The body sees a pointer
            to the first element. What a device gives is a buffer and a number of bytes to skip: the
            workspace, which is bytes to the core, has elements here.
        numbers: (name, C type) of each number, after the operands.
        body: statements.
        functions: texts before the kernel, each of which may come with other kernels too.
        group: work items in a group, along each axis, if the body has barriers or shared memory:
            the compiler is told, so that they have registers enough. Else nothing.
        wide: indices are 64 bits wide (`IDX` is long).
        restrict: no output shares memory with another operand.
        contract: a product and a sum may be rounded once, as one.
    """

    name: str
    operands: tuple[tuple[str, str, str], ...]
    numbers: tuple[tuple[str, str], ...]
    body: str
    functions: tuple[str, ...] = ()
    group: tuple[int, ...] = ()
    wide: bool = False
    restrict: bool = True
    contract: bool = True

    def text(self) -> str:
        """The kernel in the dialect, without the prelude."""
        alone = "RESTRICT " if self.restrict else ""
        parameters, points = [], []
        for name, code, kind in self.operands:
            const = "const " if kind == "in" else ""
            pointer = f"{const}GLOBAL {TYPES[code][0]} *{alone}"
            parameters += [f"{pointer}{name}_", f"const long {name}_at"]
            byte = f"{const}GLOBAL char *"
            points.append(f"    {pointer}{name} = ({pointer})(({byte}){name}_ + {name}_at);\n")
        parameters += [f"const {kind} {name}" for name, kind in self.numbers]
        index = "long" if self.wide else "int"
        start = f"KERNEL({self.entry})"
        if self.group:
            x, y, z = (*self.group, 1, 1)[:3]
            start = f"KERNEL_IN_GROUPS({self.entry}, {x}, {y}, {z})"
        rounding = "CONTRACT" if self.contract else "NO_CONTRACT"
        return (
            f"typedef {index} IDX;\n{rounding}\n{''.join(self.functions)}\n"
            f"{start}({', '.join(parameters)})\n{{\n{''.join(points)}{self.body}\n}}\n"
        )

    @property
    def entry(self) -> str:
        """The kernel's name in the text; its own might be a function of the language."""
        return f"k_{self.name}"

    @property
    def number_types(self) -> tuple[str, ...]:
        """NumPy's name for the type of each number."""
        index = "long" if self.wide else "int"
        return tuple(NUMBERS[index if kind == "IDX" else kind] for _, kind in self.numbers)

    @property
    def codes(self) -> frozenset[str]:
        """The dtypes of its operands."""
        return frozenset(code for _, code, _ in self.operands)


@dataclass(frozen=True)
class Call:
    """A kernel, how many work items run it, on which operands, with which numbers.

    Args:
        source: the kernel.
        items: work items along each axis, rounded up to whole groups.
        group: work items in a group along each axis.
        operands: for each operand of the source, its position among inputs, outputs and workspace.
        numbers: a value for each of the source's numbers.
        starts: for each operand, elements to skip before the first; nothing for none.
        fault: (op, rule) if the kernel can find a wrong index. Its last operand, FAULT, is then the
            device's fault words, its last number `site` says who found it; `FAULT_FOUND(value)`
            tells. The device raises OutOfRange with op and rule when it is next waited for.
    """

    source: Source
    items: tuple[int, ...]
    group: tuple[int, ...]
    operands: tuple[int, ...]
    numbers: tuple[int | float, ...] = ()
    starts: tuple[int, ...] = ()
    fault: tuple[str, str] | None = None

    @property
    def parameters(self) -> int:
        """Bytes of its arguments: a pointer and a start for each operand, and the numbers."""
        sizes = (np.dtype(kind).itemsize for kind in self.source.number_types)
        return 16 * len(self.source.operands) + sum(sizes)

    @property
    def begins(self) -> tuple[int, ...]:
        """Bytes to skip in each operand."""
        starts = self.starts or (0,) * len(self.operands)
        return tuple(n * size for n, size in zip(starts, self.element_sizes, strict=True))

    @property
    def element_sizes(self) -> tuple[int, ...]:
        """Bytes of an element of each operand."""
        return tuple(BY_CODE[code].itemsize for _, code, _ in self.source.operands)


class Target(ABC):
    """What a device gives to kernels of this language.

    Args:
        capabilities: the device's; their `family` and `parameters` count here.
        units: work items that run at once in the cpu family; it sets how work is cut.
        group: work items in a group, in the gpu family.
        largest_group: the most work items that a group can have.
        shared: bytes of memory that the work items of a group share.
    """

    def __init__(
        self, capabilities: Capabilities, *,
        units: int = 1, group: int = 64, largest_group: int = 256, shared: int = 32768,
    ) -> None:  # fmt: skip
        self.capabilities = capabilities
        self.units = units
        self.group = group
        self.largest_group = largest_group
        self.shared = shared

    @property
    def family(self) -> str:
        """ "cpu" runs a few work items with vectors, "gpu" many, in groups with shared memory."""
        return self.capabilities.family

    @abstractmethod
    def launch(self, calls: Sequence[Call], operands: int) -> Launch:
        """A launch of these calls, one after the other, on `operands` handles.

        Raises: what compiling raises.
        """

    def number(self, kind: str, value: float) -> Any:
        """A number among the arguments as the device wants it."""
        return value
