"""Memory, by core's own counters: what is freed when, and what a replay may allocate."""

import gc
import re
from importlib import import_module

import numpy as np
import pytest

from checks import kernel_of, must_copy, writes_in_place
from singa_core import graph, no_grad, ops, opt, tensor, update
from singa_core.engine import GraphFunction
from singa_core.layers import Dropout, Linear, ReLU, Sequential
from singa_core.registry import registry
from singa_core.spec import Spec

N = 1000
BYTES = 4 * N


@pytest.fixture
def vector(array):
    return lambda value=1.0, **options: array(np.full(N, value, np.float32), **options)


@pytest.fixture
def grown(device):
    """How much memory has grown by since the test began, in vectors."""
    gc.collect()
    before = device.memory.current

    def measure():
        return (device.memory.current - before) / BYTES

    return measure


@pytest.mark.parametrize("name", ["cpu_numpy", "far"])
def test_the_kernels_that_updates_end_with_write_in_place_here(name):
    """Other tests ask the kernel what to expect; this one says what these devices have to answer."""
    device = registry.resolve(name)
    w, rate = Spec((4, 4), "float32"), Spec((), "float32")
    for op in (ops.add, ops.sub, ops.mul):
        assert writes_in_place(device, op, w, w)
        assert writes_in_place(device, op, w, rate)
    assert writes_in_place(device, ops.neg, w)
    if name == "cpu_numpy":
        assert writes_in_place(device, ops.sgd_step, w, w, rate)
        assert writes_in_place(device, ops.sgd_momentum_step, w, w, w, rate)
        assert kernel_of(device, ops.linear, w, w, Spec((4,), "float32")).language == "numpy"
        labels = Spec((4,), "int64")
        assert kernel_of(device, ops.softmax_cross_entropy, w, labels).language == "numpy"


def test_an_eager_chain_frees_as_it_goes(vector, grown, device):
    x = vector()
    device.memory.reset_peak()
    start = device.memory.peak
    y = x
    for _ in range(20):
        y = (y + 1.0) * 0.5
    assert (device.memory.peak - start) / BYTES <= 3.1  # y, y + 1.0, and the product
    assert grown() <= 2.1
    del y
    assert grown() <= 1.1


def test_views_hold_their_storage_and_no_more(vector, grown):
    x = vector()
    view = x[::2]
    assert grown() <= 1.1
    del x
    assert 0.9 <= grown() <= 1.1
    del view
    assert grown() <= 0.1


def test_eager_updates_are_made_in_place_unless_somebody_looks(vector, device):
    w, g, rate = vector(), vector(2.0), tensor(0.5, device=device)
    m = vector(0.0)
    native = ops.sgd_momentum_step
    update(native, (w, m, g, rate), (w, m))
    storages = w.array.storage, m.array.storage
    update(native, (w, m, g, rate), (w, m))
    in_place = w.array.storage is storages[0]
    assert in_place is (m.array.storage is storages[1])
    for look in (w.detach, lambda: w[1:], lambda: w.reshape(10, 100), w.numpy):
        before = w.numpy().copy() if look is not w.numpy else np.array(w.tolist(), np.float32)
        held = look()
        update(native, (w, m, g, rate), (w, m))
        kept = held if isinstance(held, np.ndarray) else held.numpy()
        np.testing.assert_array_equal(kept.ravel(), before[-kept.size :])
        assert w.numpy()[0] != before[0]
        del held, kept
    alias = vector(0.0)
    alias.assign(w)
    old = alias.numpy().copy()
    w += 1.0
    np.testing.assert_array_equal(alias.numpy(), old)


def test_plus_equals_allocates_nothing(vector, device):
    w, g = vector(), vector()
    w += g
    held = device.memory.allocations
    for _ in range(10):
        w += g
        w *= 0.5
    made = device.memory.allocations - held
    assert made == 0 or not writes_in_place(device, ops.add, w, g)
    assert abs(w.numpy()[0] - 1.0) < 0.01


def test_a_squared_value_is_not_written_over_itself(vector):
    w = vector(3.0)
    update(ops.sub, (w, w), (w,))
    assert not w.numpy().any()
    square = tensor(np.full((3, 3), 2.0, np.float32), device=w.device)
    square @= square
    assert square.tolist() == [[12.0] * 3] * 3


def test_a_replay_allocates_nothing_when_results_are_dropped(vector, device):
    w, m = vector(requires_grad=True), vector(0.0)

    @graph
    def step(x):
        h = (x * w).tanh()
        with no_grad():
            m.assign(m * 0.5 + h)
            w.assign(w - m * 0.01)
        return h.sum(), h[1:] * 2.0

    x = vector()
    step(x)
    step(x)
    held = device.memory.allocations, device.memory.current
    for _ in range(100):
        step(x)
    assert (device.memory.allocations, device.memory.current) == held


