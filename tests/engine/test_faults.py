"""Faults: before the first write of state nothing has changed; after it, the state is lost, and says so."""

import gc

import numpy as np
import pytest

from checks import writes_in_place
from singa_core import (
    Counter,
    execute_once,
    gradients,
    no_grad,
    ops,
    opt,
    random,
    scalar,
    synchronize,
    tensor,
    update,
)
from singa_core.engine import GraphFunction, graph
from singa_core.errors import (
    DeviceFailure,
    OutOfDeviceMemory,
    OutOfRange,
    SingaError,
    StateLost,
)


class Fault(RuntimeError):
    """What a driver might raise."""


def total(x):
    """The sum, with nothing left over: pytest keeps what stands in an assertion."""
    return x.sum().item()


class Step:
    """y = x * 2; w += y; m *= 2, with a counter and a draw: launches in this order."""

    def __init__(self, array):
        self.w, self.m = array([1.0, 2.0]), array([3.0, 4.0])
        self.count = Counter()
        self.function = GraphFunction(self.body)

    def body(self, x):
        self.count.advance()
        rate = scalar(lambda: float(self.count.moment()), device=x.device)
        y = ops.dropout(x * 2.0, p=0.0) + ops.rand((2,), device=x.device) * 0.0 * rate
        self.w.assign(self.w + y)
        self.m.assign(self.m * 2.0)
        return y

    def seen(self):
        return (
            self.w.tolist(), self.m.tolist(), self.count.value,
            [s.state() for s in random.STREAMS.values()],
        )  # fmt: skip


def fail_in_launch(recording, number, error):
    """Let launch `number` of a loaded recording raise, once. Gives its position among the launches."""
    executable = recording.executable
    function, handles = executable._code[number]

    def broken(*args):
        executable._code[number] = (function, handles)
        raise error

    executable._code[number] = (broken, handles)


# -- a fault in mid-replay --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Fault, KeyboardInterrupt])
def test_a_fault_before_the_first_write_has_changed_nothing(array, unfused, kind):
    step, error = Step(array), kind("the driver gave up")
    x = array([1.0, 1.0])
    step.function(x)
    before = step.seen()
    fail_in_launch(step.function.recordings[0], 0, error)
    with pytest.raises((DeviceFailure, KeyboardInterrupt)) as caught:
        step.function(x)
    if kind is Fault:
        first = step.function.recordings[0].executable.placed.steps[0].entry
        specs = ", ".join(map(str, first.in_specs))
        assert f"failed with Fault: the driver gave up\n  inputs: {specs}" in str(caught.value)
        assert caught.value.__cause__ is error
    assert step.seen() == before
    assert step.function(x).tolist() == [2.0, 2.0]
    assert (step.w.tolist(), step.m.tolist(), step.count.value) == ([5.0, 6.0], [12.0, 16.0], 2)


@pytest.mark.parametrize("kind", [Fault, KeyboardInterrupt])
def test_a_fault_after_the_first_write_loses_the_state_and_says_so(array, unfused, kind):
    step, error = Step(array), kind("the driver gave up")
    x = array([1.0, 1.0])
    step.function(x)
    snapshot = step.w.detach()
    (recording,) = step.function.recordings
    first = recording.executable._first_write
    last = len(recording.executable._code) - 1
    assert 0 < first < last
    fail_in_launch(recording, last, error)
    with pytest.raises((StateLost, KeyboardInterrupt)) as caught:
        step.function(x)
    if kind is Fault:
        text = str(caught.value)
        assert f"replay failed at launch {last} (" in text
        launched = last < len(recording.executable.placed.steps)  # else a copy to a cell
        cause = "DeviceFailure" if launched else "Fault"
        assert f"2 cells are neither old nor new\n  cause: {cause}: " in text
        assert (
            "\ntry: load the last checkpoint with include_state=True, or assign every parameter"
            in text
        )
    reads = (
        step.w.tolist, step.w.numpy, lambda: float(step.m[0]), lambda: repr(step.w), step.m.item,
        lambda: step.function(x), lambda: step.w.to(step.w.device).tolist(),
    )  # fmt: skip
    for read in reads:
        with pytest.raises(SingaError):
            read()
    with pytest.raises(
        StateLost, match=r"half written by a replay that failed\ntry: load the last"
    ):
        step.w.tolist()
    assert snapshot.tolist() == [3.0, 4.0]
    # assigning every cell heals
    step.w.assign([0.0, 0.0])
    assert step.w.tolist() == [0.0, 0.0]
    with pytest.raises(StateLost, match="replay: a parameter or state was left half written"):
        step.function(x)
    step.m.assign(snapshot)
    step.function(x)
    assert (step.w.tolist(), step.m.tolist()) == ([2.0, 2.0], [6.0, 8.0])


