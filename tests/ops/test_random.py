import math

import numpy as np
import pytest

from checks import both
from singa_core import ops
from singa_core.conformance.oracles import random as oracle
from singa_core.engine import graph
from singa_core.errors import ArgumentError, DTypeError, ShapeError
from singa_core.random import STREAMS, manual_seed

# Random123, tests/kat_vectors, the lines `philox4x32 10`: counter, key, result.
KNOWN = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]  # fmt: skip
ZEROS = KNOWN[0][2]
STATES = [(0, 0, 0, 0), (1, 2, 2**32 - 2, 5), (2**32 - 1, 7, 2**32 - 1, 2**32 - 1)]
DRAWS = {
    "rand": lambda d: ops.rand((5, 3), device=d),
    "rand float64": lambda d: ops.rand((5, 3), dtype="float64", device=d),
    "rand float16": lambda d: ops.rand((5, 3), dtype="float16", device=d),
    "uniform": lambda d: ops.uniform((7,), -2.0, 3.0, device=d),
    "randn": lambda d: ops.randn((3, 3), device=d),
    "normal": lambda d: ops.normal((3, 3), 5.0, 2.0, dtype="float64", device=d),
    "bernoulli": lambda d: ops.bernoulli((9,), 0.3, device=d),
    "randint": lambda d: ops.randint(-5, 5, (9,), device=d),
    "permutation": lambda d: ops.permutation(9, device=d),
}
EXACT = [name for name in DRAWS if name not in ("randn", "normal")]


def state_of(array, words=(0, 0, 0, 0)):
    return array(words, "uint32")


# -- the words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_the_reference_gives_the_published_answers(counter, key, result):
    assert oracle.philox(counter, key) == result


def test_bits_are_the_published_answers(array):
    assert both(lambda s: ops.random_bits(s, shape=(4,)), state_of(array)).tolist() == list(ZEROS)


@pytest.mark.parametrize("words", STATES)
@pytest.mark.parametrize("shape", [(), (3, 5), (0, 2), (8,)])
def test_bits_follow_the_state(array, words, shape):
    y = both(lambda s: ops.random_bits(s, shape=shape), state_of(array, words))
    assert y.dtype.name == "uint32"
    np.testing.assert_array_equal(y.numpy(), oracle.bits(np.array(words, np.uint32), shape=shape))


def test_a_draw_is_a_function_of_the_element_s_number(array):
    long = ops.random_bits(state_of(array), shape=(40,)).numpy()
    np.testing.assert_array_equal(
        ops.random_bits(state_of(array), shape=(3, 3)).numpy().ravel(), long[:9]
    )
    later = ops.random_bits(state_of(array, (0, 0, 5, 0)), shape=(20,))
    np.testing.assert_array_equal(later.numpy(), long[20:])


# -- what is made of them ---------------------------------------------------------------------------


def test_uniforms_by_hand(array):
    a, b, c, d = ZEROS
    y = ops.random_uniform(state_of(array), shape=(4,))
    assert y.tolist() == [(w >> 8) / 2**24 for w in ZEROS]
    y = ops.random_uniform(state_of(array), shape=(2,), dtype="float64")
    assert y.tolist() == [
        ((a >> 5) * 2**26 + (b >> 6)) / 2**53,
        ((c >> 5) * 2**26 + (d >> 6)) / 2**53,
    ]
    y = ops.random_uniform(state_of(array), shape=(4,), dtype="float16")
    assert y.tolist() == [(w >> 21) / 2**11 for w in ZEROS]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("words", STATES)
def test_uniforms_are_exact_and_below_1(array, words, dtype):
    y = both(lambda s: ops.random_uniform(s, shape=(40, 5), dtype=dtype), state_of(array, words))
    expected = oracle.uniform(np.array(words, np.uint32), shape=(40, 5), dtype=dtype)
    np.testing.assert_array_equal(y.numpy().astype(float), expected)
    assert y.dtype.name == dtype
    assert 0.0 <= expected.min() < expected.max() < 1.0


def test_normals_by_hand(array):
    a, b = ZEROS[:2]
    radius = math.sqrt(-2.0 * math.log((a + 0.5) / 2**32))
    angle = 2.0 * math.pi * b / 2**32
    y = ops.random_normal(state_of(array), shape=(2,))
    np.testing.assert_allclose(
        y.numpy(), [radius * math.cos(angle), radius * math.sin(angle)], rtol=1e-5
    )


