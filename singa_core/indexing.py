"""`x[key]` and `x[key] = value`: what a key means, and the ops that serve it.

A key is read once into a `Plan`. Its plain part (integers, slices, `...`, None) is one `slice` view
and a `reshape`. Its index arrays are one `gather` along one axis: several arrays are merged into an
index of merged axes first. Placement follows NumPy: arrays side by side put their axes where they
stand, arrays apart put them in front; an integer beside arrays counts as an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from singa_core.checks import as_integer
from singa_core.dtype import DType, as_dtype, fits
from singa_core.errors import DTypeError, OutOfRange, ShapeError
from singa_core.host import host_data
from singa_core.optable import OPS, function
from singa_core.spec import Shape, broadcast_shapes
from singa_core.tensor import Tensor, beside

RULE: Final = "integers, slices, ..., None, or arrays of integers or bool"
HostIndex = npt.NDArray[Any]


@dataclass
class Axis:
    """One axis of the sliced tensor: kept, new (of size 1), or indexed by `index`.

    `index` is a host array, or a tensor that stays on its device.
    """

    size: int
    index: Any = None
    dropped: bool = False  # an integer: leaves no axis in the result


@dataclass
class Plan:
    """What a key says about a shape: a region, the axes that come of it, and the arrays on them."""

    start: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    axes: list[Axis] = field(default_factory=list)
    gap: int | None = None  # the axis before which a `...` stands for nothing, which parts arrays

    def take(self, start: int, size: int, step: int, axis: Axis) -> None:
        """The next axis of x: `size` elements from `start` by `step`."""
        self.start.append(start)
        self.size.append(size)
        self.step.append(step)
        self.axes.append(axis)

    def is_whole(self, shape: Shape) -> bool:
        """True if the region is all of x, in order."""
        return tuple(self.size) == shape and all(s == 1 for s in self.step)

    @property
    def indexed(self) -> list[int]:
        """Positions of the axes that an array indexes; integers among arrays count."""
        places = [i for i, a in enumerate(self.axes) if a.index is not None]
        if places:
            places = [i for i, a in enumerate(self.axes) if a.index is not None or a.dropped]
        return places

    def side_by_side(self, indexed: list[int]) -> bool:
        """True if nothing of the key stands between its arrays."""
        first, last = indexed[0], indexed[-1]
        parted = self.gap is not None and first < self.gap <= last
        return last - first + 1 == len(indexed) and not parted


# -- reading a key ---------------------------------------------------------------------------------


def read(x: Tensor, key: Any) -> Plan:
    """The plan of a key. Raises: ShapeError, DTypeError, OutOfRange for keys that do not fit x."""
    parts = [normal(x, part) for part in (key if isinstance(key, tuple) else (key,))]
    used = sum(consumed(part) for part in parts)
    dots = [i for i, part in enumerate(parts) if part is ...]
    if len(dots) > 1:
        raise ShapeError("index", "at most one ...", len(dots), x=x)
    if used > x.ndim:
        raise ShapeError("index", f"at most {x.ndim} indices", used, x=x)
    if not dots:
        parts.append(...)
    plan = Plan()
    for part in parts:
        if part is ... and used == x.ndim:
            plan.gap = len(plan.axes)
        elif part is ...:
            for _ in range(x.ndim - used):
                add(plan, x, slice(None))
        else:
            add(plan, x, part)
    return plan


def consumed(part: Any) -> int:
    """How many axes of x a part of a key speaks about."""
    if part is None or part is ...:
        return 0
    return part.ndim if is_mask(part) else 1


def is_mask(part: Any) -> bool:
    """True for an array of bool."""
    return isinstance(part, np.ndarray | Tensor) and _kind(part) == "b"


def _kind(array: Any) -> str:
    """NumPy's letter for the kind of elements: "b" is bool, "i" and "u" are integers."""
    numpy_type: np.dtype[Any] = array.dtype.numpy if isinstance(array, Tensor) else array.dtype
    return numpy_type.kind