def test_a_lost_cell_does_not_spread(array):
    step = Step(array)
    x, other = array([1.0, 1.0]), array([0.0, 0.0])
    step.function(x)
    (recording,) = step.function.recordings
    fail_in_launch(recording, len(recording.executable._code) - 1, Fault())
    with pytest.raises(StateLost):
        step.function(x)
    for use in (
        lambda: other.assign(step.w), lambda: step.w + 1.0, lambda: ops.exp(step.w),
        lambda: step.w.detach().tolist(), lambda: step.w[:1].tolist(),
    ):  # fmt: skip
        with pytest.raises(StateLost):
            use().tolist()
    assert other.tolist() == [0.0, 0.0]


def test_a_fault_in_a_copy_to_state_loses_it(array):
    a, b = array([1.0]), array([2.0])

    @graph
    def step(x):
        old = a.detach()
        a.assign(x)
        b.assign(old)

    step(array([5.0]))
    assert (a.item(), b.item()) == (5.0, 1.0)
    (recording,) = step.recordings
    first, count = recording.executable._first_write, len(recording.executable._code)
    assert first < count
    fail_in_launch(recording, count - 1, Fault("in the copy"))
    with pytest.raises((StateLost, DeviceFailure)) as caught:
        step(array([6.0]))
    if first < count - 1:
        assert isinstance(caught.value, StateLost)


def test_another_recording_over_lost_state_refuses(array):
    step = Step(array)
    x = array([1.0, 1.0])
    step.function(x)

    @graph
    def evaluate(x):
        return x + step.w

    evaluate(x)
    (recording,) = step.function.recordings
    fail_in_launch(recording, len(recording.executable._code) - 1, Fault())
    with pytest.raises(StateLost):
        step.function(x)
    with pytest.raises(StateLost, match="replay: a parameter or state was left half written"):
        evaluate(x)
    with pytest.raises(StateLost):
        GraphFunction(lambda x: x * step.m)(x)


def test_a_failed_replay_keeps_no_arguments(array, device, unfused):
    step = Step(array)
    x = array([1.0, 1.0])
    step.function(x)
    (recording,) = step.function.recordings
    fail_in_launch(recording, 0, Fault())
    gc.collect()
    kept = device.memory.current
    big = array([1.0, 2.0])
    with pytest.raises(DeviceFailure):
        step.function(big)
    del big
    gc.collect()
    assert device.memory.current == kept


# -- values that a kernel refuses -------------------------------------------------------------------------


def test_a_label_out_of_range_in_a_replay_loses_nothing(array, device):
    w = array(np.ones((3, 4), np.float32), requires_grad=True)
    sgd = opt.Adam(0.1)

    @graph
    def step(x, labels):
        loss = ops.cross_entropy(x @ w, labels)
        sgd(loss)
        return loss

    x = array(np.ones((2, 3), np.float32))
    step(x, array([0, 1]))
    before = w.tolist(), sgd.steps.value
    if device.capabilities.synchronous:
        with pytest.raises(OutOfRange, match="4"):
            step(x, array([0, 4]))
        assert (w.tolist(), sgd.steps.value) == before
        assert np.isfinite(step(x, array([3, 0])).item())
        assert sgd.steps.value == 2
        return
    # a late device: the update was queued behind the error, and nobody knows what it did
    loss = step(x, array([0, 4]))
    with pytest.raises(
        StateLost,
        match=rf"{device}: \w+ failed with OutOfRange: .*\n  after state had begun to change",
    ):
        loss.item()
    with pytest.raises(StateLost):
        w.tolist()


def test_a_label_out_of_range_before_any_update_on_any_device(array, device):
    w = array(np.ones((3, 4), np.float32))

    @graph
    def evaluate(x, labels):
        return ops.cross_entropy(x @ w, labels)

    x = array(np.ones((2, 3), np.float32))
    evaluate(x, array([0, 1]))
    with pytest.raises(OutOfRange, match="4"):
        evaluate(x, array([0, 4])).item()
    assert w.tolist() == [[1.0] * 4] * 3
    assert np.isfinite(evaluate(x, array([3, 0])).item())


