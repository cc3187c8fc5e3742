"""Optimisers: three steps by hand, rates and schedules, the two ways of use, and what is refused."""

from inspect import signature

import numpy as np
import pytest

from singa_core import Model, Parameter, Placeholder, graph, no_grad, ops, opt
from singa_core.engine import GraphFunction
from singa_core.errors import ArgumentError, GradientError, RecordingError
from singa_core.layers import Linear, ReLU, Sequential
from singa_core.opt import schedule

KINDS = {
    "sgd": lambda **o: opt.SGD(0.1, **o), "momentum": lambda **o: opt.SGD(0.1, momentum=0.5, **o),
    "adam": lambda **o: opt.Adam(0.1, **o), "adamw": lambda **o: opt.AdamW(0.1, **o),
    "rmsprop": lambda **o: opt.RMSprop(0.1, **o), "adagrad": lambda **o: opt.Adagrad(0.1, **o),
    "rmsprop momentum": lambda **o: opt.RMSprop(0.1, momentum=0.5, **o),
}  # fmt: skip


def walk(make, array, steps=3, start=0.0):
    """Where a parameter is after each step with gradient 1."""
    w, optimizer, places = array([start], requires_grad=True), make(), []
    for _ in range(steps):
        optimizer(w.sum())
        places.append(w.item())
    return places


# -- by hand ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "want"), [
    (lambda: opt.SGD(1.0), [-1.0, -2.0, -3.0]),
    (lambda: opt.SGD(1.0, momentum=0.5), [-1.0, -2.5, -4.25]),  # m = 1, 1.5, 1.75
    (lambda: opt.SGD(1.0, momentum=0.5, dampening=0.5), [-0.5, -1.25, -2.125]),  # 0.5, 0.75, 0.875
    (lambda: opt.SGD(1.0, momentum=0.5, nesterov=True), [-1.5, -3.25, -5.125]),  # 1 + m / 2
    (lambda: opt.SGD(0.5, weight_decay=1.0), [-0.5, -0.75, -0.875]),  # g = 1 + w
    (lambda: opt.Adam(0.5), [-0.5, -1.0, -1.5]),  # corrected, m = v = 1
    (lambda: opt.AdamW(0.5, weight_decay=0.5), [-0.5, -0.875, -1.15625]),  # w * 0.75 - 0.5
    (lambda: opt.Adagrad(1.0), [-1.0, -1.0 - 2**-0.5, -1.0 - 2**-0.5 - 3**-0.5]),
    (lambda: opt.RMSprop(1.0, decay=0.75), [-2.0, -2.0 - 0.4375**-0.5, -2.0 - 0.4375**-0.5 - 0.578125**-0.5]),
])  # fmt: skip
def test_three_steps_by_hand(array, make, want):
    np.testing.assert_allclose(walk(make, array), want, rtol=1e-5)


# -- schedules -------------------------------------------------------------------------------------


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


def test_the_rate_is_neither_read_nor_set_by_recorded_code(array):
    w, sgd = array(0.0, requires_grad=True), opt.SGD(lambda step: 0.5)
    with pytest.raises(
        RecordingError,
        match=r"Counter.value: needs to be read by a replay(.*\n)*try: pass a function",
    ):
        graph(lambda x: x * sgd.lr)(array(1.0))

    def sets(x):
        sgd.lr = 0.1
        sgd(w * x)

    with pytest.raises(
        RecordingError,
        match=r"lr: needs to be set outside .* at .*test_optimizer.py:\d+\ntry: give a schedule",
    ):
        graph(sets)(array(1.0))
    assert (sgd.lr, w.item(), sgd.steps.value) == (0.5, 0.0, 0)
    sets(array(-1.0))  # eager code may
    assert w.item() == pytest.approx(0.1)


@pytest.mark.parametrize(("change", "want"), [
    (lambda sgd: setattr(sgd, "weight_decay", 0.5), 0.5), (lambda sgd: setattr(sgd, "momentum", 0.0), 1.0),
])  # fmt: skip
def test_hyperparameters_that_are_part_of_a_recording_are_noticed(array, change, want):
    w, sgd = array(1.0, requires_grad=True), opt.SGD(1.0, momentum=0.5)

    @graph
    def step(x):
        sgd(w * x)

    step(array(0.0))
    change(sgd)
    step(array(0.0))
    assert w.item() == want
    assert step.records == 2


