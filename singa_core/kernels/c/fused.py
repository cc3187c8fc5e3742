"""Groups of scalar operations in one loop: each step is a line of the body.

A step computes what its operation computes alone: products and sums are not contracted, so that a
group gives the bits of its members. Numbers of 8 and 16 bits are not taken: between two operations
they would have to be rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from singa_core.dtype import DType, bool_, float32
from singa_core.kernels import ALL_SIGNATURES
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import Call, Target
from singa_core.kernels.c.elementwise import Scalar, calls
from singa_core.kernels.c.expressions import (
    EXPRESSIONS,
    SCALAR,
    VECTORISED,
    cast,
    expression,
    functions,
)
from singa_core.kernels.c.geometry import broadcast_walk
from singa_core.spec import AnyForm, Spec

FUSES: Final = frozenset({*EXPRESSIONS, "cast"} - {"copy"})
"""The operations that a group may be made of."""


def line(
    op: str, dtype: DType, given: Sequence[DType], names: Sequence[str], vector: bool
) -> tuple[str, str]:
    """The expression of one step, and the functions that it calls."""
    if op != "cast":
        kind = given[-1] if given else dtype
        return expression(op, kind, names, "{T}"), functions(op, kind)
    if vector and given[0] is bool_:
        return f"({names[0]} ? ({{T}})(1) : ({{T}})(0))", ""
    return (names[0], "") if given[0] is dtype else cast(given[0], dtype, names[0])


def scalar_of(
    ins: Sequence[AnyForm], outs: Sequence[Spec], steps: Sequence[Any], results: Sequence[int]
) -> Scalar | None:
    """The group as lines of a body; None if it takes numbers that are not to be fused."""
    dtypes = [form.dtype for form in ins] + [dtype for *_, dtype in steps]
    if any(dtype.is_narrow for dtype in dtypes):
        return None
    # vectors are of floats, and of the outcomes of comparing them
    ops = {op for op, *_ in steps}
    vector = set(dtypes) <= {float32, bool_} and bool(ops & VECTORISED) and not ops & SCALAR
    names = [f"x{i}" for i in range(len(ins))]
    lines, called = [], []
    for number, (op, _, taken, dtype) in enumerate(steps):
        given = [dtypes[i] for i in taken]
        text, extra = line(op, dtype, given, [names[i] for i in taken], vector)
        names.append(f"t{number}")
        lines.append((names[-1], dtype, text))
        called.append(extra)
    lines += [(f"y{k}", dtypes[i], names[i]) for k, i in enumerate(results)]
    return Scalar(
        "fused",
        tuple(form.dtype.code for form in ins),
        tuple(lines),
        tuple(spec.dtype.code for spec in outs),
        "NO_CONTRACT\n" + "".join(dict.fromkeys(called)),
        vector,
        restrict=False,
    )


@c.calls("fused", ALL_SIGNATURES, strides=True, in_place=True)
def fused(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *,
    steps: tuple[Any, ...], results: tuple[int, ...],
) -> list[Call] | None:  # fmt: skip
    scalar = scalar_of(ins, outs, steps, results)
    if scalar is None:
        return None
    path = broadcast_walk(outs[0].shape, ins, len(outs))
    return calls(target, scalar, path, range(len(ins) + len(outs)))
