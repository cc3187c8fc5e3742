"""Groups of scalar operations in one loop: each step is a line of the body.

A step computes what its operation computes alone: products and sums are not contracted, so that a
group gives the bits of its members. Numbers of 8 and 16 bits are not taken: between two operations
they would have to be rounded. Random words are made where they are used: the state of their draw is
an operand that the loop does not walk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from singa_core.dtype import DType, bool_, float32, uint32
from singa_core.kernels import ALL_SIGNATURES, DRAW
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import Call, Target
from singa_core.kernels.c.expressions import (
    EXPRESSIONS,
    SCALAR,
    VECTORISED,
    cast,
    expression,
    functions,
)
from singa_core.kernels.c.geometry import broadcast_walk
from singa_core.kernels.c.loops import Scalar, calls
from singa_core.kernels.c.random import drawing
from singa_core.spec import AnyForm, Spec

FUSES: Final = frozenset({*EXPRESSIONS, "cast", DRAW} - {"copy"})
"""The operations that a group may be made of."""
WORDS: Final = frozenset({DRAW, "equal", "less", "less_equal", "shift_right", "cast"})
"""What may be done with words in a body of vectors."""


def line(
    op: str, dtype: DType, given: Sequence[DType], names: Sequence[str], vector: bool
) -> tuple[str, tuple[str, ...]]:
    """The expression of one step, and the functions that it calls."""
    if op != "cast":
        kind = given[-1] if given else dtype
        return expression(op, kind, names, "{T}"), functions(op, kind)
    if given[0] is dtype:
        return names[0], ()
    if vector and given[0] is bool_:
        return f"({names[0]} ? ({{T}})(1) : ({{T}})(0))", ()
    if vector and dtype is not bool_:
        return f"convert_{{T}}({names[0]})", ()
    return cast(given[0], dtype, names[0])


def vectors(dtypes: Sequence[DType], steps: Sequence[Any]) -> bool:
    """True if the body gains from vectors and allows them: floats, flags and words as they come."""
    ops = {op for op, *_ in steps}
    if not set(dtypes) <= {float32, bool_, uint32} or not ops & VECTORISED or ops & SCALAR:
        return False
    on_words = {
        op for op, _, taken, dtype in steps if uint32 in (dtype, *(dtypes[i] for i in taken))
    }
    into_words = any(op == "cast" and dtype is uint32 for op, _, _, dtype in steps)
    return on_words <= WORDS and not into_words


def drawable(ins: Sequence[AnyForm], outs: Sequence[Spec], steps: Sequence[Any]) -> bool:
    """True if each draw has the group's shape and a packed input that nothing is written over."""
    for op, attrs, taken, _ in steps:
        if op != DRAW:
            continue
        state = ins[taken[0]] if taken[0] < len(ins) else None
        if not isinstance(state, Spec) or state in outs:
            return False
        if dict(attrs)["shape"] != outs[0].shape:
            return False
    return True


def scalar_of(
    target: Target,
    ins: Sequence[AnyForm],
    outs: Sequence[Spec],
    steps: Sequence[Any],
    results: Sequence[int],
) -> tuple[Scalar, tuple[int, ...]] | None:
    """The group as lines of a body, and the inputs that it walks, then those it draws from.

    None if it takes numbers that are not to be fused, or draws what it cannot draw.
    """
    states = tuple(taken[0] for op, _, taken, _ in steps if op == DRAW)
    read = {i for op, _, taken, _ in steps if op != DRAW for i in taken} | {*results}
    walked = tuple(i for i in range(len(ins)) if i in read)
    dtypes = [form.dtype for form in ins] + [dtype for *_, dtype in steps]
    if any(dtype.is_narrow for dtype in dtypes) or not drawable(ins, outs, steps):
        return None
    vector = target.family == "cpu" and vectors(dtypes, steps)
    names = {i: f"x{n}" for n, i in enumerate(walked)}
    lines, words = [], []
    called = drawing(target.family) if states else ()
    for number, (op, _, taken, dtype) in enumerate(steps):
        name = names[len(ins) + number] = f"t{number}"
        if op == DRAW:
            words.append(name)
            continue
        text, extra = line(op, dtype, [dtypes[i] for i in taken], [names[i] for i in taken], vector)
        lines.append((name, dtype, text))
        called += extra
    lines += [(f"y{k}", dtypes[i], names[i]) for k, i in enumerate(results)]
    scalar = Scalar(
        "fused",
        tuple(ins[i].dtype.code for i in walked),
        tuple(lines),
        tuple(spec.dtype.code for spec in outs),
        tuple(dict.fromkeys(called)),
        vector,
        extra=tuple((f"g{k}", "u32", "in") for k in range(len(states))),
        words=tuple(words),
        restrict=False,
        contract=False,
    )
    return scalar, (*walked, *states)


@c.calls("fused", ALL_SIGNATURES, strides=True, in_place=True)
def fused(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *,
    steps: tuple[Any, ...], results: tuple[int, ...],
) -> list[Call] | None:  # fmt: skip
    found = scalar_of(target, ins, outs, steps, results)
    if found is None:
        return None
    scalar, taken = found
    walked, states = taken[: len(scalar.ins)], taken[len(scalar.ins) :]
    path = broadcast_walk(outs[0].shape, [ins[i] for i in walked], len(outs))
    results_at = range(len(ins), len(ins) + len(outs))
    return calls(target, scalar, path, (*walked, *results_at, *states))
