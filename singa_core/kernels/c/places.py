"""Where the operands of a call lie among those of a launch, checked before anything is compiled."""

from __future__ import annotations

from collections.abc import Sequence

from singa_core.errors import ArgumentError
from singa_core.kernels.c.dialect import FAULT, Call
from singa_core.spec import AnyForm, Spec


def check_count(name: str, operands: Sequence[tuple[str, str, str]], where: Sequence[int]) -> None:
    """Raises: ArgumentError unless there is a place for each operand."""
    if len(where) != len(operands):
        named = ", ".join(f"{kind} {code}" for _, code, kind in operands)
        rule = f"a place for each of its {len(operands)} operands ({named})"
        raise ArgumentError(f"kernel {name}", rule, tuple(where))


def check_places(
    calls: Sequence[Call], ins: Sequence[AnyForm], outs: Sequence[Spec], *, workspace: bool
) -> None:
    """Raises: ArgumentError for a place that is none, or not one for what a call does there.

    A launch is given inputs, outputs, and workspace if there is any, in this order. A call writes
    to the last two only, and reads from an output what an earlier call has written.
    """
    forms, written = (*ins, *outs), set[int]()
    for call in calls:
        check_count(call.source.name, call.source.operands, call.operands)
        results = set[int]()
        for (_, code, kind), size, at in zip(
            call.source.operands, call.element_sizes, call.operands, strict=True
        ):
            reads = kind == "in"
            if at == FAULT:
                continue
            if not 0 <= at < len(forms) + workspace:
                raise _refused(call, len(ins), len(outs), f"{at} is neither")
            if at >= len(forms):
                continue
            if reads and at >= len(ins) and at not in written:
                raise _refused(call, len(ins), len(outs), f"{at} is read")
            if not reads and at < len(ins):
                raise _refused(call, len(ins), len(outs), f"{at} is written")
            if forms[at].dtype.itemsize != size:
                raise _refused(call, len(ins), len(outs), f"{at} is taken as {code}")
            if not reads:
                results.add(at)
        written |= results


def _refused(call: Call, ins: int, outs: int, what: str) -> ArgumentError:
    def named(kind: str, first: int, count: int) -> str:
        places = ", ".join(map(str, range(first, first + count)))
        return f"{kind} at {places}" if count else f"no {kind}"

    rule = f"{named('inputs', 0, ins)} and {named('outputs', ins, outs)}, of their types"
    return ArgumentError(f"kernel {call.source.name}", rule, f"{call.operands}, where {what}")
