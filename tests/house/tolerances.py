"""How far a result may be from its reference: units of the last place, by kind of op."""

import numpy as np

from singa_core.dtype import as_dtype

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}

# Nothing is computed, or the result is a whole number.
EXACT = frozenset(
    "abs argmax argmin bit_and bit_not bit_or bit_xor broadcast_to cast ceil concat copy detach equal "
    "floor full gather greater greater_equal iota less less_equal max maximum min minimum neg "
    "not_equal permute_dims put random_bits relu relu_grad reshape round scatter set_slice shift_left "
    "shift_right sign slice sort trunc where windows".split()
)
# One rounding.
ROUNDED = frozenset("add sub mul div sqrt square floor_divide remainder reciprocal".split())
# Many terms meet: the error grows with their number, and is small beside the largest of them.
GATHERED = frozenset("sum prod mean var std norm matmul cumsum cumprod scatter_add".split())


def compare(op: str, got: np.ndarray, expected, terms: int = 1) -> None:
    """Raises: AssertionError unless `got` is `expected` (float64 for floats) within the op's tolerance.

    `terms`: how many values one element of the result may gather.
    """
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    name = as_dtype(got.dtype).name
    if name not in EPS or op in EXACT:
        np.testing.assert_array_equal(widened(got), widened(expected.astype(got.dtype)))
        return
    units = 1.0 if op in ROUNDED else max(terms, 1) ** 0.5 if op in GATHERED else 4.0
    with np.errstate(all="ignore"):
        exact = expected.astype(np.float64)
        exact = np.where(np.abs(exact) > limit(name), np.sign(exact) * np.inf, exact)
    finite = np.abs(exact[np.isfinite(exact)])
    scale = finite.max(initial=0.0) if op not in ROUNDED else 0.0
    tiny = float(np.finfo(np.float32).tiny if name != "float64" else np.finfo(np.float64).tiny)
    bound = units * EPS[name]
    np.testing.assert_allclose(
        widened(got),
        exact,
        rtol=bound,
        atol=max(bound * scale, tiny if name != "float16" else 2.0**-24),
    )


def widened(x: np.ndarray) -> np.ndarray:
    """Floats as float64, which the comparisons of NumPy know."""
    return x.astype(np.float64) if as_dtype(x.dtype).is_floating else x


def limit(name: str) -> float:
    """What is rounded to infinity."""
    largest = {"float16": 65504.0, "bfloat16": 3.3895314e38, "float32": 3.4028235e38}
    return largest.get(name, np.inf)
