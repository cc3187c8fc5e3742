"""Matrix products."""

from __future__ import annotations

from typing import Any

from singa_core.kernels.array import array


@array.kernel("matmul", "T,T->T", strides=True, returning=True, T="i32 i64 f32 f64")
def matmul(xp: Any, a: Any, b: Any) -> Any:
    return xp.matmul(a, b)


@array.kernel("matmul", "T,T->T", strides=True, returning=True, T="f16 bf16")
def matmul_in_float32(xp: Any, a: Any, b: Any) -> Any:
    return xp.matmul(a.astype(xp.float32), b.astype(xp.float32)).astype(a.dtype)
