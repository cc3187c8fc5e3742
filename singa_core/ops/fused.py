"""Several scalar operations as one: the fuse pass makes them, for devices that compile groups."""

from __future__ import annotations

from typing import Any

from singa_core.dtype import DType, as_dtype
from singa_core.errors import DTypeError, ShapeError
from singa_core.operation import Operation
from singa_core.optable import OPS
from singa_core.sample import In, sample
from singa_core.spec import Spec

__all__ = ["fused"]

# an op, its attributes, the numbers of the values it takes, and the dtype of what it gives
Step = tuple[str, tuple[tuple[str, Any], ...], tuple[int, ...], DType]

_F, _B, _I, _U = (as_dtype(name) for name in ("float32", "bool", "int32", "uint32"))
_BITS = ("random_bits", (("shape", (3, 5)),), (1,), _U)


class Fused(Operation):
    """Scalar operations element by element, with nothing between them in memory.

    The inputs are values 0, 1, ...; each step takes some of the values so far and adds one.

    Shapes: the inputs of each step broadcast; all results have one shape. Dtype: as the steps say.

    Args:
        steps: (op, attributes, numbers of its values, dtype) of each.
        results: numbers of the values that are outputs.
    Raises: ShapeError for results of several shapes; DTypeError for a step of another dtype; what
        the operations raise.
    Source: the operations that it is made of.
    """

    name = "fused"
    samples = (
        sample(
            In((3, 4), "float32"), In((4,), "float32"),
            steps=(("mul", (), (0, 1), _F), ("exp", (), (2,), _F), ("sub", (), (3, 0), _F)),
            results=(4,),
        ),
        sample(
            In((2, 1, 3), "float32"), In((2, 3), "float32"), In((), "float32"),
            steps=(
                ("less", (), (0, 1), _B), ("add", (), (0, 1), _F), ("where", (), (3, 4, 2), _F),
                ("cast", (("dtype", _I),), (5,), _I),
            ),
            results=(5, 3, 6),
        ),
        sample(
            In((0, 3), "float32"), In((3,), "float32"),
            steps=(("add", (), (0, 1), _F), ("neg", (), (2,), _F)), results=(3,),
        ),
        sample(  # as dropout
            In((3, 5), "float32"), In((4,), "uint32", values=[7, 8, 0xFFFFFFFF, 9]),
            In((), "uint32", values=[1 << 31]), In((), "float32", values=[0.0]),
            steps=(_BITS, ("less_equal", (), (2, 4), _B), ("where", (), (5, 0, 3), _F)),
            results=(6, 5),
        ),
        sample(  # as noise, beside a function that has a vector body
            In((5,), "float32"), In((4,), "uint32", values=[7, 8, 0xFFFFFFFF, 9]),
            In((), "uint32", values=[8]),
            steps=(
                _BITS, ("shift_right", (), (3, 2), _U), ("cast", (("dtype", _F),), (4,), _F),
                ("exp", (), (0,), _F), ("mul", (), (5, 6), _F),
            ),
            results=(7,),
        ),
    )  # fmt: skip

    def infer(
        self, *xs: Spec, steps: tuple[Step, ...], results: tuple[int, ...]
    ) -> Spec | tuple[Spec, ...]:
        values = list(xs)
        for name, attrs, ins, dtype in steps:
            spec = OPS[name].infer(*[values[i] for i in ins], **dict(attrs))
            if not isinstance(spec, Spec) or spec.dtype is not dtype:
                raise DTypeError(self.name, f"{name} with one result of {dtype}", spec)
            values.append(spec)
        outs = tuple(values[i] for i in results)
        shapes = {out.shape for out in outs}
        if len(shapes) != 1:
            raise ShapeError(self.name, "results of one shape", shapes)
        return outs[0] if len(outs) == 1 else outs

    def members(self, **attrs: Any) -> list[str]:
        return [name for name, *_ in attrs["steps"]]

    def forward(self, *xs: Any, steps: tuple[Step, ...], results: tuple[int, ...]) -> Any:
        values = list(xs)
        for name, attrs, ins, _ in steps:
            values.append(OPS[name](*[values[i] for i in ins], **dict(attrs)))
        outs = tuple(values[i] for i in results)
        return outs[0] if len(outs) == 1 else outs


fused = Fused()
