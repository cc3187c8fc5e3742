"""Scalar functions as C expressions: op -> text, by the type it computes in.

`{a} {b} {c}` are the inputs, `{T}` is the type: a scalar, or a vector of floats. Comparison and
`?:` work on both. Signed integers are added and multiplied as unsigned ones: C leaves their
overflow undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from singa_core.dtype import DType, bool_
from singa_core.kernels.c.dialect import computed

_UNSIGNED = {"int": "uint", "long": "ulong", "uint": "uint", "ulong": "ulong"}


def wrapping(kind: str) -> str:
    """The type in which sums and products of `kind` wrap around."""
    return _UNSIGNED.get(kind, kind)


def _wrapping(sign: str) -> Callable[[DType], str]:
    def write(dtype: DType) -> str:
        if dtype.is_floating:
            return f"{{a}} {sign} {{b}}"
        kind = computed(dtype)
        unsigned = _UNSIGNED[kind]
        return f"({kind})(({unsigned}){{a}} {sign} ({unsigned}){{b}})"

    return write


def _neg(dtype: DType) -> str:
    if dtype.is_floating:
        return "-{a}"
    kind = computed(dtype)
    return f"({kind})(0 - ({_UNSIGNED[kind]}){{a}})"


def _abs(dtype: DType) -> str:
    if dtype.is_floating:
        return "fabs({a})"
    return "{a}" if dtype.kind == "uint" else f"({{a}} < 0 ? {_neg(dtype)} : {{a}})"


def _sign(dtype: DType) -> str:
    if dtype.is_floating:
        zero = "({a} == ({T})(0) ? ({T})(0) : {a})"  # for -0.0 too; NaN stays
        return f"({{a}} > ({{T}})(0) ? ({{T}})(1) : ({{a}} < ({{T}})(0) ? ({{T}})(-1) : {zero}))"
    return "({a} > 0)" if dtype.kind == "uint" else "(({a} > 0) - ({a} < 0))"


def _extreme(sign: str) -> Callable[[DType], str]:
    def write(dtype: DType) -> str:
        nan = " | ({a} != {a})" if dtype.is_floating else ""
        return f"((({{a}} {sign} {{b}}){nan}) ? {{a}} : {{b}})"

    return write


def _function(name: str, inputs: str = "{a}") -> Callable[[DType], str]:
    return lambda dtype: f"{name}({inputs})"


def _by_type(name: str, inputs: str = "{a}, {b}") -> Callable[[DType], str]:
    """A function of this module's `FUNCTIONS`, one for each type."""
    return lambda dtype: f"{name}_{computed(dtype)}({inputs})"


def _shift(left: bool) -> Callable[[DType], str]:
    def write(dtype: DType) -> str:
        kind = computed(dtype)
        low = "" if dtype.kind == "uint" else "{b} >= 0 && "
        inside = f"({low}{{b}} < {dtype.bits})"
        by = f"({inside} ? {{b}} : ({{T}})(0))"
        if left:
            return f"({inside} ? ({kind})(({_UNSIGNED[kind]}){{a}} << {by}) : 0)"
        signs = "({T})(0)" if dtype.kind == "uint" else "({a} < 0 ? -1 : 0)"
        return f"({inside} ? {{a}} >> {by} : {signs})"

    return write


def _not(dtype: DType) -> str:
    return "!{a}" if dtype is bool_ else "~{a}"


def _tanh(dtype: DType) -> str:
    """Exactly 1 from where it rounds to 1 on: in 1 + tanh(x) one unit less is all there is."""
    end = "19.07" if computed(dtype) == "double" else "9.02f"
    return f"(fabs({{a}}) > ({{T}})({end}) ? copysign(({{T}})(1), {{a}}) : tanh({{a}}))"


def _text(text: str) -> Callable[[DType], str]:
    return lambda dtype: text


def _erf(dtype: DType) -> str:
    return "erf({a})"


EXPRESSIONS: dict[str, Callable[[DType], str]] = {
    "neg": _neg, "abs": _abs, "sign": _sign, "bit_not": _not,
    "add": _wrapping("+"), "sub": _wrapping("-"), "mul": _wrapping("*"), "div": _text("{a} / {b}"),
    "maximum": _extreme(">"), "minimum": _extreme("<"),
    "floor_divide": _by_type("floor_divide"), "remainder": _by_type("remainder"),
    "equal": _text("({a} == {b})"), "less": _text("({a} < {b})"),
    "less_equal": _text("({a} <= {b})"), "bit_and": _text("({a} & {b})"),
    "bit_or": _text("({a} | {b})"), "bit_xor": _text("({a} ^ {b})"),
    "shift_left": _shift(True), "shift_right": _shift(False),
    "where": _text("({a} ? {b} : {c})"), "round": _function("rint"), "floor": _function("floor"),
    "sqrt": _function("sqrt"), "exp": _function("exp"), "expm1": _function("expm1"),
    "log": _function("log"), "log1p": _function("log1p"), "sin": _function("sin"),
    "cos": _function("cos"), "atan": _function("atan"), "tanh": _tanh, "erf": _erf,
    "copy": _text("{a}"),
}  # fmt: skip
VECTORISED = frozenset("exp expm1 log log1p sqrt atan tanh erf pow".split())
"""Functions that a compiler does not turn into vector code by itself: they get a vector body."""
SCALAR = frozenset({"sin", "cos"})
"""Functions that get none: beside large numbers in a vector, one driver is wrong about others."""


def power(dtype: DType) -> str:
    """`pow`: integers by squaring."""
    return "pow({a}, {b})" if dtype.is_floating else f"power_{computed(dtype)}({{a}}, {{b}})"


