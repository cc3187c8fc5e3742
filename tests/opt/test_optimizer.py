"""Optimisers: the numbers of another framework, schedules as run-time numbers, and their state."""

import numpy as np
import pytest

from house import counts
from singa_core import Model, Placeholder, graph, no_grad, ops, opt, random, tensor
from singa_core.engine import GraphFunction
from singa_core.errors import ArgumentError, GradientError
from singa_core.layers import Linear, Sequential, Tanh
from singa_core.opt import schedule

torch = pytest.importorskip("torch", reason="no torch to compare with")

CASES = {
    "sgd": (lambda: opt.SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "sgd decay": (lambda: opt.SGD(0.1, weight_decay=0.1), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.1)),
    "momentum": (
        lambda: opt.SGD(0.05, momentum=0.9, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01),
    ),
    "nesterov": (
        lambda: opt.SGD(0.05, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True),
    ),
    "adam": (
        lambda: opt.Adam(0.02, betas=(0.8, 0.95), eps=1e-6),
        lambda p: torch.optim.Adam(p, 0.02, betas=(0.8, 0.95), eps=1e-6),
    ),
    "adam decay": (lambda: opt.Adam(0.02, weight_decay=0.1), lambda p: torch.optim.Adam(p, 0.02, weight_decay=0.1)),
    "adamw": (lambda: opt.AdamW(0.02), lambda p: torch.optim.AdamW(p, 0.02, weight_decay=0.01)),
}  # fmt: skip


