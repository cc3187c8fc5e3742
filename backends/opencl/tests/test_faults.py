"""Faults, for kernels of both families: told by their class, harmless for all else, never a hang."""

import signal
from dataclasses import replace

import numpy as np
import pytest

import singa_core as sc
from conftest import open_device
from nets import batch, contents, made
from singa_core import ops, opt, random
from singa_core.errors import DeviceFailure, OutOfDeviceMemory, StateLost

cl = pytest.importorskip("pyopencl")
program = pytest.importorskip("singa_opencl.program")


class Fault:
    """Stands for a function; before its n-th call from `at(n)` on, something happens."""

    def __init__(self, function, happen, times=1):
        self.function, self.happen, self.times, self.left = function, happen, times, -times

    def at(self, n):
        self.left = n if n else -self.times

    def __call__(self, *args, **options):
        self.left -= 1
        if -self.times < self.left <= 0:
            self.happen()
        return self.function(*args, **options)


def refuse():
    raise cl.MemoryError("MEM_OBJECT_ALLOCATION_FAILURE")


def interrupt():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def no_buffer(either, monkeypatch):
    """The driver refuses the n-th buffer, and when it is asked once more."""
    fault = Fault(cl.Buffer, refuse, times=2)
    monkeypatch.setattr(cl, "Buffer", fault)
    return fault


@pytest.fixture
def at_launch(either, monkeypatch):
    """Something happens at the n-th kernel that is put on a queue: `at_launch(happen, n)`."""
    fault = Fault(program.enqueue, refuse)
    monkeypatch.setattr(program, "enqueue", fault)  # found by what is loaded from now on

    def arrange(happen, n):
        fault.happen = happen
        fault.at(n)
        return fault

    return arrange


@pytest.fixture(autouse=True)
def _others_are_unharmed(either):
    """After each test, another device trains like before, and this one does what that one does."""

    def losses(device):
        model = made(device, opt.SGD(0.1, momentum=0.9))
        return [model.train_one_batch(*batch(device))[1].item() for _ in range(5)]

    other = open_device("cpu_numpy")
    before = losses(other)
    yield
    assert losses(other) == before
    np.testing.assert_allclose(losses(either), before, rtol=1e-5)


def new(device, *, use_graph=True):
    return made(device, opt.Adam(0.01), p=0.5, use_graph=use_graph)


def step(model, device):
    return [t.tolist() for t in model.train_one_batch(*batch(device))]


def learnt(model):
    """All that a step changes, but for the random streams. A slot of zeros is as good as none."""
    states = model.optimizer.get_states(model.get_params())
    slots = {name: np.asarray(getattr(v, "numpy", lambda v=v: v)()) for name, v in states.items()}
    return contents(model), {name: v.tolist() for name, v in slots.items() if v.any()}


def drawn():
    return [s.state() for s in random.STREAMS.values()]


# -- memory -------------------------------------------------------------------------------------------


def test_a_first_step_without_memory_changes_nothing(either, no_buffer):
    """The upload of the batch, each constant, slot, home, and the plan: whichever is refused."""
    model = new(either)
    want = step(model, either), learnt(model), drawn()
    for n in range(1, 200):
        model = new(either)
        before = learnt(model), drawn()
        no_buffer.at(n)
        try:
            step(model, either)
        except OutOfDeviceMemory:
            pass
        if no_buffer.left > 0:
            break
        assert (learnt(model), drawn()) == before
        assert (step(model, either), learnt(model), drawn()) == want
    assert n > 30


def test_an_eager_step_without_memory_changes_nothing_or_says_that_state_is_lost(either, no_buffer):
    """What was drawn before stays drawn: it is the forward that has run."""
    model = new(either, use_graph=False)
    refused, lost = 0, []
    for n in range(1, 300):
        before = learnt(model)
        no_buffer.at(n)
        try:
            step(model, either)
            break
        except OutOfDeviceMemory:
            refused += 1
            assert learnt(model) == before
        except StateLost as error:
            lost.append(str(error))
            step(model, either)
    no_buffer.at(0)
    assert refused + len(lost) == n - 1
    assert refused > 20
    assert lost  # a slot of a later parameter
    cause = (
        "parameters were updated, the others were not\n  cause: OutOfDeviceMemory: opencl: out of"
    )
    assert [text for text in lost if cause not in text] == []


