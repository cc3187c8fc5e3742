"""Tensors out of nothing: constant fills, counting, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from singa_core.checks import check_choice, check_scalar
from singa_core.device import Device
from singa_core.dtype import DType, DTypeLike, as_dtype, fits
from singa_core.errors import ArgumentError, DTypeError, ShapeError
from singa_core.mode import MODE
from singa_core.operation import Operation, apply
from singa_core.ops.base import check_kind, takes_tensors
from singa_core.optable import OPS, function
from singa_core.sample import sample
from singa_core.spec import Spec, check_shape
from singa_core.tensor import Tensor, as_device

__all__ = [
    "arange", "empty", "eye", "full", "full_like", "iota", "linspace", "meshgrid", "ones",
    "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip

ShapeLike = int | Sequence[int]
DeviceLike = Device | str | None
Number = bool | int | float


class Full(Operation):
    """Every element is `value`: `full(shape, value, dtype=None, device=None)`.

    Shapes: -> `shape`.
    Dtype: `dtype`; else bool, int64 or float32, as the value is.
    Raises: DTypeError for a value that an integer or bool dtype cannot hold.
    Source: array API standard 2023.12, `full`.

    >>> full((2, 2), 7).tolist()
    [[7, 7], [7, 7]]
    """

    name = "full"
    samples = (
        sample(shape=(2, 3), value=1.5, dtype="float32"),
        sample(shape=(), value=-2, dtype="int64"),
        sample(shape=(4,), value=True, dtype="bool"),
        sample(shape=(0, 2), value=0.0, dtype="float32"),
        sample(shape=(3,), value=math.inf, dtype="float32"),
    )

    def __call__(
        self,
        shape: ShapeLike,
        value: Number,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> Any:
        shape = check_shape(self.name, shape)
        value, kind = _host_number(self.name, value, dtype)
        attrs = self.pack({"shape": shape, "value": value, "dtype": kind})
        return apply(self, (), attrs, place(device))

    def settle(self, *, shape: ShapeLike, value: Number, dtype: DTypeLike) -> dict[str, Any]:
        return {"shape": check_shape(self.name, shape), "value": value, "dtype": as_dtype(dtype)}

    def infer(self, *, shape: Sequence[int], value: Number, dtype: DTypeLike) -> Spec:
        return Spec(shape, dtype)


def _host_number(where: str, value: Any, dtype: DTypeLike | None) -> tuple[Number, DType]:
    """The value as a Python number, and the dtype of the fill."""
    number = check_scalar(where, "value", value)
    target = as_dtype(type(number)) if dtype is None else as_dtype(dtype, where)
    whole = isinstance(number, int) or (math.isfinite(number) and number == int(number))
    if not target.is_floating and not (whole and fits(int(number), target)):
        raise DTypeError(where, f"a value that {target} holds", number)
    if target.kind == "bool" and number not in (0, 1):
        raise DTypeError(where, "a value that bool holds", number)
    return (number if target.is_floating else int(number)), target


class Iota(Operation):
    """The first numbers, y = 0, 1, ... size-1: `iota(size, dtype="int64", device=None)`.

    Shapes: -> (size,). Dtype: numbers.
    Source: y[i] = i.
    """

    name = "iota"
    samples = (
        sample(size=5, dtype="int64"),
        sample(size=0, dtype="int64"),
        sample(size=3, dtype="float32"),
        sample(size=1, dtype="uint8"),
    )

    def __call__(self, size: int, *, dtype: DTypeLike = "int64", device: DeviceLike = None) -> Any:
        (size,) = check_shape(self.name, (size,))
        return apply(self, (), (size, as_dtype(dtype, self.name)), place(device))

    def settle(self, *, size: int, dtype: DTypeLike) -> dict[str, Any]:
        return {"size": check_shape(self.name, (size,))[0], "dtype": as_dtype(dtype)}

    def infer(self, *, size: int, dtype: DTypeLike) -> Spec:
        y = Spec((size,), dtype)
        check_kind(self.name, "number", y=y)
        return y


def place(device: DeviceLike) -> Device | None:
    """The device to make something on: while recording, the recording's own."""
    return as_device(device) if MODE.get().recorder is None else None


