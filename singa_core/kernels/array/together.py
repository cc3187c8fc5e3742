"""Several operations, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from singa_core.kernels import ALL_SIGNATURES, Launch
from singa_core.kernels.array import array
from singa_core.spec import AnyForm, Spec


@array.prepared("together", ALL_SIGNATURES, strides=True, returning=True)
def together(
    xp: Any, ins: Sequence[AnyForm], outs: Sequence[Spec], *, parts: Sequence[Any]
) -> Launch | None:
    launches, rest = [], list(outs)
    for name, attrs, taken, count in parts:
        given = [ins[i] for i in taken]
        own, rest = rest[:count], rest[count:]
        kernel = array.find(name, [form.dtype for form in given], [spec.dtype for spec in own])
        made = None if kernel is None else kernel.prepare(xp, given, own, **dict(attrs))
        if made is None or isinstance(made, tuple):
            return None
        launches.append((made, taken))

    def launch(*xs: Any) -> Any:
        results: list[Any] = []
        for part, taken in launches:
            made = part(*[xs[i] for i in taken])
            results += made if isinstance(made, tuple) else (made,)
        return tuple(results)

    return launch