def test_a_replay_without_memory_changes_nothing(either, no_buffer):
    """Somebody holds the last result and the old values: a replay needs memory for what is new."""
    model = new(either)
    for _ in range(2):
        step(model, either)
    x, target = batch(either)
    refused = 0
    for n in range(1, 100):
        held = [
            *model.train_one_batch(x, target),
            *(p.detach() for p in model.get_params().values()),
        ]
        values = [t.tolist() for t in held]
        before = learnt(model), drawn()
        no_buffer.at(n)
        try:
            model.train_one_batch(x, target)
        except OutOfDeviceMemory:
            refused += 1
        if no_buffer.left > 0:
            break
        assert [t.tolist() for t in held] == values
        assert (learnt(model), drawn()) == before
    no_buffer.at(0)
    assert refused == n - 1 >= 6  # two results, four parameters


def test_a_driver_that_finds_no_room_when_it_launches(either, at_launch):
    """OpenCL may promise memory and look for it when a kernel wants it."""
    told, words = [], set()
    for n in range(1, 100):
        model = new(either)
        fault = at_launch(refuse, 0)
        step(model, either)
        before = learnt(model), drawn()
        fault.at(n)
        try:
            step(model, either)
        except OutOfDeviceMemory as error:
            told.append("refused")
            words.add(str(error).partition(", ")[0])
            assert (learnt(model), drawn()) == before
            step(model, either)
        except StateLost:
            told.append("lost")
            with pytest.raises(StateLost):
                step(model, either)
        else:
            break
    fault.at(0)
    assert told == sorted(told, reverse=True)  # refused, until the first state was written
    assert set(told) == {"refused", "lost"}
    assert words == {"opencl: out of memory: needs more"}


@pytest.mark.parametrize(
    "status", ["OUT_OF_RESOURCES", "OUT_OF_HOST_MEMORY", "INVALID_BUFFER_SIZE"]
)
def test_whatever_a_driver_calls_it_there_is_no_memory(either, no_buffer, status):
    code = getattr(cl.status_code, status)
    kind = cl.LogicError if status.startswith("INVALID") else cl.RuntimeError

    def refused():
        raise kind("create_buffer", code, "")

    no_buffer.happen = refused
    no_buffer.at(1)
    with pytest.raises(OutOfDeviceMemory, match="opencl: out of memory: needs 400 bytes"):
        ops.ones((100,), device=either)
    assert ops.ones((100,), device=either).sum().item() == 100


def test_what_pending_work_gives_back_is_waited_for(either, no_buffer):
    no_buffer.times = 1  # the second time there is room
    x = ops.ones((100,), device=either)
    no_buffer.at(1)
    y = x + 1.0
    assert no_buffer.left < 0
    assert y.tolist() == [2.0] * 100


def test_what_is_too_large_for_one_buffer_is_refused_wherever_it_is_asked_for(either):
    either.capabilities = replace(either.capabilities, largest=4000)
    fits = ops.ones((1000,), device=either)
    match = "opencl: needs 4004 bytes in one buffer, 4000 bytes at most\ntry: smaller tensors"
    for attempt in (
        lambda: ops.ones((1001,), device=either),
        lambda: sc.tensor(np.ones(1001, np.float32), device=either),
        lambda: ops.concat(fits, fits[:1], axis=0),
        lambda: sc.graph(lambda x: ops.concat(x, x[:1], axis=0))(fits),
    ):
        with pytest.raises(OutOfDeviceMemory, match=match):
            attempt()
    assert fits.sum().item() == 1000


def test_what_is_more_than_the_capacity_is_refused_though_a_driver_would_promise_it(either):
    model = new(either)
    before, known = (learnt(model), drawn()), either.capabilities
    held = either.memory.current
    either.capabilities = replace(known, capacity=held + 100)
    with pytest.raises(OutOfDeviceMemory, match=rf"out of memory: needs .* capacity {held + 100} "):
        step(model, either)
    either.capabilities = known
    assert (learnt(model), drawn()) == before
    step(model, either)


# -- many operands ------------------------------------------------------------------------------------


