"""Fingerprints: hashable summaries of attributes, by which a recording sees that they changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any

from singa_core.tensor import Tensor


class Same:
    """An object by its identity. It is kept alive, so that no other object gets its id."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def print_value(value: Any) -> Hashable:
    """Plain values by value, tensors by cell, everything else by identity.

    Layers and optimisers have a fingerprint of their own, and a recording asks those it has met.
    """
    if isinstance(value, Tensor):
        return ("cell", id(value), value.requires_grad)
    if value is None or isinstance(value, bool | int | str | bytes):
        return (type(value), value)
    if isinstance(value, float):  # the text, since 0.0 == -0.0 and NaN is not even itself
        return (float, repr(value))
    if isinstance(value, set | frozenset):
        return (type(value), frozenset(print_value(item) for item in value))
    if isinstance(value, list | tuple | deque):
        return (type(value), *[print_value(item) for item in value])
    if isinstance(value, dict):
        return (dict, *[(key, print_value(item)) for key, item in value.items()])
    return id(value) if hasattr(type(value), "fingerprint") else Same(value)
