import math

import numpy as np
import pytest

from checks import both, outputs, random
from singa_core import ops
from singa_core.engine import graph
from singa_core.errors import ArgumentError, DTypeError, ShapeError
from singa_core.update import update

STEPS = 20


def zeros(array, count, shape=(3, 4), dtype="float32"):
    return [array(np.zeros(shape), dtype) for _ in range(count)]


# -- by hand ----------------------------------------------------------------------------------------


def test_sgd_by_hand(array):
    p, grad, lr = array([1.0, 2.0]), array([0.5, -1.0]), array(0.5)
    assert both(ops.sgd_step, p, grad, lr).tolist() == [0.75, 2.5]
    y = both(lambda *t: ops.sgd_step(*t, weight_decay=0.5), p, grad, lr)
    assert y.tolist() == [0.5, 2.0]  # 1 - 0.5 * (0.5 + 0.5 * 1), 2 - 0.5 * (-1 + 0.5 * 2)


def test_momentum_by_hand(array):
    p, m, grad, lr = array([1.0]), array([4.0]), array([2.0]), array(0.5)
    p1, m1 = both(lambda *t: ops.sgd_momentum_step(*t, momentum=0.5), p, m, grad, lr)
    assert (m1.tolist(), p1.tolist()) == ([4.0], [-1.0])  # 0.5 * 4 + 2, 1 - 0.5 * 4
    p1, m1 = both(lambda *t: ops.sgd_momentum_step(*t, momentum=0.5, dampening=0.5), p, m, grad, lr)
    assert (m1.tolist(), p1.tolist()) == ([3.0], [-0.5])  # 0.5 * 4 + 0.5 * 2, 1 - 0.5 * 3
    p1, m1 = both(lambda *t: ops.sgd_momentum_step(*t, momentum=0.5, nesterov=True), p, m, grad, lr)
    assert (m1.tolist(), p1.tolist()) == ([4.0], [-1.0])  # 1 - 0.5 * (2 + 0.5 * 4)


def test_adaptive_steps_by_hand(array):
    p, v, grad, lr = array([1.0]), array([7.0]), array([3.0]), array(2.0)
    p1, v1 = both(ops.adagrad_step, p, v, grad, lr)
    np.testing.assert_allclose([v1.item(), p1.item()], [16.0, 1.0 - 2.0 * 3.0 / 4.0], rtol=1e-6)
    p1, v1 = both(lambda *t: ops.rmsprop_step(*t, decay=0.5, eps=1.0), p, array([23.0]), grad, lr)
    np.testing.assert_allclose([v1.item(), p1.item()], [16.0, 1.0 - 2.0 * 3.0 / 5.0], rtol=1e-6)


def test_the_first_step_of_adam_is_lr_long(array):
    p, m, v, grad = array([1.0, 1.0]), *zeros(array, 2, (2,)), array([1e-3, -5.0])
    rates = array(0.5), array(1 - 0.9), array(1 - 0.999)
    p1, m1, v1 = both(ops.adam_step, p, m, v, grad, *rates)
    np.testing.assert_allclose(p1.numpy(), [0.5, 1.5], rtol=1e-4)
    np.testing.assert_allclose(m1.numpy(), [1e-4, -0.5], rtol=1e-5)
    np.testing.assert_allclose(v1.numpy(), [1e-9, 0.025], rtol=1e-4)


# -- against a peer ---------------------------------------------------------------------------------


MOMENTUM, DECAY = {"momentum": 0.8}, {"weight_decay": 0.1}
PEERS = {  # the peer's name and options; ours
    "sgd": ("SGD", {}, ops.sgd_step, {}),
    "sgd decay": ("SGD", DECAY, ops.sgd_step, DECAY),
    "momentum": ("SGD", MOMENTUM, ops.sgd_momentum_step, MOMENTUM),
    "momentum decay": ("SGD", MOMENTUM | DECAY, ops.sgd_momentum_step, MOMENTUM | DECAY),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}, ops.sgd_momentum_step, {"nesterov": True}),
    "adam": ("Adam", {}, ops.adam_step, {}),
    "adam decay": (
        "Adam", DECAY | {"betas": (0.8, 0.99), "eps": 1e-6},
        ops.adam_step, DECAY | {"beta1": 0.8, "beta2": 0.99, "eps": 1e-6},
    ),
    "adamw": ("AdamW", DECAY, ops.adam_step, DECAY | {"decoupled": True}),
    "amsgrad": ("Adam", {"amsgrad": True}, ops.amsgrad_step, {}),
    "amsgrad decoupled": (
        "AdamW", DECAY | {"amsgrad": True}, ops.amsgrad_step, DECAY | {"decoupled": True},
    ),
    "adagrad": ("Adagrad", DECAY, ops.adagrad_step, DECAY),
    "rmsprop": ("RMSprop", {"alpha": 0.9}, ops.rmsprop_step, {"decay": 0.9}),
    "rmsprop momentum": ("RMSprop", MOMENTUM | DECAY, ops.rmsprop_momentum_step, MOMENTUM | DECAY),
}  # fmt: skip