def test_operations_on_hundreds_of_tensors(either):
    hosts = [np.full(3, n, np.float32) for n in range(200)]
    parts = [sc.tensor(host, device=either) for host in hosts]
    functions = {
        "concat": (lambda *p: ops.concat(*p, axis=0), np.concatenate(hosts)),
        "stack": (lambda *p: ops.stack(p, axis=1), np.stack(hosts, axis=1)),
        "chain": (chain, np.float32(chain(*[h.astype(np.float64) for h in hosts]))),
    }
    for function, want in functions.values():
        for run in (function, sc.graph(function)):
            np.testing.assert_allclose(run(*parts).numpy(), want, rtol=1e-6)


def chain(*parts):
    y = parts[0]
    for part in parts[1:]:
        y = y * 0.5 + part
    return y


class Many(sc.Model):
    """150 parameters, which are updated together."""

    def __init__(self, optimizer):
        self.weights = [sc.Parameter((n % 7 + 1,), "ones") for n in range(150)]
        self.loss, self.optimizer = (lambda y, target: (y - target).mean()), optimizer

    def forward(self, x):
        for weight in self.weights:
            x = x + weight.sum()
        return x


@pytest.mark.parametrize("kind", [opt.SGD, opt.Adam, opt.RMSprop])
def test_hundreds_of_parameters_learn_as_they_do_one_by_one(either, kind):
    def trained(use_graph):
        model = Many(kind(0.1)).compile([sc.Placeholder((2,), device=either)], use_graph=use_graph)
        for _ in range(2):
            model.train_one_batch(np.ones(2, np.float32), np.ones(2, np.float32))
        return contents(model)

    assert trained(True) == trained(False)


# -- compiling, and interrupts ----------------------------------------------------------------------------


@pytest.fixture
def compiles(either, monkeypatch):
    """Something happens at the n-th compilation, before and after it."""
    fault = Fault(either.compiler.build, interrupt)
    monkeypatch.setattr(either.compiler, "build", fault)
    either.compiler._found.clear()  # nothing is compiled yet
    either.state.entries.clear()
    return fault


def test_an_interrupt_while_compiling_leaves_nothing_half_made(either, compiles):
    model = new(either)
    before = learnt(model), drawn()
    for n in (1, 2, 3):
        compiles.at(n)
        with pytest.raises(KeyboardInterrupt):
            step(model, either)
        assert (learnt(model), drawn()) == before
    compiles.at(0)
    told = step(model, either)
    assert told == step(new(either), either)


def test_a_graph_whose_kernel_does_not_compile_says_so_each_time(either, compiles):
    other = sc.graph(lambda x: x * 3.0)
    graph = sc.graph(lambda x: x * x - 1.0)
    x = sc.tensor([2.0], device=either)

    def broken():
        raise DeviceFailure("kernel k does not compile on this device")

    compiles.happen = broken
    for _ in range(2):
        compiles.at(1)
        with pytest.raises(DeviceFailure, match="^kernel k does not compile on this device$"):
            graph(x)
    assert other(x).tolist() == [6]
    assert graph(x).tolist() == [3]


def test_an_interrupt_at_any_launch_of_a_replay(either, at_launch):
    """It is the user's, whatever it has torn; what it has torn says so, and can be given again."""
    model = new(either)
    fault = at_launch(interrupt, 0)
    step(model, either)
    ends = set()
    for n in range(1, 100):
        before, streams = learnt(model), drawn()
        kept = {name: p.numpy() for name, p in model.get_states().items()}
        slots = model.optimizer.get_states(model.get_params())
        slots = {k: v.numpy() if isinstance(v, sc.Tensor) else v for k, v in slots.items()}
        fault.at(n)
        try:
            step(model, either)
            break
        except KeyboardInterrupt:
            pass
        try:
            assert (learnt(model), drawn()) == (before, streams)
            ends.add("unchanged")
        except StateLost:
            ends.add("lost")
            with pytest.raises(StateLost):
                step(model, either)
            model.set_states(kept)
            model.optimizer.set_states(slots, model.get_params())
            assert learnt(model) == before
    fault.at(0)
    assert ends == {"unchanged", "lost"}
    step(model, either)