def normal(x: Tensor, part: Any) -> Any:
    """A part of a key as int, slice, None, ..., ndarray or Tensor."""
    if part is None or part is ... or isinstance(part, slice):
        return part
    if isinstance(part, Tensor):
        array: Any = part
    elif isinstance(part, bool | np.bool_):
        raise DTypeError("index", RULE, repr(part), x=x)
    elif isinstance(part, int | np.integer):
        return int(part)
    elif isinstance(part, list | range | np.ndarray):
        array = host_data("index", part, x=x)
        if array.size == 0 and not isinstance(part, np.ndarray):
            array = array.astype(np.int64)
    else:
        raise DTypeError("index", RULE, type(part).__name__, x=x)
    if _kind(array) not in "biu":
        raise DTypeError("index", RULE, f"an array of {array.dtype}", x=x)
    if is_mask(array) and array.ndim == 0:
        raise DTypeError("index", "a mask with at least one axis", "a bool scalar", x=x)
    return array


def add(plan: Plan, x: Tensor, part: Any) -> None:
    """Extend the plan by one part of the key."""
    axis = len(plan.start)
    if part is None:
        plan.axes.append(Axis(1))
    elif isinstance(part, int):
        n = x.shape[axis]
        plan.take(in_range(x, part, n, axis), 1, 1, Axis(1, dropped=True))
    elif isinstance(part, slice):
        first, stop, step = bounds(x, part, x.shape[axis])
        count = len(range(first, stop, step))
        plan.take(first if count else 0, count, step, Axis(count))
    elif is_mask(part):
        for index in mask_indices(x, part, axis):
            n = x.shape[len(plan.start)]
            plan.take(0, n, 1, Axis(n, index))
    else:
        n = x.shape[axis]
        if isinstance(part, np.ndarray):
            part = host_index(x, part, n, axis)
        plan.take(0, n, 1, Axis(n, part))


def bounds(x: Tensor, part: slice, n: int) -> tuple[int, int, int]:
    """Start, stop and step of a slice on n elements. Raises: ShapeError for a step of 0."""
    for end in (part.start, part.stop, part.step):
        if end is not None and type(end) is not int and as_integer(end) is None:
            raise DTypeError("index", "integers in a slice", part, x=x)
    if part.step is not None and as_integer(part.step) == 0:
        raise ShapeError("index", "a slice with step != 0", part, x=x)
    return part.indices(n)


def in_range(x: Tensor, i: int, n: int, axis: int) -> int:
    """An index counted from the front. Raises: OutOfRange."""
    if not -n <= i < n:
        raise OutOfRange("index", f"-{n} <= index < {n} on axis {axis}", i, x=x)
    return i + n if i < 0 else i


def host_index(x: Tensor, index: HostIndex, n: int, axis: int) -> HostIndex:
    """A host index array as int64, counted from the front. Raises: OutOfRange."""
    bad = (index < -n) | (index >= n)
    if bad.any():
        raise OutOfRange("index", f"-{n} <= index < {n} on axis {axis}", int(index[bad][0]), x=x)
    index = index.astype(np.int64)
    return np.where(index < 0, index + n, index)


def mask_indices(x: Tensor, mask: Any, axis: int) -> Sequence[HostIndex]:
    """Index vectors of the True elements. Reads the mask on the host. Raises: ShapeError."""
    check_mask(x, mask, axis)
    host = mask._host_value("x[mask]") if isinstance(mask, Tensor) else mask
    return np.nonzero(host)


def check_mask(x: Tensor, mask: Any, axis: int) -> None:
    """Raises: ShapeError unless the mask has the shape of the axes that it stands for."""
    covered = x.shape[axis : axis + mask.ndim]
    if tuple(mask.shape) != covered:
        raise ShapeError("index", f"a mask of shape {covered}", tuple(mask.shape), x=x)


