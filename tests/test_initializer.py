"""Initial values: exact numbers, their statistics, and what may stand for an initialiser."""

import math
import statistics
import zlib

import numpy as np
import pytest

from singa_core import initializer
from singa_core.errors import ArgumentError, DTypeError, ShapeError
from singa_core.initializer import NAMES, HostRandom, VarianceScaling, as_initializer, fans
from singa_core.initializer.draws import normal_quantile
from singa_core.random import Stream

N = 200_000  # a mean of as many numbers is off by more than 5 std / sqrt(N) once in two million


def draw(init, shape, *, state=(1, 2, 3, 0)):
    return as_initializer(init)(shape, HostRandom(np.array(state, np.uint32)))


@pytest.fixture
def random():
    return HostRandom(np.array([1, 2, 3, 0], np.uint32))


# --- random numbers on the host -------------------------------------------------------------------


def test_bits_are_those_of_philox():
    # Random123's known answers for philox4x32-10: counter and key all zeros
    words = HostRandom(np.zeros(4, np.uint32)).bits(4)
    assert [f"{word:08x}" for word in words] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]


def test_a_draw_moves_on_by_whole_blocks(random):
    whole = HostRandom(np.array([1, 2, 3, 0], np.uint32)).bits(12)
    first, second = random.bits(5), random.bits(4)
    np.testing.assert_array_equal(first, whole[:5])
    np.testing.assert_array_equal(second, whole[8:])  # words 5 to 7 are skipped


def test_a_draw_of_nothing_moves_nowhere(random):
    assert random.bits(0).shape == (0,)
    assert random.normal((3, 0)).shape == (3, 0)
    assert random.bits(1) == HostRandom(np.array([1, 2, 3, 0], np.uint32)).bits(1)


def test_the_state_is_that_of_a_stream():
    stream = Stream("init", seed=7)
    stream.take(2**32 - 1)
    state = stream.take(2)
    after = stream.take(1)
    assert after[3] == 1  # the block number does not fit in one word
    random = HostRandom(state)
    random.bits(8)
    np.testing.assert_array_equal(random.bits(4), HostRandom(after).bits(4))


def test_block_numbers_wrap():
    random = HostRandom(np.array([1, 2, 2**32 - 1, 2**32 - 1], np.uint32))
    words = random.bits(8)
    np.testing.assert_array_equal(words[4:], HostRandom(np.array([1, 2, 0, 0], np.uint32)).bits(4))
    np.testing.assert_array_equal(random.bits(1), HostRandom(np.array([1, 2, 1, 0])).bits(1))


def test_uniforms_are_24_bits_over_2_to_the_24(random):
    u = random.uniform((4,))
    assert u.dtype == np.float32
    words = HostRandom(np.array([1, 2, 3, 0], np.uint32)).bits(4)
    assert u.tolist() == [(int(word) >> 8) / 2**24 for word in words]


def test_normals_are_quantiles_of_32_bits(random):
    words = HostRandom(np.array([1, 2, 3, 0], np.uint32)).bits(8)
    wanted = [statistics.NormalDist().inv_cdf((int(word) + 0.5) / 2**32) for word in words]
    np.testing.assert_array_equal(random.normal((2, 4)).ravel(), np.float32(wanted))


def test_the_quantile_function_agrees_with_the_standard_library():
    ends = 2.0 ** -np.arange(1, 37)
    p = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 10_001), ends, 1 - ends])
    wanted = [statistics.NormalDist().inv_cdf(value) for value in p]
    np.testing.assert_allclose(normal_quantile(p), wanted, rtol=1e-12, atol=1e-15)


GOLDEN = {
    "uniform": "d5fd82b4",
    "normal": "7e938203",
    "truncated_normal": "2795c5f2",
    "lecun_uniform": "12b9bf06",
    "lecun_normal": "b29e11f5",
    "glorot_uniform": "4d68c2e5",
    "glorot_normal": "0b108e69",
    "he_uniform": "470cae56",
    "he_normal": "c6b76ddd",
}


@pytest.mark.parametrize(("name", "checksum"), GOLDEN.items(), ids=GOLDEN)
def test_draws_never_change(name, checksum):
    """A model made from a seed stays that model: on every machine, in every version."""
    value = draw(name, (300, 70)).astype("<f4")
    assert f"{zlib.crc32(value.tobytes()):08x}" == checksum


