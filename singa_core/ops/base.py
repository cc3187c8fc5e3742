"""What many operations share: one input or two that broadcast, and the kinds of numbers taken."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial, wraps
from inspect import signature
from types import NoneType
from typing import (
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from singa_core.errors import ArgumentError, DTypeError, SingaError, told_by
from singa_core.operation import Operation, operand
from singa_core.sample import In, Sample, sample
from singa_core.signature import UNIONS, Check, read
from singa_core.spec import Spec, broadcast_shapes
from singa_core.tensor import Tensor, apart, beside, tensor

Accepts = Literal["any", "number", "float", "bits", "integer", "bool"]
Grads = tuple[Tensor | None, ...]
_F = TypeVar("_F", bound=Callable[..., Any])

_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "any": ("bool", "int", "uint", "float"),
    "number": ("int", "uint", "float"),
    "float": ("float",),
    "bits": ("bool", "int", "uint"),
    "integer": ("int", "uint"),
    "bool": ("bool",),
}
_RULES: Final = {
    "number": "a number dtype (an integer or a float)",
    "float": "a floating dtype",
    "bits": "bool or an integer dtype",
    "integer": "an integer dtype",
    "bool": "bool",
}


def check_kind(where: str, accepts: Accepts, /, **operands: Any) -> None:
    """Raises: DTypeError unless every operand's dtype is of an accepted kind."""
    for spec in operands.values():
        if spec.dtype.kind not in _KINDS[accepts]:
            raise DTypeError(where, _RULES[accepts], spec.dtype, **operands)


class _LeftOut(Enum):
    """Stands for an argument that was not given."""

    MARK = 0


LEFT_OUT: Final = _LeftOut.MARK


class _Argument(NamedTuple):
    """A parameter that is checked.

    Attributes:
        place: among positional arguments.
        types: values of just these types need no check.
        check: gives the value as it is meant; None for tensors.
        variadic: it stands for all positional arguments from its place on.
    """

    name: str
    place: int
    types: frozenset[type]
    check: Check | None
    variadic: bool

    def settle(self, where: str, value: Any, given: Sequence[Tensor]) -> Any:
        """The argument as it is meant, a tensor beside the given ones."""
        if type(value) in self.types or (self.check is None and isinstance(value, Tensor)):
            return value
        if self.check is not None:
            return self.check(where, self.name, value)
        return as_operand(where, self.name, value, given)


def as_operand(where: str, name: str, value: Any, given: Sequence[Tensor]) -> Tensor:
    """A tensor, or host data as one beside the given ones. Raises: as `tensor`, with names."""
    if isinstance(value, Tensor):
        return value
    if given:
        return operand(where, name, partial(beside, given[0], value))
    return operand(where, name, partial(tensor, value))


def _arguments(function: Callable[..., Any]) -> Iterator[_Argument]:
    """The parameters of a function that are checked, read from its annotations."""
    hints, others = get_type_hints(function), read(function)
    for i, parameter in enumerate(signature(function).parameters.values()):
        name, kind, hint = parameter.name, parameter.kind, hints.get(parameter.name)
        place = sys.maxsize if kind is parameter.KEYWORD_ONLY else i
        variadic = kind is parameter.VAR_POSITIONAL
        members = get_args(hint) if get_origin(hint) in UNIONS else (hint,)
        if Tensor in members:  # beside it, a number and None stay what they are
            types = frozenset({Tensor, _LeftOut, *{NoneType, float}.intersection(members)})
            types |= {int} if float in members else set()
            yield _Argument(name, place, types, None, variadic)
        elif name in others:
            what = others[name]
            yield _Argument(name, place, what.types | {_LeftOut}, what.check, variadic)