# -- x[key] ----------------------------------------------------------------------------------------


@function
def getitem(x: Tensor, key: Any) -> Tensor:
    """The part of x that a key names; a view if the key has no arrays."""
    if not isinstance(x, Tensor):
        raise DTypeError("getitem", "a tensor", type(x).__name__)
    plan = read(x, key)
    y: Tensor = x
    if not plan.is_whole(x.shape):
        y = OPS["slice"](x, start=tuple(plan.start), size=tuple(plan.size), step=tuple(plan.step))
    indexed = plan.indexed
    shape = tuple(a.size for i, a in enumerate(plan.axes) if i in indexed or not a.dropped)
    if shape != y.shape or y is x:  # a part is a cell of its own, also where it is all of x
        y = OPS["reshape"](y, shape=shape)
    return pick(y, plan, indexed) if indexed else y


def pick(y: Tensor, plan: Plan, indexed: list[int]) -> Tensor:
    """Gather along the indexed axes, merged into one."""
    if len(indexed) == 1:
        made: Tensor = OPS["gather"](y, on_device(y, plan.axes[indexed[0]].index), axis=indexed[0])
        return made
    place = indexed[0] if plan.side_by_side(indexed) else 0  # apart: in front
    others = [i for i in range(y.ndim) if i not in indexed]
    order = (*others[:place], *indexed, *others[place:])
    y = OPS["permute_dims"](y, axes=order)
    sizes = y.shape[place : place + len(indexed)]
    merged = int(np.prod(sizes))
    shape = (*y.shape[:place], merged, *y.shape[place + len(indexed) :])
    flat = OPS["reshape"](y, shape=shape)
    indices = [0 if plan.axes[i].dropped else plan.axes[i].index for i in indexed]
    gathered: Tensor = OPS["gather"](flat, merge(y, indices, sizes), axis=place)
    return gathered


def merge(y: Tensor, indices: Sequence[Any], sizes: Shape) -> Tensor:
    """Several indices as one of their merged axes. Where one is outside, so is the result."""
    shapes = [() if isinstance(i, int) else tuple(i.shape) for i in indices]
    shape = broadcast_shapes("index", *shapes)
    if not any(isinstance(i, Tensor) for i in indices):
        flat = np.zeros(shape, np.int64)
        for index, n in zip(indices, sizes, strict=True):
            flat = flat * n + index
        return on_device(y, flat)
    total: Any = 0
    outside: Any = None
    for index, n in zip(indices, sizes, strict=True):
        if isinstance(index, Tensor):
            i: Any = on_device(y, index).astype("int64")
            i = OPS["where"](i < 0, i + n, i)
            bad = (i < 0) | (i >= n)
            outside = bad if outside is None else outside | bad
        else:
            i = index if isinstance(index, int) else on_device(y, index)
        total = i if isinstance(total, int) and total == 0 else total * n + i
    merged = OPS["where"](outside, int(np.prod(sizes)), total)
    result: Tensor = OPS["broadcast_to"](merged, shape=shape)
    return result


def on_device(y: Tensor, index: Any) -> Tensor:
    """An index as a tensor of int32 or int64 beside y."""
    if not isinstance(index, Tensor):
        return beside(y, np.asarray(index, np.int64))
    return signed(index)


def signed(index: Tensor) -> Tensor:
    """Places as int32 or int64. What int64 does not hold stays out of range."""
    if index.dtype.name in ("int32", "int64"):
        return index
    if index.dtype.name == "uint64":
        index = OPS["minimum"](index, 2**63 - 1)
    result: Tensor = index.astype("int64")
    return result


# -- x[key] = value --------------------------------------------------------------------------------