def problem():
    rng = np.random.default_rng(0)
    start = [rng.normal(size=s).astype(np.float32) for s in ((3, 4), (4,), (4, 2))]
    return (
        start,
        rng.normal(size=(5, 3)).astype(np.float32),
        rng.normal(size=(5, 2)).astype(np.float32),
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("how", ["eager", "graph", "step"])
def test_twenty_steps_are_those_of_the_peer(array, case, how):
    ours, theirs = CASES[case]
    start, x, y = problem()
    params = [torch.tensor(p, requires_grad=True) for p in start]
    peer = theirs(params)
    for _ in range(20):
        peer.zero_grad()
        loss = (
            (torch.tanh(torch.tensor(x) @ params[0] + params[1]) @ params[2] - torch.tensor(y)) ** 2
        ).mean()
        loss.backward()
        peer.step()
    own = [array(p, requires_grad=True) for p in start]
    optimizer = ours()
    if how == "step":
        optimizer.params = own

    def train(x, y):
        loss = ((ops.tanh(x @ own[0] + own[1]) @ own[2] - y) ** 2).mean()
        if how == "step":
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        else:
            optimizer(loss)
        return loss

    train = GraphFunction(train) if how != "eager" else train
    for _ in range(20):
        train(array(x), array(y))
    for mine, peers in zip(own, params, strict=True):
        np.testing.assert_allclose(mine.numpy(), peers.detach().numpy(), rtol=3e-5, atol=3e-6)
    counts.gradient_checked("peer")
    if how != "eager":
        assert train.records <= 2  # with .grad None at first, then as it was left


@pytest.mark.parametrize("name", ["constant", "decay", "cosine", "warm up", "function"])
def test_schedules_are_run_time_numbers(array, name):
    made = {
        "constant": schedule.Constant(0.5), "decay": schedule.StepDecay(0.5, every=2, factor=0.5),
        "cosine": schedule.Cosine(0.5, steps=5), "warm up": schedule.WarmUp(0.5, steps=3),
        "function": lambda step: 0.5 / (step + 1),
    }[name]  # fmt: skip
    rates = [made(step) for step in range(6)]
    w, sgd = array(0.0, requires_grad=True), opt.SGD(made)
    seen = []

    @graph
    def step(x):
        sgd(w * x)
        return w * 1.0

    for _ in range(6):
        assert sgd.lr == rates[sgd.steps.value]
        seen.append(step(array(-1.0)).item())
    np.testing.assert_allclose(np.diff([0.0, *seen]), rates, rtol=1e-5, atol=1e-7)
    assert step.records == 1


def test_a_schedule_can_be_replaced_between_replays(array):
    w, sgd = array(0.0, requires_grad=True), opt.SGD(0.5)

    @graph
    def step(x):
        sgd(w * x)

    step(array(-1.0))
    sgd.lr = schedule.StepDecay(0.25, every=2)
    step(array(-1.0))
    sgd.lr = 2.0
    step(array(-1.0))
    assert w.item() == 0.5 + 0.25 + 2.0
    assert step.records == 1
    assert sgd.lr == 2.0


def test_hyperparameters_that_are_part_of_a_recording_are_noticed(array):
    w, sgd = array(1.0, requires_grad=True), opt.SGD(1.0)

    @graph
    def step(x):
        sgd(w * x)

    step(array(0.0))
    sgd.weight_decay = 0.5
    step(array(0.0))
    assert w.item() == 0.5
    assert step.records == 2


# -- use ----------------------------------------------------------------------------------------------


def test_step_uses_grads_and_passes_over_none(array):
    a, b = array([1.0], requires_grad=True), array([1.0], requires_grad=True)
    sgd = opt.SGD(0.5, params=[a, b])
    (a * 2.0).sum().backward()
    sgd.step()
    assert (a.item(), b.item(), sgd.steps.value) == (0.0, 1.0, 1)
    sgd.zero_grad()
    assert a.grad is None
    sgd.step()
    assert sgd.steps.value == 1
    with pytest.raises(
        ArgumentError, match=r"SGD: needs params for step\(\), got an optimiser made without\ntry: "
    ):
        opt.SGD(0.5).step()


def test_only_the_given_parameters_are_updated(array):
    a, b = array([1.0], requires_grad=True), array([1.0], requires_grad=True)
    sgd = opt.SGD(0.5, params=[a])
    sgd((a * b).sum())
    assert (a.item(), b.item()) == (0.5, 1.0)
    with pytest.raises(
        GradientError, match="SGD: needs a loss that depends on a parameter, got none"
    ):
        sgd((b * 2.0).sum())
    assert sgd.steps.value == 1


def test_updated_parameters_stay_leaves_without_a_tape(array):
    w = array([1.0, 2.0], requires_grad=True)
    for optimizer in (opt.SGD(0.1), opt.SGD(0.1, momentum=0.5), opt.Adam(0.1), opt.AdamW(0.1)):

        def step(x, optimizer=optimizer):
            optimizer((w * x).sum())

        for call in (step, GraphFunction(step)):
            call(array([1.0, 1.0]))
            assert w.is_leaf
            assert w.requires_grad
            assert w.node.inputs == ()


@pytest.mark.parametrize(("make", "text"), [
    (lambda: opt.SGD(-0.1), "0 <= rate"), (lambda: opt.SGD(float("nan")), "0 <= rate"),
    (lambda: opt.SGD("fast"), "rate"), (lambda: opt.SGD(0.1, momentum=1.0), "SGD: needs a number 0 <= momentum < 1, got 1.0"),
    (lambda: opt.SGD(0.1, dampening=2.0), "0 <= dampening <= 1"), (lambda: opt.SGD(0.1, weight_decay=-1.0), "0 <= weight_decay, got -1.0"),
    (lambda: opt.SGD(0.1, nesterov=True), "momentum > 0 and dampening == 0 for nesterov"),
    (lambda: opt.Adam(0.1, betas=(0.9, 1.0)), r"Adam: needs a number 0 <= betas\[1\] < 1, got 1.0"),
    (lambda: opt.Adam(0.1, eps=0.0), "0 < eps, got 0.0"), (lambda: opt.AdamW(0.1, weight_decay=-1.0), "AdamW: needs a number 0 <= weight_decay, got -1.0"),
])  # fmt: skip
def test_settings_out_of_range_are_named(make, text):
    with pytest.raises(ArgumentError, match=text):
        make()


# -- state --------------------------------------------------------------------------------------------


class Net(Model):
    def __init__(self):
        self.body = Sequential(Linear(5), Tanh(), Linear(2))
        self.loss = lambda out, y: (out - y).square().mean()

    def forward(self, x):
        return self.body(x)


@pytest.mark.parametrize("make", [lambda: opt.SGD(0.1, momentum=0.9), lambda: opt.Adam(0.05)])
@pytest.mark.parametrize("use_graph", [False, True])
def test_states_make_the_round_trip(array, device, make, use_graph):
    _, x, y = problem()
    x, y = array(x), array(y)

    def fresh():
        random.manual_seed(0)
        net = Net()
        net.optimizer = make()
        return net.compile([Placeholder((5, 3), device=device)], use_graph=use_graph)

    one = fresh()
    for _ in range(3):
        one.train_one_batch(x, y)
    weights = {name: cell.numpy().copy() for name, cell in one.get_states().items()}
    slots = {
        name: value if isinstance(value, int) else value.numpy().copy()
        for name, value in one.optimizer.get_states(one.get_params()).items()
    }
    assert slots["steps"] == 3
    prefixes = {name.split(".")[0] for name in slots} - {"steps"}
    assert prefixes == ({"momentum"} if isinstance(one.optimizer, opt.SGD) else {"m", "v"})
    other = fresh()
    if use_graph:  # state that is loaded into graphs that exist
        other.train_one_batch(x, y)
    other.set_states(weights)
    other.optimizer.set_states(slots, other.get_params())
    for _ in range(3):
        a, b = one.train_one_batch(x, y)[1], other.train_one_batch(x, y)[1]
        assert a.numpy().tobytes() == b.numpy().tobytes()
    with pytest.raises(
        ArgumentError, match=r"needs names like .*<parameter>.*, got 'm.nowhere.weight'"
    ):
        other.optimizer.set_states({"m.nowhere.weight": np.zeros(3)}, other.get_params())


def test_set_states_that_fail_change_nothing(array, device):
    net = Net()
    net.optimizer = opt.SGD(0.1, momentum=0.9)
    _, x, y = problem()
    net.compile([Placeholder((5, 3), device=device)])
    net.train_one_batch(array(x), array(y))
    params = net.get_params()
    before = {
        k: v if isinstance(v, int) else v.tolist()
        for k, v in net.optimizer.get_states(params).items()
    }
    for bad in ({"momentum.body.steps.2.bias": np.zeros(7)}, {"momentum.nowhere": np.zeros(2)}):
        good = {"steps": 9, "momentum.body.steps.0.bias": np.full(5, 8.0, np.float32)}
        with pytest.raises(
            ValueError,
            match="'momentum.body.steps.2.bias': needs shape \\(2,\\)|got 'momentum.nowhere'",
        ):
            net.optimizer.set_states(good | bad, params)
        now = {
            k: v if isinstance(v, int) else v.tolist()
            for k, v in net.optimizer.get_states(params).items()
        }
        assert now == before


def test_state_is_keyed_by_cell_so_that_ties_share_it(array):
    w = array([1.0], requires_grad=True)
    sgd = opt.SGD(0.5, momentum=0.5)
    sgd((w * w).sum())
    assert list(sgd.get_states({"a": w})) == ["steps", "momentum.a"]
    assert sgd.get_states({"other": array([1.0])}) == {"steps": 1}


def test_an_exception_in_the_middle_of_a_recorded_step_leaves_the_optimiser_alone(array):
    w, adam = array([1.0], requires_grad=True), opt.Adam(0.1)

    @graph
    def step(x):
        adam((w * x).sum())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        step(array([1.0]))
    assert (w.item(), adam.steps.value) == (1.0, 0)
    states = adam.get_states({"w": w})
    assert all(v == 0 if isinstance(v, int) else v.tolist() == [0.0] for v in states.values())


def test_half_precision_parameters_keep_their_dtype(array):
    w = array([1.0, 2.0], "float16", requires_grad=True)
    for optimizer in (opt.SGD(0.25), opt.Adam(0.1)):
        before = w.tolist()
        optimizer((w * w).sum())
        assert w.dtype.name == "float16"
        assert w.tolist() != before


def test_an_optimizer_of_one_s_own_takes_ten_lines(array):
    class SignStep(opt.Optimizer):
        def update(self, param, grad, rate):
            param.assign(param - ops.sign(grad) * rate)

    w, optimizer = array([1.0, -1.0], requires_grad=True), SignStep(0.25)

    @graph
    def step(x):
        optimizer((w * w * x).sum())

    for _ in range(2):
        step(array([1.0, 1.0]))
    assert w.tolist() == [0.5, -0.5]
    with no_grad():
        assert tensor(optimizer.steps.value).item() == 2
