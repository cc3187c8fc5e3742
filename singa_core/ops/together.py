"""Several operations as one: a pass makes it, for devices on which a launch costs much."""

from __future__ import annotations

from typing import Any

from singa_core.dtype import as_dtype
from singa_core.operation import Operation
from singa_core.optable import OPS, title
from singa_core.sample import In, sample
from singa_core.spec import Spec

__all__ = ["together"]

# an op, its attributes, the numbers of the inputs it takes, and how many results it has
Part = tuple[str, tuple[tuple[str, Any], ...], tuple[int, ...], int]

_F = as_dtype("float32")
_HALF = (("mul", (), (0, 1), _F), ("add", (), (2, 0), _F))


class Together(Operation):
    """Operations that do not wait for each other, with all their results.

    Shapes: as the operations say. Dtype: as the operations say.
    Args: parts: (op, attributes, numbers of its inputs, count of its results) of each.
    Raises: what the operations raise.
    Source: the operations that it is made of.
    """

    name = "together"
    samples = (
        sample(
            In((3, 4), "float32"), In((5,), "float32"), In((), "float32"),
            parts=(
                ("fused", (("steps", _HALF), ("results", (3,))), (0, 2), 1),
                ("fused", (("steps", _HALF), ("results", (2, 3))), (1, 2), 2),
            ),
        ),
        sample(
            In((2, 1), "float32"), In((3,), "float32"),
            parts=(("mul", (), (0, 1), 1), ("less", (), (1, 0), 1), ("neg", (), (1,), 1)),
        ),
        sample(In((0,), "float32"), parts=(("neg", (), (0,), 1), ("exp", (), (0,), 1))),
    )  # fmt: skip

    def infer(self, *xs: Spec, parts: tuple[Part, ...]) -> tuple[Spec, ...]:
        return tuple(
            out
            for name, attrs, ins, _ in parts
            for out in _all(OPS[name].infer(*[xs[i] for i in ins], **dict(attrs)))
        )

    def members(self, **attrs: Any) -> list[str]:
        return [title(name, dict(own)) for name, own, *_ in attrs["parts"]]

    def forward(self, *xs: Any, parts: tuple[Part, ...]) -> Any:
        return tuple(
            out
            for name, attrs, ins, _ in parts
            for out in _all(OPS[name](*[xs[i] for i in ins], **dict(attrs)))
        )


def _all(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


together = Together()
