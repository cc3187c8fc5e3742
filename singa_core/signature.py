"""What annotations say about arguments, enforced: `axis: int` takes integers, and nothing else.

`read` turns the annotations of a function into checks, which give a value back as Python's own or
raise. Ranges are not told by types: those are checked where they are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from singa_core.checks import (
    as_integer,
    as_integers,
    as_number,
    check_choice,
    check_flag,
    check_integer,
    check_integers,
    check_scalar,
)
from singa_core.dtype import DType, DTypeLike, as_dtype
from singa_core.errors import ArgumentError

Check = Callable[[str, str, Any], Any]
"""check(where, name, value) gives the value as it is meant, or raises."""

UNIONS: Final = (Union, UnionType)
_INTEGERS: Final = (Sequence[int], tuple[int, ...])


class Expected(NamedTuple):
    """What a parameter takes.

    Attributes:
        check: for any value.
        types: values of just these types need no check.
    """

    check: Check
    types: frozenset[type]


def read(function: Callable[..., Any]) -> dict[str, Expected]:
    """Parameter -> what it takes, for those whose annotation says something that is checked."""
    hints = get_type_hints(function)  # the types themselves, not their text
    hints.pop("return", None)
    found = {name: expected(hint) for name, hint in hints.items()}
    return {name: what for name, what in found.items() if what is not None}


def expected(hint: Any) -> Expected | None:
    """What an annotation says; None if it says nothing that is checked here."""
    members = set(get_args(hint)) if get_origin(hint) in UNIONS else {hint}
    optional = type(None) in members
    members.discard(type(None))
    what = _of_dtypes(members) or _of_numbers(members) or _of_words(members)
    if what is None or not optional:
        return what
    return Expected(partial(_unless_none, what.check), what.types | {type(None)})


def _unless_none(check: Check, where: str, name: str, value: Any) -> Any:
    return None if value is None else check(where, name, value)


def _of_dtypes(members: set[Any]) -> Expected | None:
    if members != set(get_args(DTypeLike)):
        return None
    return Expected(lambda where, name, value: as_dtype(value, where), frozenset({DType}))


def _of_numbers(members: set[Any]) -> Expected | None:
    """Integers, several of them or one, numbers, flags."""
    several = any(kind in members for kind in _INTEGERS)
    rest = members.difference(_INTEGERS)
    if several and rest == {int}:
        return Expected(_one_or_several, frozenset({int}))
    if several and not rest:
        return Expected(check_integers, frozenset())
    if members == {int}:
        return Expected(check_integer, frozenset({int}))
    if members == {float}:
        return Expected(_real, frozenset({int, float}))
    if members == {bool}:
        return Expected(check_flag, frozenset({bool}))
    if members == {bool, int, float}:
        return Expected(check_scalar, frozenset({bool, int, float}))
    return None


def _one_or_several(where: str, name: str, value: Any) -> int | tuple[int, ...]:
    several = as_integers(value)
    if several is not None:
        return several
    number = as_integer(value)
    if number is None:
        raise ArgumentError(where, f"an integer {name}, or several", repr(value))
    return number


def _real(where: str, name: str, value: Any) -> int | float:
    number = as_number(value)
    if number is None:
        raise ArgumentError(where, f"a number as {name}", repr(value))
    return number


def _of_words(members: set[Any]) -> Expected | None:
    """One of some words, or any text."""
    if members == {str}:
        return Expected(_text, frozenset({str}))
    if not members or any(get_origin(kind) is not Literal for kind in members):
        return None
    words = sorted(word for kind in members for word in get_args(kind))
    return Expected(partial(_among, words), frozenset())


def _among(words: Sequence[Any], where: str, name: str, value: Any) -> Any:
    return check_choice(where, name, value, words)


def _text(where: str, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentError(where, f"text as {name}", repr(value))
    return value
