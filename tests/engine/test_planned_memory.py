"""Planned memory against the liveness bound, against eager and against core's own counter."""

import gc
import sys

import pytest

from benchmarks.memory import apart, live, resident
from benchmarks.models import network
from benchmarks.workloads import Cnn, Mlp, Resnet, Transformer
from singa_core import tensor
from singa_core.passes import ALGORITHMS
from singa_core.storage import Storage

NETS = {
    "mlp": Mlp(32, (96, 128, 64, 10)),
    "cnn": Cnn(8, (6, 12), 64, 20),
    "resnet": Resnet(4, (16, 32), 16),  # whole cache lines: an arena rounds up to them
    "transformer": Transformer(4, layers=2, width=32, heads=2, hidden=64, length=16, tokens=40),
}


@pytest.fixture(params=NETS)
def workload(request):
    return NETS[request.param]


@pytest.fixture
def nothing_shared(device):
    """No other test's graphs are alive, so that the arena is that of this test."""
    gc.collect()
    old, device.state.arena = device.state.arena, None
    yield
    device.state.arena = old


def on(device, workload, count=3):
    return [[tensor(a, device=device) for a in pair] for pair in workload.batches()[:count]]


def eager_peak(device, workload):
    """What core counts beside state while a step is run eagerly."""
    batches = on(device, workload)
    model = network(workload, batches[0][0], use_graph=False)
    model.train_one_batch(*batches[0])
    gc.collect()
    held = device.memory.current
    device.memory.reset_peak()
    model.train_one_batch(*batches[1])
    return device.memory.peak - held


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_a_plan_is_near_its_bound_and_below_eager_and_is_what_the_core_counts(
    unfused, workload, alg, nothing_shared
):
    device = unfused  # updates that share a launch wait for each other's gradients
    batches = on(device, workload)
    model = network(workload, batches[0][0], graph_alg=alg)
    state = sum(p.spec.nbytes for p in model.get_params().values())
    gc.collect()
    before = device.memory.current
    model.train_one_batch(*batches[0])
    (report,) = model.graph_report()
    gc.collect()
    momentum = sum(t.spec.nbytes for s in model.optimizer._slots.values() for t in s.values())
    assert momentum == state
    constants = sum(c.array.storage.nbytes for c in device.state.constants.values())
    counted = device.memory.current - before - momentum
    assert 0 <= counted - report["bytes"] <= constants  # numbers that eager uses as well
    device.memory.reset_peak()
    held = device.memory.current, device.memory.allocations
    for pair in batches:
        model.train_one_batch(*pair)
    assert (device.memory.peak, device.memory.allocations) == held

    arena = sum(storage.nbytes for storage in device.state.arena().buffers)
    assert arena == report["planned_peak"]
    assert report["live_bound"] <= report["planned_peak"] <= 1.25 * report["live_bound"]
    eager = eager_peak(device, workload)
    assert report["eager_peak"] <= eager
    if device.capabilities.sub_buffers:
        # what begins further apart than eager's buffers do, times the pieces that are alive
        gaps = 16 * (device.capabilities.alignment - 64)
        assert report["planned_peak"] <= eager + gaps
    else:  # pieces cannot share a buffer at a time, which eager's may
        assert report["live_bound"] <= eager


def test_a_report_says_how_instructions_are_served(device, workload):
    x, labels = on(device, workload, 1)[0]
    model = network(workload, x)
    model.train_one_batch(x, labels)
    (report,) = model.graph_report()
    assert report["native"] + report["host"] == report["launches"] == len(report["served"])
    assert report["launches"] == report["instructions"] - report["views"] + report["copies"]
    assert sum(report["operations"].values()) == report["launches"]
    assert report["recorded"] >= report["lowered"]
    assert (report["lowered"] == 0) is (device.name == "cpu_numpy" and not lowers(workload))
    assert report["host"] == 0


def lowers(workload):
    """What cpu_numpy has no kernels for."""
    return isinstance(workload, Transformer)


@pytest.mark.parametrize("name", ["cnn", "transformer"])
def test_a_thousand_replays_grow_nothing(device, name):
    workload = NETS[name]
    count = 1000 if device.name == "cpu_numpy" else 50
    batches = on(device, workload)
    model = network(workload, batches[0][0])
    for pair in batches:
        model.train_one_batch(*pair)
    gc.collect()
    grown = []
    for _ in range(2):  # what leaks does so each time; an allocator may settle once
        held, storages, before = device.memory.current, live(Storage), resident()
        for i in range(count):
            model.train_one_batch(*batches[i % len(batches)])
        assert (device.memory.current, live(Storage)) == (held, storages)
        grown.append(resident() - before)
    if sys.platform == "linux":
        assert min(grown) < 1 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="reads how much of a process is in memory")
def test_a_process_grows_by_what_is_planned():
    """In a form of ResNet with a tenth of the parameters; `benchmarks.memory` has the whole one."""
    found = apart("resnet-small", replays=10)
    planned = found["planned_peak"] + 2 * found["parameters"]
    assert found["counted"] <= 1.01 * planned
    assert found["resident"] <= 1.1 * planned + (4 << 20)  # Python's own: nodes, kernels, programs
    assert found["storages by replays"] == found["counted by replays"] == 0
