"""Optimisers against another framework's: the same numbers after twenty steps, in every way of use."""

import numpy as np
import pytest

from house import counts
from singa_core import ops, opt
from singa_core.engine import GraphFunction

torch = pytest.importorskip("torch", reason="torch is the oracle of this test")

OPTIM = torch.optim
CASES = {
    "sgd": (lambda: opt.SGD(0.1), lambda p: OPTIM.SGD(p, 0.1)),
    "sgd decay": (
        lambda: opt.SGD(0.1, weight_decay=0.1), lambda p: OPTIM.SGD(p, 0.1, weight_decay=0.1),
    ),
    "momentum": (
        lambda: opt.SGD(0.05, momentum=0.9, weight_decay=0.01),
        lambda p: OPTIM.SGD(p, 0.05, momentum=0.9, weight_decay=0.01),
    ),
    "dampening": (
        lambda: opt.SGD(0.2, momentum=0.8, dampening=0.5),
        lambda p: OPTIM.SGD(p, 0.2, momentum=0.8, dampening=0.5),
    ),
    "nesterov": (
        lambda: opt.SGD(0.05, momentum=0.9, nesterov=True),
        lambda p: OPTIM.SGD(p, 0.05, momentum=0.9, nesterov=True),
    ),
    "nesterov decay": (
        lambda: opt.SGD(0.05, momentum=0.8, nesterov=True, weight_decay=0.1),
        lambda p: OPTIM.SGD(p, 0.05, momentum=0.8, nesterov=True, weight_decay=0.1),
    ),
    "adam": (
        lambda: opt.Adam(0.02, betas=(0.8, 0.95), eps=1e-6),
        lambda p: OPTIM.Adam(p, 0.02, betas=(0.8, 0.95), eps=1e-6),
    ),
    "adam decay": (
        lambda: opt.Adam(0.02, weight_decay=0.1), lambda p: OPTIM.Adam(p, 0.02, weight_decay=0.1),
    ),
    "adamw": (lambda: opt.AdamW(0.02), lambda p: OPTIM.AdamW(p, 0.02, weight_decay=0.01)),
    "rmsprop": (lambda: opt.RMSprop(0.01), lambda p: OPTIM.RMSprop(p, 0.01)),
    "rmsprop momentum": (
        lambda: opt.RMSprop(0.01, decay=0.9, eps=1e-6, momentum=0.8, weight_decay=0.05),
        lambda p: OPTIM.RMSprop(p, 0.01, 0.9, 1e-6, momentum=0.8, weight_decay=0.05),
    ),
    "adagrad": (lambda: opt.Adagrad(0.1), lambda p: OPTIM.Adagrad(p, 0.1)),
    "adagrad decay": (
        lambda: opt.Adagrad(0.1, eps=1e-6, weight_decay=0.1),
        lambda p: OPTIM.Adagrad(p, 0.1, eps=1e-6, weight_decay=0.1),
    ),
}  # fmt: skip


def drawn(*shape):
    return np.random.default_rng([3, *shape]).normal(size=shape).astype(np.float32)


START, X, Y = [drawn(3, 4), drawn(4), drawn(4, 2)], drawn(5, 3), drawn(5, 2)


def of_the_peer(make):
    """The parameters after twenty steps, and the gradients of the first."""
    params = [torch.tensor(p, requires_grad=True) for p in START]
    peer, first = make(params), None
    for _ in range(20):
        peer.zero_grad()
        hidden = torch.tanh(torch.tensor(X) @ params[0] + params[1])
        ((hidden @ params[2] - torch.tensor(Y)) ** 2).mean().backward()
        first = first or [p.grad.numpy().copy() for p in params]
        peer.step()
    return [p.detach().numpy() for p in params], first


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("how", ["call", "step"])
@pytest.mark.parametrize("case", CASES)
def test_twenty_steps_are_those_of_the_peer(array, case, how, recorded):
    ours, theirs = CASES[case]
    wanted, first = of_the_peer(theirs)
    own = [array(p, requires_grad=True) for p in START]
    optimizer = ours()
    if case == "dampening":  # the peer's buffer starts as the first gradient, ours at zero
        for p, grad in zip(own, first, strict=True):
            optimizer.slot(p, "momentum").assign(grad * np.float32(0.5 / 0.8))
    if how == "step":
        optimizer.params = own

    def train(x, y):
        loss = ((ops.tanh(x @ own[0] + own[1]) @ own[2] - y) ** 2).mean()
        if how == "call":
            optimizer(loss)
            return
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    call = GraphFunction(train) if recorded else train
    for _ in range(20):
        call(array(X), array(Y))
    for mine, peers, start in zip(own, wanted, START, strict=True):
        assert np.abs(peers - start).max() > 0.01
        np.testing.assert_allclose(mine.numpy(), peers, rtol=3e-5, atol=3e-6)
    assert optimizer.steps.value == 20
    counts.gradient_checked("peer")
    if recorded:
        assert call.records <= 2  # with .grad None at first, then as it was left
