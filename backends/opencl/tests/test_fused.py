"""Groups of scalar operations: the bits of their members, in one launch."""

import numpy as np
import pytest

import singa_core as sc
from conftest import open_device
from singa_core import ops
from singa_core.kernels.c.fused import FUSES, scalar_of
from singa_core.kernels.c.fused import fused as calls_of_fused
from singa_core.kernels.c.together import merged
from singa_core.spec import Spec, make_form


@pytest.fixture
def opencl():
    """The first device that there is."""
    return open_device("opencl")


SHAPES = ((3, 5), (64, 100), (1000,), (7, 1, 3), (1, 1), (9,))
F32, BOOL, I16, WORDS = (Spec((4,), name) for name in ("float32", "bool", "int16", "uint32"))


@pytest.fixture
def few(paper):
    """A device of few, wide work items on which nothing runs."""
    return paper(family="cpu")


def vectors(x, y, flags):
    """Functions with a vector body, comparisons and flags that come in and go out."""
    z = x * y + y
    low = (z < x) & flags
    w = ops.where(low, z.exp(), x - y * y)
    return w * w + y, low, low.astype("float32") + ops.sqrt(ops.abs(x)), ops.logical_not(low)


def scalars(x, y, flags):
    """Integers and casts: a plain loop."""
    n = (x * 10.0).astype("int32")
    m = ops.where(flags, n * n - 7, n // 3)
    return m, m.astype("float32") * y, ops.maximum(m, n) % 5


def doubles(x, y, flags):
    a, b = x.astype("float64"), y.astype("float64")
    return ops.where(flags, a * b + a, ops.tanh(a) - b)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("function", [vectors, scalars, doubles])
def test_a_group_gives_the_bits_of_its_members(opencl, function, shape):
    rng = np.random.default_rng(7)
    x, y = (sc.tensor(rng.standard_normal(shape, np.float32), device=opencl) for _ in range(2))
    flags = sc.tensor(rng.integers(0, 2, shape[-1:]).astype(bool), device=opencl)
    recorded = sc.graph(function)
    with sc.no_grad():
        eager, replayed = function(x, y, flags), recorded(x, y, flags)
    for want, got in zip(
        *(r if isinstance(r, tuple) else (r,) for r in (eager, replayed)), strict=True
    ):
        assert got.numpy().tobytes() == want.numpy().tobytes()
    (recording,) = recorded.recordings
    assert [i.op for i in recording.program.instructions].count("fused") >= 1
    assert recording.executable.report()["launches"] <= 3


def test_a_product_is_rounded_before_it_is_added(opencl):
    """1 + 2**-12 squared is 1 + 2**-11 + 2**-24: its last term is lost where the product is rounded."""
    x = sc.tensor(np.full(1000, 1 + 2.0**-12, np.float32), device=opencl)
    got = sc.graph(lambda x: x * x - (1 + 2.0**-11))(x)
    assert np.all(got.numpy() == 0)


def test_an_update_is_written_over_the_old_value(opencl):
    w, m = (sc.tensor(np.full(100, v, np.float32), device=opencl) for v in (1.0, 2.0))

    @sc.graph
    def step(x):
        m.assign(m * 0.5 + x)
        w.assign(w - m * 0.25)

    for _ in range(3):
        step(sc.tensor(np.ones(100, np.float32), device=opencl))
    (recording,) = step.recordings
    report = recording.executable.report()
    assert (report["launches"], report["updates"], report["in_place_updates"]) == (1, 2, 2)
    assert np.all(m.numpy() == 2.0)
    assert np.all(w.numpy() == -0.5)


def test_narrow_numbers_are_not_taken(few):
    add = (("add", (), (0, 0), I16.dtype), ("add", (), (1, 1), I16.dtype))
    assert scalar_of(few, [I16], [I16], add, (2,)) is None
    assert {"add", "where", "cast"} <= FUSES
    assert "copy" not in FUSES


def test_vectors_are_made_of_floats_and_flags_only(few):
    exp = ("exp", (), (0,), F32.dtype)
    assert scalar_of(few, [F32], [F32], (exp, ("add", (), (1, 1), F32.dtype)), (2,))[0].vector
    less = ("less", (), (0, 1), BOOL.dtype)
    assert scalar_of(few, [F32], [BOOL], (exp, less), (2,))[0].vector
    for whole in (Spec((4,), "int32"), WORDS):
        cast = ("cast", (("dtype", whole.dtype),), (1,), whole.dtype)
        assert not scalar_of(few, [F32], [whole], (exp, cast), (2,))[0].vector
    total = ("add", (), (0, 0), WORDS.dtype)
    back = ("cast", (("dtype", F32.dtype),), (1,), F32.dtype)
    assert not scalar_of(few, [WORDS], [F32], (total, back, ("exp", (), (2,), F32.dtype)), (3,))[
        0
    ].vector


def test_a_draw_needs_a_packed_state_that_nothing_is_written_over(few):
    draw = ("random_bits", (("shape", (8,)),), (0,), WORDS.dtype)
    eight = Spec((8,), "uint32")
    assert scalar_of(few, [WORDS], [eight], (draw,), (1,)) is not None
    assert scalar_of(few, [make_form(WORDS, (2,))], [eight], (draw,), (1,)) is None
    assert scalar_of(few, [WORDS], [Spec((2, 8), "uint32")], (draw,), (1,)) is None
    four = ("random_bits", (("shape", (4,)),), (0,), WORDS.dtype)
    assert scalar_of(few, [WORDS], [WORDS], (four,), (1,)) is None
    made = ("bit_not", (), (0,), WORDS.dtype)
    late = ("random_bits", (("shape", (8,)),), (1,), WORDS.dtype)
    assert scalar_of(few, [WORDS], [eight], (made, late), (2,)) is None


def dropped(x):
    return ops.dropout(x.exp(), p=0.3) * 2.0


def noisy(x):
    return ops.exp(ops.uniform(x.shape, device=x.device) * x) + ops.dropout(x, p=0.5)


@pytest.mark.parametrize("shape", [*SHAPES, (33, 7), (4097,), ()])
@pytest.mark.parametrize("function", [dropped, noisy])
def test_draws_in_a_group_give_the_bits_of_draws_alone(opencl, function, shape):
    x = sc.tensor(np.random.default_rng(7).standard_normal(shape, np.float32), device=opencl)
    recorded = sc.graph(function)
    with sc.no_grad():
        sc.manual_seed(5)
        eager = [function(x).numpy() for _ in range(3)]
        sc.manual_seed(5)
        replayed = [recorded(x).numpy() for _ in range(3)]
    for want, got in zip(eager, replayed, strict=True):
        assert got.tobytes() == want.tobytes()
    (recording,) = recorded.recordings
    assert [i.op for i in recording.program.instructions] == ["fused"]


def test_a_draw_in_a_strided_group(opencl):
    """The words go by the place in the output, however the input lies."""
    x = sc.tensor(np.random.default_rng(7).standard_normal((9, 14), np.float32), device=opencl)
    recorded = sc.graph(dropped)
    with sc.no_grad():
        for view in (x.T, x[:, ::2], x[::-1, 3:4]):
            sc.manual_seed(5)
            eager = dropped(view).numpy()
            sc.manual_seed(5)
            assert recorded(view).numpy().tobytes() == eager.tobytes()


def test_parts_together_bring_each_function_once(few):
    whole = Spec((4,), "int32")
    floats = ("remainder", (), (0, 0), F32.dtype)
    cast = ("cast", (("dtype", whole.dtype),), (1,), whole.dtype)
    steps = (floats, cast, ("remainder", (), (2, 2), whole.dtype))
    made = [
        *calls_of_fused(few, [F32], [F32], steps=(floats,), results=(1,)),
        *calls_of_fused(few, [F32], [whole], steps=steps, results=(3,)),
    ]
    text = merged(made).source.text()
    assert text.count("float remainder_float(") == 1
    assert text.count("int remainder_int(") == 1


@pytest.mark.parametrize(("made", "updates", "at_once"), [
    (lambda: sc.opt.SGD(0.1, momentum=0.9), 10, 10), (lambda: sc.opt.SGD(0.1), 5, 5),
    (lambda: sc.opt.Adam(0.1), 15, 12),  # a fifth parameter would be too many arguments
])  # fmt: skip
def test_small_parameters_are_updated_in_one_launch(opencl, made, updates, at_once):
    shapes = ((3, 4), (4,), (7, 2, 5), (1,), (3000,))

    def trained(use_graph):
        rng = np.random.default_rng(3)
        optimizer = made()
        params = [
            sc.tensor(rng.standard_normal(s, np.float32), device=opencl, requires_grad=True)
            for s in shapes
        ]

        def step(x):
            optimizer(sum((p * p * x).sum() for p in params))

        run = sc.graph(step) if use_graph else step
        for value in (1.0, 0.5, 2.0):
            run(sc.tensor(np.float32(value), device=opencl))
        return [p.numpy() for p in params], run

    eager, _ = trained(False)
    replayed, run = trained(True)
    for want, got in zip(eager, replayed, strict=True):
        assert got.tobytes() == want.tobytes()
    (recording,) = run.recordings
    together = [i for i in recording.program.instructions if i.op == "together"]
    assert recording.executable.report()["in_place_updates"] == updates
    assert [len(i.outs) for i in together] == [at_once]


class Normed(sc.Model):
    """Averages of batches and steps of an optimiser, which round differently, in one launch."""

    def __init__(self):
        layers = sc.layers
        self.body = layers.Sequential(layers.Linear(4), layers.BatchNorm1d(), layers.Linear(1))
        self.loss = lambda y, t: (y.reshape(-1) - t).square().mean()
        self.optimizer = sc.opt.SGD(0.02, momentum=0.9)

    def forward(self, x):
        return self.body(x)


def test_parts_round_as_they_do_alone(opencl):
    x = np.random.default_rng(0).standard_normal((16, 6), np.float32)
    bits = []
    for use_graph in (True, False):
        sc.manual_seed(3)
        net = Normed().compile([sc.Placeholder(x.shape, device=opencl)], use_graph=use_graph)
        for _ in range(5):
            net.train_one_batch(x, x.sum(axis=1))
        bits.append([state.numpy().tobytes() for state in net.get_states().values()])
        if use_graph:
            (report,) = net.graph_report()
    (group,) = [name for name in report["operations"] if name.startswith("together[")]
    assert "fused[" in group
    assert "sgd_momentum_step" in group
    assert bits[0] == bits[1]


def test_small_angles_are_right_beside_large_ones(opencl):
    # PoCL 3.0's vector functions are wrong there: sin(-0.001) = -0.008 beside sin(1e10)
    x = np.tile(np.float32([1e10, -1e-3, 1e-20, 1.0, -1e-30, 3e38, 1e-3]), 9)
    on_device = sc.tensor(x, device=opencl)

    def functions(v):
        return ops.sin(v), ops.cos(v), ops.exp(v * 0.0) * ops.sin(v)

    exact = np.sin(x.astype(np.float64)), np.cos(x.astype(np.float64))
    for made in (functions(on_device), sc.graph(functions)(on_device)):
        for y, wanted in zip(made, (*exact, exact[0]), strict=True):
            np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-6)