def test_first_numbers_of_a_glorot_uniform_weight():
    limit = math.sqrt(6 / (2 + 4))  # eq. 16: 1 here
    words = HostRandom(np.array([1, 2, 3, 0], np.uint32)).bits(8)
    wanted = [
        [-limit + 2 * limit * (int(word) >> 8) / 2**24 for word in row]
        for row in words.reshape(2, 4)
    ]
    np.testing.assert_allclose(draw("glorot_uniform", (2, 4)), wanted, rtol=1e-6)


# --- statistics -----------------------------------------------------------------------------------


def kolmogorov_smirnov(values, cdf):
    """The largest distance between the two distribution functions, times sqrt(n)."""
    values = np.sort(values.ravel().astype(np.float64))
    n = len(values)
    wanted = np.vectorize(cdf)(values)
    steps = np.arange(n + 1) / n
    return np.sqrt(n) * max(np.max(wanted - steps[:-1]), np.max(steps[1:] - wanted))


DISTRIBUTIONS = {
    "uniform": (initializer.uniform(-1, 3), lambda x: (x + 1) / 4),
    "normal": (initializer.normal(1, 2), statistics.NormalDist(1, 2).cdf),
    "truncated_normal": (
        initializer.truncated_normal(1, 2, a=-1, b=0.5),
        lambda x: (statistics.NormalDist(1, 2).cdf(x) - 0.15865525) / (0.69146246 - 0.15865525),
    ),
}


@pytest.mark.parametrize(("init", "cdf"), DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_distributions(init, cdf):
    assert kolmogorov_smirnov(draw(init, (50_000,)), cdf) < 1.95  # exceeded once in 1000 draws


def test_truncated_normals_stay_within():
    values = draw(initializer.truncated_normal(10, 2, a=-1, b=1.5), (N,))
    assert 8 <= values.min() < 8.001
    assert 12.99 < values.max() <= 13


def test_truncation_in_the_tail():
    values = draw(initializer.truncated_normal(0, 1, a=3, b=9), (1000,))
    assert 3 <= values.min() < 3.01
    assert abs(values.mean() - 3.283) < 0.05  # pdf(3) / (1 - cdf(3))


CONV, LINEAR = (32, 3, 5, 5), (75, 800)  # both with fan_in 75, fan_out 800
VARIANCES = {
    "lecun": (lambda i, o: 1 / i, {}),
    "glorot": (lambda i, o: 2 / (i + o), {}),
    "glorot gain": (lambda i, o: 9 * 2 / (i + o), {"gain": 3}),
    "he": (lambda i, o: 2 / i, {}),
    "he fan_out": (lambda i, o: 2 / o, {"mode": "fan_out"}),
    "he leaky": (lambda i, o: 2 / (1.25 * i), {"negative_slope": 0.5}),
}


@pytest.mark.parametrize("shape", [LINEAR, (800, 3, 5, 5)], ids=["linear", "conv"])
@pytest.mark.parametrize("distribution", ["uniform", "normal"])
@pytest.mark.parametrize("case", VARIANCES)
def test_variance_scaling(case, distribution, shape):
    variance, options = VARIANCES[case]
    init = getattr(initializer, f"{case.split()[0]}_{distribution}")(**options)
    values = draw(init, shape)
    std = math.sqrt(variance(*fans(shape)))
    assert abs(values.mean()) < 5 * std / math.sqrt(values.size)
    assert abs(values.std() / std - 1) < 4 / math.sqrt(values.size)
    if distribution == "uniform":
        assert np.abs(values).max() <= np.float32(math.sqrt(3) * std)


def test_variance_scaling_by_a_truncated_normal_has_the_variance_asked_for():
    values = draw(VarianceScaling(4.0, "fan_in", "truncated_normal"), (100, 2000))
    assert abs(values.std() / 0.2 - 1) < 4 / math.sqrt(N)
    assert np.abs(values).max() <= 2 * 0.2 / 0.8796 + 1e-6


@pytest.mark.parametrize(
    "name", ["xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal"]
)
@pytest.mark.parametrize("shape", [(40, 60), (20, 6, 3, 3)])
def test_scales_are_those_of_pytorch(name, shape):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle here (extra `dev`)")
    # PyTorch's linear weights are (out, in); its kaiming_* default to a leaky ReLU, as a=0 to ours
    theirs = torch.empty(shape if len(shape) > 2 else shape[::-1])
    torch.manual_seed(0)
    stds = [float(getattr(torch.nn.init, f"{name}_")(theirs).std()) for _ in range(50)]
    ours = [float(draw(name, shape, state=(i, 0, 0, 0)).std()) for i in range(50)]
    assert statistics.mean(ours) == pytest.approx(statistics.mean(stds), rel=0.01)


# --- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "layout", "wanted"),
    [
        ((784, 512), None, (784, 512)),
        ((32, 3, 5, 5), None, (75, 800)),
        ((32, 3, 7), None, (21, 224)),
        ((8, 1, 3, 3), None, (9, 72)),  # depthwise: each output sees one channel
        ((6, 10, 20), "linear", (10, 20)),  # six matrices
        ((32, 16), "conv", (16, 32)),  # a window of nothing
        ((7,), None, (7, 7)),
        ((), None, (1, 1)),
    ],
)
def test_fans(shape, layout, wanted):
    assert fans(shape, layout) == wanted


