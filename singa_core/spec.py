"""Spec: the shape and dtype of a value, known without the value. And the arithmetic of shapes.

Specs are interned: two equal Specs are the same object, so that a cache keyed by Specs compares
pointers. `Form` adds strides, for values that are views.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any, ClassVar, Final
from weakref import WeakValueDictionary

from singa_core.checks import as_integer, as_integers
from singa_core.dtype import DType, DTypeLike, as_dtype
from singa_core.errors import ArgumentError, ShapeError

Shape = tuple[int, ...]
MAX_AXES: Final = 64
"""As many as NumPy's arrays have, in which host data come and go."""
MAX_BYTES: Final = 2**63 - 1
"""What strides and offsets of 64 bits can reach."""


class Spec:
    """Shape and dtype of a value. `Spec((2, 3), "float32")`; interned and immutable.

    Raises: ShapeError unless the shape is of integers >= 0, of at most 64 axes, and its bytes
        (without the axes of size 0) are below 2**63.
    """

    __slots__ = ("__weakref__", "dtype", "itemcount", "nbytes", "shape")
    shape: Shape
    dtype: DType
    itemcount: int
    nbytes: int

    _interned: ClassVar[WeakValueDictionary[tuple[Shape, DType], Spec]] = WeakValueDictionary()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __new__(cls, shape: Sequence[int], dtype: DTypeLike) -> Spec:
        sizes = shape if type(shape) is tuple else check_shape("Spec", shape)
        for size in sizes:
            if type(size) is not int:  # True and 2.0 equal integers, so the table would find them
                sizes = check_shape("Spec", sizes)
                break
        key = (sizes, as_dtype(dtype, "Spec"))
        found = cls._interned.get(key)
        if found is not None:
            return found
        spec = object.__new__(cls)
        # ints, not NumPy ints or bools: the shape is part of messages, keys and JSON
        spec.shape = check_shape("Spec", sizes)
        spec.dtype = key[1]
        check_size("Spec", spec.shape, spec.dtype)
        spec.itemcount = math.prod(spec.shape)
        spec.nbytes = spec.itemcount * spec.dtype.itemsize
        with cls._lock:
            return cls._interned.setdefault((spec.shape, spec.dtype), spec)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def strides(self) -> Shape:
        """Strides in elements of the C-contiguous layout."""
        return contiguous_strides(self.shape)

    def with_shape(self, shape: Sequence[int]) -> Spec:
        """The same dtype under another shape."""
        return Spec(shape, self.dtype)

    def with_dtype(self, dtype: DTypeLike) -> Spec:
        """The same shape under another dtype."""
        return Spec(self.shape, dtype)

    def __repr__(self) -> str:
        return f"{self.dtype} {self.shape}"

    def __reduce__(self) -> tuple[type, tuple[Shape, str]]:
        return Spec, (self.shape, self.dtype.name)


class Form:
    """A Spec laid out with strides (in elements) that are not the C-contiguous ones; interned.

    A packed value uses its Spec itself as its form, so contiguous code never meets this class.
    """

    __slots__ = ("__weakref__", "spec", "strides")
    spec: Spec
    strides: Shape

    _interned: ClassVar[WeakValueDictionary[tuple[Spec, Shape], Form]] = WeakValueDictionary()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __new__(cls, spec: Spec, strides: Shape) -> Form:
        key = (spec, strides)
        found = cls._interned.get(key)
        if found is not None:
            return found
        form = object.__new__(cls)
        form.spec, form.strides = spec, strides
        with cls._lock:
            return cls._interned.setdefault(key, form)

    @property
    def shape(self) -> Shape:
        """The Spec's shape."""
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        """The Spec's dtype."""
        return self.spec.dtype

    @property
    def itemcount(self) -> int:
        """The Spec's number of elements."""
        return self.spec.itemcount

    def __repr__(self) -> str:
        return f"{self.spec} strides {self.strides}"


AnyForm = Spec | Form


def spec_of(form: AnyForm) -> Spec:
    """The Spec of a form."""
    return form if isinstance(form, Spec) else form.spec


def make_form(spec: Spec, strides: Shape) -> AnyForm:
    """The form of `spec` under `strides`: the Spec itself where that is its packed layout."""
    return spec if is_packed(spec.shape, strides) else Form(spec, strides)


def is_packed(shape: Shape, strides: Shape) -> bool:
    """True if `strides` walk `shape` in C order without gaps (axes of size 1 do not matter)."""
    step = 1
    if 0 in shape:
        return True
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def contiguous_strides(shape: Shape) -> Shape:
    """C-contiguous strides in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def check_shape(where: str, shape: Sequence[int] | int) -> Shape:
    """`shape` as a tuple of Python ints.

    Raises: ShapeError unless every entry is an integer >= 0.
    """
    sizes = as_integers(shape)
    if sizes is None and (size := as_integer(shape)) is not None:
        sizes = (size,)
    if sizes is None or (sizes and min(sizes) < 0):
        raise ShapeError(where, "a shape of integers >= 0", repr(shape))
    return sizes


def check_size(where: str, shape: Shape, dtype: DType) -> None:
    """Raises: ShapeError for more axes or bytes than any value can have."""
    if len(shape) > MAX_AXES:
        raise ShapeError(where, f"at most {MAX_AXES} axes", len(shape))
    # as NumPy counts them: an axis of size 0 does not make the others small
    if math.prod(size for size in shape if size) * dtype.itemsize > MAX_BYTES:
        raise ShapeError(where, f"less than 2**63 bytes of {dtype}", shape)


def check_axis(where: str, axis: int, ndim: int, **operands: Any) -> int:
    """`axis` counted from the front.

    Raises: ArgumentError for what is no integer, ShapeError unless -ndim <= axis < ndim.
    """
    number = as_integer(axis)
    if number is None:
        raise ArgumentError(where, "an integer axis", repr(axis), **operands)
    if not ndim:
        raise ShapeError(where, "a value with axes", f"axis {number} of a scalar", **operands)
    if not -ndim <= number < ndim:
        raise ShapeError(where, f"-{ndim} <= axis < {ndim}", number, **operands)
    return number % ndim


def check_axes(
    where: str, axis: int | Sequence[int] | None, ndim: int, **operands: Any
) -> tuple[int, ...]:
    """Axes counted from the front and sorted; None means all of them.

    Raises: ShapeError for an axis out of range or named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    given = as_integers(axis)
    many: Sequence[Any] = (axis,) if given is None else given  # what is neither is refused below
    axes = sorted(check_axis(where, a, ndim, **operands) for a in many)
    if len(set(axes)) != len(axes):
        raise ShapeError(where, "each axis once", axis, **operands)
    return tuple(axes)


def broadcast_shapes(where: str, *shapes: Shape, **operands: Any) -> Shape:
    """The shape in which all `shapes` meet: aligned at the end, 1 stretches.

    Raises: ShapeError naming the sizes that differ.
    """
    out: list[int] = []
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        size = 1
        for shape in shapes:
            n = shape[-axis] if axis <= len(shape) else 1
            if n != 1 and size not in (1, n):
                rule = f"equal sizes (or 1) at axis -{axis}"
                raise ShapeError(where, rule, f"{size} and {n}", **operands)
            size = n if n != 1 else size
        out.append(size)
    return tuple(reversed(out))


def window_count(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How many windows fit: floor((size + padding - dilation*(kernel-1) - 1) / stride) + 1.

    `padding` is the sum of both sides. At least 0.
    """
    return max((size + padding - dilation * (kernel - 1) - 1) // stride + 1, 0)
