"""Recording: what it leaves alone, what it refuses, and what becomes state, input or constant."""

import gc
import inspect
import threading
import weakref

import numpy as np
import pytest

from singa_core import ops, random
from singa_core.autograd import gradients
from singa_core.engine import GraphFunction, graph
from singa_core.errors import DeviceError, GradientError, RecordingError
from singa_core.mode import MODE, execute_once, grad_enabled, no_grad, recording
from singa_core.recorder import RecordingWarning
from singa_core.scalars import Counter, scalar
from singa_core.tensor import tensor


def line_of(function, mark):
    """`file:line` of the line of a recorded function that ends with `mark`."""
    lines, first = inspect.getsourcelines(function.function)
    (at,) = [i for i, line in enumerate(lines) if line.rstrip().endswith(mark)]
    return f"{inspect.getsourcefile(function.function)}:{first + at}"


class Stop(Exception):
    pass


# -- an exception undoes itself -----------------------------------------------------------------------


def test_an_exception_while_recording_leaves_everything_as_it_was(array, device):
    cell, count = array([1.0, 2.0], requires_grad=True), Counter(5)
    before = {name: stream.state() for name, stream in random.STREAMS.items()}
    fail = True

    def step(x):
        cell.assign(cell.detach() + x)
        count.advance()
        ops.dropout(x, p=0.5)
        (cell * x).sum().backward()
        if fail:
            raise Stop
        return cell * 1.0

    function = GraphFunction(step)
    x = array([10.0, 10.0])
    with pytest.raises(Stop):
        function(x)
    assert cell.tolist() == [1.0, 2.0]
    assert cell.grad is None
    assert cell.home is None
    assert count.value == 5
    assert {name: stream.state() for name, stream in random.STREAMS.items()} == before
    assert MODE.get().recorder is None
    assert grad_enabled()
    assert function.recordings == ()
    fail = False
    assert function(x).tolist() == [11.0, 12.0]
    assert (count.value, cell.grad.tolist()) == (6, [10.0, 10.0])


def test_the_first_call_runs_once_like_any_replay(array):
    cell, count = array([0.0]), Counter()

    @graph
    def step(x):
        count.advance()
        cell.assign(cell + x)
        return cell * 2.0

    assert [step(array([1.0])).item() for _ in range(3)] == [2.0, 4.0, 6.0]
    assert (count.value, cell.item(), step.records) == (3, 3.0, 1)


def test_what_is_assigned_is_read_back_within_the_recording(array):
    cell = array([1.0])

    @graph
    def step(x):
        before = cell * 1.0
        cell.assign(x)
        middle = cell * 1.0
        cell.assign(cell + cell)
        return before, middle, cell * 1.0

    for start, value in ((1.0, 3.0), (6.0, 5.0)):
        got = step(array([value]))
        assert [t.item() for t in got] == [start, value, 2 * value]
    assert cell.item() == 10.0


def test_python_side_effects_run_only_while_recording(array):
    calls = []

    @graph
    def step(x):
        calls.append(x.shape)
        return x + 1.0

    for _ in range(3):
        step(array([1.0]))
    assert calls == [(1,)]


# -- reading on the host --------------------------------------------------------------------------------

READS = {
    "float()": lambda x: float(x),
    "int()": lambda x: int(x),
    "bool()": lambda x: bool(x),
    "an index": lambda x: [1, 2][x.astype("int64")],
    "complex()": lambda x: complex(x),
    "item()": lambda x: x.item(),
    "numpy()": lambda x: x.numpy(),
    "tolist()": lambda x: x.tolist(),
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: x.unique(),
    "x[mask]": lambda x: x[x > 0],
}


@pytest.mark.parametrize("what", READS)
@pytest.mark.parametrize("place", ["argument", "cell", "result"])
def test_a_host_read_names_the_line_and_what_to_do(array, what, place):
    cell = array([1.0])

    @graph
    def step(x):
        return READS[what]({"argument": x, "cell": cell, "result": x + 1.0}[place])

    with pytest.raises(RecordingError, match="while a graph is recorded") as caught:
        step(array([1.0]))
    text = str(caught.value)
    assert what in text
    assert f"{inspect.getsourcefile(READS[what])}:{inspect.getsourcelines(READS[what])[1]}" in text
    assert "try: keep it on the device" in text
    assert "return it and read it after the call" in text


