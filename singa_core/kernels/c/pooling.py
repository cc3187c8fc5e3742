"""The largest element under a window, the mean of a window, and their gradients.

Up to three spatial axes; kernel sizes, strides and dilations are part of a kernel's text.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from singa_core.dtype import DType
from singa_core.kernels import FLOATS, NUMBERS
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import INT_LIMIT, TYPES, Call, Source, Target, computed
from singa_core.kernels.c.elementwise import moved
from singa_core.kernels.c.geometry import grouped, row_items
from singa_core.spec import AnyForm, Shape, Spec

Pairs = tuple[tuple[int, int], ...]
UNROLLED = 9  # places of a window up to which they are written out
AXES = "def"  # of an image: x has sizes d0 e0 f0, windows stand at d1 e1 f1


@dataclass(frozen=True)
class Windows:
    """Where windows stand, over three spatial axes.

    Args:
        planes: channels of all images.
        size, out: of an image, and how many windows there are.
        kernel, stride, before, after, dilation: one for each axis.
    """

    planes: int
    size: Shape
    out: Shape
    kernel: Shape
    stride: Shape
    before: Shape
    after: Shape
    dilation: Shape

    @property
    def apart(self) -> bool:
        """No two windows share an element."""
        axes = zip(self.kernel, self.stride, self.dilation, strict=True)
        return all(k == 1 or (s >= k and d == 1) for k, s, d in axes)

    @property
    def tight(self) -> bool:
        """Windows that share no element leave out none either."""
        axes = zip(self.out, self.kernel, self.stride, self.size, strict=True)
        return all(s == k and n * s == m for n, k, s, m in axes)

    @property
    def inside(self) -> bool:
        """No window sees padding."""
        axes = zip(self.out, self.stride, self.kernel, self.dilation, self.size, strict=True)
        return not any(self.before) and all((n - 1) * s + (k - 1) * d < m for n, s, k, d, m in axes)

    def numbers(self) -> tuple[int, ...]:
        """The values of `NUMBERS_`."""
        return (self.planes, *self.size, *self.out, *self.before, *self.after)


NUMBERS_ = tuple(
    (name, "int")
    for name in ("planes", *(f"{a}0" for a in AXES), *(f"{a}1" for a in AXES),
                 *(f"before_{a}" for a in AXES), *(f"after_{a}" for a in AXES))
)  # fmt: skip


def windows(
    x: AnyForm, y: AnyForm, kernel: Shape, stride: Shape, padding: Pairs,
    dilation: Shape | None = None,
) -> Windows | None:  # fmt: skip
    """From the forms of x and y; None for more than three spatial axes, or too many elements."""
    more = 3 - len(kernel)
    if more < 0 or max(x.itemcount, y.itemcount) > INT_LIMIT:
        return None
    ones = (1,) * more
    before, after = ((0,) * more + tuple(pair[i] for pair in padding) for i in (0, 1))
    steps = dilation or (1,) * len(kernel)
    return Windows(
        math.prod(x.shape[:2]), ones + x.shape[2:], ones + y.shape[2:], ones + kernel,
        ones + stride, before, after, ones + steps,
    )  # fmt: skip


def over(target: Target, g: Windows, space: str, body: str, begin: str = "") -> str:
    """A body that does `body` for each element d, e, f of plane p of "0" (x) or "1" (y)."""
    if target.family == "cpu":
        loops = " ".join(f"for (int {a} = 0; {a} < {a}{space}; {a}++)" for a in AXES)
        return f"""
    const int last = min((GID + 1) * per, planes);
    for (int p = GID * per; p < last; p++) {{
        {begin}
        {loops} {{
{body}
        }}
    }}"""
    sizes = [f"{a}{space}" for a in AXES]
    return f"""
    const int at = GID, f = at % {sizes[2]}, e = at / {sizes[2]} % {sizes[1]};
    const int d = at / {sizes[2]} / {sizes[1]} % {sizes[0]};
    const int p = at / {sizes[2]} / {sizes[1]} / {sizes[0]};
    if (p >= planes) return;
    {begin}
    {{
{body}
    }}"""


def place(space: str, d: str = "d", e: str = "e", f: str = "f") -> str:
    """The index of an element in x ("0") or y ("1")."""
    return f"((p * d{space} + {d}) * e{space} + {e}) * f{space} + {f}"


def call(
    target: Target, g: Windows, space: str, name: str, codes: Sequence[str], body: str
) -> list[Call]:
    """One call over all elements of x or of y; the operands are a, b, ... and y, the output."""
    names = (*"abc"[: len(codes) - 1], "y")
    operands = tuple(
        (operand, code, "out" if operand == "y" else "in")
        for operand, code in zip(names, codes, strict=True)
    )
    source = Source(name, operands, (("per", "int"), *NUMBERS_), body)
    elements = math.prod(g.size if space == "0" else g.out)
    if target.family == "cpu":
        items, per = row_items(g.planes, elements * math.prod(g.kernel), target)
        group = 1
    else:
        items, per, group = grouped(g.planes * elements, target.group), 1, target.group
    where = tuple(range(len(codes)))
    return [Call(source, (items,), (group,), where, (per, *g.numbers()))]


def taps(g: Windows, text: str) -> str:
    """Loops over the places of a window, i, j, k; `text` sees u, v, w, the element of x."""
    loops, inside = [], []
    for a, name, tap, (n, s, step) in zip(
        AXES, "uvw", "ijk", zip(g.kernel, g.stride, g.dilation, strict=True), strict=True
    ):
        loops.append(
            f"for (int {tap} = 0; {tap} < {n}; {tap}++) {{ "
            f"const int {name} = {a} * {s} - before_{a} + {tap} * {step};"
        )
        if not g.inside:
            inside.append(f"if ({name} < 0 || {name} >= {a}0) continue;")
        else:
            inside.append("")
    opened = " ".join(f"{loop} {check}" for loop, check in zip(loops, inside, strict=True))
    return f"{opened} {text} }} }} }}"


def unrolled(g: Windows) -> list[str]:
    """The index in x of each place of a window that sees no padding."""
    axes = [[f"({a} * {s} + {i * d})" for i in range(k)]
            for a, k, s, d in zip(AXES, g.kernel, g.stride, g.dilation, strict=True)]  # fmt: skip
    return [place("0", *at) for at in itertools.product(*axes)]


# -- the largest -----------------------------------------------------------------------------------


def lowest(dtype: DType) -> str:
    """The least number of the type that a dtype is computed in."""
    if dtype.is_floating:
        return "-INFINITY"
    return "0" if dtype.kind == "uint" else f"(-{(1 << (dtype.bits - 1)) - 1}L - 1)"


@c.calls("max_pool", "T->T", T=NUMBERS)
def max_pool(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, kernel: Shape, stride: Shape,
    padding: Pairs, dilation: Shape, ceil_mode: bool,
) -> list[Call] | None:  # fmt: skip
    g = windows(ins[0], outs[0], kernel, stride, padding, dilation)
    if g is None or not outs[0].itemcount:
        return [] if g else None
    dtype = ins[0].dtype
    code, kind = dtype.code, computed(dtype)
    nan = " | v_ != v_" if dtype.is_floating else ""
    if g.inside and math.prod(g.kernel) <= UNROLLED:
        look = " ".join(
            f"{{ const {kind} v_ = LD_{code}(a, {at}); m = v_ > m{nan} ? v_ : m; }}"
            for at in unrolled(g)
        )
    else:
        step = f"const {kind} v_ = LD_{code}(a, {place('0', 'u', 'v', 'w')}); "
        look = taps(g, f"{step} m = v_ > m{nan} ? v_ : m;")
    body = f"{kind} m = {lowest(dtype)}; {look} ST_{code}(y, {place('1')}, m);"
    return call(target, g, "1", "max_pool", (code, code), over(target, g, "1", body))


@c.calls("max_pool_grad", "T,T,T->T", T=FLOATS)
def max_pool_grad(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, kernel: Shape, stride: Shape,
    padding: Pairs, dilation: Shape, ceil_mode: bool,
) -> list[Call] | None:  # fmt: skip
    g = windows(outs[0], ins[0], kernel, stride, padding, dilation)
    if g is None or not outs[0].itemcount:
        return [] if g else None
    code, kind = outs[0].dtype.code, computed(outs[0].dtype)
    if target.family == "cpu" and g.apart and g.inside and math.prod(g.kernel) <= UNROLLED:
        bits = moved(outs[0].dtype).code
        body = over(target, g, "1", handed_out(g, code, bits), "" if g.tight else clear(bits))
        return call(target, g, "1", "max_pool_grad", (bits, code, code, bits), body)
    # The first element that equals the largest one; of a window with NaN, its first element.
    found = f"int best = -1, none = 1; const {kind} top = LD_{code}(c, {place('1')}); "
    look = f"const int q = {place('0', 'u', 'v', 'w')}; if (best < 0) best = q; "
    look += f"if (none && LD_{code}(b, q) == top) {{ best = q; none = 0; }}"
    found += taps(g, look)
    scatters = target.family == "cpu" and (g.apart or outs[0].dtype.bits >= 32)
    if scatters:
        grad = f"LD_{code}(a, {place('1')})"
        add = grad if g.apart else f"LD_{code}(y, best) + {grad}"
        body = over(target, g, "1", f"{found} ST_{code}(y, best, {add});", clear(code))
        return call(target, g, "1", "max_pool_grad", (code,) * 4, body)
    body = over(target, g, "0", f"{gathered(g, code, kind, found)}")
    return call(target, g, "0", "max_pool_grad", (code,) * 4, body)


def clear(code: str) -> str:
    """Zeros in plane p."""
    return f"for (int q = p * d0 * e0 * f0; q < (p + 1) * d0 * e0 * f0; q++) ST_{code}(y, q, 0);"


def handed_out(g: Windows, code: str, bits: str) -> str:
    """The grad or zero to every element of a window that shares none, without a branch.

    Branches would depend on data. What is moved are the bits of a grad, and where they go is a
    mask for them.
    """
    *some, last = unrolled(g)
    kind = TYPES[bits][1]
    text = f"const {TYPES[code][1]} top = LD_{code}(c, {place('1')}); "
    text += f"const {kind} share = LD_{bits}(a, {place('1')}); {kind} left = ~({kind})0; "
    for n, at in enumerate(some):
        text += f"const {kind} to{n} = left & (0 - ({kind})(LD_{code}(b, {at}) == top)); "
        text += f"left &= ~to{n}; "
    text += " ".join(f"ST_{bits}(y, {at}, share & to{n});" for n, at in enumerate(some))
    return f"{text} ST_{bits}(y, {last}, share & left);"


def gathered(g: Windows, code: str, kind: str, found: str) -> str:
    """What comes to one element of x from all windows that see it."""
    loops = []
    for a, tap, (n, s, step) in zip(
        AXES, "lmn", zip(g.kernel, g.stride, g.dilation, strict=True), strict=True
    ):
        loops.append(
            f"for (int {tap} = 0; {tap} < {n}; {tap}++) {{ "
            f"const int {tap}_ = {a} + before_{a} - {tap} * {step}; "
            f"if ({tap}_ < 0 || {tap}_ % {s} || {tap}_ / {s} >= {a}1) continue;"
        )
    inner = "const int d = l_ / {}, e = m_ / {}, f = n_ / {};".format(*g.stride)
    return (
        f"{kind} sum = 0; const int here = {place('0')}; {' '.join(loops)} {inner} {found} "
        f"if (best == here) sum += LD_{code}(a, {place('1')}); }} }} }} ST_{code}(y, here, sum);"
    )


# -- the mean --------------------------------------------------------------------------------------


def count(g: Windows, include: bool) -> str:
    """How many elements the window at d, e, f averages; the padding in g is the user's own."""
    parts = []
    for a, k, s in zip(AXES, g.kernel, g.stride, strict=True):
        low, high = (f"-before_{a}", f"{a}0 + after_{a}") if include else ("0", f"{a}0")
        at = f"({a} * {s} - before_{a})"
        parts.append(f"(min({at} + {k}, {high}) - max({at}, {low}))")
    return " * ".join(parts)


