"""Lists and dicts in layer attributes that say when they change, so that recordings notice."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from singa_core.mode import STRUCTURE


def _telling(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, which counts as a change, and after which what it put in is watched too."""

    @wraps(method)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        STRUCTURE.changed()
        return method(self, *map(watched, args), **{k: watched(v) for k, v in kwargs.items()})

    return told


class WatchedList(list[Any]):
    """A list that counts its changes."""

    append = _telling(list.append)
    extend = _telling(list.extend)
    insert = _telling(list.insert)
    pop = _telling(list.pop)
    remove = _telling(list.remove)
    clear = _telling(list.clear)
    reverse = _telling(list.reverse)
    sort = _telling(list.sort)
    __setitem__ = _telling(list.__setitem__)
    __delitem__ = _telling(list.__delitem__)
    __iadd__ = _telling(list.__iadd__)
    __imul__ = _telling(list.__imul__)


class WatchedDict(dict[Any, Any]):
    """A dict that counts its changes."""

    pop = _telling(dict.pop)
    popitem = _telling(dict.popitem)
    clear = _telling(dict.clear)
    update = _telling(dict.update)
    setdefault = _telling(dict.setdefault)
    __setitem__ = _telling(dict.__setitem__)
    __delitem__ = _telling(dict.__delitem__)
    __ior__ = _telling(dict.__ior__)


def watched(value: Any) -> Any:
    """Plain lists and dicts, in tuples too, as watched copies; everything else as it is.

    The list that was given is not the one that is kept: `self.blocks.append(...)` is seen, a change
    to `blocks` after `self.blocks = blocks` is not.
    """
    if type(value) is list:
        return WatchedList(watched(item) for item in value)
    if type(value) is dict:
        return WatchedDict({key: watched(item) for key, item in value.items()})
    if type(value) is tuple:
        return tuple([watched(item) for item in value])
    return value