EXPRESSIONS["pow"] = power

_FLOAT_DIVISION = """
FUNCTION {T} remainder_{T}({T} a, {T} b)
{{
    {T} m = fmod(a, b);
    if (b == 0) return m;
    if (m != 0) return ((b < 0) != (m < 0)) ? m + b : m;
    return copysign(({T})0, b);
}}
FUNCTION {T} floor_divide_{T}({T} a, {T} b)
{{
    if (b == 0) return a / b;
    {T} m = fmod(a, b), d = (a - m) / b;
    if (m != 0 && (b < 0) != (m < 0)) d -= 1;
    if (d == 0) return copysign(({T})0, a / b);
    {T} whole = floor(d);
    return d - whole > ({T})0.5 ? whole + 1 : whole;
}}
"""
# a divisor of 0 gives 0; one of -1 must not trap at the least number
_SIGNED_DIVISION = """
FUNCTION {T} floor_divide_{T}({T} a, {T} b)
{{
    if (b == 0) return 0;
    if (b == -1) return ({T})(0 - ({U})a);
    {T} q = a / b;
    return ((a % b != 0) && ((a < 0) != (b < 0))) ? q - 1 : q;
}}
FUNCTION {T} remainder_{T}({T} a, {T} b)
{{
    if (b == 0 || b == -1) return 0;
    {T} m = a % b;
    return (m != 0 && ((m < 0) != (b < 0))) ? m + b : m;
}}
FUNCTION {T} power_{T}({T} a, {T} b)
{{
    if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) ? -1 : 1) : 0;
    {U} y = 1, base = ({U})a;
    for ({U} n = ({U})b; n != 0; n >>= 1) {{
        if (n & 1) y *= base;
        base *= base;
    }}
    return ({T})y;
}}
"""
_UNSIGNED_DIVISION = """
FUNCTION {T} floor_divide_{T}({T} a, {T} b) {{ return b == 0 ? 0 : a / b; }}
FUNCTION {T} remainder_{T}({T} a, {T} b) {{ return b == 0 ? 0 : a % b; }}
FUNCTION {T} power_{T}({T} a, {T} b)
{{
    {T} y = 1;
    for (; b != 0; b >>= 1) {{
        if (b & 1) y *= a;
        a *= a;
    }}
    return y;
}}
"""


def functions(op: str, dtype: DType) -> tuple[str, ...]:
    """The texts that an op's expression calls."""
    if op not in ("floor_divide", "remainder", "pow") or (op == "pow" and dtype.is_floating):
        return ()
    kind = computed(dtype)
    if dtype.is_floating:
        return (_FLOAT_DIVISION.format(T=kind),)
    if dtype.kind == "uint":
        return (_UNSIGNED_DIVISION.format(T=kind),)
    return (_SIGNED_DIVISION.format(T=kind, U=_UNSIGNED[kind]),)


def expression(op: str, dtype: DType, inputs: Sequence[str], kind: str) -> str:
    """`op` of named inputs of `dtype`, computed in the C type `kind`."""
    names = dict(zip("abc", inputs, strict=False))
    return EXPRESSIONS[op](dtype).format(T=kind, **names)


# -- casts -----------------------------------------------------------------------------------------

# Rounded to odd, so that a second rounding to fewer digits gives what a single one would.
_TO_ODD = """
FUNCTION float ulong_to_odd(ulong m)
{
    int s = 0;
    while (m >> s >= 16777216) s++;
    ulong rest = m & (((ulong)1 << s) - 1);
    return ldexp((float)(uint)(m >> s | (rest != 0)), s);
}
FUNCTION float long_to_odd(long a)
{
    return a < 0 ? -ulong_to_odd((ulong)0 - (ulong)a) : ulong_to_odd((ulong)a);
}
"""
_DOUBLE_TO_ODD = """
FUNCTION float double_to_odd(double x)
{
    float y = (float)x;
    uint bits = BITS_F32(y);
    if ((double)y == x || x != x || (bits & 1)) return y;
    return F32_BITS(fabs((double)y) < fabs(x) ? bits + 1 : bits - 1);
}
"""


def cast(source: DType, dtype: DType, value: str) -> tuple[str, tuple[str, ...]]:
    """`value` of `source` as a value of `dtype`, and the functions that it needs."""
    kind = computed(dtype)
    if dtype is bool_:
        return f"({value} != 0)", ()
    if source.is_floating and dtype.is_integer:
        return _truncated(dtype, value, computed(source)), ()
    if dtype.bits == 16 and dtype.is_floating:
        if source.bits == 64 and source.is_floating:
            return f"double_to_odd({value})", (_DOUBLE_TO_ODD,)
        if source.is_integer and source.bits >= 32:
            name = "ulong" if source.kind == "uint" else "long"
            return f"{name}_to_odd({value})", (_TO_ODD,)
    return f"({kind})({value})", ()


def _truncated(dtype: DType, value: str, source: str) -> str:
    """A float without its fraction, at most the ends of the type; NaN gives 0."""
    kind = computed(dtype)
    one = f"({source})1"
    high = f"(({source}){2 ** (dtype.bits - 1 - (dtype.kind == 'int'))}uL * {one} * 2)"
    if dtype.kind == "uint":
        low, least, most = "0", "0", f"({kind}){2**dtype.bits - 1}UL"
    else:
        low = f"(-{high})"
        most = f"({kind}){2 ** (dtype.bits - 1) - 1}L"
        least = f"(-{most} - 1)"
    inside = f"({value} > {low} && {value} < {high})"
    return (
        f"({inside} ? ({kind})({value}) : "
        f"{value} >= {high} ? {most} : {value} <= {low} ? {least} : ({kind})0)"
    )
