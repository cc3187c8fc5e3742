"""Small layers and models that several tests use."""

import time
from contextlib import nullcontext

import numpy as np

from house import counts
from singa_core import Layer, Model, Parameter, Placeholder, State, ops, opt, random, tensor
from singa_core.errors import ShapeError
from singa_core.layers import Dropout, Linear, ReLU, Sequential
from singa_core.profiling import Profile


class Scale(Layer):
    """x * factor + offset; the size comes with the first input."""

    def __init__(self, fail=False):
        self.factor = Parameter((None,), "ones")
        self.offset = Parameter((None,), "zeros")
        self.seen = State((), "zeros")
        self.fail = fail

    def initialize(self, x):
        self.factor.set_shape(x.shape[-1:])
        self.offset.set_shape(x.shape[-1:])

    def forward(self, x):
        if self.fail:
            raise ShapeError("scale", "a good day", "a bad one")
        self.seen.assign(self.seen + 1.0)
        return x * self.factor + self.offset


class Block(Layer):
    def __init__(self, fail=False):
        self.first, self.second = Scale(fail), Linear(2)

    def forward(self, x):
        return self.second(self.first(x))


def contents(layer):
    """Names and values of all state; None for what has no value yet."""
    states = layer.get_states()
    return {name: cell.tolist() if cell.materialized else None for name, cell in states.items()}


class Net(Model):
    """4 -> 8 -> 3, with the default step."""

    def __init__(self, optimizer=None, p=0.0):
        self.body = Sequential(Linear(8), ReLU(), Dropout(p), Linear(3))
        self.loss = ops.cross_entropy
        self.optimizer = optimizer or opt.SGD(0.1, momentum=0.5)

    def forward(self, x):
        return self.body(x)


def batch(device, n=6, seed=0):
    rng = np.random.default_rng(seed)
    x = tensor(rng.normal(size=(n, 4)).astype(np.float32), device=device)
    return x, tensor(rng.integers(0, 3, n), device=device)


def made(device, *args, kind=Net, use_graph=True, seed=0, **options):
    random.manual_seed(seed)
    return kind(*args, **options).compile([Placeholder((6, 4), device=device)], use_graph=use_graph)


def both_ways(run):
    """What `run(use_graph)` tells, which must be the same without and with graphs."""
    want = run(False)
    assert run(True) == want
    counts.bitwise_compared(len(want))
    return want


def check_profile(device):
    """A training that is profiled has the bits of one that is not; what was timed is plausible."""

    def trained(profiled):
        model = made(device, opt.Adam(0.01), p=0.5)
        x, target = batch(device)
        told = []
        for step in range(4):
            start = time.perf_counter()
            with Profile() if profiled and step in (0, 2) else nullcontext() as times:
                told += [t.tolist() for t in model.train_one_batch(x, target)]
            if times is not None:
                assert 0 < times.seconds < time.perf_counter() - start
                assert times.replays == 1
                (report,) = model.graph_report()
                copies = report["updates"] - report["in_place_updates"]
                assert len(times.launches) == report["launches"] + copies
                assert all(launch.seconds >= 0 for launch in times.launches)
        counted = model.optimizer.steps.value
        return told, contents(model), [s.state() for s in random.STREAMS.values()], counted

    assert trained(True) == trained(False)
