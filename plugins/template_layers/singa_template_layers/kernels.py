"""Kernels of this pack, in the languages that backends share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from singa_core.kernels import KernelTable
from singa_core.spec import AnyForm, Spec

if TYPE_CHECKING:
    from singa_core.kernels.c import CallTable
    from singa_core.kernels.c.dialect import Call, Target


def add_array_kernels(table: KernelTable) -> None:
    """Functions of a NumPy-like namespace; inputs may be strided, the result is a new array."""

    @table.kernel("snake", "T,T->T", T="f32 f64", strides=True, returning=True)
    def snake(xp: Any, x: Any, alpha: Any) -> Any:
        wave = xp.sin(x * alpha)
        wave *= wave
        wave /= alpha
        wave += x
        return wave


def add_c_kernels(table: CallTable) -> None:
    """Text for devices that compile C: one expression for each line, and core writes the loops."""
    from singa_core.kernels.c.geometry import broadcast_walk  # noqa: PLC0415  (who needs C pays)
    from singa_core.kernels.c.loops import Scalar, calls  # noqa: PLC0415

    @table.calls("snake", "T,T->T", T="f16 bf16 f32 f64", strides=True, in_place=True)
    def snake(target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec]) -> list[Call]:
        dtype = outs[0].dtype
        lines = (  # x0 is x, x1 is alpha, y0 the output
            ("wave", dtype, "sin(x0 * x1)"),
            ("y0", dtype, "x0 + wave * wave / x1"),
        )
        scalar = Scalar("snake", (dtype.code, dtype.code), lines, (dtype.code,))
        return calls(target, scalar, broadcast_walk(outs[0].shape, ins), (0, 1, 2))
