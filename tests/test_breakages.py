"""What once broke, each with the right value."""

import os
import threading

import numpy as np
import pytest

from singa_core import Counter, graph, ops, opt, scalar, tensor
from singa_core.autograd import backward, gradients
from singa_core.errors import ArgumentError, DTypeError, GradientError
from singa_core.parameter import Parameter


@pytest.mark.parametrize(("name", "slope"), [("elu", 1.0), ("selu", 1.7580993), ("celu", 1.0)])
def test_exponential_units_have_their_left_slope_at_zero(array, name, slope):
    x = array([0.0], requires_grad=True)
    np.testing.assert_allclose(gradients(getattr(ops, name)(x).sum(), x).item(), slope, rtol=1e-6)


@pytest.mark.parametrize(("value", "dtype"), [(300.0, "int8"), (-1.0, "uint8"), (np.inf, "int64")])
def test_floats_that_do_not_fit_an_integer_dtype_are_refused(device, value, dtype):
    with pytest.raises(DTypeError, match=f"needs numbers in the range of {dtype}"):
        tensor(value, dtype=dtype, device=device)
    assert tensor([1.5, -2.0], dtype="int8", device=device).tolist() == [1, -2]


def test_a_number_beyond_all_floats_is_refused(array):
    with pytest.raises(DTypeError, match="constant: needs a number in the range of float32"):
        array([1.0]) + 10**400


def test_a_state_that_went_and_another_of_its_id_are_two(device):
    shapes = graph(lambda w: ops.ones(w.shape, device=device))
    for n in (2, 3, 4, 5):
        w = tensor(np.zeros(n, np.float32), device=device)
        graph(lambda w=w: w * 1.0, device=device)()  # gives it a home
        assert shapes(w).shape == (n,)
        del w


def test_a_vector_meets_host_data(array):
    v = array([1.0, 2.0])
    assert (v @ np.array([3.0, 4.0], np.float32)).item() == 11.0
    assert (v @ [[1.0, 0.0], [0.0, 1.0]]).tolist() == [1.0, 2.0]


def test_what_is_no_gradient_is_refused(array):
    x = array([1.0, 2.0], requires_grad=True)
    for wrong in (5, array([1.0])):
        with pytest.raises(GradientError, match="grad: needs a tensor"):
            x.grad = wrong
    for call in (lambda: backward(1.0), lambda: gradients(5, x), lambda: x.sum().backward(5)):
        with pytest.raises(GradientError, match="backward: needs tensors as roots and gradients"):
            call()
    remove = x.register_hook(lambda grad: grad[:1])
    with pytest.raises(GradientError, match="hook: needs None or a gradient like float32"):
        x.sum().backward()
    remove()
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf"), "a", None])
def test_a_schedule_gives_a_rate(array, rate):
    p = Parameter((1,), "ones")
    p.materialize(array([1.0]).device)
    sgd = opt.SGD(lambda step: rate)
    with pytest.raises(ArgumentError, match="schedule: needs a number 0 <= rate"):
        sgd((p * 1.0).sum())
    assert p.tolist() == [1.0]


def test_what_is_exported_is_a_copy(array):
    x = array([1.0, 2.0])
    np.from_dlpack(x)[...] = 9.0
    assert x.tolist() == [1.0, 2.0]


def test_an_interrupt_after_the_last_launch_does_not_count_back(device, monkeypatch):
    from singa_core.executable import LoopExecutable  # noqa: PLC0415  (to be broken here)

    steps, w = Counter(), tensor([0.0], device=device)

    @graph
    def step(x):
        steps.advance()
        w.assign(w + x * scalar(lambda: steps.value, device=device))

    step(tensor([1.0], device=device))
    finish = LoopExecutable._finish

    def interrupted(self):
        finish(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(LoopExecutable, "_finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step(tensor([1.0], device=device))
    assert (steps.value, w.item()) == (2, 3.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_forked_while_a_thread_replays_is_free(array):
    device = array([1.0]).device
    held, done = threading.Event(), threading.Event()

    def hold():
        with device.state.lock:
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if device.state.lock.acquire(timeout=5) else 1)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
