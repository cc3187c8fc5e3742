"""A product of matrices as kernels see it: sizes, strides, and the numbers they take."""

from __future__ import annotations

import math
from dataclasses import dataclass

from singa_core.spec import Shape

Batch = tuple[tuple[int, int, int], ...]
AXES = 3  # of a batch, at most
STRIDES = "am ak bk bn a0 a1 a2 b0 b1 b2"  # of rows and columns, and along the axes of the batch

# Where matrix z of the batch begins; y is contiguous.
MATRIX = (
    "    const long z = GROUP_Z, z0 = z % size0, z1 = z / size0 % size1, z2 = z / size0 / size1;"
)


@dataclass(frozen=True)
class Product:
    """y[z] = a[z] @ b[z], or with a bias (n) added to every row.

    Args:
        code: the dtype of all operands.
        sizes: (m, n, k).
        a: strides along (m, k).
        b: strides along (k, n).
        batch: (size, stride of a, stride of b) for at most three axes of z, the last one first.
        biased: the bias is the third operand.
    """

    code: str
    sizes: tuple[int, int, int]
    a: Shape
    b: Shape
    batch: Batch = ()
    biased: bool = False

    @property
    def count(self) -> int:
        """How many matrices there are."""
        return math.prod(size for size, _, _ in self.batch)

    @property
    def operands(self) -> Shape:
        """Positions of a, b, the bias and y."""
        return (0, 1, 2, 3) if self.biased else (0, 1, 2)

    @property
    def numbers(self) -> dict[str, int]:
        """Sizes and strides by the names they have in kernels."""
        found = dict(zip("mnk", self.sizes, strict=True))
        axes = (*self.batch, *((1, 0, 0),) * (AXES - len(self.batch)))
        for i, (size, a, b) in enumerate(axes):
            found |= {f"size{i}": size, f"a{i}": a, f"b{i}": b}
        return found | dict(zip(("am", "ak", "bk", "bn"), (*self.a, *self.b), strict=True))