@function
def setitem(x: Tensor, key: Any, value: Any) -> None:
    """Let the cell x name a tensor that differs from the old one in the part that a key names.

    Raises: DTypeError if the value would lose its fraction; ShapeError if it does not broadcast.
    """
    if not isinstance(x, Tensor):
        raise DTypeError("setitem", "a tensor", type(x).__name__)
    v = fitting(x, value)
    mask = whole_mask(x, key)
    if mask is not None and v.ndim <= x.ndim - mask.ndim:
        check_mask(x, mask, 0)
        x._replace("masked_fill", spread(x, mask), v)
        return
    plan = read(x, key)
    if not plan.indexed:
        shape = tuple(a.size for a in plan.axes if not a.dropped)
        region = OPS["reshape"](stretched(x, v, shape), shape=tuple(plan.size))
        x._replace("set_slice", region, start=tuple(plan.start), step=tuple(plan.step))
        return
    if len(plan.indexed) == 1 and plan.is_whole(x.shape) and len(plan.axes) == x.ndim:
        axis = plan.indexed[0]
        index = on_device(x, plan.axes[axis].index)
        shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
        x._replace("scatter", index, stretched(x, v, shape), axis=axis)
        return
    places = OPS["reshape"](counted(x), shape=x.shape)[key]
    x._replace("put", places, stretched(x, v, places.shape))


def counted(x: Tensor) -> Tensor:
    """0, 1, ... for the elements of x."""
    made: Tensor = OPS["iota"](x.size, device=x.device)
    return made


def fitting(x: Tensor, value: Any) -> Tensor:
    """The value as a tensor of x's dtype.

    Raises: DTypeError if its kind is higher, or for integers that x may not hold.
    """
    v: Any = value if isinstance(value, Tensor) else None
    if v is None:
        host = host_data("index assignment", value, x=x)
        try:
            rank = as_dtype(host.dtype).rank
        except DTypeError:
            got = f"{type(value).__name__} ({host.dtype})"
            raise DTypeError("index assignment", "numbers", got, x=x) from None
    else:
        rank = v.dtype.rank
    if rank > x.dtype.rank or (v is not None and narrows(v.dtype, x.dtype)):
        got = v.dtype if v is not None else f"{host.dtype} values"
        hint = "cast the value with .astype(...), or the tensor"
        raise DTypeError("index assignment", f"values that {x.dtype} holds", got, hint=hint, x=x)
    if v is None:
        return beside(x, host, x.dtype)
    result: Tensor = v.astype(x.dtype)
    return result


def narrows(source: DType, target: DType) -> bool:
    """True for integers to a type that does not hold all of theirs: what is lost, nobody would see.

    Numbers and arrays of the host are looked at instead.
    """
    if not (source.is_integer and target.is_integer):
        return False
    return not (fits(limit(source, 0), target) and fits(limit(source, 1), target))


def limit(dtype: DType, end: int) -> int:
    """The least (0) or the largest (1) number of an integer dtype."""
    info = np.iinfo(dtype.numpy)
    return int(info.max if end else info.min)


def whole_mask(x: Tensor, key: Any) -> Any:
    """The mask, if the key is nothing else; as a tensor or host array."""
    part = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if isinstance(part, list):
        part = host_data("index", part, x=x)
    return part if is_mask(part) and part.ndim <= x.ndim else None


def spread(x: Tensor, mask: Any) -> Tensor:
    """A mask of the first axes with axes of size 1 for the others."""
    m: Any = mask if isinstance(mask, Tensor) else beside(x, mask)
    result: Tensor = m.reshape((*m.shape, *(1,) * (x.ndim - m.ndim)))
    return result


def stretched(x: Tensor, v: Tensor, shape: Shape) -> Tensor:
    """The value broadcast to the part's shape; leading axes of size 1 too many are dropped."""
    while v.ndim > len(shape) and v.shape[0] == 1:
        v = v.reshape(v.shape[1:])
    if broadcast_shapes("index assignment", v.shape, shape, x=x, value=v) != shape:
        rule = f"a value that broadcasts to {shape}"
        raise ShapeError("index assignment", rule, v.shape, x=x, value=v)
    return v if v.shape == shape else v.broadcast_to(shape)