def test_layout_reaches_the_scale():
    conv, linear = draw(initializer.he_normal(layout="conv"), (4, 9)), draw("he_normal", (4, 9))
    np.testing.assert_allclose(conv, linear * (2 / 3), rtol=1e-6)  # fan_in 9 instead of 4


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (4, 2, 3, 3), (2, 3, 4, 1)])
def test_orthogonal_rows_or_columns(shape):
    flat = draw(initializer.orthogonal(gain=2), shape).reshape(shape[0], -1).astype(np.float64)
    product = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_orthogonal_is_uniform_in_sign():
    # LAPACK alone would make nearly every first element negative
    corners = [draw("orthogonal", (3, 3), state=(i, 0, 0, 0))[0, 0] for i in range(200)]
    assert 70 < sum(corner > 0 for corner in corners) < 130


def test_gain_keeps_its_sign():
    np.testing.assert_array_equal(
        draw(initializer.orthogonal(-1), (3, 3)), -draw("orthogonal", (3, 3))
    )


def test_eye():
    assert draw("eye", (2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert draw("identity", (3, 2)).tolist() == [[1, 0], [0, 1], [0, 0]]
    with pytest.raises(ShapeError, match=r"^eye: needs a shape of 2 axes, got \(2, 3, 1\)$"):
        draw("eye", (2, 3, 1))


def test_orthogonal_needs_a_matrix():
    with pytest.raises(
        ShapeError, match=r"^orthogonal: needs a shape of 2 axes or more, got \(3,\)$"
    ):
        draw("orthogonal", (3,))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 2)])
def test_every_name_makes_c_ordered_floats(name, shape):
    value = draw(name, shape)
    assert value.shape == shape
    assert value.flags.c_contiguous
    assert value.flags.writeable
    assert value.dtype in (np.float32, np.float64)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in ("eye", "identity", "orthogonal")]
)
@pytest.mark.parametrize("shape", [(), (5,)])
def test_vectors_and_scalars(name, shape):
    assert draw(name, shape).shape == shape


# --- what may stand for an initialiser ------------------------------------------------------------


def test_numbers():
    assert draw(0.1, (2,)).tolist() == [0.1, 0.1]  # float64: no digit is lost
    assert draw(np.float32(0.5), (1,)).tolist() == [0.5]
    assert draw("zeros", (2,)).tolist() == [0, 0]
    assert draw("ones", ()).tolist() == 1
    assert draw(initializer.constant(-math.inf), (1,)).tolist() == [-math.inf]


def test_initialisers_stay_themselves():
    init = initializer.he_normal()
    assert as_initializer(init) is init
    assert as_initializer("kaiming_normal") == init


def test_a_forgotten_call_is_made():
    assert as_initializer(initializer.he_normal) == initializer.he_normal()
    assert as_initializer(initializer.zeros) == initializer.zeros()


def test_functions():
    assert draw(lambda shape: np.full(shape, 2), (1, 2)).tolist() == [[2, 2]]
    assert draw(lambda shape, random: random.uniform(shape), (2,)).tolist() == (
        draw(initializer.uniform(0, 1), (2,)).tolist()
    )
    assert draw(np.ones, (2,)).tolist() == [1, 1]  # its second argument is a dtype
    assert draw(np.zeros, (2,)).tolist() == [0, 0]  # built in: it has no signature to look at
    assert draw(lambda shape: [1.0, 2.0], (2,)).tolist() == [1, 2]


def test_a_function_that_returns_another_shape():
    def flat(shape):
        return np.zeros(math.prod(shape))

    with pytest.raises(
        ShapeError, match=r"^initializer: needs shape \(2, 3\) of what flat returned, got \(6,\)$"
    ):
        draw(flat, (2, 3))


