"""Operators and methods of Tensor, by NumPy's and PyTorch's names; their ops tell what they mean.

Ops are looked up at call time, so that tensors do not import the ops' floor. An operator returns
NotImplemented for a foreign type, as Python's protocol wants; numbers, lists and NumPy arrays are
welcome and land on the tensor's device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from singa_core.checks import as_integers
from singa_core.dtype import DType, DTypeLike, as_dtype
from singa_core.errors import ShapeError
from singa_core.optable import FUNCTIONS, OPS
from singa_core.spec import Shape

if TYPE_CHECKING:
    from singa_core.operation import Bound
    from singa_core.spec import Spec
    from singa_core.tensor import Tensor

Axis = int | Sequence[int] | None
_HOST: Final = (bool, int, float, np.ndarray, np.generic, list)
_EXCHANGES: Final[dict[int, Bound]] = {}  # of the last two axes, by the number of axes


def operator(name: str) -> Callable[[Any, Any], Tensor]:
    """`self <op> other`."""

    def method(self: Any, other: Any) -> Any:
        if isinstance(other, ArrayMethods):
            return OPS[name](self, other)
        if isinstance(other, int | float):
            return OPS[name](self, self._beside(name, other))
        return OPS[name](self, other) if isinstance(other, _HOST) else NotImplemented

    return described(method, name)


def reflected(name: str) -> Callable[[Any, Any], Tensor]:
    """`other <op> self`, where Python asks the right operand."""

    def method(self: Any, other: Any) -> Any:
        if isinstance(other, int | float):
            return OPS[name](self._beside(name, other), self)
        return OPS[name](other, self) if isinstance(other, _HOST) else NotImplemented

    return described(method, name)


def in_place(name: str) -> Callable[[Any, Any], Tensor]:
    """`self <op>= other`: the cell names the result."""

    def method(self: Any, other: Any) -> Any:
        if isinstance(other, ArrayMethods) or isinstance(other, _HOST):  # noqa: SIM101  (as above)
            return self._replace(name, other)
        return NotImplemented

    return described(method, name)


def unary(name: str) -> Callable[[Any], Tensor]:
    """`self.op()`."""

    def method(self: Any) -> Any:
        return OPS[name](self)

    return described(method, name)


def binary(name: str) -> Callable[[Any, Any], Tensor]:
    """`self.op(other)`."""

    def method(self: Any, other: Any) -> Any:
        return OPS[name](self, other)

    return described(method, name)


def reduction(name: str) -> Callable[..., Tensor]:
    """`self.op(axis=None, keepdims=False)`."""

    def method(self: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
        return OPS[name](self, axis=axis, keepdims=keepdims)

    return described(method, name)


def plain(name: str) -> Callable[..., Any]:
    """`self.name(...)`, a function that takes the tensor first."""

    def method(self: Any, *args: Any, **options: Any) -> Any:
        return FUNCTIONS[name](self, *args, **options)

    return described(method, name)


def described(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The method with the name and the words that `help` shows."""
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"See `singa_core.ops.{name}`."
    return method


def sizes(first: int | Sequence[int], rest: Sequence[int]) -> tuple[int, ...]:
    """`f(2, 3)` and `f((2, 3))` mean the same shape; what is no integer is left to the op."""
    if type(first) is int:  # the common case, and as_integers asks an abstract class
        return (first, *rest)
    several = as_integers(first)
    if several is None and isinstance(first, list | tuple):
        several = tuple(first)
    return (first, *rest) if several is None else (*several, *rest)  # type: ignore[arg-type]  # as above


