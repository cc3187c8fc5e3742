"""Kernel tables: who computes an op, in which language, for which element types.

A *language* is a way to write kernels: `array` (Python against a mutable NumPy-like namespace) and
`c` (a small C dialect) are shared between backends; a backend may add a private one. A device lists
the languages it speaks in order of preference, and the first that has a kernel with the right
signature serves the op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from singa_core.dtype import BY_CODE, DType
from singa_core.errors import ArgumentError
from singa_core.spec import AnyForm, Spec

Launch = Callable[..., Any]
# prepare(target, in_forms, out_specs, **attrs) -> launch, (launch, workspace bytes), or None: not
# for these forms
Prepare = Callable[..., Launch | tuple[Launch, int] | None]

FLOATS = "f16 bf16 f32 f64"
INTS = "i8 i16 i32 i64 u8 u16 u32 u64"
NUMBERS = f"{INTS} {FLOATS}"
ANY = f"b1 {NUMBERS}"
ALL_SIGNATURES = "*"
DRAW = "random_bits"
"""The primitive that makes elements by their index: all that is random is made of its words."""


def place_rule(op: str, n: int, role: str | None = None) -> tuple[str, str]:
    """(op, rule) that an index outside an axis of size n is told with; `role` as `gather` has it.

    >>> place_rule("gather", 3), place_rule("gather", 3, "embedding: id")
    (('gather', '-3 <= index < 3'), ('embedding', '0 <= id < 3'))
    """
    if role is None:
        return op, f"-{n} <= index < {n}"
    where, _, what = role.partition(": ")
    return where, f"0 <= {what} < {n}"


@dataclass(frozen=True)
class Kernel:
    """One kernel of one op for one dtype signature.

    Args:
        prepare: `prepare(target, in_forms, out_specs, **attrs)` settles geometry and compiled code
            once and gives `launch` or `(launch, workspace_bytes)`, or None to decline.
            `launch(*ins, *outs[, workspace])` writes into what it is given, allocates no device
            memory and does not synchronise.
        strides: inputs may be strided; else core packs them first. Outputs are always packed.
        returning: `launch(*ins)` returns its result instead; eager adopts it, a plan copies it.
        in_place: an output may be the very same array as an input of its shape and dtype, where
            that array occurs once among the inputs; one of several outputs only as the input at
            its own position.
    """

    op: str
    language: str
    signature: str
    prepare: Prepare
    strides: bool = False
    returning: bool = False
    in_place: bool = False


class KernelTable:
    """The kernels of one language, by op and dtype signature."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._kernels: dict[str, dict[str, Kernel]] = {}

    def prepared(
        self,
        op: str,
        *signatures: str,
        strides: bool = False,
        returning: bool = False,
        in_place: bool = False,
        **types: str,
    ) -> Callable[[Prepare], Prepare]:
        """Register a function that prepares launches: `f(target, in_forms, out_specs, **attrs)`.

        A signature names dtypes (`"f32,i64->f32"`), may use the letters given in `types`
        (`"T,T->T", T="f32 f64"`), and a `*` after an input means one or more of it. A `*` alone
        stands for all inputs and outputs.
        """

        def register(prepare: Prepare) -> Prepare:
            for text in signatures:
                for signature in expand(text, types):
                    self.add(
                        Kernel(op, self.language, signature, prepare, strides, returning, in_place)
                    )
            return prepare

        return register

    def kernel(
        self, op: str, *signatures: str, **options: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the simple form, with nothing to prepare: `f(*ins, *outs, **attrs)`.

        With `returning=True` it is `f(*ins, **attrs)`, and in a language whose kernels are written
        against a namespace the target comes first.
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self.prepared(op, *signatures, **options)(self._simple(function))
            return function

        return register

    def _simple(self, function: Callable[..., Any]) -> Prepare:
        def prepare(
            target: Any, in_forms: Sequence[AnyForm], out_specs: Sequence[Spec], **attrs: Any
        ) -> Launch:
            return partial(function, **attrs) if attrs else function

        return prepare

    def add(self, kernel: Kernel) -> None:
        """Register one kernel.

        Raises: ArgumentError if its op and signature are taken, or no call of the op can have the
            signature.
        """
        self._check_free(kernel)
        check_inputs(kernel.op, kernel.signature, _INPUTS.get(kernel.op))
        self._kernels.setdefault(kernel.op, {})[kernel.signature] = kernel

    def _check_free(self, kernel: Kernel) -> None:
        if kernel.signature in self._kernels.get(kernel.op, ()):
            rule = f"one kernel for each signature in language {self.language!r}"
            raise ArgumentError(f"kernel {kernel.op}", rule, f"a second {kernel.signature}")

    def draft(self) -> KernelTable:
        """An empty table of this kind, for kernels that `take` adds all at once or not at all."""
        draft = copy(self)
        draft._kernels = {}
        return draft

    def take(self, draft: KernelTable) -> None:
        """Register the kernels of a draft. Raises: as `add`; nothing is added then."""
        for kernel in draft:
            self._check_free(kernel)
        for kernel in draft:
            self.add(kernel)

    def find(self, op: str, ins: Sequence[DType], outs: Sequence[DType]) -> Kernel | None:
        """The kernel for these dtypes, or None."""
        taken = self._kernels.get(op)
        if taken is None:
            return None
        right = "->" + ",".join(d.code for d in outs)
        codes = [d.code for d in ins]
        found = taken.get(",".join(codes) + right)
        if found is None and len(set(codes)) == 1:
            found = taken.get(f"{codes[0]}*{right}")
        return found or taken.get(ALL_SIGNATURES)

    def signatures(self, op: str) -> tuple[str, ...]:
        """The signatures registered for `op`."""
        return tuple(self._kernels.get(op, ()))

    def ops(self) -> tuple[str, ...]:
        """The ops that have a kernel here."""
        return tuple(self._kernels)

    def __iter__(self) -> Iterator[Kernel]:
        for kernels in self._kernels.values():
            yield from kernels.values()


class NamespaceTable(KernelTable):
    """A language whose simple kernels are functions of a namespace: `f(xp, *ins, **attrs)`."""

    def _simple(self, function: Callable[..., Any]) -> Prepare:
        def prepare(
            target: Any, in_forms: Sequence[AnyForm], out_specs: Sequence[Spec], **attrs: Any
        ) -> Launch:
            return partial(function, target, **attrs)

        return prepare


def expand(signature: str, types: Mapping[str, str]) -> Iterable[str]:
    """`"T,i64->T"` with T="f32 f64" gives `f32,i64->f32` and `f64,i64->f64`."""
    if signature == ALL_SIGNATURES:
        yield signature
        return
    left, _, right = signature.partition("->")
    sides = [[part for part in side.split(",") if part] for side in (left, right)]
    words = {part.rstrip("*") for side in sides for part in side}
    letters = sorted(words & set(types))
    meant = words.difference(letters).union(*(types[letter].split() for letter in letters))
    unknown = meant - set(BY_CODE)
    if unknown or not right:
        rule = "dtype codes like 'f32,i64->f32'"
        strange = ", ".join(sorted(unknown - words))
        got = f"{signature!r} with {strange}" if strange else repr(signature)
        raise ArgumentError("kernel signature", rule, got)
    for choice in product(*(types[letter].split() for letter in letters)):
        codes = dict(zip(letters, choice, strict=True))
        yield "->".join(",".join(_code(part, codes) for part in side) for side in sides)


def _code(part: str, codes: Mapping[str, str]) -> str:
    """One part of a signature with its letter replaced; a `*` stays."""
    word = part.rstrip("*")
    return codes.get(word, word) + part[len(word) :]


_TABLES: dict[str, KernelTable] = {}
_INPUTS: dict[str, tuple[str, ...]] = {}  # of each op that is known, unless it takes any number


def check_inputs(op: str, signature: str, inputs: tuple[str, ...] | None) -> None:
    """Raises: ArgumentError if a signature has another number of inputs than the op (None: any)."""
    if inputs is None or signature == ALL_SIGNATURES:
        return
    left = signature.partition("->")[0]
    got = left.count(",") + 1 if left else 0
    if got != len(inputs) and not (left.endswith("*") and got <= len(inputs)):
        told = (
            f"{len(inputs)} input{'s' * (len(inputs) > 1)} ({', '.join(inputs)})"
            if inputs
            else "no inputs"
        )
        rule = f"a signature of {told}, the positional parameters of {op}.infer"
        raise ArgumentError(f"kernel {op}", rule, f"{got} in {signature!r}")


def know(op: str, inputs: tuple[str, ...] | None) -> None:
    """Say what inputs an op has, for kernels that come and those that came before it.

    Raises: ArgumentError for a kernel that no call of the op can use; nothing is changed then.
    """
    for known in _TABLES.values():
        for signature in known.signatures(op):
            check_inputs(op, signature, inputs)
    if inputs is None:
        _INPUTS.pop(op, None)
    else:
        _INPUTS[op] = inputs


def table(language: str) -> KernelTable:
    """The table of a language; made on first use, so that a plugin may add to any of them."""
    if language not in _TABLES:
        _TABLES[language] = KernelTable(language)
    return _TABLES[language]


def add_table(made: KernelTable) -> KernelTable:
    """Install a table of another class for its language. Raises: ArgumentError if there is one."""
    if made.language in _TABLES:
        raise ArgumentError("kernel table", "a new language", repr(made.language))
    _TABLES[made.language] = made
    return made
