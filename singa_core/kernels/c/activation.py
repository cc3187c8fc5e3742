"""Activations that are worth a kernel where nothing is fused."""

from __future__ import annotations

from collections.abc import Sequence

from singa_core.kernels import FLOATS
from singa_core.kernels.c import c
from singa_core.kernels.c.dialect import Call, Target
from singa_core.kernels.c.geometry import broadcast_walk
from singa_core.kernels.c.loops import Scalar, calls
from singa_core.spec import AnyForm, Spec


def _register(op: str, count: int, text: str) -> None:
    def prepare(target: Target, ins: Sequence[AnyForm], outs: Sequence[Spec]) -> list[Call]:
        code = outs[0].dtype.code
        scalar = Scalar(op, (code,) * count, (("y0", outs[0].dtype, text),), (code,))
        return calls(target, scalar, broadcast_walk(outs[0].shape, ins), range(count + 1))

    signature = ",".join("T" * count) + "->T"
    c.calls(op, signature, strides=True, in_place=True, T=FLOATS)(prepare)


_register("relu", 1, "x0 > 0 || x0 != x0 ? x0 : 0")
_register("relu_grad", 2, "x1 > 0 ? x0 : 0")