@takes_tensors
def zeros(shape: ShapeLike, *, dtype: DTypeLike = "float32", device: DeviceLike = None) -> Tensor:
    """A tensor of zeros. Source: array API standard 2023.12, `zeros`."""
    y: Tensor = full(shape, 0, dtype=dtype, device=device)
    return y


@takes_tensors
def ones(shape: ShapeLike, *, dtype: DTypeLike = "float32", device: DeviceLike = None) -> Tensor:
    """A tensor of ones. Source: array API standard 2023.12, `ones`."""
    y: Tensor = full(shape, 1, dtype=dtype, device=device)
    return y


@takes_tensors
def empty(shape: ShapeLike, *, dtype: DTypeLike = "float32", device: DeviceLike = None) -> Tensor:
    """A tensor to be written to: zeros, since values nobody chose are no one's friend."""
    return zeros(shape, dtype=dtype, device=device)


@function
@takes_tensors
def full_like(x: Tensor, value: Number, *, dtype: DTypeLike | None = None) -> Tensor:
    """A constant of the shape, dtype and device of `x`. Source: array API standard, `full_like`."""
    y: Tensor = full(x.shape, value, dtype=dtype or x.dtype, device=x.device)
    return y


@function
@takes_tensors
def zeros_like(x: Tensor, *, dtype: DTypeLike | None = None) -> Tensor:
    """Zeros of the shape, dtype and device of `x`. Source: array API standard, `zeros_like`."""
    return full_like(x, 0, dtype=dtype)


@function
@takes_tensors
def ones_like(x: Tensor, *, dtype: DTypeLike | None = None) -> Tensor:
    """Ones of the shape, dtype and device of `x`. Source: array API standard, `ones_like`."""
    return full_like(x, 1, dtype=dtype)


