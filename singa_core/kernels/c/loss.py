"""Cross-entropy of softmax and a label, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence

from singa_core.kernels import FLOATS, INTS
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import FAULT, Call, Target, computed
from singa_core.kernels.c.normalization import log_of_shares
from singa_core.kernels.c.rows import Rows, Text
from singa_core.spec import AnyForm, Spec


def rows_of(x: AnyForm) -> Rows:
    """The last axis of packed elements."""
    return Rows(math.prod(x.shape[:-1]), x.shape[-1])


@c.calls("softmax_cross_entropy", "T,I->T,T", T=FLOATS, I=INTS)
def softmax_cross_entropy(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec]
) -> list[Call] | None:
    x, labels = ins
    if not x.itemcount:
        return None if outs[0].itemcount else []
    code, at, kind = x.dtype.code, labels.dtype.code, computed(x.dtype)
    made = Text(target, rows_of(x), kind)
    log_of_shares(made, code)
    # before anything is read at it: as an unsigned number, a negative label is too large
    made.once(
        f"const ulong label = (ulong)LD_{at}(labels, r); "
        f"if (label >= (ulong)n) {{ FAULT_FOUND(labels[r]) ST_{code}(losses, r, 0); }} "
        f"else ST_{code}(losses, r, -(LD_{code}(x, start + label) - top - sum));"
    )
    operands = [
        ("x", code, "in"), ("labels", at, "in"), ("losses", code, "out"), ("y", code, "out"),
        ("fault", "i64", "inout"),
    ]  # fmt: skip
    rule = ("softmax_cross_entropy", f"0 <= label < {x.shape[-1]}")
    return [made.call("softmax_cross_entropy", operands, (0, 1, 2, 3, FAULT), fault=rule)]


@c.calls("softmax_cross_entropy_grad", "T,T,I->T", T=FLOATS, I=INTS)
def softmax_cross_entropy_grad(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec]
) -> list[Call]:
    if not outs[0].itemcount:
        return []
    code, at, kind = outs[0].dtype.code, ins[2].dtype.code, computed(outs[0].dtype)
    made = Text(target, rows_of(ins[1]), kind)
    made.say(
        f"const {kind} share = LD_{code}(grad, r); const ulong label = (ulong)LD_{at}(labels, r);"
    )
    made.each(
        f"LD_{code}(log_probs, AT)",
        f"ST_{code}(y, AT, (w - ((ulong)e == label ? 1 : 0)) * share);", exp=True,
    )  # fmt: skip
    operands = [
        ("grad", code, "in"), ("log_probs", code, "in"), ("labels", at, "in"), ("y", code, "out"),
    ]  # fmt: skip
    return [made.call("softmax_cross_entropy_grad", operands, range(4))]