def test_if_on_a_tensor_names_the_line_of_the_if(array):
    @graph
    def step(x):
        if x.sum() > 0:  # here
            return x
        return -x

    with pytest.raises(RecordingError, match=r"bool\(\)") as caught:
        step(array([1.0]))
    assert line_of(step, "# here") in str(caught.value)


def test_np_asarray_of_a_symbolic_tensor_is_a_host_read(array):
    @graph
    def step(x):
        return np.asarray(x)

    with pytest.raises(RecordingError, match=r"numpy\(\)"):
        step(array([1.0]))


def test_shapes_are_plain_numbers_and_may_be_branched_on(array):
    @graph
    def step(x):
        assert type(x.shape[0]) is int
        return x.sum() if len(x) > 2 else x * float(x.size)

    assert step(array([1.0, 1.0])).tolist() == [2.0, 2.0]
    assert step(array([1.0, 1.0, 1.0])).item() == 3.0
    assert step.records == 2


def test_a_symbolic_tensor_can_be_printed(array):
    shown = []

    @graph
    def step(x):
        y = x + 1.0
        shown.append(f"{y} {x}")
        return y

    step(array([1.0]))
    assert shown[0].startswith("<symbolic float32 (1,) of <add")


# -- symbolic tensors that got away ---------------------------------------------------------------------


def test_a_leaked_symbolic_tensor_says_so_when_it_is_used(array):
    kept, layer = [], type("Holder", (), {})()

    @graph
    def step(x):
        layer.hidden = x * 2.0
        kept.append(x)
        return layer.hidden + 1.0

    x = array([1.0])
    assert step(x).item() == 3.0
    for leaked in (layer.hidden, kept[0]):
        uses = (
            lambda t: t.numpy(), float, lambda t: t + 1.0, lambda t: x + t, lambda t: t.device,
            lambda t: ops.exp(t), lambda t: x.assign(t), lambda t: t.detach(), lambda t: t.sum(),
        )  # fmt: skip
        for use in uses:
            with pytest.raises(
                RecordingError, match="symbolic tensor outside of its recording"
            ) as caught:
                use(leaked)
            assert "try: return it from the recorded function" in str(caught.value)
            assert "test_recording.py:" in str(caught.value)
    assert x.item() == 1.0


def test_a_leaked_symbolic_tensor_is_refused_by_another_recording(array):
    kept = []

    @graph
    def first(x):
        kept.append(x + 1.0)
        return kept[-1]

    @graph
    def second(x):
        return x + kept[-1]

    first(array([1.0]))
    with pytest.raises(RecordingError, match="symbolic tensor outside of its recording"):
        second(array([1.0]))
    with pytest.raises(RecordingError, match="symbolic tensor outside of its recording"):
        second(kept[-1])


# -- execute_once ---------------------------------------------------------------------------------------


def test_execute_once_leaves_the_recording(array):
    cell, seen = array([3.0]), []

    @execute_once()
    def look():
        seen.append((recording(), cell.item()))
        return array([1.0])

    @graph
    def step(x):
        assert recording()
        with execute_once():
            seen.append(recording())
        made = look()
        assert recording()
        return x + made + cell

    assert step(array([1.0])).item() == 5.0
    assert step(array([2.0])).item() == 6.0
    assert seen == [False, (False, 3.0)]
    assert step.records == 1


def test_execute_once_keeps_the_grad_mode(array):
    with no_grad(), execute_once():
        assert not grad_enabled()
    with execute_once():
        assert grad_enabled()


def test_a_symbolic_tensor_has_no_value_inside_execute_once(array):
    @graph
    def step(x):
        with execute_once():
            return x.item()

    with pytest.raises(RecordingError, match=r"item\(\)"):
        step(array([1.0]))


# -- constants ------------------------------------------------------------------------------------------