@takes_tensors
def arange(
    start: Number,
    stop: Number | None = None,
    step: Number = 1,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """The numbers start, start + step, ... before stop; `arange(stop)` starts at 0.

    Dtype: `dtype`; else int64 if all three are integers, float32 otherwise. Floats are counted in
        float64 where the device has it.
    Raises: ArgumentError for a step of 0 or an endless range; DTypeError for an integer dtype that
        does not hold all of the numbers.
    Source: array API standard 2023.12, `arange`.

    >>> arange(1, 6, 2).tolist()
    [1, 3, 5]
    """
    if stop is None:
        start, stop = 0, start
    if step == 0 or not all(math.isfinite(v) for v in (start, stop, step)):
        got = f"start {start}, stop {stop}, step {step}"
        raise ArgumentError("arange", "finite numbers and step != 0", got)
    whole = all(isinstance(v, int) for v in (start, stop, step))
    target = as_dtype(("int64" if whole else "float32") if dtype is None else dtype)
    check_kind("arange", "number", y=Spec((), target))
    size = max(int(-((start - stop) // step)) if whole else math.ceil((stop - start) / step), 0)
    if not target.is_floating:
        check_whole("arange", target, start, start + (size - 1) * step, size)
        # whatever lies between is right again at the end, modulo 2**64
        start, step = ((int(v) + 2**63) % 2**64 - 2**63 for v in (start, step))
    if start == 0 and step == 1:
        y: Tensor = iota(size, dtype=target, device=device)
        return y
    work = widest_float(device) if target.is_floating else as_dtype("int64")
    counted: Tensor = iota(size, dtype=work, device=device) * step + start
    return counted.astype(target)


def widest_float(device: DeviceLike) -> DType:
    """float64 where the device has it, else float32: to count in."""
    there = place(device)
    if there is None:
        there = MODE.get().recorder.device  # type: ignore[union-attr]  # while recording only
    wide = as_dtype("float64")
    return wide if wide in there.capabilities.dtypes else as_dtype("float32")


def check_whole(where: str, dtype: DType, first: Number, last: Number, size: int) -> None:
    """Raises: DTypeError unless the dtype holds `size` evenly spaced numbers, given by the ends."""
    ends = (first, last) if size > 1 else (first,) * size
    for end in ends:
        if end != int(end) or not fits(int(end), dtype):
            raise DTypeError(where, f"numbers that {dtype} holds", end)
    if len(ends) == 2 and (last - first) % (size - 1):
        raise DTypeError(where, f"numbers that {dtype} holds", f"a step of {(last - first) / size}")


@takes_tensors
def linspace(
    start: float,
    stop: float,
    num: int,
    *,
    endpoint: bool = True,
    dtype: DTypeLike = "float32",
    device: DeviceLike = None,
) -> Tensor:
    """`num` numbers at equal distances from start to stop, both exact.

    Dtype: `dtype`, a float; counted in float64 where the device has it.
    Raises: ShapeError unless num is an integer >= 0; DTypeError for another dtype.
    Source: array API standard 2023.12, `linspace`.

    >>> linspace(0.0, 1.0, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    check_kind("linspace", "float", y=Spec((), dtype))
    (num,) = check_shape("linspace", (num,))
    start, stop = float(start), float(stop)
    if num < 2:
        y: Tensor = full((num,), start, dtype=dtype, device=device)
        return y
    i: Tensor = iota(num, dtype=widest_float(device), device=device)
    parts = num - 1 if endpoint else num
    step = stop / parts - start / parts
    from_start = i * step + start
    if not endpoint:
        return from_start.astype(dtype)
    # the upper half counts down from the end, so that the end is met exactly
    from_stop = (i - float(parts)) * step + stop
    halves: Tensor = OPS["where"](i < num / 2, from_start, from_stop)
    return halves.astype(dtype)


@takes_tensors
def eye(
    n: int,
    m: int | None = None,
    *,
    k: int = 0,
    dtype: DTypeLike = "float32",
    device: DeviceLike = None,
) -> Tensor:
    """Ones on the k-th diagonal, y[i, j] = 1 where j == i + k.

    Source: array API standard 2023.12, `eye`.

    >>> eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    rows: Tensor = iota(n, device=device)
    columns: Tensor = iota(n if m is None else m, device=device)
    y: Tensor = (columns == rows.expand_dims(-1) + k).astype(dtype)
    return y


@function
@takes_tensors
def tril(x: Tensor, *, k: int = 0) -> Tensor:
    """Keep x[..., i, j] where j <= i + k, 0 elsewhere. Source: array API standard, `tril`."""
    y: Tensor = OPS["where"](_below("tril", x, k), x, zero_of(x))
    return y


@function
@takes_tensors
def triu(x: Tensor, *, k: int = 0) -> Tensor:
    """Keep x[..., i, j] where j >= i + k, 0 elsewhere. Source: array API standard, `triu`."""
    y: Tensor = OPS["where"](_below("triu", x, k - 1), zero_of(x), x)
    return y


def zero_of(x: Tensor) -> Number:
    """The number 0 that leaves the dtype of x as it is: beside bool, an integer would not."""
    return False if x.dtype.kind == "bool" else 0


def _below(where: str, x: Tensor, k: int) -> Tensor:
    """True where column <= row + k."""
    if x.ndim < 2:
        raise ShapeError(where, "x.ndim >= 2", x.ndim, x=x)
    rows: Tensor = iota(x.shape[-2], device=x.device)
    columns: Tensor = iota(x.shape[-1], device=x.device)
    below: Tensor = columns <= rows.expand_dims(-1) + k
    return below


@takes_tensors
def meshgrid(*xs: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinate grids of vectors. Source: array API standard 2023.12, `meshgrid`.

    Raises: ShapeError unless all are vectors; ArgumentError unless `indexing` is "xy" or "ij".
    """
    check_choice("meshgrid", "indexing", indexing, ("xy", "ij"))
    order = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        order[:2] = [1, 0]
    shape = tuple(xs[i].shape[0] for i in order if xs[i].ndim == 1)
    if len(shape) != len(xs):
        raise ShapeError("meshgrid", "vectors", [x.shape for x in xs])
    grids = []
    for i, x in enumerate(xs):
        own = [1] * len(xs)
        own[order.index(i)] = x.shape[0]
        grids.append(x.reshape(own).broadcast_to(shape))
    return tuple(grids)


full, iota = Full(), Iota()