def state_of(op, array, shape):
    """Zeros for each input between p and grad."""
    return zeros(array, op.inputs.index("grad") - 1, shape)


def rates_of(op, array, t, beta1=0.9, beta2=0.999, **attrs):
    """The 0-d inputs of a step."""
    values = {"lr": 0.05, "correction1": 1.0 - beta1**t, "correction2": 1.0 - beta2**t}
    return [array(values[name]) for name in op.inputs if name in values]


@pytest.mark.parametrize("case", PEERS)
@pytest.mark.parametrize("recorded", [False, True], ids=["eager", "graph"])
def test_twenty_steps_are_the_peer_s(array, case, recorded):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    name, options, op, attrs = PEERS[case]
    start, pull = random(3, 4), random(3, 4, low=0.5, high=2.0, seed=1)
    peer = torch.nn.Parameter(torch.tensor(start))
    optimizer = getattr(torch.optim, name)([peer], lr=0.05, **options)
    p, state = array(start), state_of(op, array, (3, 4))

    def step(*tensors):
        return outputs(op(*tensors, **attrs))

    run = graph(step) if recorded else step
    for t in range(1, STEPS + 1):
        optimizer.zero_grad()
        ((peer**2 * torch.tensor(pull)).sum() / t).backward()  # gradients that shrink: for amsgrad
        optimizer.step()
        grad = p * array(pull) * (2.0 / t)
        p, *state = run(p, *state, grad, *rates_of(op, array, t, **attrs))
        np.testing.assert_allclose(p.numpy(), peer.detach().numpy(), rtol=1e-4, atol=1e-5)
    if recorded:
        assert run.records == 1


def test_dampening_agrees_with_the_peer_from_the_right_start(array):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    options = {"momentum": 0.9, "dampening": 0.4}
    peer = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = torch.optim.SGD([peer], lr=0.05, **options)
    p, lr = array([1.0, -2.0]), array(0.05)
    m = p * (0.4 / 0.9)  # dampening / momentum times the first gradient
    for _ in range(5):
        optimizer.zero_grad()
        (peer**2 / 2).sum().backward()
        optimizer.step()
        p, m = ops.sgd_momentum_step(p, m, p, lr, **options)
    np.testing.assert_allclose(p.numpy(), peer.detach().numpy(), rtol=1e-5)


# -- what a step must not do ------------------------------------------------------------------------


def test_update_writes_over_and_snapshots_stay(array):
    p, m = array([1.0]), array([0.0])
    grad, lr = array([2.0]), array(0.5)
    before = p.numpy().copy()
    update(ops.sgd_momentum_step, (p, m, grad, lr), (p, m), momentum=0.5)
    assert (before.tolist(), p.tolist(), m.tolist()) == ([1.0], [0.0], [2.0])


def test_recorded_updates_take_the_rate_at_run_time(array):
    p = array([1.0, 2.0])

    @graph
    def step(grad, lr):
        update(ops.sgd_step, (p, grad, lr), (p,))

    for lr in (0.5, 0.25):
        step(array([1.0, 1.0]), array(lr))
    assert p.tolist() == [0.25, 1.25]
    assert step.records == 1


def test_state_may_be_the_gradient_itself(array):
    grad, lr = array(random(3, 4)), array(0.1)
    p, m = both(ops.sgd_momentum_step, array(random(3, 4, seed=1)), grad, grad, lr)
    np.testing.assert_allclose(m.numpy(), grad.numpy() * 1.9, rtol=1e-6)
    np.testing.assert_allclose(p.numpy(), random(3, 4, seed=1) - 0.19 * grad.numpy(), rtol=1e-5)


