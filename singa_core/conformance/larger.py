"""Larger inputs than samples have: sizes beside powers of two, where vectors and tiles have tails.

Element-wise ops are found by themselves: those whose first sample can be given another shape. For
the rest there is a table. Values are drawn as those of samples are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from singa_core.conformance.cases import SETS, Case, samples_of
from singa_core.conformance.oracles import ORACLES
from singa_core.device import Device
from singa_core.errors import SingaError
from singa_core.sample import In, Sample, sample

FIRST: Final = 1000  # number of the first larger input of an op
SHAPES: Final[tuple[tuple[int, ...], ...]] = (
    (), (0,), (2, 0, 3), (1,), (7,), (1025,), (3, 5, 67), (20011,),
)  # fmt: skip
MADE: Final = frozenset({"shape", "axis", "axes", "size", "start", "kernel", "groups", "n"})


def _near_one(*shape: int) -> In:
    return In(shape, low=0.9, high=1.1)


def _apart(*shape: int) -> In:
    """Distinct values, which halves can tell apart too: rows of a permutation."""
    rows = np.random.default_rng(len(shape)).permuted(
        np.tile(np.arange(shape[-1]), (int(np.prod(shape[:-1])), 1)), axis=1
    )
    return In(shape, values=rows.reshape(shape))


def _places(count: int, *shape: int, kind: str = "int64") -> In:
    return In(shape, kind, low=0, high=count)


def _distinct(count: int, size: int, kind: str = "int64") -> In:
    return In((size,), kind, values=np.random.default_rng(0).permutation(count)[:size])


def _state(low: int = 0, high: int = 0) -> In:
    return In((4,), "uint32", values=(0x12345678, 0x9ABCDEF0, low, high))


def _reductions() -> dict[str, list[Sample]]:
    places = (
        ((1000,), 0), ((3, 1000), 1), ((1000, 3), 0), ((7, 129, 5), 1), ((2, 33, 65), (1, 2)),
        ((20011,), None),
    )  # fmt: skip
    names = "sum max min mean var std norm logsumexp any all count_nonzero".split()
    table = {name: [sample(shape, axis=axis) for shape, axis in places] for name in names}
    table["prod"] = [sample(_near_one(*shape), axis=axis) for shape, axis in places]
    single = [(shape, axis) for shape, axis in places if isinstance(axis, int)]
    for name in ("argmax", "argmin"):
        table[name] = [sample(_apart(*shape), axis=axis) for shape, axis in single]
    table["cumsum"] = [sample(shape, axis=axis) for shape, axis in single]
    table["cumprod"] = [sample(_near_one(*shape), axis=axis) for shape, axis in single]
    table["sort"] = [
        sample(_apart(*shape), axis=axis, descending=down)
        for (shape, axis), down in zip(single, (False, True, True, False), strict=True)
    ]
    for name in ("softmax", "log_softmax"):
        table[name] = [sample((5, 1000), axis=-1), sample((1000, 5), axis=0), sample((65, 10))]
    return table


def _convolutions() -> dict[str, list[Sample]]:
    same: dict[str, Any] = {"padding": "same"}
    forms: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        ((2, 3, 17, 19), (5, 3, 3, 3), {"padding": 1}),
        ((2, 16, 12, 12), (32, 16, 3, 3), same),
        ((1, 8, 15, 14), (8, 8, 4, 4), same),
        ((2, 8, 13, 11), (12, 8, 3, 3), {"stride": 2, "padding": 1}),
        ((2, 8, 9, 10), (8, 1, 3, 3), {"groups": 8, "padding": 1}),
        ((3, 33, 7, 5), (17, 33, 1, 1), {}),
        ((2, 4, 14, 13), (6, 4, 3, 3), {"dilation": 2}),
        ((2, 5, 67), (7, 5, 5), {"stride": 3}),
        ((1, 2, 5, 6, 7), (3, 2, 3, 2, 3), {"padding": 1}),
    ]
    table: dict[str, list[Sample]] = {
        "conv": [sample(x, w, (w[0],), **attrs) for x, w, attrs in forms]
    }
    for name in ("conv_grad_input", "conv_grad_weight"):
        table[name] = []
    for x, w, attrs in forms:
        grad = (x[0], w[0], *_positions(x[2:], w[2:], **attrs))
        table["conv_grad_input"].append(sample(grad, w, size=x[2:], **attrs))
        table["conv_grad_weight"].append(sample(x, grad, kernel=w[2:], **attrs))
    return table


def _positions(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    *,
    stride: int = 1,
    padding: Any = 0,
    dilation: int = 1,
    groups: int = 1,
) -> tuple[int, ...]:
    if padding == "same":
        return tuple(-(-n // stride) for n in size)
    return tuple(
        (n + 2 * padding - dilation * (k - 1) - 1) // stride + 1
        for n, k in zip(size, kernel, strict=True)
    )


def _products() -> dict[str, list[Sample]]:
    sizes = ((1, 1, 1), (17, 33, 9), (65, 128, 129), (128, 257, 64), (1, 300, 65), (200, 5, 1))
    return {
        "matmul": [
            *(sample((m, k), (k, n)) for m, k, n in sizes),
            sample((3, 1, 17, 33), (2, 33, 9)), sample((129,), (129, 35)), sample((65, 33), (33,)),
        ],
        "linear": [
            sample((33, 129), (129, 65), (65,)), sample((2, 17, 64), (64, 10), (10,)),
            sample((1, 300), (300, 7)),
        ],
        "attention": [
            sample((2, 3, 17, 8), (2, 3, 17, 8), (2, 3, 17, 8), causal=True),
            sample((4, 33, 16), (4, 35, 16), (4, 35, 24)),
        ],
    }  # fmt: skip


def _windows() -> dict[str, list[Sample]]:
    x = _apart(2, 3, 13, 11)
    y = In((2, 3, 6, 5), values=ORACLES["max_pool"](np.asarray(x.values), kernel=3, stride=2))
    return {
        "max_pool_grad": [sample(y.shape, x, y, kernel=3, stride=2)],
        "avg_pool_grad": [sample((2, 5, 8, 9), size=(17, 19), kernel=3, stride=2)],
        "max_pool": [
            sample(_apart(2, 5, 17, 19), kernel=3, stride=2, padding=1),
            sample(_apart(3, 8, 12, 16), kernel=2), sample(_apart(2, 3, 65), kernel=5, stride=3),
        ],
        "avg_pool": [
            sample((2, 5, 17, 19), kernel=3, stride=2, padding=1), sample((3, 8, 12, 16), kernel=2),
        ],
    }  # fmt: skip


def _norms() -> dict[str, list[Sample]]:
    rows, wide = (33, 129), (4, 1000)
    table = {name: [sample(x, (x[1],), (x[1],)) for x in (rows, wide)] for name in ("layer_norm",)}
    table["rms_norm"] = [sample(x, (x[1],)) for x in (rows, wide)]
    table["layer_norm_grad"] = [sample(rows, rows, (129,)), sample(wide, wide, (1000,))]
    table["batch_norm"] = [
        sample((4, 7, 9, 11), (7,), (7,)), sample((129, 33), (33,), (33,)),
    ]  # fmt: skip
    table["batch_norm_grad"] = [
        sample(x, x, (c,), In((c,), low=-0.5, high=0.5), In((c,), low=0.5, high=2.0))
        for x, c in (((4, 7, 9, 11), 7), ((129, 33), 33))
    ]
    table["group_norm"] = [sample((3, 8, 5, 7), (8,), (8,), groups=4)]
    return table


def _at_places() -> dict[str, list[Sample]]:
    table = {
        "gather": [
            sample((1000, 7), _places(1000, 513), axis=0),
            sample((5, 300), _places(300, 33, kind="int32"), axis=1),
        ],
        "scatter_add": [
            sample((100, 7), _places(100, 513), (513, 7), axis=0),
            sample((5, 300), _places(300, 33, kind="int32"), (5, 33), axis=1),
        ],
        "scatter": [sample((1000, 7), _distinct(1000, 513), (513, 7), axis=0)],
        "put": [sample((33, 65), _distinct(33 * 65, 1000), (1000,))],
        "embedding": [sample(_places(100, 9, 17), (100, 33))],
        "concat": [sample(*((n, 65) for n in range(1, 10))), sample((33, 7), (33, 64), axis=1)],
        "set_slice": [sample((65, 67), (31, 33), start=(3, 1), step=(2, 2))],
        "where": [sample(In((33, 1), "bool"), (1, 65), ())],
        "full": [sample(shape=(67, 300), value=1.5, dtype="float32")],
        "iota": [sample(size=20011, dtype="float32"), sample(size=20011, dtype="int64")],
    }
    table["softmax_cross_entropy_grad"] = [
        sample((129,), In((129, 37), low=-3.0, high=-0.1), _places(37, 129)),
    ]  # fmt: skip
    for name in ("softmax_cross_entropy", "negative_log_likelihood"):
        table[name] = [
            sample((129, 37), _places(37, 129)),
            sample((7, 1000), _places(1000, 7, kind="int32")),
        ]
    for name in ("add", "mul", "maximum", "less", "equal", "less_equal"):
        table[name] = [sample((33, 1), (1, 65)), sample((5, 1, 67), (3, 1)), sample((), (300,))]
    return table


def _random() -> dict[str, list[Sample]]:
    near = _state(2**32 - 3)  # the position is carried to its upper word
    return {
        "random_bits": [
            sample(_state(), shape=(20011,)), sample(near, shape=(3, 1001)),
            sample(_state(7, 3), shape=(64, 65)),
        ],
        "random_uniform": [sample(near, shape=(1001,), dtype="float32")],
        "random_normal": [sample(_state(), shape=(1001,), dtype="float32")],
        "random_bernoulli": [sample(near, shape=(1001,), p=0.3, dtype="float32")],
        "random_integers": [sample(_state(), shape=(1001,), low=-7, high=1000, dtype="int64")],
        "random_permutation": [sample(_state(), n=1001)],
        "random_dropout": [sample((33, 65), near, p=0.3)],
    }  # fmt: skip


TABLE: Final[dict[str, list[Sample]]] = {
    **_reductions(), **_convolutions(), **_products(), **_windows(), **_norms(), **_at_places(),
    **_random(),
}  # fmt: skip


def reshaped(name: str) -> Iterator[Sample]:
    """A sample of an element-wise op in other shapes; nothing for any other op."""
    if name in TABLE:
        return
    for one in samples_of(name):
        made = [_with_shape(one, shape) for shape in SHAPES]
        if one.inputs and not set(one.attrs) & MADE and all(_keeps(name, s) for s in made):
            yield from (s for s in made if s is not None)
            return


def _with_shape(one: Sample, shape: tuple[int, ...]) -> Sample | None:
    """The sample with its inputs, which must have one shape, in another; numbers stay numbers."""
    common = max((i.shape for i in one.inputs), key=len, default=())
    if not common or any(i.shape not in ((), common) or i.values is not None for i in one.inputs):
        return None
    inputs = [i if i.shape == () else replace(i, shape=shape) for i in one.inputs]
    return Sample(tuple(inputs), one.attrs)


def _keeps(name: str, one: Sample | None) -> bool:
    """True if the outputs have the inputs' shape."""
    if one is None:
        return False
    shape = max((i.shape for i in one.inputs), key=len)
    try:
        return all(y.shape in (shape, ()) for y in Case(name, 0, one, "float32").infer())
    except SingaError:
        return False


def larger(name: str, device: Device, dtypes: tuple[str, ...]) -> Iterator[Case]:
    """The larger inputs of an op in those of `dtypes` that a device has."""
    every = [*reshaped(name), *TABLE.get(name, [])]
    for number, one in enumerate(every, FIRST):
        sets = [SETS[i.dtype] for i in one.inputs if i.dtype in SETS]
        for dtype in min(sets, key=len) if sets else ("fixed",):
            case = Case(name, number, one, dtype)
            if (not sets or dtype in dtypes) and case.dtypes() <= device.capabilities.dtypes:
                yield case
