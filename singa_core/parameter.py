"""Parameter and State: cells that a layer declares, perhaps before their size is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from singa_core.device import Device, from_host
from singa_core.dtype import DType, DTypeLike, as_dtype
from singa_core.errors import DTypeError, ShapeError
from singa_core.initializer import HostRandom, InitializerLike, as_initializer
from singa_core.mode import STRUCTURE, execute_once
from singa_core.node import leaf
from singa_core.random import STREAMS
from singa_core.spec import Shape, Spec
from singa_core.tensor import Tensor

PartialShape = tuple[int | None, ...]
BLOCKS = 2**32  # of the init stream for each parameter: its numbers do not depend on other sizes


class Parameter(Tensor):
    """A trainable cell with an initialiser. Axes whose size is not known yet are None.

    It exists, can be listed, shared and given to an optimiser before its sizes are known; it gets
    its value when `materialize` is called: by the layer's first call, by `compile`, or by loading.
    Its initial numbers depend on the seed and on the order in which parameters are made, and on
    nothing else.
    """

    __slots__ = ("_draw", "_dtype", "_wants_grad", "declared", "init", "layout")

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
        self._dtype = as_dtype(dtype)
        self._wants_grad = self.trainable and self._dtype.is_floating
        self._draw = STREAMS["init"].take(BLOCKS)

    @property
    def materialized(self) -> bool:
        """True once it has a value."""
        return self.array is not None

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
        if wanted and not self._dtype.is_floating:
            raise DTypeError("requires_grad", "a floating dtype", self._dtype)
        self._wants_grad = bool(wanted)
        if self.array is not None:
            self.node = leaf(self, self.array.spec) if wanted else None
        STRUCTURE.changed()

    def set_shape(self, shape: Sequence[int]) -> None:
        """Fill in unknown sizes. Raises: ShapeError if it contradicts what was declared."""
        full = _check_partial(shape)
        fits = len(full) == len(self.declared) and all(
            known in (None, size) for known, size in zip(self.declared, full, strict=True)
        )
        if not fits or None in full:
            raise ShapeError("parameter", f"the declared shape {self.declared}", tuple(shape))
        self.declared = full

    def materialize(self, device: Device) -> None:
        """Give it its initial value, drawn on the host and so the same for every device.

        Raises: ShapeError if a size is still unknown.
        """
        if self.array is not None:
            return
        if None in self.declared:
            raise ShapeError(
                "parameter", "known sizes", self.declared,
                hint="call the layer, or compile the model, on an input first",
            )  # fmt: skip
        shape: Shape = self.declared  # type: ignore[assignment]  # no None left
        with execute_once():
            host = self.init(shape, HostRandom(self._draw))
            self.hold(device, host)

    def hold(self, device: Device, host: Any) -> None:
        """Take a host value as it is, whatever was here before."""
        spec = Spec(self.declared, self._dtype)  # type: ignore[arg-type]  # known by now
        self.home = None
        self.array = from_host(device, host, spec)
        self.node = leaf(self, spec) if self._wants_grad else None
        STRUCTURE.changed()

    def forget(self, declared: PartialShape) -> None:
        """Back to before `materialize`: what a first call that failed leaves behind."""
        self.array, self.node, self.declared = None, None, declared
        STRUCTURE.changed()

    def __repr__(self) -> str:
        if self.array is None:
            return f"<{type(self).__name__} {self._dtype} {self.declared}, no value yet>"
        return super().__repr__()


class State(Parameter):
    """A cell that a layer updates itself (running statistics, counters); it is not trained."""

    __slots__ = ()

    trainable = False


def _check_partial(shape: Sequence[int | None]) -> PartialShape:
    out: list[int | None] = []
    for size in shape:
        if size is not None and (
            isinstance(size, bool) or not hasattr(type(size), "__index__") or size < 0
        ):
            raise ShapeError("parameter", "sizes >= 0, or None where not known yet", tuple(shape))
        out.append(None if size is None else int(size))
    return tuple(out)
