"""References for every operation, in float64 by NumPy and Python: never by a kernel of ours.

`ORACLES[name](*arrays, **attrs)` takes host arrays and the attributes of the public call, and
gives an array, or a tuple of them. A family adds its table with one line.
"""

from typing import Any

from singa_core.conformance.oracles import (
    activation,
    attention,
    conv,
    creation,
    dropout,
    elementwise,
    embedding,
    indexing,
    linalg,
    linear,
    loss,
    normalization,
    optim,
    pooling,
    random,
    reduction,
    shape,
)
from singa_core.conformance.oracles.common import Oracle

ORACLES: dict[str, Oracle] = {
    **activation.TABLE,
    **attention.TABLE,
    **conv.TABLE,
    **creation.TABLE,
    **dropout.TABLE,
    **elementwise.TABLE,
    **embedding.TABLE,
    **indexing.TABLE,
    **linalg.TABLE,
    **linear.TABLE,
    **loss.TABLE,
    **normalization.TABLE,
    **optim.TABLE,
    **pooling.TABLE,
    **random.TABLE,
    **reduction.TABLE,
    **shape.TABLE,
}


def _fused(*xs: Any, steps: tuple[Any, ...], results: tuple[int, ...]) -> Any:
    """The references of the steps, one after the other; floats stay in float64 between them."""
    values = list(xs)
    for name, attrs, ins, _ in steps:
        values.append(ORACLES[name](*[values[i] for i in ins], **dict(attrs)))
    outs = tuple(values[i] for i in results)
    return outs[0] if len(outs) == 1 else outs


def _together(*xs: Any, parts: tuple[Any, ...]) -> Any:
    """The references of the parts."""
    outs: list[Any] = []
    for name, attrs, ins, _ in parts:
        made = ORACLES[name](*[xs[i] for i in ins], **dict(attrs))
        outs += made if isinstance(made, tuple) else (made,)
    return tuple(outs)


ORACLES |= {"fused": _fused, "together": _together}
