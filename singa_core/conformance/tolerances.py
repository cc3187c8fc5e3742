"""How far a result may be from its reference: a table of op class by dtype, in units of the type.

An op belongs to one class; everything that is not named is "computed". A unit is the distance of
neighbouring numbers at 1, so a bound in units is relative. Reductions are allowed more, with the
root of the number of terms. A backend may widen entries in its conformance.toml, at most tenfold.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from singa_core.dtype import as_dtype

EPS: Final = {
    "float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52,
}  # fmt: skip
TINY: Final = {  # what counts as nothing beside nothing; float32 need not have subnormal numbers
    "float16": 2.0**-24, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022,
}  # fmt: skip
LARGEST: Final = {"float16": 65504.0, "bfloat16": 3.3895314e38, "float32": 3.4028235e38}

CLASSES: Final[Mapping[str, frozenset[str]]] = MappingProxyType({
    # nothing is computed, or the result is a whole number
    "exact": frozenset(
        "abs argmax argmin bit_and bit_not bit_or bit_xor broadcast_to cast ceil concat copy "
        "detach equal floor full gather greater greater_equal iota less less_equal max maximum min "
        "minimum neg not_equal permute_dims put random_bits relu relu_grad reshape round scatter "
        "set_slice shift_left shift_right sign slice sort trunc where windows".split()
    ),
    # one operation, rounded once
    "rounded": frozenset("add sub mul square".split()),
    # one operation that devices may round less well
    "divided": frozenset("div sqrt floor_divide remainder reciprocal".split()),
    # many terms meet: the error grows with the root of their number, beside the largest of them
    "reduced": frozenset(
        "sum prod mean var std norm matmul cumsum cumprod scatter_add linear conv conv_transpose "
        "conv_grad_input conv_grad_weight".split()
    ),
    # the same, with functions before and after
    "composed": frozenset(
        "softmax log_softmax logsumexp attention layer_norm layer_norm_grad rms_norm group_norm "
        "batch_norm batch_norm_grad softmax_cross_entropy soft_cross_entropy".split()
    ),
})  # fmt: skip
UNITS: Final[Mapping[str, Mapping[str, float]]] = MappingProxyType({
    #            float64, float32, float16, bfloat16; the halves are computed in float32
    "exact": dict.fromkeys(EPS, 0.0),
    "rounded": {"float64": 0.501, "float32": 0.501, "float16": 0.501, "bfloat16": 0.501},
    "divided": {"float64": 1.0, "float32": 2.5, "float16": 0.51, "bfloat16": 0.51},
    "computed": dict.fromkeys(EPS, 4.0),
    "reduced": dict.fromkeys(EPS, 1.0),
    "composed": dict.fromkeys(EPS, 2.0),
})  # fmt: skip
GATHERED: Final = ("reduced", "composed")
GRADIENT: Final = {"float64": 1e-6, "float32": 2e-3, "float16": 2e-2, "bfloat16": 1e-1}
LOSS: Final = 1e-5
MOST: Final = 10.0

WIDENED: dict[tuple[str, str], float] = {}
"""(class, dtype) -> factor, as the backend under test asks; the report prints them."""


class Terms(NamedTuple):
    """What may meet in one element of a result: how many values, none larger than `largest`."""

    number: int = 1
    largest: float = 0.0


ALONE: Final = Terms()


class Mismatch(AssertionError):
    """A result is not what the reference says."""


def expect(condition: object, message: str) -> None:
    """Raises: Mismatch with the message unless the condition holds."""
    if not condition:
        raise Mismatch(message)


def class_of(op: str) -> str:
    """The class whose bounds an op has."""
    return next((name for name, ops in CLASSES.items() if op in ops), "computed")


def bound(kind: str, dtype: str, terms: int = 1) -> float:
    """The relative error that a class may have in a dtype; `terms` values meet in one result."""
    units = UNITS[kind][dtype] * WIDENED.get((kind, dtype), 1.0)
    return units * EPS[dtype] * (max(terms, 1) ** 0.5 if kind in GATHERED else 1.0)


def compare(op: str, got: npt.NDArray[Any], expected: Any, terms: Terms = ALONE) -> None:
    """Raises: Mismatch unless `got` is `expected` (float64 for floats) within the op's tolerance.

    Args:
        op: its name, which says the class.
        got: the result.
        expected: the reference; integers and bools are compared exactly.
        terms: what one element of the result may gather.
    """
    expected = np.asarray(expected)
    expect(got.shape == expected.shape, f"{op}: shape {got.shape}, needs {expected.shape}")
    name, kind = as_dtype(got.dtype).name, class_of(op)
    if name not in EPS or kind == "exact":
        with np.errstate(all="ignore"):
            differs(op, widened(got), widened(expected.astype(got.dtype)), 0.0, 0.0)
        return
    with np.errstate(all="ignore"):
        exact = expected.astype(np.float64)
        beyond = np.abs(exact) > LARGEST.get(name, np.inf)
        exact = np.where(beyond, np.sign(exact) * np.inf, exact)
    finite = np.abs(exact[np.isfinite(exact)])
    scale = finite.max(initial=0.0) if kind in ("computed", *GATHERED) else 0.0
    if kind == "reduced":  # terms of both signs leave little, and their errors
        scale = max(scale, terms.largest)
    relative = bound(kind, name, terms.number)
    differs(op, widened(got), exact, relative, max(relative * scale, TINY[name]))


def differs(
    what: str, got: npt.NDArray[Any], wanted: npt.NDArray[Any], relative: float, absolute: float
) -> None:
    """Raises: Mismatch that names the first element beyond the bounds; NaN agrees with NaN."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    with np.errstate(all="ignore"):
        good = got == wanted
        if wanted.dtype.kind == "f" or got.dtype.kind == "f":
            good |= np.isnan(got) & np.isnan(wanted)
            good |= np.isfinite(wanted) & (
                np.abs(got - wanted) <= absolute + relative * np.abs(wanted)
            )
    if good.all():
        return
    wrong = np.argwhere(~good)
    place = tuple(int(i) for i in wrong[0])
    a, b = got[place], wanted[place]
    allowed = f"; allowed {absolute + relative * abs(float(b)):.3g}" if relative else ""
    raise Mismatch(
        f"{what}: at {place or '()'} got {a!r}, needs {b!r}{allowed}; "
        f"{len(wrong)} of {good.size} elements are wrong"
    )


def same_values(what: str, got: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> None:
    """Raises: Mismatch unless the values are equal; NaN is equal to NaN."""
    differs(what, got, wanted, 0.0, 0.0)


def widened(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Floats as float64, which the comparisons of NumPy know."""
    return x.astype(np.float64) if as_dtype(x.dtype).is_floating else x