@c.calls("avg_pool", "T->T", T=FLOATS)
def avg_pool(
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, kernel: Shape, stride: Shape,
    padding: Pairs, ceil_mode: bool, count_include_pad: bool,
) -> list[Call] | None:  # fmt: skip
    g = windows(ins[0], outs[0], kernel, stride, padding)
    if g is None or not outs[0].itemcount:
        return [] if g else None
    code, kind = outs[0].dtype.code, computed(outs[0].dtype)
    step = f"sum += LD_{code}(a, {place('0', 'u', 'v', 'w')});"
    body = f"{kind} sum = 0; {taps(g, step)} "
    body += f"ST_{code}(y, {place('1')}, sum / ({kind})({count(g, count_include_pad)}));"
    return call(target, g, "1", "avg_pool", (code, code), over(target, g, "1", body))


@c.calls("avg_pool_grad", "T->T", T=FLOATS)
def avg_pool_grad(  # noqa: PLR0913  (the attributes of the op)
    target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec], *, size: Shape, kernel: Shape,
    stride: Shape, padding: Pairs, ceil_mode: bool, count_include_pad: bool,
) -> list[Call] | None:  # fmt: skip
    g = windows(outs[0], ins[0], kernel, stride, padding)
    if g is None or not outs[0].itemcount:
        return [] if g else None
    code, kind = outs[0].dtype.code, computed(outs[0].dtype)
    loops = []
    for a, first, (k, s) in zip(AXES, "lmn", zip(g.kernel, g.stride, strict=True), strict=True):
        low = f"max(({a} + before_{a} - {k}) / {s} + ({a} + before_{a} >= {k}), 0)"
        loops.append(
            f"for (int {first} = {low}; {first} < {a}1 && {first} * {s} <= {a} + before_{a}; "
            f"{first}++)"
        )
    inner = "const int d = l, e = m, f = n;"
    share = f"LD_{code}(a, {place('1')}) / ({kind})({count(g, count_include_pad)})"
    body = f"{kind} sum = 0; const int here = {place('0')}; {' '.join(loops)} "
    body += f"{{ {inner} sum += {share}; }} ST_{code}(y, here, sum);"
    return call(target, g, "0", "avg_pool_grad", (code, code), over(target, g, "0", body))
