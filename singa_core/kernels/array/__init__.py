"""The `array` language: every primitive as a function of a NumPy-like namespace.

A kernel is `f(xp, *ins, **attrs)` and returns a new array; inputs may be strided. The namespace
must have mutable arrays with NumPy's indexing and the functions used here; a backend's
`target("array")` gives it. The types are settled before a kernel is called, so it only has to keep
them.
"""

from singa_core.kernels import NamespaceTable, add_table

array = add_table(NamespaceTable("array"))

from singa_core.kernels.array import (  # noqa: E402  (the table must exist before its families)
    elementwise,
    fused,
    indexing,
    linalg,
    random,
    reduction,
    shape,
    together,
)

__all__ = [
    "array",
    "elementwise",
    "fused",
    "indexing",
    "linalg",
    "random",
    "reduction",
    "shape",
    "together",
]