# -- two ways of use -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("recorded", [False, True])
def test_both_ways_of_use_give_the_same_bits(array, kind, recorded):
    def run(how):
        a, b = array([1.0, -2.0], requires_grad=True), array([0.5, 3.0], requires_grad=True)
        optimizer = KINDS[kind](params=[a, b])

        def step(x):
            loss = (a * b * x).sum()
            if how == "call":
                optimizer(loss)
            else:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        call = GraphFunction(step) if recorded else step
        for i in range(4):
            call(array([1.0, float(i)]))
        return a.tolist(), b.tolist(), optimizer.steps.value

    assert run("call") == run("step")
    assert run("call")[2] == 4


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


@pytest.mark.parametrize("method", ["step", "zero_grad"])
def test_without_params_there_is_nothing_to_step_on(method):
    text = rf"SGD: needs params for {method}\(\), got an optimiser made without\ntry: call optimizer\(loss\) instead"
    with pytest.raises(ArgumentError, match=text):
        getattr(opt.SGD(0.5), method)()


def test_calling_it_leaves_grad_alone(array):
    w = array([1.0], requires_grad=True)
    (w * 3.0).sum().backward()
    opt.SGD(0.5)((w * 2.0).sum())
    assert (w.tolist(), w.grad.tolist()) == ([0.0], [3.0])


def test_a_tape_can_be_kept_for_a_second_optimiser(array):
    a, b = array([1.0], requires_grad=True), array([1.0], requires_grad=True)
    first, second = opt.SGD(0.5, params=[a]), opt.SGD(0.25, params=[b])
    loss = (a * b * 2.0).sum()
    first(loss, retain_graph=True)
    second(loss)
    assert (a.item(), b.item()) == (0.0, 0.5)  # with the values that the loss was made of
    with pytest.raises(GradientError, match="a tape that has not been used up"):
        second(loss)
    assert second.steps.value == 1


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "text"), [
    (lambda: opt.SGD(-0.1), "a number 0 <= rate < inf, got -0.1"), (lambda: opt.SGD(float("nan")), "rate < inf, got nan"),
    (lambda: opt.SGD("fast"), "rate < inf, got 'fast'"), (lambda: opt.SGD(None), "got None"), (lambda: opt.SGD(True), "got True"),
    (lambda: opt.SGD(opt.Cosine), r"got the class Cosine\ntry: Cosine\(...\)"),
    (lambda: opt.SGD(0.1, momentum=1.0), "^SGD: needs a number 0 <= momentum < 1, got 1.0$"),
    (lambda: opt.SGD(0.1, momentum=-0.1), "0 <= momentum < 1, got -0.1"), (lambda: opt.SGD(0.1, momentum="0.9"), "got '0.9'"),
    (lambda: opt.SGD(0.1, dampening=2.0), "^SGD: needs a number 0 <= dampening <= 1, got 2.0$"),
    (lambda: opt.SGD(0.1, weight_decay=-1.0), "^SGD: needs a number 0 <= weight_decay < inf, got -1.0$"),
    (lambda: opt.SGD(0.1, weight_decay=float("inf")), "0 <= weight_decay < inf, got inf"),
    (lambda: opt.SGD(0.1, nesterov=True), "momentum > 0 and dampening == 0 for nesterov, got momentum 0.0, dampening 0.0"),
    (lambda: opt.SGD(0.1, momentum=0.9, dampening=0.1, nesterov=True), "got momentum 0.9, dampening 0.1"),
    (lambda: opt.Adam(0.1, betas=(0.9, 1.0)), r"^Adam: needs a number 0 <= betas\[1\] < 1, got 1.0$"),
    (lambda: opt.Adam(0.1, betas=(-1, 0.9)), r"0 <= betas\[0\] < 1, got -1"), (lambda: opt.Adam(0.1, betas=0.9), r"betas \(beta1, beta2\), got 0.9"),
    (lambda: opt.Adam(0.1, betas=(0.9,)), r"betas \(beta1, beta2\), got \(0.9,\)"),
    (lambda: opt.Adam(0.1, eps=0.0), "^Adam: needs a number 0 < eps < inf, got 0.0$"),
    (lambda: opt.AdamW(0.1, weight_decay=-1.0), "^AdamW: needs a number 0 <= weight_decay < inf, got -1.0$"),
    (lambda: opt.RMSprop(0.1, decay=1.0), "^RMSprop: needs a number 0 <= decay < 1, got 1.0$"),
    (lambda: opt.RMSprop(0.1, momentum=1), "^RMSprop: needs a number 0 <= momentum < 1, got 1$"),
    (lambda: opt.RMSprop(0.1, eps=-1e-8), "^RMSprop: needs a number 0 < eps < inf, got -1e-08$"),
    (lambda: opt.Adagrad(0.1, eps=0), "^Adagrad: needs a number 0 < eps < inf, got 0$"),
])  # fmt: skip
def test_settings_out_of_range_are_named(make, text):
    with pytest.raises(ArgumentError, match=text):
        make()


