"""Groups of scalar operations, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from singa_core.kernels import ALL_SIGNATURES, Launch
from singa_core.kernels.array import array
from singa_core.spec import AnyForm, Spec, broadcast_shapes


@array.prepared("fused", ALL_SIGNATURES, strides=True, returning=True)
def fused(
    xp: Any, ins: Sequence[AnyForm], outs: Sequence[Spec], *, steps: Any, results: tuple[int, ...]
) -> Launch | None:
    forms, launches = list(ins), []
    for name, attrs, taken, dtype in steps:
        given = [forms[i] for i in taken]
        drawn = dict(attrs).get("shape")  # a draw reads its state whole
        shape = broadcast_shapes(name, *[form.shape for form in given]) if drawn is None else drawn
        spec = Spec(shape, dtype)
        kernel = array.find(name, [form.dtype for form in given], [dtype])
        if kernel is None:
            return None
        made = kernel.prepare(xp, given, (spec,), **dict(attrs))
        if made is None or isinstance(made, tuple):
            return None
        launches.append(made)
        forms.append(spec)

    def launch(*xs: Any) -> Any:
        values = list(xs)
        for step, (_, _, taken, _) in zip(launches, steps, strict=True):
            values.append(step(*[values[i] for i in taken]))
        outs = tuple(values[i] for i in results)
        return outs[0] if len(outs) == 1 else outs

    return launch
