"""Stands in for a vendor's library: arrays like NumPy's, on a device that the host cannot reach.

Whoever gives a host array to a function, or an array of the device to NumPy, gets a TypeError: the
copy that should have been there is missing. `to_device` and `to_host` are the only ways across.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np


class Memory:
    """Bytes on the device."""

    __slots__ = ("_bytes",)

    def __init__(self, nbytes: int) -> None:
        self._bytes = np.full(nbytes, 0xCD, np.uint8)  # garbage, as fresh memory is


class Array:
    """An array on the device."""

    __slots__ = ("_data",)
    __array_ufunc__ = None

    def __init__(self, data: Any) -> None:
        self._data = data

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise TypeError("an array of the device cannot be read by the host: to_host() copies")

    shape = property(lambda self: self._data.shape)
    dtype = property(lambda self: self._data.dtype)
    size = property(lambda self: self._data.size)
    itemsize = property(lambda self: self._data.itemsize)
    ndim = property(lambda self: self._data.ndim)

    def __getitem__(self, index: Any) -> Array:
        return there(self._data[here(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._data[here(index)] = here(value)

    def __bool__(self) -> bool:
        return bool(self._data)

    def __int__(self) -> int:
        return int(self._data)


def here(value: Any) -> Any:
    """What the device's own code sees of an argument."""
    if isinstance(value, Array):
        return value._data
    if isinstance(value, tuple | list):
        return type(value)(here(item) for item in value)
    if isinstance(value, np.ndarray):
        raise TypeError("an array of the host: to_device() copies")
    return value


def there(value: Any) -> Any:
    """A result as its caller sees it."""
    if isinstance(value, tuple):
        return tuple(there(item) for item in value)
    if isinstance(value, np.ndarray | np.generic):
        return Array(np.asarray(value))
    return value


def on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's on arrays of the device."""

    def call(*args: Any, **options: Any) -> Any:
        return there(function(*here(args), **{name: here(v) for name, v in options.items()}))

    return call


def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that changes the array itself."""

    def call(array: Array, value: Any) -> Array:
        function(array._data, here(value))
        return array

    return call


for _name in ("astype", "copy", "reshape", "view", "any"):
    setattr(Array, _name, on_device(getattr(np.ndarray, _name)))
for _name in (
    "add sub mul truediv floordiv mod pow and or xor lshift rshift eq ne lt le gt ge neg invert abs"
).split():
    setattr(Array, f"__{_name}__", on_device(getattr(np.ndarray, f"__{_name}__")))
for _name in "add sub mul truediv floordiv mod pow and or xor lshift rshift".split():
    setattr(Array, f"__r{_name}__", on_device(getattr(np.ndarray, f"__r{_name}__")))

    setattr(Array, f"__i{_name}__", in_place(getattr(operator, f"i{_name}")))


class Function:
    """A function of one value at a time, which also works at places."""

    def __init__(self, ufunc: Any) -> None:
        self._call, self.at = on_device(ufunc), on_device(ufunc.at)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._call(*args, **options)


class Library:
    """The functions, under NumPy's names."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, np.ufunc):
            made: Any = Function(found)
        elif callable(found) and not isinstance(found, type):
            made = on_device(found)
        else:
            made = found  # a dtype, a constant
        setattr(self, name, made)
        return made


library = Library()


def to_device(memory: Memory, offset: int, host: Any) -> None:
    """Copy bytes of the host."""
    memory._bytes[offset : offset + host.size] = host


def to_host(memory: Memory, offset: int, host: Any) -> None:
    """Copy bytes to the host."""
    host[...] = memory._bytes[offset : offset + host.size]


def between(source: Memory, start: int, target: Memory, offset: int, nbytes: int) -> None:
    """Copy bytes on the device."""
    target._bytes[offset : offset + nbytes] = source._bytes[start : start + nbytes]


def array_over(memory: Memory, start: int, shape: Any, steps: Any, dtype: Any) -> Array:
    """An array over bytes that are there."""
    return Array(np.ndarray(shape, dtype, memory._bytes.data, start, steps))


def memory_of(array: Array) -> Memory | None:
    """The bytes of an array in C order that nobody else has a part of; else None."""
    data = array._data
    if data.base is not None or not data.flags.carray:
        return None
    memory = Memory(0)
    memory._bytes = data.reshape(-1).view(np.uint8)
    return memory