@pytest.mark.parametrize(
    ("dtype", "error"), [("float16", 2e-3), ("float32", 2e-6), ("float64", 1e-14)]
)
@pytest.mark.parametrize("shape", [(), (3, 3), (0,), (40, 5)])
def test_normals_are_those_of_the_reference(array, dtype, error, shape):
    y = both(lambda s: ops.random_normal(s, shape=shape, dtype=dtype), state_of(array, STATES[1]))
    expected = oracle.normal(np.array(STATES[1], np.uint32), shape=shape, dtype=dtype)
    np.testing.assert_allclose(y.numpy().astype(float), expected, atol=error)


def test_normals_have_the_moments_and_tails_of_a_normal(array):
    y = ops.random_normal(state_of(array), shape=(100_000,)).numpy().astype(float)
    assert abs(y.mean()) < 4 / math.sqrt(y.size)
    assert abs(y.var() - 1) < 4 * math.sqrt(2 / y.size)
    assert abs((y**4).mean() - 3) < 4 * math.sqrt(96 / y.size)
    share = (np.abs(y) > 3).mean()
    assert abs(share - 0.0026998) < 4 * math.sqrt(0.0027 / y.size)
    assert np.isfinite(y).all()
    assert abs(np.corrcoef(y[::2], y[1::2])[0, 1]) < 4 / math.sqrt(y.size / 2)


