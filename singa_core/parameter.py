"""Parameter and State: cells that a layer declares, perhaps before their size is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from singa_core.checks import as_integer, as_integers
from singa_core.device import Device
from singa_core.dtype import DType, DTypeLike, as_dtype
from singa_core.errors import DTypeError, ShapeError
from singa_core.host import host_array
from singa_core.initializer import HostRandom, InitializerLike, as_initializer
from singa_core.mode import STRUCTURE, execute_once
from singa_core.node import leaf
from singa_core.random import STREAMS
from singa_core.spec import Shape, Spec, check_size
from singa_core.storage import Array, from_host
from singa_core.tensor import Tensor, as_device, packed

PartialShape = tuple[int | None, ...]
BLOCKS = 2**32  # of the init stream for each parameter: its numbers do not depend on other sizes


class Parameter(Tensor):
    """A trainable cell with an initialiser. Axes whose size is not known yet are None.

    It exists, can be listed, shared and given to an optimiser before its sizes are known; it gets
    its value when `materialize` is called: by the layer's first call, by `compile`, or by loading.
    Its initial numbers depend on the seed and on the order in which parameters are made, and on
    nothing else. A deep copy is a cell of its own that has, or will have, the same numbers.

    Args:
        shape: sizes, None where not known yet.
        init: initialiser, by name, callable, number or array.
        dtype: element type; a gradient flows to floats only.
    """

    __slots__ = ("_draw", "_dtype", "_wants_grad", "declared", "init")

    trainable = True

    def __init__(
        self,
        shape: Sequence[int | None],
        init: InitializerLike = "zeros",
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        super().__init__(None)
        self.declared: PartialShape = _check_partial(shape)
        self.init = as_initializer(init)
        self._dtype = as_dtype(dtype, "parameter")
        self._wants_grad = self.trainable and self._dtype.is_floating
        self._draw = STREAMS["init"].take(BLOCKS)

    @property
    def materialized(self) -> bool:
        """True once it has a value."""
        return self.array is not None

    @property
    def spec(self) -> Spec:
        """Shape and dtype. Raises: ShapeError if a size is not known yet."""
        if self.array is not None:
            return self.array.spec
        if None in self.declared:
            raise ShapeError(
                "parameter", "known sizes", self.declared,
                hint="call its layer, or compile the model, on an input first",
            )  # fmt: skip
        sizes: Shape = self.declared  # type: ignore[assignment]  # no None left
        check_size("parameter", sizes, self._dtype)
        return Spec(sizes, self._dtype)

    @property
    def shape(self) -> Any:
        """Its sizes; None for one that is not known yet."""
        return self.array.spec.shape if self.array is not None else self.declared

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def requires_grad(self) -> bool:
        """True if gradients flow to it. Settable, before it has a value too."""
        return self._wants_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if bool(wanted) == self._wants_grad:
            return
        if not self._dtype.is_floating:
            raise DTypeError("requires_grad", "a floating dtype", self._dtype)
        self._wants_grad = bool(wanted)
        if self.array is not None:
            self.node = leaf(self, self.array.spec) if wanted else None
        STRUCTURE.changed()

    def set_shape(self, shape: Sequence[int]) -> None:
        """Fill in unknown sizes. Raises: ShapeError if it contradicts what was declared."""
        full = _check_partial(shape)
        if None in full or not _fits(self.declared, full):
            raise ShapeError("parameter", f"the declared shape {self.declared}", tuple(shape))
        self.declared = full

    def materialize(self, device: Device | str) -> None:
        """Give it its initial value, drawn on the host and so the same for every device.

        Raises: ShapeError if a size is still unknown.
        """
        if self.array is not None:
            return
        spec = self.spec
        with execute_once():
            host = self.init(spec.shape, HostRandom(self._draw))
            self.take(from_host(as_device(device), host, spec))

    def take(self, array: Array) -> None:
        """Name this packed value, whatever was here before and on whatever device; hooks stay."""
        hooks = self.node.hooks if self.node is not None else None
        self.home, self.array = None, array
        self.node = leaf(self, array.spec) if self._wants_grad else None
        if self.node is not None:
            self.node.hooks = hooks
        STRUCTURE.changed()

    def forget(self, declared: PartialShape) -> None:
        """Back to before `materialize`: what a first call that failed leaves behind."""
        self.array, self.home, self.node, self.declared = None, None, None, declared
        STRUCTURE.changed()

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        twin = object.__new__(type(self))
        memo[id(self)] = twin
        Tensor.__init__(twin, None)
        for name in Parameter.__slots__:
            setattr(twin, name, getattr(self, name))
        if self.array is not None:  # values are immutable: whoever is assigned first moves away
            twin.take(packed(self))
        return twin

    def __repr__(self) -> str:
        if self.array is None:
            return f"<{type(self).__name__} {self._dtype} {self.declared}, no value yet>"
        return super().__repr__()


class State(Parameter):
    """A cell that a layer updates itself (running statistics, counters); it is not trained."""

    __slots__ = ()

    trainable = False


def _check_partial(shape: Sequence[int | None]) -> PartialShape:
    sizes = tuple(shape) if isinstance(shape, list | tuple) else as_integers(shape) or ("none",)
    known = as_integers([0 if size is None else size for size in sizes])
    if known is None or (known and min(known) < 0):
        hint = f"Parameter(({shape!r},))" if as_integer(shape) is not None else None
        rule = "a shape of sizes >= 0, or None where not known yet"
        raise ShapeError("parameter", rule, repr(shape), hint=hint)
    return tuple(None if given is None else n for given, n in zip(sizes, known, strict=True))


def _fits(declared: PartialShape, shape: PartialShape) -> bool:
    """True if `shape` is what was declared, as far as that is known."""
    return len(declared) == len(shape) and all(
        known in (None, size) for known, size in zip(declared, shape, strict=True)
    )


def fitting(where: str, value: Any, shape: PartialShape, dtype: DType) -> npt.NDArray[Any]:
    """A value for a cell as a host array of the cell's dtype.

    Raises: ShapeError unless it has the cell's shape; DTypeError if it is no numbers, of a higher
    kind (floats for integers) or out of the cell's range.
    """
    given = value.numpy() if isinstance(value, Tensor) else value
    try:
        host = host_array(given, None)
        if not _fits(shape, host.shape):
            raise ShapeError(where, f"shape {shape}", host.shape)
        if as_dtype(host.dtype).rank > dtype.rank:
            raise DTypeError(where, f"values of {dtype}", host.dtype)
        return host_array(given, dtype)
    except (DTypeError, ShapeError) as error:
        raise type(error)(where, error.rule, error.got) from None