class ArrayMethods:
    """What a Tensor does as an array; `Tensor` adds what it is."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def spec(self) -> Spec: ...
        @property
        def shape(self) -> Shape: ...
        @property
        def dtype(self) -> DType: ...
        def _beside(self, op: str, number: bool | int | float) -> Any: ...
        def _own(self) -> Tensor: ...
        def _replace(self, op: str, *others: Any, **attrs: Any) -> Tensor: ...

    # -- what it looks like ------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.spec.itemcount

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, packed."""
        return self.spec.nbytes

    def numel(self) -> int:
        """Number of elements."""
        return self.spec.itemcount

    # -- operators ---------------------------------------------------------------------------------

    __add__, __radd__, __iadd__ = operator("add"), reflected("add"), in_place("add")
    __sub__, __rsub__, __isub__ = operator("sub"), reflected("sub"), in_place("sub")
    __mul__, __rmul__, __imul__ = operator("mul"), reflected("mul"), in_place("mul")
    __truediv__, __rtruediv__ = operator("div"), reflected("div")
    __itruediv__ = in_place("div")
    __floordiv__, __rfloordiv__ = operator("floor_divide"), reflected("floor_divide")
    __ifloordiv__ = in_place("floor_divide")
    __mod__, __rmod__ = operator("remainder"), reflected("remainder")
    __imod__ = in_place("remainder")
    __matmul__, __rmatmul__ = operator("matmul"), reflected("matmul")
    __imatmul__ = in_place("matmul")
    __rpow__, __ipow__ = reflected("pow"), in_place("pow")
    __and__, __rand__, __iand__ = operator("bit_and"), reflected("bit_and"), in_place("bit_and")
    __or__, __ror__, __ior__ = operator("bit_or"), reflected("bit_or"), in_place("bit_or")
    __xor__, __rxor__, __ixor__ = operator("bit_xor"), reflected("bit_xor"), in_place("bit_xor")
    __lshift__, __rlshift__ = operator("shift_left"), reflected("shift_left")
    __rshift__, __rrshift__ = operator("shift_right"), reflected("shift_right")
    __ilshift__, __irshift__ = in_place("shift_left"), in_place("shift_right")
    __eq__ = operator("equal")  # type: ignore[assignment]  # elementwise, not bool
    __ne__ = operator("not_equal")  # type: ignore[assignment]  # as above
    __lt__, __le__ = operator("less"), operator("less_equal")
    __gt__, __ge__ = operator("greater"), operator("greater_equal")
    __neg__, __abs__, __invert__ = unary("neg"), unary("abs"), unary("bit_not")
    __hash__ = object.__hash__

    def __pos__(self) -> Any:
        return self._own()

    def __pow__(self, exponent: Any) -> Any:
        if not isinstance(exponent, (ArrayMethods, *_HOST)):
            return NotImplemented
        if isinstance(exponent, int | float) and not isinstance(exponent, bool):
            made = power(self, exponent)
            if made is not None:
                return made
        return OPS["pow"](self, exponent)

    # -- elements ----------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        part: Tensor = FUNCTIONS["getitem"](self, key)
        return part

    def __setitem__(self, key: Any, value: Any) -> None:
        FUNCTIONS["setitem"](self, key, value)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise ShapeError("iter()", "at least one axis", self.shape, x=self)
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    # -- mathematics -------------------------------------------------------------------------------

    add, sub, mul = binary("add"), binary("sub"), binary("mul")
    div, pow = binary("div"), binary("pow")
    maximum, minimum, matmul = binary("maximum"), binary("minimum"), binary("matmul")
    abs, neg, sign, square = unary("abs"), unary("neg"), unary("sign"), unary("square")
    exp, exp2, expm1 = unary("exp"), unary("exp2"), unary("expm1")
    log, log2, log10, log1p = unary("log"), unary("log2"), unary("log10"), unary("log1p")
    sqrt, rsqrt, reciprocal = unary("sqrt"), unary("rsqrt"), unary("reciprocal")
    sin, cos, tan = unary("sin"), unary("cos"), unary("tan")
    asin, acos, atan = unary("asin"), unary("acos"), unary("atan")
    sinh, cosh, tanh, erf = unary("sinh"), unary("cosh"), unary("tanh"), unary("erf")
    floor, ceil, round, trunc = unary("floor"), unary("ceil"), unary("round"), unary("trunc")
    isnan, isinf, isfinite = unary("isnan"), unary("isinf"), unary("isfinite")
    logical_and, logical_or = binary("logical_and"), binary("logical_or")
    logical_xor, logical_not = binary("logical_xor"), unary("logical_not")
    relu, sigmoid, softplus = unary("relu"), unary("sigmoid"), unary("softplus")
    gelu, silu = unary("gelu"), unary("silu")

    def clip(self, low: Any = None, high: Any = None) -> Tensor:
        """See `singa_core.ops.clip`."""
        made: Tensor = FUNCTIONS["clip"](self, low, high)
        return made

    clamp = clip

    # -- reductions --------------------------------------------------------------------------------

    sum, prod, mean = reduction("sum"), reduction("prod"), reduction("mean")
    max, min, amax, amin = reduction("max"), reduction("min"), reduction("max"), reduction("min")
    any, all = reduction("any"), reduction("all")
    argmax, argmin = reduction("argmax"), reduction("argmin")
    logsumexp, count_nonzero = reduction("logsumexp"), reduction("count_nonzero")
    norm = plain("vector_norm")

    def var(self, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """See `singa_core.ops.var`."""
        made: Tensor = OPS["var"](self, axis=axis, correction=correction, keepdims=keepdims)
        return made

    def std(self, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """See `singa_core.ops.std`."""
        made: Tensor = OPS["std"](self, axis=axis, correction=correction, keepdims=keepdims)
        return made

    def softmax(self, axis: int = -1) -> Tensor:
        """See `singa_core.ops.softmax`."""
        made: Tensor = OPS["softmax"](self, axis=axis)
        return made

    def log_softmax(self, axis: int = -1) -> Tensor:
        """See `singa_core.ops.log_softmax`."""
        made: Tensor = OPS["log_softmax"](self, axis=axis)
        return made

    def cumsum(self, axis: int) -> Tensor:
        """See `singa_core.ops.cumsum`."""
        made: Tensor = OPS["cumsum"](self, axis=axis)
        return made

    def cumprod(self, axis: int) -> Tensor:
        """See `singa_core.ops.cumprod`."""
        made: Tensor = OPS["cumprod"](self, axis=axis)
        return made

    # -- order and places --------------------------------------------------------------------------

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """See `singa_core.ops.masked_fill`."""
        made: Tensor = OPS["masked_fill"](self, mask, value)
        return made

    def sort(self, axis: int = -1, *, descending: bool = False) -> tuple[Tensor, Tensor]:
        """Sorted values and their indices; see `singa_core.ops.sort`."""
        made: tuple[Tensor, Tensor] = OPS["sort"](self, axis=axis, descending=descending)
        return made

    argsort, topk = plain("argsort"), plain("topk")
    nonzero, unique = plain("nonzero"), plain("unique")
    take, take_along_axis = plain("take"), plain("take_along_axis")
    tril, triu = plain("tril"), plain("triu")

    # -- shapes ------------------------------------------------------------------------------------

    def reshape(self, shape: int | Sequence[int] = (), *rest: int) -> Tensor:
        """The same elements under another shape: `x.reshape(2, -1)` or `x.reshape((2, -1))`."""
        made: Tensor = OPS["reshape"](self, shape=sizes(shape, rest))
        return made

    view = reshape

    def permute(self, axes: int | Sequence[int] = (), *rest: int) -> Tensor:
        """The axes in another order: `x.permute(1, 0)` or `x.permute((1, 0))`."""
        made: Tensor = OPS["permute_dims"](self, axes=sizes(axes, rest))
        return made

    permute_dims = permute

    def transpose(self, *axes: int | Sequence[int]) -> Tensor:
        """NumPy's: the axes reversed, or in the order given. `swapaxes` exchanges two."""
        if not axes or axes[0] is None:
            return self.permute(tuple(reversed(range(len(self.shape)))))
        return self.permute(*axes)  # type: ignore[arg-type]  # checked by the op

    @property
    def T(self) -> Tensor:  # noqa: N802  (NumPy's name)
        """All axes in reverse order."""
        return self.transpose()

    @property
    def mT(self) -> Tensor:  # noqa: N802  (the array API's name)
        """The last two axes exchanged."""
        ndim = len(self.shape)
        if ndim not in _EXCHANGES:
            if ndim < 2:
                raise ShapeError("mT", "x.ndim >= 2", ndim, x=self)
            axes = (*range(ndim - 2), ndim - 1, ndim - 2)
            _EXCHANGES[ndim] = OPS["permute_dims"].bound(axes=axes)
        made: Tensor = _EXCHANGES[ndim](self)
        return made

    def broadcast_to(self, shape: int | Sequence[int] = (), *rest: int) -> Tensor:
        """See `singa_core.ops.broadcast_to`."""
        made: Tensor = OPS["broadcast_to"](self, shape=sizes(shape, rest))
        return made

    expand_dims, unsqueeze = plain("expand_dims"), plain("expand_dims")
    squeeze, flatten, ravel = plain("squeeze"), plain("flatten"), plain("flatten")
    swapaxes, moveaxis = plain("swapaxes"), plain("moveaxis")
    flip, roll = plain("flip"), plain("roll")
    split, chunk, unbind = plain("split"), plain("chunk"), plain("unbind")
    repeat, tile, pad, diagonal = plain("repeat"), plain("tile"), plain("pad"), plain("diagonal")

    # -- dtypes and copies -------------------------------------------------------------------------

    def astype(self, dtype: DTypeLike, *, copy: bool = False) -> Tensor:
        """See `singa_core.ops.cast`. The same value if it has the dtype, unless `copy`."""
        target = as_dtype(dtype)
        if target is self.dtype:
            made: Any = self.clone() if copy else self._own()
        else:
            made = OPS["cast"](self, dtype=target)
        result: Tensor = made
        return result

    def float(self) -> Tensor:
        """As float32."""
        return self.astype("float32")

    def double(self) -> Tensor:
        """As float64."""
        return self.astype("float64")

    def half(self) -> Tensor:
        """As float16."""
        return self.astype("float16")

    def bfloat16(self) -> Tensor:
        """As bfloat16."""
        return self.astype("bfloat16")

    def long(self) -> Tensor:
        """As int64."""
        return self.astype("int64")

    def int(self) -> Tensor:
        """As int32."""
        return self.astype("int32")

    def bool(self) -> Tensor:
        """As bool: True where not 0."""
        return self.astype("bool")

    clone, contiguous = unary("copy"), unary("copy")

    def zero_(self) -> Tensor:
        """Let the cell name zeros."""
        return self.fill_(0)

    def fill_(self, value: Any) -> Tensor:
        """Let the cell name a constant."""
        made: Tensor = self.assign(FUNCTIONS["full_like"](self, value))  # type: ignore[attr-defined]  # Tensor's
        return made


def power(x: Any, exponent: int | float) -> Any:
    """x**exponent by products and roots where that is cheaper; None where it is not."""
    floating = x.dtype.is_floating
    if not floating and not (x.dtype.is_integer and isinstance(exponent, int)):
        return None  # the op settles the dtype
    if exponent == 2:
        return OPS["mul"](x, x)
    if exponent == 3:
        return OPS["mul"](OPS["mul"](x, x), x)
    if exponent == 1:
        return OPS["copy"](x)  # a cell of its own
    if exponent == 0.5:
        return OPS["sqrt"](x)
    if exponent == -1 and floating:
        return OPS["reciprocal"](x)
    return None
