"""Several operations in one launch: each has its share of the work items."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from singa_core.kernels import ALL_SIGNATURES
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import TYPES, Call, Source, Target
from singa_core.spec import AnyForm, Spec

BATCHES: Final = frozenset(
    "fused sgd_step sgd_momentum_step adam_step adagrad_step rmsprop_step "
    "rmsprop_momentum_step".split()
)
"""What may be a part: the steps of optimisers, and what they are made of without a kernel."""


@c.calls("together", ALL_SIGNATURES, strides=True, in_place=True)
def together(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, parts: Sequence[Any]
) -> list[Call] | None:
    made: list[Call] = []
    done = 0
    for name, attrs, taken, count in parts:
        given, own = [ins[i] for i in taken], outs[done : done + count]
        places = (*taken, *range(len(ins) + done, len(ins) + done + count))
        done += count
        kernel = c.find(name, [form.dtype for form in given], [spec.dtype for spec in own])
        if kernel is None or not (kernel.strides or all(isinstance(f, Spec) for f in given)):
            return None
        found = c.calls_of(kernel)(target, given, own, **dict(attrs))
        if found is None or isinstance(found, tuple) or len(found) > 1:
            return None  # calls of one part follow each other
        if not all(map(mergeable, found)):
            return None
        made += [moved(call, places) for call in found]
    if len({call.group for call in made}) > 1:
        return None
    # a compiler is told for a whole kernel whether it may contract
    kinds = [[call for call in made if call.source.contract is may] for may in (True, False)]
    return [merged(calls) for calls in kinds if calls]


def mergeable(call: Call) -> bool:
    """True for a call along one axis, without barriers and without faults to tell."""
    return not call.source.group and len(call.items) == 1 and call.fault is None


def moved(call: Call, places: Sequence[int]) -> Call:
    """The call on operands that lie elsewhere."""
    return Call(
        call.source, call.items, call.group, tuple(places[i] for i in call.operands),
        call.numbers, call.starts or (0,) * len(call.operands),
    )  # fmt: skip


def merged(calls: Sequence[Call]) -> Call:
    """One call that does the work of these, which do not wait for each other and round alike."""
    bodies: list[str] = []
    numbers: list[tuple[str, str]] = []
    values: list[int | float] = []
    first = 0
    for k, call in enumerate(calls):
        bodies.append(_body(k, call.source))
        numbers += [(f"p{k}_first", "IDX"), (f"p{k}_end", "IDX")]
        values += [first, first + call.items[0]]
        first += call.items[0]
        numbers += [(f"p{k}_{name}", kind) for name, kind in call.source.numbers]
        values += call.numbers
    functions = dict.fromkeys(text for call in calls for text in call.source.functions)
    source = Source(
        "together",
        tuple(
            (f"p{k}_{name}", code, kind)
            for k, call in enumerate(calls)
            for name, code, kind in call.source.operands
        ),
        tuple(numbers),
        "    IDX whole = GID;\n" + "".join(bodies),
        tuple(functions),
        wide=any(call.source.wide for call in calls),
        restrict=False,
        contract=calls[0].source.contract,
    )
    return Call(
        source, (first,), calls[0].group,
        tuple(place for call in calls for place in call.operands), tuple(values),
        tuple(start for call in calls for start in call.starts),
    )  # fmt: skip


def _body(k: int, source: Source) -> str:
    """A part as a block with names of its own, and its own count of work items."""
    lines = [f"    if (whole >= p{k}_first && whole < p{k}_end) {{ IDX gid = whole - p{k}_first;"]
    for name, code, kind in source.operands:
        const = "const " if kind == "in" else ""
        lines.append(f"    {const}GLOBAL {TYPES[code][0]} *{name} = p{k}_{name};")
    lines += [f"    const {kind} {name} = p{k}_{name};" for name, kind in source.numbers]
    return "\n".join([*lines, re.sub(r"\bGID\b", "gid", source.body), "    }\n"])
