"""Element types: their names, kinds, and the rule by which two of them meet.

The rule is the array API's (2023.12, "Type promotion rules"), with what it leaves open settled
here: an integer meeting a float takes the float's type, float16 meeting bfloat16 gives float32, and
a Python number is *weak*: it takes the tensor's type unless its kind is higher (an integer tensor
and a Python float give float32, never float64).
"""

from __future__ import annotations

from typing import Any, Final, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

from singa_core.errors import DTypeError

Kind = Literal["bool", "int", "uint", "float"]
_RANKS: Final = {"bool": 0, "uint": 1, "int": 1, "float": 2}


class DType:
    """One element type; interned, so that `is` and `==` agree.

    `rank` is 0 for bool, 1 for integers, 2 for floats: where two types meet, the higher one wins.
    """

    __slots__ = ("bits", "code", "itemsize", "kind", "name", "numpy", "rank")

    def __init__(self, name: str, code: str, kind: Kind, numpy_type: npt.DTypeLike) -> None:
        self.name = name
        self.code = code
        self.kind: Kind = kind
        self.rank = _RANKS[kind]
        self.numpy: np.dtype[Any] = np.dtype(numpy_type)
        self.itemsize: int = self.numpy.itemsize
        self.bits = self.itemsize * 8

    @property
    def is_floating(self) -> bool:
        """True for float16, bfloat16, float32 and float64."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers; bool is not one."""
        return self.kind in ("int", "uint")

    @property
    def is_narrow(self) -> bool:
        """True for numbers of 8 and 16 bits: computed in a wider type, then rounded or wrapped."""
        return self.kind != "bool" and self.bits < 32

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return f"{'bool_' if self.name == 'bool' else self.name}"


bool_: Final = DType("bool", "b1", "bool", np.bool_)
int8: Final = DType("int8", "i8", "int", np.int8)
int16: Final = DType("int16", "i16", "int", np.int16)
int32: Final = DType("int32", "i32", "int", np.int32)
int64: Final = DType("int64", "i64", "int", np.int64)
uint8: Final = DType("uint8", "u8", "uint", np.uint8)
uint16: Final = DType("uint16", "u16", "uint", np.uint16)
uint32: Final = DType("uint32", "u32", "uint", np.uint32)
uint64: Final = DType("uint64", "u64", "uint", np.uint64)
float16: Final = DType("float16", "f16", "float", np.float16)
bfloat16: Final = DType("bfloat16", "bf16", "float", ml_dtypes.bfloat16)
float32: Final = DType("float32", "f32", "float", np.float32)
float64: Final = DType("float64", "f64", "float", np.float64)

ALL: Final = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64,
)  # fmt: skip
BY_CODE: Final = {d.code: d for d in ALL}

DTypeLike = DType | str | np.dtype[Any] | type


def as_dtype(value: DTypeLike, where: str = "dtype") -> DType:
    """The DType that `value` (a DType, a name, a NumPy dtype or a Python type) names.

    Raises: DTypeError if there is none (complex, object, text, dates).
    """
    if isinstance(value, DType):
        return value
    try:
        found = _BY_NAME.get(value)
        if found is None and isinstance(value, np.dtype):
            found = _BY_NAME.get(value.newbyteorder("="))
        elif found is None and value in _NUMPY_TYPES:
            found = _BY_NAME.get(np.dtype(value))
    except TypeError:  # without a hash
        found = None
    if found is None:
        names = ", ".join(dtype.name for dtype in ALL)
        raise DTypeError(where, f"a dtype among {names}", repr(value))
    return found


def _names() -> dict[Any, DType]:
    """All that a dtype goes by: names, NumPy's names and codes, its dtypes, Python's types.

    A table, since `np.dtype` reads many more texts, and warns about some.
    """
    names: dict[Any, DType] = {dtype.numpy: dtype for dtype in ALL}
    for text, kind in np.sctypeDict.items():
        if np.dtype(kind) in names:
            names[text] = names[np.dtype(kind)]
    for dtype in ALL:
        if dtype is not bfloat16:  # whose code is that of any type NumPy does not know
            code = dtype.numpy.str[1:]
            names |= {order + code: dtype for order in ("", "<", ">", "=", "|")}
            names[dtype.numpy.char] = dtype
        names[dtype.name] = dtype
    python = {bool: bool_, int: int64, float: float32, "int": int64, "float": float32}
    return names | python


_BY_NAME: Final = _names()
_NUMPY_TYPES: Final = {*np.sctypeDict.values(), ml_dtypes.bfloat16}  # not the abstract ones


def promote(a: DType, b: DType) -> DType:
    """The smallest type that holds both `a` and `b`; see the module's docstring.

    Raises: DTypeError for uint64 with a signed integer, which no integer type holds.
    """
    if a is b:
        return a
    if a.rank != b.rank:
        return a if a.rank > b.rank else b
    if a.kind == b.kind:
        if a.bits == b.bits:  # float16 and bfloat16, the only two of one size
            return float32
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    if unsigned is uint64:
        raise DTypeError(
            "promotion", "an integer type that holds both", f"{a} and {b}",
            hint="cast one operand with .astype(...)",
        )  # fmt: skip
    return BY_CODE[f"i{unsigned.bits * 2}"]


def weak(tensor: DType, number: bool | int | float) -> DType:
    """The type in which a tensor of type `tensor` meets the Python number `number`."""
    if isinstance(number, bool):
        return tensor
    if isinstance(number, int):
        return int64 if tensor.kind == "bool" else tensor
    return tensor if tensor.is_floating else float32


def fits(number: bool | int | float, dtype: DType) -> bool:
    """True if the Python integer `number` lies in the range of the integer type `dtype`."""
    if not dtype.is_integer or not isinstance(number, int):
        return True
    info = np.iinfo(dtype.numpy)
    return int(info.min) <= number <= int(info.max)