# -- late errors --------------------------------------------------------------------------------------------


def test_a_late_error_in_eager_code_is_a_device_failure(far_device):
    x = tensor([1.0], device=far_device)
    far_device.fail_at(1)
    y = x + 1.0
    with pytest.raises(
        DeviceFailure, match=r"far: \w+ failed with RuntimeError: far: a fault was asked for"
    ):
        y.item()
    assert (x + 1.0).item() == 2.0


def test_a_late_error_in_a_replay_loses_what_it_wrote(far_device):
    w, untouched = tensor([1.0], device=far_device), tensor([7.0], device=far_device)

    @graph
    def step(x):
        w.assign(w + x * untouched)
        return w * 2.0

    x = tensor([1.0], device=far_device)
    assert step(x).item() == 16.0
    far_device.fail_at(1)
    step(x)
    with pytest.raises(StateLost, match=r"after state had begun to change; 1 cells are neither"):
        synchronize(far_device)
    with pytest.raises(StateLost):
        w.item()
    with pytest.raises(StateLost):
        step(x)
    assert untouched.item() == 7.0
    w.assign([2.0])
    assert step(x).item() == 18.0


def test_what_a_wait_has_found_well_is_not_lost_by_a_later_error(far_device):
    w = tensor([1.0], device=far_device)

    @graph
    def step(x):
        w.assign(w + x)

    @graph
    def look(x):
        return x * 3.0

    x = tensor([1.0], device=far_device)
    step(x)
    synchronize(far_device)
    far_device.fail_at(1)
    y = look(x)
    with pytest.raises(DeviceFailure):
        y.item()
    assert w.item() == 2.0


def test_an_eager_update_in_place_that_fails_late_loses_the_cell(far_device):
    w, rate = tensor([1.0], device=far_device), tensor(0.5, device=far_device)
    grad = tensor([1.0], device=far_device)
    update(ops.sgd_step, (w, grad, rate), (w,))
    assert w.item() == 0.5
    far_device.fail_at(1)
    update(ops.sgd_step, (w, grad, rate), (w,))
    with pytest.raises(StateLost):
        synchronize(far_device)
    with pytest.raises(StateLost):
        w.item()
    w.assign([3.0])
    assert w.item() == 3.0


def test_an_eager_update_in_place_that_fails_at_once_loses_the_cell(array, device, monkeypatch):
    if not device.capabilities.synchronous:
        pytest.skip("faults of this device are late")
    w, rate, grad = array([1.0]), array(0.5), array([1.0])
    update(ops.sgd_step, (w, grad, rate), (w,))

    def broken(*args):
        raise Fault("half way")

    monkeypatch.setattr(device, "call", broken)
    if not writes_in_place(device, ops.sgd_step, w, grad, rate):
        with pytest.raises(DeviceFailure, match="half way"):
            update(ops.sgd_step, (w, grad, rate), (w,))
        monkeypatch.undo()
        assert w.item() == 0.5
        return
    with pytest.raises(StateLost, match=r"sgd_step .*half way(.|\n)*try: load the last checkpoint"):
        update(ops.sgd_step, (w, grad, rate), (w,))
    monkeypatch.undo()
    with pytest.raises(StateLost):
        w.item()
    w.assign([3.0])
    assert w.item() == 3.0


# -- out of memory ----------------------------------------------------------------------------------------


def test_out_of_memory_in_eager_code(far_device):
    x = tensor(np.ones(256, np.float32), device=far_device)
    used = far_device.memory.current
    far_device.limit = sum(far_device.alive) + 512
    with pytest.raises(
        OutOfDeviceMemory,
        match=r"far: out of memory: needs 1024 bytes, \d+ bytes in use, capacity \d+ bytes\ntry: ",
    ):
        x + x
    with pytest.raises(OutOfDeviceMemory):
        tensor(np.ones(256, np.float32), device=far_device)
    assert far_device.memory.current == used
    far_device.limit = None
    assert (x + x).sum().item() == 512.0