def test_masks_by_hand(array):
    p = ZEROS[0] / 2**32  # a word is below p * 2**32, not equal to it
    assert (
        both(lambda s: ops.random_bernoulli(s, shape=(4,), p=p), state_of(array)).tolist()
        == [False] * 4
    )
    p = (ZEROS[0] + 1) / 2**32
    assert ops.random_bernoulli(state_of(array), shape=(4,), p=p).tolist() == [
        True,
        False,
        False,
        False,
    ]
    ones = ops.random_bernoulli(state_of(array), shape=(4,), p=p, dtype="float32")
    assert (ones.dtype.name, ones.tolist()) == ("float32", [1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize(("p", "all_of_them"), [(0.0, False), (1.0, True)])
def test_masks_of_certain_events(array, p, all_of_them):
    y = ops.random_bernoulli(state_of(array), shape=(1000,), p=p).numpy()
    assert (y == all_of_them).all()


def test_masks_come_as_often_as_they_should(array):
    y = ops.random_bernoulli(state_of(array), shape=(100_000,), p=0.3).numpy()
    assert abs(y.mean() - 0.3) < 4 * math.sqrt(0.21 / y.size)


def test_integers_by_hand(array):
    y = both(lambda s: ops.random_integers(s, shape=(4,), low=-3, high=7), state_of(array))
    assert (y.dtype.name, y.tolist()) == ("int64", [-3 + 10 * w // 2**32 for w in ZEROS])


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(0, 256, "uint8"), (-128, 128, "int8"), (-(2**31), 2**31, "int32"), (0, 2**32, "uint32"),
     (2**63, 2**63 + 9, "uint64"), (-(2**63), -(2**63) + 2**32, "int64"), (4, 5, "int16")],
)  # fmt: skip
def test_integers_over_a_whole_range(array, low, high, dtype):
    state = state_of(array, STATES[1])
    y = both(lambda s: ops.random_integers(s, shape=(50,), low=low, high=high, dtype=dtype), state)
    words = oracle.words(np.array(STATES[1]), 50)
    assert y.tolist() == [low + (high - low) * w // 2**32 for w in words]


def test_integers_are_evenly_spread(array):
    y = ops.random_integers(state_of(array), shape=(60_000,), low=0, high=6).numpy()
    counts = np.bincount(y, minlength=6)
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 20.5  # chi squared of 5 degrees, 0.1 %


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_permutations_have_every_number_once(array, n):
    y = both(lambda s: ops.random_permutation(s, n=n), state_of(array, STATES[1]))
    assert sorted(y.tolist()) == list(range(n))
    assert y.tolist() == oracle.permutation(np.array(STATES[1], np.uint32), n=n).tolist()


def test_permutations_of_three_are_equally_likely(array):
    seen = {}
    for i in range(600):
        order = tuple(ops.random_permutation(state_of(array, (1, 2, 2 * i, 0)), n=3).tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 6
    assert sum((n - 100) ** 2 / 100 for n in seen.values()) < 20.5


# -- drawing from the stream ------------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_gives_the_same_numbers_again(device, name):
    manual_seed(5)
    first, second = (DRAWS[name](device).numpy().copy() for _ in range(2))
    assert not np.array_equal(first, second)
    manual_seed(5)
    for wanted in (first, second):
        np.testing.assert_array_equal(DRAWS[name](device).numpy(), wanted)
    manual_seed(6)
    assert not np.array_equal(DRAWS[name](device).numpy(), first)


@pytest.mark.parametrize("name", EXACT)
def test_a_seed_gives_the_same_numbers_everywhere(device, name):
    manual_seed(5)
    y = DRAWS[name](device)
    manual_seed(5)
    assert y.numpy().tobytes() == DRAWS[name](None).numpy().tobytes()


@pytest.mark.parametrize("name", DRAWS)
def test_replays_draw_what_eager_code_draws(device, name):
    manual_seed(5)
    eager = [DRAWS[name](device).numpy().copy() for _ in range(4)]
    manual_seed(5)
    recorded = graph(lambda: DRAWS[name](device), device=device)
    for wanted in eager:
        np.testing.assert_array_equal(recorded().numpy(), wanted)
    assert recorded.records == 1


def test_a_draw_moves_the_stream_by_whole_blocks(device):
    stream = STREAMS["user"]
    for draw, blocks in [
        (lambda: ops.rand((4,), device=device), 1),
        (lambda: ops.rand((5,), device=device), 2),
        (lambda: ops.rand((5,), dtype="float64", device=device), 3),
        (lambda: ops.randn((5,), device=device), 2),
        (lambda: ops.randn((5,), dtype="float64", device=device), 3),
        (lambda: ops.permutation(5, device=device), 3),
        (lambda: ops.bernoulli((8,), 0.5, dtype="float64", device=device), 2),
        (lambda: ops.rand((0,), device=device), 0),
    ]:
        before = stream.position
        draw().numpy()
        assert stream.position - before == blocks


def test_like_takes_shape_dtype_and_device(array):
    x = array(np.zeros((2, 3)), "float64")
    for y in (ops.rand_like(x), ops.randn_like(x)):
        assert (y.shape, y.dtype, y.device) == (x.shape, x.dtype, x.device)
    assert ops.rand_like(x, dtype="float32").dtype.name == "float32"


def test_uniform_and_normal_are_scaled(array, device):
    y = ops.uniform((1000,), -2.0, 3.0, device=device).numpy()
    assert -2.0 <= y.min() < -1.9
    assert 2.9 < y.max() <= 3.0
    y = ops.normal((1000,), 50.0, 2.0, device=device).numpy()
    assert abs(y.mean() - 50.0) < 0.3
    assert abs(y.std() - 2.0) < 0.2


# -- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "error", "told"),
    [
        (lambda: ops.bernoulli((2,), 1.5), ArgumentError, "random_bernoulli: needs a number 0 <= p <= 1, got 1.5"),
        (lambda: ops.bernoulli((2,), math.nan), ArgumentError, "needs a number 0 <= p <= 1, got nan"),
        (lambda: ops.randint(3, 3, (2,)), ArgumentError, r"needs low < high <= low \+ 2\*\*32, got 3 and 3"),
        (lambda: ops.randint(0, 2**33, (2,)), ArgumentError, "needs low < high"),
        (lambda: ops.randint(0, 257, (2,), dtype="uint8"), ArgumentError,
         "needs 0 <= low, high <= 256 for uint8, got 0 and 257"),
        (lambda: ops.randint(0, 2, (2,), dtype="float32"), DTypeError, "needs an integer dtype, got float32"),
        (lambda: ops.rand((2,), dtype="int64"), DTypeError, "random_uniform: needs a floating dtype, got int64"),
        (lambda: ops.randn((-1,)), ShapeError, "random_normal: needs a shape of integers >= 0"),
        (lambda: ops.permutation(-1), ShapeError, "random_permutation: needs a shape of integers >= 0"),
        (lambda: ops.uniform((2,), 1.0, 0.0), ArgumentError, "uniform: needs low <= high, got 1.0 and 0.0"),
        (lambda: ops.normal((2,), std=-1.0), ArgumentError, "normal: needs a number 0 <= std < inf, got -1.0"),
    ],
)  # fmt: skip
def test_a_draw_that_is_refused_does_not_move_the_stream(draw, error, told):
    before = STREAMS["user"].position
    with pytest.raises(error, match=told):
        draw()
    assert STREAMS["user"].position == before


def test_a_state_is_four_words(array):
    with pytest.raises(
        DTypeError, match=r"^random_bits: needs state: uint32 \(4,\), got int64 \(2,\)\n  state: "
    ):
        ops.random_bits(array([1, 2]), shape=(4,))