def takes_tensors(plain: _F) -> _F:
    """Decorator of a plain function: its arguments are what its annotations say, or it raises.

    `Tensor` takes NumPy arrays, lists and numbers too, which become tensors on the device of the
    first argument that is a tensor, as they do for an op. The others are checked as attributes of
    an op are; see `singa_core.signature`. An error from inside is told with the function's name.
    A result that is an argument gets a cell of its own.
    """
    name = plain.__name__
    arguments: list[_Argument] = []

    def check(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments as they are meant; those among `options` are replaced there."""
        given = [v for v in (*args, *options.values()) if isinstance(v, Tensor)]
        changed = list(args)
        for argument in arguments:
            if argument.variadic:
                for i in range(argument.place, len(args)):
                    changed[i] = argument.settle(name, args[i], given)
            elif argument.place < len(args):
                changed[argument.place] = argument.settle(name, args[argument.place], given)
            elif argument.name in options:
                options[argument.name] = argument.settle(name, options[argument.name], given)
        return tuple(changed)

    @wraps(plain)
    def call(*args: Any, **options: Any) -> Any:
        if not arguments:
            arguments.extend(_arguments(plain))
        for known, place, types, _, variadic in arguments:
            value = args[place] if place < len(args) else options.get(known, LEFT_OUT)
            if variadic or value.__class__ not in types:
                args = check(args, options)
                break
        try:
            return apart(plain(*args, **options), (*args, *options.values()))
        except SingaError as error:
            told_by(error, name)
            raise

    return call  # type: ignore[return-value]  # of the same signature


def all_tensors(where: str, xs: Any) -> list[Tensor]:
    """A list of operands as tensors. Raises: ArgumentError for what is no list, or an empty one."""
    if not isinstance(xs, list | tuple) or not xs:
        got = "an empty list" if isinstance(xs, list | tuple) else f"a {type(xs).__name__}"
        raise ArgumentError(where, "a list of tensors", got)
    given = [x for x in xs if isinstance(x, Tensor)]
    return [as_operand(where, f"x{i}", x, given) for i, x in enumerate(xs)]


def wide(x: Tensor) -> Tensor:
    """`x` in the type that steps between are kept in: float32 for float16 and bfloat16."""
    return x.astype("float32") if x.dtype.bits == 16 and x.dtype.is_floating else x


def once_rounded(forward: _F) -> _F:
    """Decorator of a decomposition: sixteen-bit floats take the op in float32.

    Several steps in sixteen bits would round at each, and overflow on the way.
    """

    @wraps(forward)
    def call(op: Operation, *xs: Tensor, **attrs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype.bits != 16:
            return forward(op, *xs, **attrs)
        return op(*(wide(x) for x in xs), **attrs).astype(dtype)

    return call  # type: ignore[return-value]  # of the same signature


def grads_once_rounded(backward: _F) -> _F:
    """Decorator of `backward`, as `once_rounded` is of `forward`."""

    @wraps(backward)
    def call(op: Operation, grad: Tensor, *kept: Tensor, **options: Any) -> Any:
        dtype = grad.dtype
        if dtype.bits != 16:
            return backward(op, grad, *kept, **options)
        made = backward(op, wide(grad), *(wide(x) for x in kept), **options)
        return tuple(None if g is None else g.astype(dtype) for g in made)

    return call  # type: ignore[return-value]  # of the same signature


class Unary(Operation):
    """One input, an output of the same shape and dtype."""

    accepts: ClassVar[Accepts] = "number"
    samples: ClassVar[tuple[Sample, ...]] = ()

    def infer(self, x: Spec) -> Spec:
        check_kind(self.name, self.accepts, x=x)
        return x


class FloatUnary(Unary):
    """A real function: integers and bool become float32 first."""

    accepts = "float"
    promotes = True
    weak_float = True


class Pair(Operation):
    """Two inputs that broadcast and meet in one dtype, which is the output's."""

    accepts: ClassVar[Accepts] = "number"
    samples: ClassVar[tuple[Sample, ...]] = ()
    promotes = True

    def infer(self, a: Spec, b: Spec) -> Spec:
        check_kind(self.name, self.accepts, a=a, b=b)
        return Spec(broadcast_shapes(self.name, a.shape, b.shape, a=a, b=b), a.dtype)


class Compare(Pair):
    """Two inputs that broadcast and meet in one dtype; the output is bool."""

    accepts = "any"

    def infer(self, a: Spec, b: Spec) -> Spec:
        return super().infer(a, b).with_dtype("bool")


def unary_samples(low: float = -2.0, high: float = 2.0, dtype: str = "float") -> tuple[Sample, ...]:
    """A matrix, a vector, a scalar, an empty and a 3-d input with values in [low, high)."""
    shapes: tuple[tuple[int, ...], ...] = ((3, 4), (7,), (), (0, 3), (2, 1, 3))
    return tuple(sample(In(shape, dtype, low, high)) for shape in shapes)


def pair_samples(
    a: tuple[float, float] = (-2.0, 2.0), b: tuple[float, float] = (-2.0, 2.0), dtype: str = "float"
) -> tuple[Sample, ...]:
    """Equal shapes, four ways to broadcast, scalars and an empty pair; values in the two ranges."""
    shapes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((3, 4), (3, 4)),
        ((3, 4), (4,)),
        ((4, 1), (1, 3)),
        ((), (2, 3)),
        ((), ()),
        ((0, 3), (3,)),
    )
    return tuple(sample(In(x, dtype, *a), In(y, dtype, *b)) for x, y in shapes)


def given(*values: Any, dtype: str = "float", **attrs: Any) -> Sample:
    """A sample of written-out values: where random ones could fall on a kink."""
    inputs = []
    for value in values:
        shape: list[int] = []
        inner = value
        while isinstance(inner, list):
            shape.append(len(inner))
            inner = inner[0] if inner else None
        inputs.append(In(tuple(shape), dtype, values=value))
    return sample(*inputs, **attrs)