def test_host_data_become_a_constant_with_one_warning_that_names_the_line(array):
    data = np.array([1.0, 2.0], np.float32)

    @graph
    def step(x):
        total = x
        for _ in range(3):
            total = total + tensor(data)  # baked
        return total

    with pytest.warns(RecordingWarning, match="constant of the graph; pass it as an argument") as w:
        first = step(array([0.0, 0.0]))
    assert {f"{one.filename}:{one.lineno}" for one in w} == {line_of(step, "# baked")}
    data[:] = 100.0
    assert first.tolist() == [3.0, 6.0]
    assert step(array([1.0, 1.0])).tolist() == [4.0, 7.0]


def test_a_baked_numpy_operand_warns_too(array):
    offset = np.array([1.0, 2.0], np.float32)

    @graph
    def step(x):
        return x + offset

    with pytest.warns(RecordingWarning, match=r"shape \(2,\) made from host data"):
        assert step(array([1.0, 1.0])).tolist() == [2.0, 3.0]


def test_numbers_are_constants_without_a_word(array):
    @graph
    def step(x):
        return (x * 2 + 1.5) / tensor(2.0)

    assert step(array([1.0])).item() == 1.75


def test_a_constant_can_be_read_while_recording(array):
    @graph
    def step(x):
        return x + float(tensor(2.0))

    assert step(array([1.0])).item() == 3.0


def test_zeros_of_both_signs_and_nan_stay_what_they_are(array):
    @graph
    def step(x):
        return x * 0.0, x * -0.0, x * float("nan"), x + 1, x + True

    plus, minus, nan, one, true = (t.numpy() for t in step(array([1.0])))
    assert (np.signbit(plus[0]), np.signbit(minus[0])) == (False, True)
    assert np.isnan(nan[0])
    assert one == true == 2.0


# -- cells, not constants -------------------------------------------------------------------------------


def test_every_tensor_from_outside_is_read_at_each_replay(array):
    outside, plain = array([1.0], requires_grad=True), array([[1.0, 2.0]])
    view = plain[0, 1:]

    @graph
    def step(x):
        return x + outside + view

    assert step(array([1.0])).item() == 4.0
    with no_grad():
        outside.assign([10.0])
    view.assign([20.0])
    assert step(array([1.0])).item() == 31.0
    assert plain.tolist() == [[1.0, 2.0]]
    assert step.records == 1


def test_a_tensor_with_an_eager_tape_is_refused(array):
    leaf = array([1.0], requires_grad=True)
    taped = leaf * 2.0

    @graph
    def step(x):
        return x * taped

    advice = (
        r"eager tape, got the taped result of an operation\n.*\ntry: compute it inside .*detach\(\)"
    )
    with pytest.raises(GradientError, match=advice):
        step(array([1.0]))
    with pytest.raises(GradientError, match=advice):
        step(taped)
    with no_grad():
        assert step(array([1.0])).item() == 2.0


def test_a_tensor_of_another_device_is_refused(array, device, other_device):
    other = other_device
    outside = tensor([1.0], device=other)

    @graph
    def step(x):
        return x + outside

    with pytest.raises(DeviceError, match=rf"all tensors on {device}, got {other}\n.*\ntry: .to"):
        step(array([1.0]))

    @graph
    def two(x, y):
        return x, y

    with pytest.raises(DeviceError, match=rf"all tensors on {device}, got {other}"):
        two(array([1.0]), outside)


# -- functions within functions ---------------------------------------------------------------------------


def test_nested_graph_functions_are_inlined(array):
    cell = array([0.0])

    @graph
    def inner(x):
        cell.assign(cell + x)
        return cell * 2.0

    @graph
    def outer(x):
        return inner(x) + inner(x)

    assert outer(array([1.0])).item() == 2.0 + 4.0
    assert cell.item() == 2.0
    assert inner.recordings == ()
    assert inner(array([1.0])).item() == 6.0
    assert outer(array([1.0])).item() == 8.0 + 10.0
    assert (outer.records, inner.records) == (1, 1)


# -- threads ----------------------------------------------------------------------------------------------


def test_another_thread_sees_real_values_while_this_one_records(array, device):
    cell = array([1.0])
    seen = []

    def other():
        seen.append((recording(), cell.item(), (cell + 1.0).item()))

    @graph
    def step(x):
        cell.assign(cell + x)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return cell * 1.0

    assert step(array([10.0])).item() == 11.0
    assert seen == [(False, 1.0, 2.0)]


# -- host state while recording -----------------------------------------------------------------------------