def test_a_training_step_allocates_nothing(array, device):
    net = Sequential(Linear(32), ReLU(), Dropout(0.5), Linear(8))
    adam = opt.Adam(0.01)

    @graph
    def step(x, labels):
        loss = ops.cross_entropy(net(x), labels)
        adam(loss)
        return loss

    rng = np.random.default_rng(0)
    x, labels = array(rng.normal(size=(16, 24)).astype(np.float32)), array(rng.integers(0, 8, 16))
    losses = [step(x, labels).item() for _ in range(3)]
    read = device.memory.allocations
    losses.append(step(x, labels).item())
    reading = device.memory.allocations - read
    held = device.memory.allocations, device.memory.current
    for _ in range(100):
        step(x, labels)
    assert (device.memory.allocations, device.memory.current) == held
    assert reading == 0
    assert step(x, labels).item() < losses[0]


def test_a_held_result_costs_one_new_buffer(vector, device):
    @graph
    def step(x):
        return x * 2.0

    x = vector()
    step(x)
    before = device.memory.allocations
    held = [step(x) for _ in range(5)]
    assert device.memory.allocations - before == 4
    del held
    before = device.memory.allocations
    step(x)
    step(x)
    assert device.memory.allocations == before


@pytest.mark.parametrize("make", [
    lambda: opt.SGD(0.1), lambda: opt.SGD(0.1, momentum=0.9), lambda: opt.Adam(0.1),
    lambda: opt.AdamW(0.1), lambda: opt.SGD(0.1, momentum=0.9, nesterov=True),
])  # fmt: skip
@pytest.mark.parametrize("alg", ["memory", "sequence"])
def test_all_updates_of_optimisers_are_made_in_place(array, make, alg):
    weights = [array(np.ones((4, 4), np.float32), requires_grad=True) for _ in range(3)]
    optimizer = make()

    @graph(graph_alg=alg)
    def step(x):
        h = x
        for w in weights:
            h = (h @ w).tanh()
        optimizer(h.sum())

    step(array(np.ones((2, 4), np.float32)))
    executable = step.recordings[0].executable
    report = executable.report()
    slots = {"SGD": int(bool(getattr(optimizer, "momentum", 0)))}.get(type(optimizer).__name__, 2)
    assert report["updates"] == 3 * (1 + slots)
    assert report["in_place_updates"] == report["updates"] - must_copy(executable)


def test_loading_a_graph_keeps_one_copy_of_its_state(vector, grown, device):
    w, m = vector(), vector(0.0)

    @graph
    def step(x):
        m.assign(m * 0.5 + x)
        w.assign(w - m)

    x = vector()
    assert grown() <= 3.1
    for _ in range(3):
        step(x)
    # w, m, x; and what lies between: m * 0.5
    assert grown() <= 4.2
    executable = step.recordings[0].executable
    report = executable.report()
    assert report["in_place_updates"] == 2 - must_copy(executable)
    assert report["bytes"] <= 1.2 * BYTES
    view = w[:1]
    step(x)
    assert grown() <= 5.2  # the old value, for its holder
    del view
    assert grown() <= 4.2


def test_a_cell_that_is_only_read_is_not_copied_again_and_again(vector, grown):
    w, x = vector(), vector()

    @graph
    def look(x):
        return (w * x).sum()

    functions = [GraphFunction(look.function) for _ in range(3)]
    for function in functions:
        function(x)
        function(x)
    assert grown() <= 2 + 3 * 1.1


def test_the_report_says_what_is_held(vector, device):
    w = vector()

    @graph
    def step(x):
        y = x * w
        w.assign(w + 1.0)
        return y + 1.0, y.reshape(10, 100)

    x = vector()
    before = device.memory.current
    step(x)
    executable = step.recordings[0].executable
    report = executable.report()
    held = device.memory.current - before
    assert abs(held - report["bytes"]) <= 4096
    assert report["launches"] >= 3
    assert (report["updates"], report["in_place_updates"]) == (1, 1 - must_copy(executable))
    assert len(report["served"]) == report["launches"]
    assert all(language in device.languages for _, language in report["served"])


def test_the_report_tells_what_groups_are_made_of(far_device):
    cells = [tensor([1.0] * n, device=far_device) for n in (1, 2, 3)]

    @graph
    def step(x):
        for cell in cells:
            cell.assign(cell * 2.0 + x * cell)
        return x.exp()

    step(tensor(1.0, device=far_device))
    report = step.recordings[0].executable.report()
    assert report["operations"] == {"exp": 1, "together[fused[mul x2, add] x3]": 1}
    group = r"%\d+, %\d+, %\d+ = together\[fused\[mul x2, add\] x3\]\((%\d+(, )?)+\)"
    assert len([text for text, _ in report["served"] if re.fullmatch(group, text)]) == 1


def test_shapes_and_numbers_that_keep_changing_do_not_grow_the_tables(array, device, monkeypatch):
    monkeypatch.setattr("singa_core.resolve.MAX_ENTRIES", 50)
    monkeypatch.setattr(import_module("singa_core.tensor"), "MAX_CONSTANTS", 20)
    monkeypatch.setattr(device.state, "constants", {})
    monkeypatch.setattr(device.state, "entries", {})
    x = array([1.0])
    for n in range(1, 200):
        assert (x.broadcast_to(n) + float(n)).tolist()[-1] == n + 1.0
        assert len(device.state.entries) <= 50
        assert len(device.state.constants) <= 20