def test_out_of_memory_while_loading_changes_nothing(far_device):
    w = tensor(np.ones(256, np.float32), device=far_device)
    count = Counter()

    @graph
    def step(x):
        count.advance()
        w.assign(w + x)
        return (w * 2.0).sum()

    x = tensor(np.ones(256, np.float32), device=far_device)
    used = far_device.memory.current
    for spare in (0, 1024, 2048, 3072):
        far_device.limit = sum(far_device.alive) + spare
        try:
            got = step(x)
            break
        except OutOfDeviceMemory:
            far_device.limit = None
        assert total(w) == 256.0
        assert count.value == 0
        assert step.recordings == ()
        assert far_device.memory.current <= used
    else:
        pytest.fail("even 3 KiB are not enough")
    assert spare > 0
    far_device.limit = None
    assert got.item() == 1024.0
    assert count.value == 1


def test_out_of_memory_in_a_replay_changes_nothing(far_device):
    w = tensor(np.ones(256, np.float32), device=far_device)
    count = Counter()

    @graph
    def step(x):
        count.advance()
        x += 1.0
        ops.rand((4,), device=x.device)
        w.assign(w + x)
        return w * 2.0

    x = tensor(np.ones(256, np.float32), device=far_device)
    held = [step(x), w.detach()]  # so that the next replay needs memory
    before = w.sum().item(), x.sum().item(), count.value, random.STREAMS["user"].state()
    for spare in (0, 1024):
        far_device.limit = sum(far_device.alive) + spare
        with pytest.raises(OutOfDeviceMemory):
            step(x)
        far_device.limit = None
        after = w.sum().item(), x.sum().item(), count.value, random.STREAMS["user"].state()
        assert after == before
    assert step(x).sum().item() == 256 * 2 * (1 + 2 + 3)
    assert [t.sum().item() for t in held] == [256 * 2 * 3, 256 * 3]


def test_out_of_memory_in_the_middle_of_backward_leaves_no_gradient_behind(far_device):
    w = tensor(np.ones(256, np.float32), device=far_device, requires_grad=True)
    loss = ((w * 2.0) * w).sum()
    far_device.limit = sum(far_device.alive) + 1500
    with pytest.raises(OutOfDeviceMemory):
        loss.backward()
    assert w.grad is None
    del loss
    far_device.limit = None
    (w * 3.0).sum().backward()
    assert w.grad.sum().item() == 768.0


# -- closed ---------------------------------------------------------------------------------------------------


def test_a_closed_executable_refuses_to_run(array):
    @graph
    def step(x):
        return ((x @ x) @ x).sum()  # with values in the shared scratch memory

    x = array([[1.0, 1.0], [1.0, 1.0]])
    step(x)
    (recording,) = step.recordings
    recording.executable.close()
    recording.executable.close()
    with pytest.raises(StateLost, match="was closed\ntry: record the function again"):
        recording.replay([x])
    step.clear()
    assert step(x).item() == 16.0


def test_a_closed_executable_holds_no_memory(array, device):
    w = array(np.ones(500, np.float32))

    @graph
    def step(x):
        w.assign(w + x)
        return (w * x).sum() * scalar(lambda: 2.0, device=device)

    x = array(np.ones(500, np.float32))
    gc.collect()
    before = device.memory.current
    step(x)
    (recording,) = step.recordings
    recording.executable.close()
    assert device.memory.current == before


# -- scalars and host code ------------------------------------------------------------------------------------


def test_host_code_that_raises_in_a_replay_changes_nothing(array, device):
    w, count, fail = array([1.0]), Counter(), []

    def rate():
        if fail:
            raise Fault("no rate today")
        return 2.0

    @graph
    def step(x):
        count.advance()
        ops.rand((4,), device=device)
        w.assign(w * scalar(rate, device=device))
        return w * x

    x = array([1.0])
    assert step(x).item() == 2.0
    before = random.STREAMS["user"].state()
    fail.append(1)
    with pytest.raises(Fault, match="no rate today"):
        step(x)
    assert (w.item(), count.value, random.STREAMS["user"].state()) == (2.0, 1, before)
    fail.clear()
    assert step(x).item() == 4.0


def test_a_fault_inside_execute_once_ends_the_recording_cleanly(array):
    fail = True

    @graph
    def step(x):
        with execute_once(), no_grad():
            if fail:
                raise Fault
        return gradients((x * x).sum(), x)

    x = array([3.0], requires_grad=True)
    with pytest.raises(Fault):
        step(x)
    fail = False
    assert step(x).item() == 6.0
