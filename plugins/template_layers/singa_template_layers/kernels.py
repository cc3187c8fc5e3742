"""Kernels of this pack, in the languages that backends share."""

from __future__ import annotations

from typing import Any

from singa_core.kernels import KernelTable


def add_array_kernels(table: KernelTable) -> None:
    """Functions of a NumPy-like namespace; inputs may be strided, the result is a new array."""

    @table.kernel("snake", "T,T->T", T="f32 f64", strides=True, returning=True)
    def snake(xp: Any, x: Any, alpha: Any) -> Any:
        wave = xp.sin(x * alpha)
        wave *= wave
        wave /= alpha
        wave += x
        return wave
