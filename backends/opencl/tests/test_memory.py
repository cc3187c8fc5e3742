"""Memory: what core counts is what the driver is asked for, and what pends is bounded."""

import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

import singa_core as sc
from nets import batch, made
from singa_core import ops, opt

cl = pytest.importorskip("pyopencl")


class Created:
    """Bytes of the buffers that exist, as whoever creates and frees them sees it."""

    def __init__(self):
        self.now = self.most = self.made = 0

    def __enter__(self):
        created = self

        class Buffer(cl.Buffer):
            def __init__(self, context, flags, size=0, hostbuf=None):
                super().__init__(context, flags, size, hostbuf)
                held = 0 if size == 1 else size  # a driver gives no buffer of no bytes
                created.add(held)
                weakref.finalize(self, created.add, -held, -1)

        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(cl, "Buffer", Buffer)
        return self

    def __exit__(self, *failure):
        self.patch.undo()

    def add(self, nbytes, number=1):
        self.now += nbytes
        self.most = max(self.most, self.now)
        self.made += number > 0


class Conv(sc.Model):
    def __init__(self):
        self.body = sc.layers.Sequential(
            sc.layers.Conv2d(6, 3), sc.layers.BatchNorm2d(), sc.layers.ReLU(), sc.layers.Dropout(0.3),
            sc.layers.Flatten(), sc.layers.Linear(5),
        )  # fmt: skip
        self.loss, self.optimizer = ops.cross_entropy, opt.Adam(0.01)

    def forward(self, x):
        return self.body(x)


@pytest.mark.parametrize("use_graph", [True, False])
def test_the_peak_is_that_of_the_buffers_there_were(either, use_graph):
    """From the first weight on: compile, recording, the arena, homes, results, and what is dropped."""
    either.state.constants.clear()  # what is there already might be exchanged
    either.state.scalars.clear()
    gc.collect()
    device, memory = either, either.memory
    with Created() as created:
        memory.reset_peak()
        start, allocations = memory.current, memory.allocations
        model = Conv()
        model.compile([sc.Placeholder((8, 3, 9, 9), device=device)], use_graph=use_graph)
        rng, seen = np.random.default_rng(0), []
        for size in (8, 8, 3, 8):  # a second graph, with a smaller plan
            x = sc.tensor(rng.normal(size=(size, 3, 9, 9)).astype(np.float32), device=device)
            model.train_one_batch(x, sc.tensor(rng.integers(0, 5, size), device=device))
            seen.append((memory.current - start, memory.peak - start))
            assert seen[-1] == (created.now, created.most)
        assert device.memory_info()["peak"] == memory.peak
        assert memory.allocations - allocations == created.made
        if use_graph:
            small, large = model.graph_report()
            assert seen[1][1] == seen[3][1] >= large["planned_peak"] > small["planned_peak"]


REPLAYS = """
import gc
from benchmarks.memory import resident
from conftest import open_device
from nets import batch, made
from singa_core import opt

device = open_device("opencl")
model = made(device, opt.Adam(0.01), p=0.5)
x, target = batch(device)


def steps(count):
    for _ in range(count):
        model.train_one_batch(x, target)


steps(1000)
device.synchronize()
for _ in range(3):  # what leaks does so each time
    held, before = (device.memory.current, device.memory.allocations), resident()
    steps(1000)
    device.synchronize()
    gc.collect()
    print(resident() - before, held == (device.memory.current, device.memory.allocations))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads how much of a process is in memory")
@pytest.mark.parametrize("family", ["cpu", "gpu"])
def test_thousands_of_replays_grow_nothing(opened, family):
    """Not even where nobody reads a value, so that the host runs ahead of the device."""
    opened(family)
    paths = [path for path in sys.path if path]
    done = subprocess.run(
        [sys.executable, "-c", REPLAYS], capture_output=True, text=True, check=False,
        env={**os.environ, "SINGA_OPENCL_FAMILY": family, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [same for _, same in lines] == ["True"] * 3
    assert min(int(grown) for grown, _ in lines) < 1 << 18


def test_the_host_waits_when_it_is_far_ahead(either, monkeypatch):
    module = pytest.importorskip("singa_opencl.device")
    monkeypatch.setattr(module, "AHEAD", 0.0)  # each call is one moment
    either.synchronize()
    f = sc.graph(lambda x: (x @ x) * 1.0)
    x = sc.tensor(np.eye(300, dtype=np.float32), device=either)
    f(x)
    complete, marks = cl.command_execution_status.COMPLETE, []
    for _ in range(20):
        x = f(x)
        assert len(either._marks) <= module.MARKS
        marks += [mark for mark in either._marks if mark not in marks]
        gone = [mark for mark in marks if mark not in either._marks]
        assert all(mark.command_execution_status == complete for mark in gone)
    assert len(marks) >= 20
    assert x.numpy()[7, 7] == 1.0
    assert not either._marks


def test_an_interrupt_while_the_host_waits_has_changed_nothing(either, monkeypatch):
    model = made(either, opt.Adam(0.01), p=0.5)
    x, target = batch(either)
    model.train_one_batch(x, target)
    before = {name: t.tolist() for name, t in model.get_states().items()}

    def interrupted(now):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(either, "_keep_up", interrupted)
        either._due = 0.0
        with pytest.raises(KeyboardInterrupt):
            model.train_one_batch(x, target)
    assert {name: t.tolist() for name, t in model.get_states().items()} == before
    assert model.optimizer.steps.value == 1
    model.train_one_batch(x, target)
