"""Containers in layer attributes that say when they change, so that recordings notice.

Lists, dicts, sets and deques, `OrderedDict`, `defaultdict` and subclasses of all of these are kept
as watched copies of their own kind; tuples and named tuples cannot change, but what is in them can.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any, Final

from singa_core.mode import STRUCTURE


def _telling(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, which counts as a change, and after which what it put in is watched too."""

    @wraps(method)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        STRUCTURE.changed()
        return method(self, *map(watched, args), **{k: watched(v) for k, v in kwargs.items()})

    return told


# what changes a container of each kind
_CHANGES: Final[dict[type, tuple[str, ...]]] = {
    list: (
        "append", "extend", "insert", "pop", "remove", "clear", "reverse", "sort",
        "__setitem__", "__delitem__", "__iadd__", "__imul__",
    ),
    dict: (
        "pop", "popitem", "clear", "update", "setdefault", "__setitem__", "__delitem__", "__ior__",
    ),
    OrderedDict: ("move_to_end",),
    set: (
        "add", "discard", "remove", "pop", "clear", "update", "difference_update",
        "intersection_update", "symmetric_difference_update", "__ior__", "__iand__", "__isub__",
        "__ixor__",
    ),
    deque: (
        "append", "appendleft", "extend", "extendleft", "insert", "pop", "popleft", "remove",
        "clear", "reverse", "rotate", "__setitem__", "__delitem__", "__iadd__", "__imul__",
    ),
}  # fmt: skip
_CONTAINERS: Final = (list, dict, set, deque)
_PLAIN: Final = frozenset({bool, int, float, str, type(None)})
_CLASSES: Final[dict[type, type]] = {}


class Watched:
    """Marks the classes that tell."""

    __slots__ = ()


def _class_of(kind: type) -> type:
    """The class of watched containers of a kind: a subclass of it, made once."""
    made = _CLASSES.get(kind)
    if made is None:
        bases = [base for base in _CHANGES if issubclass(kind, base)]
        names = [name for base in bases for name in _CHANGES[base] if hasattr(kind, name)]
        body: dict[str, Any] = {name: _telling(getattr(kind, name)) for name in names}
        if issubclass(kind, defaultdict):
            body["__missing__"] = _missing
        body["__module__"] = __name__
        made = _CLASSES[kind] = type(f"Watched{kind.__name__.title()}", (kind, Watched), body)
    return made


def _missing(self: Any, key: Any) -> Any:
    """What a defaultdict makes, as it is kept."""
    defaultdict.__missing__(self, key)
    return self[key]


def watched(value: Any) -> Any:
    """Containers, and those in them, as watched copies; everything else as it is.

    The list that was given is not the one that is kept: `self.blocks.append(...)` is seen, a change
    to `blocks` after `self.blocks = blocks` is not. A container that cannot be copied stays itself.
    """
    kind = type(value)
    if kind in _PLAIN or isinstance(value, Watched):
        return value
    if isinstance(value, tuple):
        if kind is tuple:
            return tuple([watched(item) for item in value])
        return value._make(map(watched, value)) if hasattr(value, "_make") else value
    return _copied(value, kind) if isinstance(value, _CONTAINERS) else value


def _copied(value: Any, kind: type) -> Any:
    made: Any = _class_of(kind)
    if kind is list or kind is set:
        return made(watched(item) for item in value)
    if kind is dict or kind is OrderedDict:
        return made((key, watched(item)) for key, item in value.items())
    if kind is defaultdict:
        return made(value.default_factory, ((k, watched(item)) for k, item in value.items()))
    if kind is deque:
        return made((watched(item) for item in value), value.maxlen)
    try:  # a class of somebody else's, which may need more than its items
        twin = copy(value)
        twin.__class__ = made
    except Exception:  # whatever a class thinks of being copied
        return value
    if isinstance(twin, dict):
        for key, item in value.items():
            dict.__setitem__(twin, key, watched(item))
    elif isinstance(twin, list):
        list.__setitem__(twin, slice(None), [watched(item) for item in value])
    return twin


WatchedList: Final[type] = _class_of(list)
WatchedDict: Final[type] = _class_of(dict)