def test_float16_parameters_step_in_float32(array):
    p, grad, lr = array([1.0], "float16"), array([1.0], "float16"), array(2.0**-11)
    m = array([0.0], "float32")
    p1, m1 = both(lambda *t: ops.sgd_momentum_step(*t, momentum=0.5), p, m, grad, lr)
    assert (p1.dtype.name, m1.dtype.name) == ("float16", "float32")
    assert p1.tolist() == [1.0 - 2.0**-11]  # one step of float16 below 1
    v = array([0.0], "float32")
    tiny = array([2.0**-14], "float16")  # its square is 0 in float16
    _, v1 = both(ops.adagrad_step, p, v, tiny, lr)
    assert v1.tolist() == [2.0**-28]


@pytest.mark.parametrize("case", PEERS)
def test_a_parameter_without_elements(array, case):
    _, _, op, attrs = PEERS[case]
    p, *state = zeros(array, 1, (0, 2)), *state_of(op, array, (0, 2))
    made = outputs(op(*p, *state, *p, *rates_of(op, array, 1), **attrs))
    assert [t.shape for t in made] == [(0, 2)] * (1 + len(state))


# -- errors -----------------------------------------------------------------------------------------


def test_steps_name_what_does_not_fit(array):
    p, lr = array([1.0, 2.0]), array(0.1)
    rule = (
        r"^sgd_step: needs grad.shape == p.shape, got \(1,\) and \(2,\)\n"
        r"  p: float32 \(2,\) \w+\n  grad: float32 \(1,\) "
    )
    with pytest.raises(ShapeError, match=rule):
        ops.sgd_step(p, array([1.0]), lr)
    with pytest.raises(
        ShapeError, match=r"^sgd_momentum_step: needs m.shape == p.shape, got \(\) and \(2,\)"
    ):
        ops.sgd_momentum_step(p, lr, p, lr)
    with pytest.raises(
        ShapeError, match=r"^sgd_step: needs lr.shape == \(\), got \(2,\)\n  lr: float32 \(2,\)"
    ):
        ops.sgd_step(p, p, p)
    with pytest.raises(
        DTypeError, match="^sgd_step: needs grad.dtype == p.dtype, got float64 and float32"
    ):
        ops.sgd_step(p, p.astype("float64"), lr)
    with pytest.raises(DTypeError, match="^sgd_step: needs a floating dtype, got int64"):
        ops.sgd_step(array([1]), array([1]), lr)


RATES = [
    (ops.sgd_step, 0, {"weight_decay": -0.1}, "0 <= weight_decay < inf, got -0.1"),
    (ops.sgd_momentum_step, 1, {"momentum": 1.0}, "0 <= momentum < 1, got 1.0"),
    (ops.sgd_momentum_step, 1, {"dampening": 1.5}, "0 <= dampening <= 1, got 1.5"),
    (ops.sgd_momentum_step, 1, {"dampening": 0.5, "nesterov": True},
     "momentum > 0 and dampening == 0 with nesterov, got 0.9 and 0.5"),
    (ops.adagrad_step, 1, {"eps": -1.0}, "0 <= eps < inf, got -1.0"),
    (ops.rmsprop_step, 1, {"decay": 1.0}, "0 <= decay < 1, got 1.0"),
    (ops.rmsprop_momentum_step, 2, {"momentum": math.nan}, "0 <= momentum < 1, got nan"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "states", "rates", "told"), RATES)
def test_rates_out_of_range_are_named(array, step, states, rates, told):
    with pytest.raises(ArgumentError, match=rf"^{step.name}: needs (a number )?{told}"):
        step(array([1.0]), *zeros(array, states, (1,)), array([1.0]), array(0.1), **rates)


def test_rates_of_adam_are_checked(array):
    tensors = array([1.0]), *zeros(array, 2, (1,)), array([1.0]), array(0.1), array(0.1), array(0.1)
    with pytest.raises(ArgumentError, match="^adam_step: needs a number 0 <= beta2 < 1, got 1.0"):
        ops.adam_step(*tensors, beta2=1.0)
    with pytest.raises(
        ShapeError, match=r"^adam_step: needs correction2.shape == \(\), got \(1,\)"
    ):
        ops.adam_step(*tensors[:-1], array([0.1]))
