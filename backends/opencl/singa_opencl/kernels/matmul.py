from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from singa_core.kernels.c.dialect import INT_LIMIT, Call, Target
from singa_core.kernels.c.geometry import leading, walk
from singa_core.spec import AnyForm, Spec
from singa_opencl.kernels import gemm, own, tiled
from singa_opencl.kernels.product import AXES, Product


@own.calls("matmul", "T,T->T", strides=True, T="f32 f64 i32 i64")
def matmul(target: Any, ins: Sequence[AnyForm], outs: Sequence[Spec]) -> list[Call] | None:
    a, b = ins
    y, code = outs[0].shape, a.dtype.code
    m, n, k = y[-2], y[-1], a.shape[-1]
    if 0 in (*y, k) or max(m, n, k) > INT_LIMIT:
        return None
    if len(b.shape) == 2 and len(a.shape) > 2 and isinstance(a, Spec):
        return calls(target, Product(code, (math.prod(y[:-1]), n, k), (k, 1), b.strides))
    path = walk(y[:-2], leading(a, y[:-2]), leading(b, y[:-2]))
    batch = tuple(zip(path.shape, *path.strides, strict=True))[::-1]
    if len(batch) > AXES:
        return None
    return calls(target, Product(code, (m, n, k), a.strides[-2:], b.strides[-2:], batch))


@own.calls("linear", "T,T->T", "T,T,T->T", strides=True, T="f32 f64")
def linear(target: Any, ins: Sequence[AnyForm], outs: Sequence[Spec]) -> list[Call] | None:
    x, weight = ins[:2]
    (k, n), rows = weight.shape, math.prod(x.shape[:-1])
    if 0 in (rows, n, k) or max(rows, n, k) > INT_LIMIT:
        return None
    biased = len(ins) == 3
    if biased and ins[2].strides != (1,):
        return None
    path = walk(x.shape[:-1], x.strides[:-1])
    if len(path.shape) > 1:
        return None  # leading axes that do not fold into rows
    strides = path.strides[0][0], x.strides[-1]
    product = Product(x.dtype.code, (rows, n, k), strides, weight.strides, biased=biased)
    return calls(target, product)


def calls(target: Target, product: Product) -> list[Call] | None:
    """The call that suits the device's family, if one does."""
    way: Any = gemm if target.family == "cpu" else tiled
    call = way.product(product, target)
    return None if call is None else [call]
