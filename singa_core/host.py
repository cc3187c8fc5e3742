"""The host's side of tensors: data that come in, and code that asks for values too early."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from singa_core.dtype import DType, as_dtype
from singa_core.errors import DTypeError, RecordingError, ShapeError

if TYPE_CHECKING:
    from singa_core.recorder import Recorder
    from singa_core.tensor import Tensor

PACKAGE: Final = str(Path(__file__).parent)


def host_array(data: Any, dtype: DType | None) -> npt.NDArray[Any]:
    """`data` as a NumPy array of one of our dtypes, in native byte order."""
    own = isinstance(data, np.ndarray | np.generic) and not isinstance(data, float)
    if not own and hasattr(data, "__dlpack__"):
        data, own = np.from_dlpack(data), True
    try:
        host = np.asarray(data)
    except ValueError as error:
        raise ShapeError("tensor", "lists of equal length", str(error)) from None
    except (TypeError, OverflowError) as error:
        raise DTypeError("tensor", "numbers", str(error)) from None
    if host.dtype == object or host.dtype.kind not in "biufV":
        raise DTypeError("tensor", "numbers of a supported dtype", f"{host.dtype} data")
    if dtype is None:
        found = as_dtype(host.dtype)
        dtype = as_dtype("float32") if not own and found.name == "float64" else found
        if not own and host.size == 0:
            dtype = as_dtype("float32")
    elif dtype.is_integer and host.dtype.kind in "iu" and host.size:
        info = np.iinfo(dtype.numpy)
        if int(host.min()) < info.min or int(host.max()) > info.max:
            got = f"{host.min()} to {host.max()}"
            raise DTypeError("tensor", f"numbers in the range of {dtype}", got)
    elif dtype.is_integer and host.dtype.kind in "fV" and host.size:
        check_range(host, dtype)
    with np.errstate(all="ignore"):
        return host.astype(dtype.numpy, copy=False)


def check_range(host: npt.NDArray[Any], dtype: DType) -> None:
    """Raises: DTypeError for floats that an integer dtype cannot hold."""
    info, wide = np.iinfo(dtype.numpy), host.astype(np.float64)
    # the upper end is exclusive: the largest 64-bit integers are no float64
    fits = (wide >= float(info.min)) & (wide < float(info.max) + 1.0)
    if not fits.all():
        raise DTypeError("tensor", f"numbers in the range of {dtype}", host[~fits].flat[0])


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


def leaked(what: str, tensor: Tensor) -> RecordingError:
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
