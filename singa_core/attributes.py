"""Attribute values of operations as keys: hashable, and told apart where Python's `==` is too kind.

1 == 1.0 == True and 0.0 == -0.0, but they are different attributes. Packed values are interned by
their types as well and compared by identity, so that a table keyed by them cannot mix them up.
"""

from __future__ import annotations

from types import NoneType
from typing import Any, Final

import numpy as np

from singa_core.checks import as_integer
from singa_core.dtype import DType
from singa_core.errors import ArgumentError

Attrs = tuple[Any, ...]
_PLAIN: Final = {int, float, bool, str, NoneType, DType}
MAX_INTERNED: Final = 4096  # attributes that keep changing must not grow the table for ever


class Packed(tuple[Any, ...]):
    """Attribute values in declared order; equal to nothing but itself."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__
    __ne__ = object.__ne__


def typed(value: Any) -> Any:
    """What tells a value from every other: its type with it, a zero or NaN by its text."""
    if isinstance(value, tuple):
        return tuple([typed(item) for item in value])
    if isinstance(value, float) and (value == 0 or value != value):
        return (float, repr(value))
    return (type(value), value)


def short_key(attrs: dict[str, Any]) -> tuple[Any, ...]:
    """Names, values and what tells them from equal ones; enough for plain values, and cheap."""
    values = attrs.values()
    key = (*attrs.items(), *map(type, values))
    for v in values:
        if v.__class__ is tuple:
            key += (*map(type, v),)
        elif v.__class__ is float and not v:
            key += (repr(v),)
    return key


def is_plain(value: Any) -> bool:
    """True if `short_key` tells the value from every other, for ever."""
    if isinstance(value, tuple):
        return all(type(item) in (int, str, bool) for item in value)
    return type(value) in _PLAIN and value == value


def hashable(where: str, value: Any) -> Any:
    """Lists and integer arrays as tuples, NumPy's numbers and integer tensors as Python's.

    Raises: ArgumentError for what has no hash.
    """
    if isinstance(value, list | tuple):
        return tuple([hashable(where, item) for item in value])
    if isinstance(value, np.ndarray):
        return hashable(where, value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in _PLAIN:
        return value
    if hasattr(type(value), "__index__"):
        number = as_integer(value)
        return value if number is None else number
    if type(value).__hash__ is None:
        raise ArgumentError(where, "hashable attributes", repr(value))
    return value
