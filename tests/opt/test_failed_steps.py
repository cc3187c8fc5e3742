"""Steps and draws that fail: nothing has changed, or it is said what has."""

import numpy as np
import pytest

from singa_core import ops, opt, random
from singa_core.errors import DeviceError, GradientError, OutOfDeviceMemory, ShapeError, StateLost
from singa_core.tensor import tensor

KINDS = {
    "sgd": lambda params: opt.SGD(0.1, params=params),
    "momentum": lambda params: opt.SGD(0.1, momentum=0.9, params=params),
    "adam": lambda params: opt.Adam(0.1, params=params),
    "rmsprop": lambda params: opt.RMSprop(0.1, params=params),
}


def leaves(device, count=3, size=4):
    made = [
        tensor(np.full(size, i + 1.0, np.float32), device=device, requires_grad=True)
        for i in range(count)
    ]
    for x in made:
        x.grad = ops.ones_like(x)
    return made


def values(params):
    return [p.tolist() for p in params]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", ["shape", "dtype", "device"])
def test_one_bad_gradient_changes_nothing(device, other_device, kind, bad):
    params = leaves(device)
    optimizer = KINDS[kind](params)
    optimizer.step()
    before, states = values(params), optimizer.get_states({str(i): p for i, p in enumerate(params)})
    states = {k: getattr(v, "tolist", lambda v=v: v)() for k, v in states.items()}
    last = params[-1]
    last._grad = {  # past the setter, which refuses each of them
        "shape": lambda: ops.ones((2,), device=device),
        "dtype": lambda: ops.ones((4,), dtype="float64", device=device),
        "device": lambda: ops.ones((4,), device=other_device),
    }[bad]()
    with pytest.raises(
        (ShapeError, DeviceError, TypeError),
        match=rf"^{type(optimizer).__name__}.step: needs the cell's {bad}",
    ):
        optimizer.step()
    assert values(params) == before
    after = optimizer.get_states({str(i): p for i, p in enumerate(params)})
    assert {k: getattr(v, "tolist", lambda v=v: v)() for k, v in after.items()} == states


def test_a_gradient_is_where_its_owner_is(device, other_device):
    (x,) = leaves(device, 1)
    with pytest.raises(
        DeviceError, match=rf"^grad: needs a tensor on {device}, as its owner, got {other_device}"
    ):
        x.grad = ops.ones((4,), device=other_device)
    assert x.grad.device is device


@pytest.mark.parametrize("kind", KINDS)
def test_no_memory_for_the_first_update_changes_nothing(far_device, kind):
    params = leaves(far_device)
    optimizer, held = KINDS[kind](params), [p.detach() for p in params]  # so it cannot be in place
    before = values(params)
    far_device.limit = sum(far_device.alive) + 8
    with pytest.raises(OutOfDeviceMemory):
        optimizer.step()
    far_device.limit = None
    assert values(params) == before
    assert optimizer.steps.value == 0
    optimizer.step()
    assert values(held) == before
    assert optimizer.steps.value == 1


def test_no_memory_for_a_later_update_says_that_the_state_is_lost(far_device):
    params = leaves(far_device)
    optimizer = opt.SGD(0.1, params=params)
    optimizer.step()
    held = [p.detach() for p in params]  # so that each update needs memory
    far_device.limit = sum(far_device.alive) + 40  # enough for one
    told = (
        r"^SGD: the step failed when 1 parameters were updated, the others were not\n"
        r"  cause: OutOfDeviceMemory: (.|\n)*every slot of the optimiser"
    )
    with pytest.raises(StateLost, match=told):
        optimizer.step()
    far_device.limit = None
    same = [a.tolist() == b.tolist() for a, b in zip(held, params, strict=True)]
    assert same == [False, True, True]


def test_a_loss_without_a_path_is_no_step(device):
    params = leaves(device)
    optimizer = opt.SGD(0.1, params=params)
    with pytest.raises(GradientError):
        optimizer(tensor(1.0, device=device))
    assert optimizer.steps.value == 0


DRAWS = {
    "rand": lambda d: ops.rand((64,), device=d), "randn": lambda d: ops.randn((64,), device=d),
    "uniform": lambda d: ops.uniform((64,), 1.0, 2.0, device=d),
    "normal": lambda d: ops.normal((64,), 1.0, 2.0, device=d),
    "bernoulli": lambda d: ops.bernoulli((64,), 0.5, device=d),
    "randint": lambda d: ops.randint(0, 9, (64,), device=d),
    "permutation": lambda d: ops.permutation(64, device=d),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_without_memory_does_not_move_the_stream(far_device, name):
    stream = random.STREAMS["user"]
    DRAWS[name](far_device)  # makes the constants that are kept
    random.manual_seed(5)
    failed = 0
    for spare in range(0, 1600, 64):
        far_device.limit = sum(far_device.alive) + spare
        try:
            DRAWS[name](far_device)
        except OutOfDeviceMemory:
            failed += 1
            assert stream.position == 0
        else:
            break
    far_device.limit = None
    assert failed >= 2
    random.manual_seed(5)
    first = DRAWS[name](far_device).tolist()
    random.manual_seed(5)
    assert DRAWS[name](far_device).tolist() == first


def test_dropout_without_memory_does_not_move_its_stream(far_device):
    x, stream = ops.ones((64,), device=far_device), random.STREAMS["train"]
    ops.dropout(x, p=0.5)
    before = stream.position
    far_device.limit = sum(far_device.alive) + 64
    with pytest.raises(OutOfDeviceMemory):
        ops.dropout(x, p=0.5)
    far_device.limit = None
    assert stream.position == before


def test_what_another_thread_drew_is_not_drawn_again():
    stream = random.STREAMS["user"]
    start = stream.position

    def fails():
        with stream.unless_failed():
            stream.take(3)
            stream.position += 2  # as another thread's take would
            raise ValueError("later")

    with pytest.raises(ValueError, match="later"):
        fails()
    assert stream.position == start + 5
