"""Group `random`: the same numbers on every device, bit for bit; normal numbers to rounding."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from singa_core import ops, random
from singa_core.conformance.checking import Cases
from singa_core.conformance.groups.common import outputs
from singa_core.conformance.oracles import random as oracle
from singa_core.conformance.oracles.common import HostArray, wide
from singa_core.conformance.tolerances import compare, expect
from singa_core.device import Device
from singa_core.dtype import as_dtype
from singa_core.engine import graph
from singa_core.mode import no_grad
from singa_core.optable import OPS
from singa_core.parameter import Parameter
from singa_core.tensor import Tensor, tensor

# Random123, tests/kat_vectors, the lines `philox4x32 10`: counter, key, result.
KNOWN: Final = (
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)  # fmt: skip
Call = Callable[[Device], Tensor]


def bits(device: Device, state: tuple[int, ...], *shape: int) -> HostArray:
    """The words of a draw on the device."""
    words = OPS["random_bits"](tensor(np.array(state, np.uint32), device=device), shape=shape)
    got: HostArray = words.numpy()
    return got


def test_known_answers(device: Device, case: Cases) -> None:
    """The published answers: the oracle gives all three, the device the one it can be asked."""

    def of_oracle(counter: Any, key: Any, result: Any) -> None:
        expect(oracle.philox(counter, key) == result, "the oracle is wrong")

    def of_device() -> None:
        got = bits(device, (0, 0, 0, 0), 4).tolist()
        expect(got == list(KNOWN[0][2]), f"got {got}")

    for n, row in enumerate(KNOWN):
        case.check(f"oracle-{n}", of_oracle, *row)
    case.check("device", of_device)


def test_split_draws(device: Device, case: Cases) -> None:
    """Numbers belong to positions: a draw in two parts is the same draw, of any length."""

    def check(count: int, cut: int, start: int) -> None:
        key = (0x1234, 0xFEDC)

        def draw(position: int, n: int) -> HostArray:
            return bits(device, (*key, position % 2**32, position >> 32 & 0xFFFFFFFF), n)

        whole = draw(start, count)
        parts = np.concatenate([draw(start, 4 * cut), draw(start + cut, count - 4 * cut)])
        compare("random_bits", parts, whole)

    for count, cut in ((12, 1), (1000, 7), (70_000, 8192), (70_000, 17_001)):
        for start in (0, 5, 2**32 - 2):
            case.check(f"{count}-{cut}-{start}", check, count, cut, start)


DRAWS: Final[dict[str, tuple[str, Call, Callable[[HostArray], Any]]]] = {
    "rand": (
        "float32", lambda d: ops.rand((1001,), device=d),
        lambda s: oracle.uniform(s, shape=(1001,)),
    ),
    "rand-float64": (
        "float64", lambda d: ops.rand((1001,), dtype="float64", device=d),
        lambda s: oracle.uniform(s, shape=(1001,), dtype="float64"),
    ),
    "rand-float16": (
        "float16", lambda d: ops.rand((1001,), dtype="float16", device=d),
        lambda s: oracle.uniform(s, shape=(1001,), dtype="float16"),
    ),
    "bernoulli": (
        "bool", lambda d: ops.bernoulli((1001,), 0.3, device=d),
        lambda s: oracle.bernoulli(s, shape=(1001,), p=0.3),
    ),
    "randint": (
        "int64", lambda d: ops.randint(-5, 1000, (1001,), device=d),
        lambda s: oracle.integers(s, shape=(1001,), low=-5, high=1000),
    ),
    "permutation": (
        "int64", lambda d: ops.permutation(101, device=d),
        lambda s: oracle.permutation(s, n=101),
    ),
    "randn": (
        "float32", lambda d: ops.randn((1001,), device=d),
        lambda s: oracle.normal(s, shape=(1001,)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_draws(name: str, device: Device, case: Cases) -> None:
    """Public draws, one after the other: the stream's key, and positions in whole blocks."""
    dtype, call, reference = DRAWS[name]

    def check(seed: int) -> None:
        random.manual_seed(seed)
        stream = random.STREAMS["user"]
        for _ in range(3):
            position = stream.position
            state = np.array([*stream.key, position % 2**32, position >> 32], np.uint32)
            got, wanted = call(device).numpy(), np.asarray(reference(state))
            if name == "randn":
                compare("random_normal", got, wanted)
            else:
                same = np.array_equal(wide(got), wide(wanted.astype(got.dtype)))
                expect(same, f"draw at block {position} of seed {seed} has other numbers")
            expect(stream.position > position, "the stream did not move")

    if as_dtype(dtype) in device.capabilities.dtypes:
        for seed in (0, 1, 2**63 + 11):
            case.check(seed, check, seed)