@pytest.mark.parametrize("kind", [opt.SGD, opt.Adam, opt.AdamW, opt.RMSprop, opt.Adagrad])
@pytest.mark.parametrize(
    "form", [dict, dict.values, lambda d: list(d.values()), lambda d: iter([*d.values()])]
)
@pytest.mark.parametrize("rest", [((), {}), ((0.1,), {}), ((), {"lr": 0.1})])
def test_parameters_come_after_the_rate(array, kind, form, rest):
    params = {"w": array([1.0])}
    with pytest.raises(ArgumentError) as caught:
        kind(form(params), *rest[0], **rest[1])
    hint = f"{kind.__name__}(0.1, params=model.get_params())"
    said = f"{kind.__name__}: needs the learning rate first, got parameters\ntry: {hint}"
    assert str(caught.value) == said
    assert kind(0.1, params=form(params)).params == [params["w"]]


def test_an_optimizer_of_one_s_own_may_take_parameters_first(array):
    class Mine(opt.SGD):
        def __init__(self, params, lr):
            super().__init__(lr, params=params)

    weight = array([1.0])
    assert Mine([weight], 0.25).lr == 0.25
    assert list(signature(Mine).parameters) == ["params", "lr"]
    with pytest.raises(TypeError, match="unexpected keyword argument 'rate'"):
        opt.SGD(0.1, rate=3)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_loss_that_cannot_be_followed_counts_no_step(array, recorded):
    w, sgd = array([1.0, 2.0], requires_grad=True), opt.SGD(0.1)

    def step(x, kind):
        losses = {"detached": x.sum(), "many": w * x, "fine": (w * x).sum()}
        sgd(losses[kind])

    call = GraphFunction(step) if recorded else step
    with pytest.raises(
        GradientError, match="backward: needs a tensor that depends on a leaf with requires_grad"
    ):
        call(array([1.0, 1.0]), "detached")
    with pytest.raises(
        GradientError, match="backward: needs a gradient for a root of several elements"
    ):
        call(array([1.0, 1.0]), "many")
    with no_grad(), pytest.raises(GradientError, match="made under no_grad"):
        call(array([1.0, 1.0]), "fine")
    assert (sgd.steps.value, w.tolist()) == (0, [1.0, 2.0])
    call(array([1.0, 1.0]), "fine")
    assert sgd.steps.value == 1


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


# -- other types and kinds -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_parameters_of_other_precision_keep_their_dtype(array, kind, dtype):
    w, optimizer = array([1.0, 2.0], dtype, requires_grad=True), KINDS[kind]()
    before = w.tolist()
    optimizer((w * w).sum())
    assert w.dtype.name == dtype
    assert w.tolist() != before
    assert np.isfinite(w.numpy()).all()


def test_an_optimizer_of_one_s_own_takes_ten_lines(array):
    class SignStep(opt.Optimizer):
        def __init__(self, lr, times=1):
            super().__init__(lr)
            self.times = (times,)

        def update(self, param, grad, rate):
            param.assign(param - ops.sign(grad) * rate * self.times[0])

    w, optimizer = array([1.0, -1.0], requires_grad=True), SignStep(0.25)

    @graph
    def step(x):
        optimizer((w * w * x).sum())

    for _ in range(2):
        step(array([1.0, 1.0]))
    assert w.tolist() == [0.5, -0.5]
    optimizer.times = (2,)  # any attribute is part of the recording
    step(array([1.0, 1.0]))
    assert w.tolist() == [0.0, 0.0]
    assert (optimizer.steps.value, step.records) == (3, 2)


def test_a_frozen_model_has_nothing_to_train(device):
    class Net(Model):
        def __init__(self):
            self.body = Sequential(Linear(2), ReLU())
            self.loss, self.optimizer = lambda y, t: y.sum(), opt.SGD(0.1)

        def forward(self, x):
            return self.body(x)

    net = Net().compile([Placeholder((1, 2), device=device)])
    for cell in net.get_params().values():
        cell.requires_grad = False
    with pytest.raises(GradientError, match="depends on a leaf with requires_grad"):
        net.train_one_batch(np.ones((1, 2), np.float32), np.ones((1, 2), np.float32))
    assert isinstance(net.body[0].weight, Parameter)