def test_arrays_are_copied_twice():
    given = np.array([1.0, 2.0], np.float32)
    init = as_initializer(given)
    given[:] = 0
    first = init((2,), None)
    first[:] = 0
    assert init((2,), None).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (np.asfortranarray([[1, 2], [3, 4]]), np.float64),
        (np.array([[1, 2], [3, 4]], ">f4"), np.float32),
        (np.array([[1, 2], [3, 4]], np.float16), np.float32),
        (np.array([[3, 4], [1, 2]], np.float64)[::-1], np.float64),
        ([[1, 2], [3, 4]], np.float64),
    ],
    ids=["fortran ints", "big-endian", "float16", "negative strides", "lists"],
)
def test_arrays_of_all_kinds(given, dtype):
    value = draw(given, (2, 2))
    assert value.tolist() == [[1, 2], [3, 4]]
    assert value.dtype == dtype
    assert value.dtype.isnative
    assert value.flags.c_contiguous


def test_tensors(array):
    assert draw(array([[1, 2]], "bfloat16"), (1, 2)).tolist() == [[1, 2]]


def test_arrays_of_another_shape():
    rule = r"^initializer: needs shape \(2, 3\) of the array given, got \(3, 2\)$"
    with pytest.raises(ShapeError, match=rule):
        draw(np.zeros((3, 2)), (2, 3))
    with pytest.raises(ShapeError, match=r"needs shape \(2,\) of the array given, got \(1,\)"):
        draw(np.zeros(1), (2,))  # no broadcasting: `0.0` says it


def test_arrays_of_no_numbers():
    with pytest.raises(DTypeError, match="needs a dtype among bool, int8"):
        as_initializer(np.array([None]))
    with pytest.raises(DTypeError, match="complex128"):
        as_initializer(np.array([1j]))
    with pytest.raises(
        ShapeError, match="^initializer: needs lists of equal length, got setting an"
    ):
        as_initializer([[1.0], [1.0, 2.0]])


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("glorot_unifrom", '\ntry: "glorot_uniform"'),
        ("He-Normal", '\ntry: "he_normal"'),
        ("xavier", '\ntry: "xavier_normal"'),
        ("zzz", ""),
    ],
)
def test_unknown_names(name, hint):
    with pytest.raises(ArgumentError) as caught:
        as_initializer(name)
    known = ", ".join(NAMES)
    assert str(caught.value) == f"initializer: needs one of {known}, got {name!r}{hint}"


@pytest.mark.parametrize("value", [None, True, object(), {}])
def test_what_cannot_be_one(value):
    rule = r"needs a name, a number, an array, or a function f\(shape\) or f\(shape, random\), got "
    with pytest.raises(ArgumentError, match=rule):
        as_initializer(value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: initializer.uniform(1, 0),
            r"uniform: needs finite low <= high, got low = 1.0, high",
        ),
        (
            lambda: initializer.uniform(0, math.inf),
            r"uniform: needs a number -inf < high < inf, got inf",
        ),
        (
            lambda: initializer.normal(0, -1),
            r"normal: needs a number 0 <= std < inf, got -1",
        ),
        (
            lambda: initializer.normal(math.nan, 1),
            r"normal: needs a number -inf < mean < inf, got nan",
        ),
        (
            lambda: initializer.truncated_normal(a=1, b=1),
            r"needs a < b with P\(a < z < b\) >= 1e-06, got",
        ),
        (lambda: initializer.truncated_normal(a=7, b=8), r"got a = 7.0, b = 8.0"),
        (
            lambda: initializer.truncated_normal(a=math.nan),
            r"truncated_normal: needs a number as a, got nan",
        ),
        (
            lambda: initializer.glorot_normal(gain=0),
            r"glorot_normal: needs a number 0 < gain < inf, got 0",
        ),
        (
            lambda: initializer.he_normal(mode="fan"),
            r"needs mode among fan_in, fan_out, fan_avg, got 'fan'",
        ),
        (
            lambda: initializer.he_normal(layout="nchw"),
            r"needs layout among None, linear, conv, got 'nchw'",
        ),
        (
            lambda: VarianceScaling(1.0, "fan_in", "cauchy"),
            r"needs distribution among uniform, normal,",
        ),
        (lambda: fans((1, 2), "nchw"), r"fans: needs layout among None, linear, conv, got 'nchw'"),
    ],
)
def test_arguments_outside_their_range(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()
