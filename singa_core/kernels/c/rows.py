"""Kernels that look at a row several times: its largest element, its sum, then all elements again.

A row is `segments` pieces of `n` elements, `gap` apart, with pieces `far` apart. In the cpu family
a work item goes through its rows one by one, with eight partial results, so that additions overlap
and exponentials are taken of vectors. In the gpu family a group takes a row, and its items meet in
shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from singa_core.kernels.c.dialect import INT_LIMIT, Call, Source, Target
from singa_core.kernels.c.geometry import row_items

LANES = 8
NUMBERS = ("per", "rows", "inner", "n", "gap", "segments", "far")


@dataclass(frozen=True)
class Rows:
    """Where rows are: row r begins at r / inner * inner * n + r % inner, or, in pieces, at r * n.

    Args:
        rows: how many.
        n: elements of a piece.
        inner: rows that lie side by side.
        gap: from an element of a piece to the next one.
        segments: pieces of a row.
        far: from a piece to the next one.
    """

    rows: int
    n: int
    inner: int = 1
    gap: int = 1
    segments: int = 1
    far: int = 0


class Text:
    """The body of a kernel over rows, put together step by step.

    Steps see `r`, the row's number; in their expressions `e` is an element's number in its piece,
    `AT` its index, and `w` the value of the expression.
    """

    def __init__(self, target: Target, rows: Rows, kind: str) -> None:
        self.target, self.rows, self.kind = target, rows, kind
        self.cpu = target.family == "cpu"
        self.steps: list[str] = []

    def say(self, text: str) -> None:
        """A statement that every work item of a row does."""
        self.steps.append(text)

    def once(self, text: str) -> None:
        """A statement that one work item does."""
        self.steps.append(text if self.cpu else f"if (LID == 0) {{ {text} }}")

    def each(self, value: str, then: str, *, exp: bool = False) -> None:
        """Do `then` for every element, with w the value (or its exponential)."""
        self.steps.append(self._walk(value, exp, then))

    def total(
        self, name: str, value: str, *, exp: bool = False, then: str = "", largest: bool = False
    ) -> None:
        """The sum of a value (or of its exponential) over the row, or the largest, as `name`.

        NaN is never the largest.
        """
        start = "-INFINITY" if largest else "0"
        join = "{0} = {1} > {0} ? {1} : {0};" if largest else "{0} += {1};"
        self.say(f"{self.kind} {name} = {start};")
        if self.cpu:
            lanes = join.format("lanes[j]", "w")
            body = self._walk(value, exp, f"{lanes} {then}", join.format(name, "w") + then)
            gathered = f"for (int j = 0; j < {LANES}; j++) {{ {join.format(name, 'lanes[j]')} }}"
            clear = f"{self.kind} lanes[{LANES}]; "
            clear += f"for (int j = 0; j < {LANES}; j++) lanes[j] = {start};"
            self.say(f"{{ {clear} {body} {gathered} }}")
            return
        self.say(self._walk(value, exp, f"{join.format(name, 'w')} {then}"))
        meet = join.format("part[LID]", "part[LID + far_]")
        self.say(
            f"part[LID] = {name}; BARRIER; "
            f"for (int far_ = GROUP_SIZE / 2; far_ > 0; far_ >>= 1) "
            f"{{ if (LID < far_) {{ {meet} }} BARRIER; }} {name} = part[0]; BARRIER;"
        )

    def _walk(self, value: str, exp: bool, then: str, last: str | None = None) -> str:
        """All elements; in the cpu family `then` may use the lane j, and `last` may not."""
        one = "exp(value_)" if exp else "value_"
        single = f"const {self.kind} value_ = {value}, w = {one};"
        if not self.cpu:
            many = self.rows.segments > 1
            at = "start + f_ / n * far + e * gap" if many else "start + e * gap"
            number = "f_ % n" if many else "f_"
            return (
                f"for (IDX f_ = LID; f_ < n * segments; f_ += GROUP_SIZE) "
                f"{{ const IDX e = {number}, AT = {at}; {single} {then} }}"
            )
        vectors = ""
        if exp:
            vectors = "vstore8(exp(vload8(0, v_)), 0, v_);"
            if self.kind != "float":
                vectors = f"for (int j = 0; j < {LANES}; j++) v_[j] = exp(v_[j]);"
        place = f"const IDX e = i + j, AT = start + s_ * far + e{self._gap()};"
        loop = f"for (int j = 0; j < {LANES}; j++) {{ {place}"
        tail = f"const IDX e = i, AT = start + s_ * far + e{self._gap()};"
        return (
            f"for (IDX s_ = 0; s_ < segments; s_++) {{ IDX i = 0; "
            f"for (; i + {LANES} <= n; i += {LANES}) {{ {self.kind} v_[{LANES}]; "
            f"{loop} v_[j] = {value}; }} {vectors} "
            f"{loop} const {self.kind} w = v_[j]; {then} }} }} "
            f"for (; i < n; i++) {{ {tail} {single} {then if last is None else last} }} }}"
        )

    def _gap(self) -> str:
        return "" if self.rows.gap == 1 else " * gap"

    def body(self) -> str:
        """The whole body."""
        steps = "\n        ".join(self.steps)
        start = "const IDX start = r * n;"
        if self.rows.segments == 1:
            start = "const IDX start = r / inner * inner * n + r % inner;"
        if self.cpu:
            return f"""
    const IDX stop_ = min((GID + 1) * per, rows);
    for (IDX r = GID * per; r < stop_; r++) {{
        {start}
        {steps}
    }}"""
        return f"""
    SHARED {self.kind} part[{self.target.group}];
    const IDX r = GROUP;
    {start}
        {steps}"""

    def call(
        self, name: str, operands: Sequence[tuple[str, str, str]], where: Sequence[int],
        more: Sequence[tuple[str, str, float]] = (), fault: tuple[str, str] | None = None,
    ) -> Call:  # fmt: skip
        """The call; `more` are numbers of its own: (name, C type, value)."""
        g = self.rows
        items, per = row_items(g.rows, 4 * g.n * g.segments, self.target)
        group = 1
        if not self.cpu:
            items, per, group = g.rows * self.target.group, 1, self.target.group
        names = (*((each, "IDX") for each in NUMBERS), *((n, t) for n, t, _ in more))
        source = Source(
            name, tuple(operands), names if fault is None else (*names, ("site", "long")),
            self.body(), group=() if self.cpu else (group,),
            wide=g.rows * g.n * g.segments > INT_LIMIT,
        )  # fmt: skip
        numbers = (per, g.rows, g.inner, g.n, g.gap, g.segments, g.far, *(v for _, _, v in more))
        return Call(source, (items,), (group,), tuple(where), numbers, fault=fault)
