"""The host's side of tensors: data that come in, and code that asks for values too early."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from singa_core.dtype import DType, as_dtype
from singa_core.errors import DTypeError, RecordingError, ShapeError, SingaError
from singa_core.methods import ArrayMethods

if TYPE_CHECKING:
    from singa_core.readable import HostValue
    from singa_core.recorder import Recorder

PACKAGE: Final = str(Path(__file__).parent)


def host_array(data: Any, dtype: DType | None) -> npt.NDArray[Any]:
    """`data` as a NumPy array of one of our dtypes, in native byte order.

    Raises: DTypeError for what is no numbers, ShapeError for ragged lists.
    """
    host, own = as_host(data)
    if not own and (host.dtype == object or (host.dtype == np.float64 and is_huge(host))):
        exact = exact_integers(data, dtype)
        host = host if exact is None else exact
    if dtype is None:
        found = known_dtype(data, host)
        dtype = as_dtype("float32") if not own and found.name == "float64" else found
        if not own and host.size == 0:
            dtype = as_dtype("float32")
    else:
        if host.dtype.kind not in "biuf":  # longer floats than ours are told which to become
            known_dtype(data, host)
        if dtype.is_integer and host.size:
            check_range(host, dtype)
    with np.errstate(all="ignore"):
        return host.astype(dtype.numpy, copy=False)


def as_host(data: Any) -> tuple[npt.NDArray[Any], bool]:
    """Data as an array, of whatever; and whether its dtype is the user's own choice.

    Raises: DTypeError or ShapeError for what NumPy cannot make an array of.
    """
    if isinstance(data, np.ndarray | np.generic):
        if isinstance(data, np.ma.MaskedArray):
            rule = "an array without a mask, which no tensor has"
            raise DTypeError("tensor", rule, "a masked array", hint="its .filled(...)")
        return np.asarray(data), not isinstance(data, float)
    if isinstance(data, list | tuple):
        refuse_tensors(data)
    elif hasattr(data, "__dlpack__"):
        return _imported(data), True
    try:
        return np.asarray(data), False
    except SingaError:
        raise
    except ValueError as error:
        raise ShapeError("tensor", "lists of equal length", str(error)) from None
    except Exception as error:  # an object's own __array__ or __len__ may raise anything
        raise DTypeError("tensor", "numbers", f"{type(error).__name__}: {error}") from None


def host_data(where: str, data: Any, **operands: Any) -> npt.NDArray[Any]:
    """`as_host` for somebody else than `tensor`, who is named in the error."""
    try:
        return as_host(data)[0]
    except (DTypeError, ShapeError) as error:
        raise type(error)(where, error.rule, error.got, hint=error.hint, **operands) from None


def _imported(data: Any) -> npt.NDArray[Any]:
    """The array behind another library's. Raises: DTypeError if it cannot be had."""
    try:
        return np.from_dlpack(data)
    except Exception as error:  # of a class that the library chose
        raise DTypeError(
            "tensor", "an array that NumPy can take by DLPack",
            f"a {type(data).__name__} that raised {type(error).__name__}: {error}",
            hint="detach it, and give it a dtype that NumPy has",
        ) from None  # fmt: skip


def refuse_tensors(data: Any) -> None:
    """Raises: DTypeError for lists with tensors in them: as host data they lose their history."""
    for item in data:
        kind = type(item)
        if kind is list or kind is tuple:
            refuse_tensors(item)
        elif kind is not float and kind is not int and isinstance(item, ArrayMethods):
            raise DTypeError(
                "tensor", "lists of numbers", "a list with a tensor in it",
                hint="ops.stack([...]), or ops.concat([...])",
            )  # fmt: skip


def known_dtype(data: Any, host: npt.NDArray[Any]) -> DType:
    """The DType of host data. Raises: DTypeError if we have none, with what the data are."""
    try:
        return as_dtype(host.dtype)
    except DTypeError:
        got = f"{host.dtype} data"
        if host.dtype == object and host.size:
            odd = [v for v in host.flat if not isinstance(v, int | float)]
            kind = type(odd[0]).__name__ if odd else "an integer beyond 64 bits"
            got = "None" if odd and odd[0] is None else kind
        raise DTypeError("tensor", "numbers of a supported dtype", got) from None


def is_huge(host: npt.NDArray[Any]) -> bool:
    """True for floats among which integers may be that int64 does not hold."""
    return bool((abs(host) >= 2.0**63).any())


def exact_integers(data: Any, dtype: DType | None) -> npt.NDArray[Any] | None:
    """Python integers beyond int64, that NumPy would take as floats or objects; None if not such.

    Raises: DTypeError if no integer dtype holds them all.
    """
    items = np.asarray(data, dtype=object)
    numbers = [int(v) for v in items.flat if isinstance(v, int | np.integer)]
    if not numbers or len(numbers) != items.size:
        return None
    low, high = min(numbers), max(numbers)
    if dtype is not None and not dtype.is_integer and high < 2**1023 and low > -(2**1023):
        return items.astype(np.float64)
    if low < 0 or high >= 2**64:
        rule = "integers in the range of int64 or of uint64"
        raise DTypeError("tensor", rule, f"{low} to {high}", hint="dtype='float32'")
    return items.astype(np.uint64)


def check_range(host: npt.NDArray[Any], dtype: DType) -> None:
    """Raises: DTypeError for numbers that an integer dtype cannot hold."""
    info, rule = np.iinfo(dtype.numpy), f"numbers in the range of {dtype}"
    if host.dtype.kind in "iu":
        if int(host.min()) < info.min or int(host.max()) > info.max:
            raise DTypeError("tensor", rule, f"{host.min()} to {host.max()}")
    elif host.dtype.kind in "fV":
        wide = host.astype(np.float64)
        # the upper end is exclusive: the largest 64-bit integers are no float64
        fits = (wide >= float(info.min)) & (wide < float(info.max) + 1.0)
        if not fits.all():
            raise DTypeError("tensor", rule, host[~fits].flat[0])


def user_line() -> str:
    """`file:line` of the innermost frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def host_read(what: str, recorder: Recorder | None) -> RecordingError:
    """The error for reading a value on the host while a graph is recorded."""
    return RecordingError(
        what, "a value, and while a graph is recorded there is none yet",
        f"{what} at {user_line()}",
        hint="keep it on the device (where, minimum, sum ...), or return it and read it after the "
        "call",
    )  # fmt: skip


def leaked(what: str, tensor: HostValue) -> RecordingError:
    """The error for a symbolic tensor after its recording, or a parameter without a value."""
    if tensor.node is None:
        return RecordingError(
            what, "a tensor with a value", f"a parameter that has none yet, at {user_line()}",
            hint="call its layer, or compile the model, on an input first",
        )  # fmt: skip
    return RecordingError(
        what, "a tensor with a value",
        f"a symbolic tensor outside of its recording, at {user_line()}",
        hint="return it from the recorded function, and read it after the call",
    )  # fmt: skip