def test_a_counter_cannot_be_read_while_recording(array):
    count = Counter(3)

    @graph
    def step(x):
        return x * float(count.value)

    with pytest.raises(
        RecordingError, match=r"Counter.value.*test_recording.py:\d+\ntry: .*scalar\("
    ):
        step(array([1.0]))


def test_a_stream_position_cannot_be_read_while_recording(array):
    @graph
    def step(x):
        random.STREAMS["user"].state()
        return x

    with pytest.raises(RecordingError, match=r"stream 'user'.*test_recording.py:\d+"):
        step(array([1.0]))


@pytest.mark.parametrize("reset", [
    lambda: random.manual_seed(1),
    lambda: random.STREAMS["user"].reset(1),
    lambda: random.STREAMS["user"].restore({"key": [1, 2], "position": 3}),
])  # fmt: skip
def test_streams_cannot_be_set_while_recording(array, reset):
    @graph
    def step(x):
        reset()
        return x

    before = random.STREAMS["user"].state()
    with pytest.raises(RecordingError, match="to be set outside of the recorded function"):
        step(array([1.0]))
    assert random.STREAMS["user"].state() == before


def test_setting_a_counter_is_part_of_the_host_program(array):
    count = Counter(7)

    @graph
    def step(x):
        count.value = 0
        count.advance(2)
        return x * scalar(lambda: float(count._value))

    assert step(array([1.0])).item() == 2.0
    count.value = 50
    assert step(array([1.0])).item() == 2.0
    assert count.value == 2


# -- gradients inside a recording ---------------------------------------------------------------------------


def test_a_leaf_assigned_while_recording_is_one_leaf_as_in_eager(array):
    def step(x):
        first = (w * x).sum()
        w.assign(x * 5.0)
        loss = first + (w * w).sum()
        return gradients(loss, w)

    x = array([2.0, 3.0])
    w = array([1.0, 1.0], requires_grad=True)
    eager = step(x)
    w = array([1.0, 1.0], requires_grad=True)
    recorded = GraphFunction(step)(x)
    # d first / dw = x, d second / dw = 2 * 5x
    assert eager.tolist() == recorded.tolist() == [22.0, 33.0]


def test_plus_equals_on_an_untracked_tensor_keeps_the_gradient(array):
    w = array([3.0], requires_grad=True)

    def step(x):
        total = ops.zeros((1,), device=x.device)
        total += w * x
        total *= 2.0
        return gradients(total, w)

    x = array([5.0])
    assert step(x).item() == 10.0
    assert GraphFunction(step)(x).item() == 10.0


def test_a_symbolic_tensor_knows_whether_it_wants_a_gradient(array):
    w = array([3.0], requires_grad=True)
    seen = []

    @graph
    def step(x):
        total = x * 1.0
        seen.append(total.requires_grad)
        total += w
        seen.append(total.requires_grad)
        total.assign(x)
        seen.append(total.requires_grad)
        return total

    step(array([1.0]))
    assert seen == [False, True, False]


def test_arguments_that_want_a_gradient_have_one_inside(array):
    @graph
    def slope(x):
        return gradients((x * x).sum(), x)

    assert slope(array([3.0], requires_grad=True)).tolist() == [6.0]
    with pytest.raises(GradientError, match="xs that require grad"):
        slope(array([3.0]))


def test_a_backward_to_an_argument_is_refused(array):
    @graph
    def step(x):
        (x * x).sum().backward()
        return x

    x = array([3.0], requires_grad=True)
    with pytest.raises(
        GradientError, match=r".grad of parameters and state only.*\n.*\ntry: use gradients"
    ):
        step(x)
    assert x.grad is None


def test_detach_and_no_grad_hold_inside_a_recording(array):
    w = array([3.0], requires_grad=True)

    @graph
    def step(x):
        with no_grad():
            frozen = w * 2.0
        return gradients((w * w.detach() + frozen).sum(), w)

    assert step(array([1.0])).tolist() == [3.0]


def test_nothing_recorded_outlives_its_recording(array):
    made = []

    @graph
    def step(x):
        y = x + 1.0
        made.extend(weakref.ref(t) for t in (x, y))
        return y

    gc.collect()
    step(array([1.0]))
    assert [ref() for ref in made] == [None, None]