def test_masks(device: Device, case: Cases) -> None:
    """Dropout drops the same elements on every device, for any probability."""

    def check(p: float) -> None:
        random.manual_seed(3)
        host = np.random.default_rng(0).uniform(1, 2, (33, 65)).astype(np.float32)
        stream = random.STREAMS["train"]
        for _ in range(2):
            state = np.array([*stream.key, stream.position, 0], np.uint32)
            y = ops.dropout(tensor(host, device=device), p=p).numpy()
            kept = ~oracle.bernoulli(state, shape=host.shape, p=p)
            wrong = int(((y != 0) != kept).sum())
            expect(wrong == 0, f"{wrong} of {kept.size} elements are dropped or kept by mistake")

    for p in (0.1, 0.5, 0.9, 2.0**-20, 1.0):
        case.check(p, check, p)


# crc32 of the bytes of initial weights under seed 42: float32, drawn on the host, on any machine
WEIGHTS: Final = {
    "glorot_uniform": 0x9D2D9A8F,
    "glorot_normal": 0x76890299,
    "he_uniform": 0x03A9EC54,
    "he_normal": 0xD26133FE,
    "normal": 0xB4739A6D,
    "uniform": 0x1E0802B1,
    "truncated_normal": 0x3C86BA0B,
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_initial_weights(name: str, device: Device, case: Cases) -> None:
    """One seed gives one model: initial weights are those that are written here."""

    def check() -> None:
        random.manual_seed(42)
        weight = Parameter((37, 19), name)
        weight.materialize(device)
        got = zlib.crc32(weight.numpy().tobytes())
        expect(got == WEIGHTS[name], f"weights have crc32 {got:#x}, needs {WEIGHTS[name]:#x}")

    case.check("", check)


def test_replays_draw_anew(device: Device, case: Cases) -> None:
    """A replay takes the next numbers of its streams: those that eager would take."""

    def check(function: Callable[[Tensor], Any]) -> None:
        x = tensor(np.ones((5, 7), np.float32), device=device)
        random.manual_seed(9)
        with no_grad():
            eager = [[y.numpy() for y in outputs(function(x))] for _ in range(4)]
            random.manual_seed(9)
            recorded = graph(function, device=device)
            replayed = [[y.numpy().copy() for y in outputs(recorded(x))] for _ in range(4)]
        for n, (wanted, got) in enumerate(zip(eager, replayed, strict=True)):
            for a, b in zip(wanted, got, strict=True):
                expect(np.array_equal(a, b), f"replay {n} draws other numbers than eager")
        different = any(not np.array_equal(a, b) for a, b in zip(*eager[:2], strict=True))
        expect(different, "two draws are one")

    case.check("dropout", check, lambda x: ops.dropout(x, p=0.5))
    case.check("rand", check, lambda x: x * ops.rand(x.shape, device=device))

    def several(x: Tensor) -> tuple[Tensor, ...]:
        return ops.dropout(x, p=0.1), ops.dropout(x, p=0.9), ops.rand((3,), device=device)

    case.check("several", check, several)


__all__ = [name for name in dir() if name.startswith("test_")]
