"""Run-time scalars: the host program keeps its order, and a new number is no new recording."""

import numpy as np
import pytest

from singa_core import Counter, gradients, no_grad, ops, opt, random, scalar, tensor
from singa_core.engine import GraphFunction, graph
from singa_core.errors import ArgumentError, RecordingError


def both(body, *calls):
    """`body` called eagerly and as a graph, each with a state of its own: (results, records)."""
    eager, recorded = body(), body()
    function = GraphFunction(recorded)
    want = [eager(*args) for args in calls]
    got = [function(*args) for args in calls]
    assert got == want or [g.tolist() for g in got] == [w.tolist() for w in want]
    return [w.tolist() for w in want], function.records


def test_reads_and_advances_keep_their_order(array, device):
    def body():
        count = Counter()

        def step(x):
            read = lambda: float(count.moment())  # noqa: E731  (the same function, read three times)
            first = scalar(read, device=device)
            count.advance()
            second = scalar(read, device=device)
            count.advance(10)
            return x * first + 100.0 * second + 10000.0 * scalar(read, device=device)

        return step

    x = array(1.0)
    results, records = both(body, (x,), (x,), (x,))
    assert results == [110100.0, 11 + 1200.0 + 220000.0, 22 + 2300.0 + 330000.0]
    assert records == 1


def test_two_reads_are_one_slot_unless_an_effect_lies_between(array, device):
    rate, count, reads = [2.0], Counter(), []

    def read():
        reads.append(rate[0])
        return rate[0]

    @graph
    def step(x):
        y = x * scalar(read, device=device) + scalar(read, device=device)
        count.advance()
        return y + scalar(read, device=device)

    x = array(1.0)
    assert step(x).item() == 6.0
    (recording,) = step.recordings
    assert len(recording.program.scalars) == 2
    assert reads == [2.0, 2.0]
    rate[0] = 3.0
    assert step(x).item() == 9.0
    assert step.records == 1


def test_one_function_read_as_two_dtypes_is_two_slots(array, device):
    @graph
    def step(x):
        a = scalar(lambda_, device=device)
        b = scalar(lambda_, dtype="int64", device=device)
        return a, b

    def lambda_():
        return 3

    a, b = step(array(1.0))
    assert (a.dtype.name, b.dtype.name, a.item(), b.item()) == ("float32", "int64", 3.0, 3)


def test_draws_between_reads_and_dead_draws_advance(array, device):
    def body():
        def step(x):
            ops.rand((7,), device=device)  # dead
            return x + ops.rand((2,), device=device)

        return step

    random.manual_seed(5)
    eager, x = body(), array([0.0, 0.0])
    want = [eager(x).tolist() for _ in range(3)]
    end = random.STREAMS["user"].state()
    random.manual_seed(5)
    function = GraphFunction(body())
    assert [function(x).tolist() for _ in range(3)] == want
    assert random.STREAMS["user"].state() == end
    (recording,) = function.recordings
    assert sum(i.op == "random_bits" for i in recording.program.instructions) <= 1
    assert len({tuple(w) for w in want}) == 3


def test_equal_draws_are_not_one_draw(array, device):
    @graph
    def step(x):
        return ops.rand((4,), device=device) - ops.rand((4,), device=device), ops.dropout(x, p=0.5)

    difference, dropped = step(array(np.ones(64, np.float32)))
    assert any(difference.tolist())
    _, again = step(array(np.ones(64, np.float32)))
    assert dropped.tolist() != again.tolist()


@pytest.mark.parametrize("make", [
    lambda: opt.SGD(0.5), lambda: opt.SGD(0.5, momentum=0.5), lambda: opt.Adam(0.5), lambda: opt.AdamW(0.5),
])  # fmt: skip
def test_a_new_learning_rate_is_no_new_recording(array, make):
    def run(wrap):
        w, optimizer = array([1.0, 2.0], requires_grad=True), make()

        def step(x):
            loss = (w * w * x).sum()
            optimizer(loss)
            return loss

        step = wrap(step)
        out = []
        for rate in (0.125, 0.25, 0.0625, 0.125):
            optimizer.lr = rate
            out.append((step(array([1.0, 1.0])).tolist(), w.tolist()))
        assert optimizer.steps.value == 4
        return out, step

    want, _ = run(lambda f: f)
    got, function = run(GraphFunction)
    assert got == want
    assert function.records == 1
    assert len({tuple(w) for _, w in got}) == 4


def test_adam_s_corrections_follow_the_step(array):
    w, adam = array([1.0], requires_grad=True), opt.Adam(0.1, betas=(0.5, 0.75), eps=1e-3)

    @graph
    def step(x):
        adam((w * x).sum())

    m = v = 0.0
    p = 1.0
    for t in range(1, 6):
        grad = float(t)
        step(array([grad]))
        m, v = 0.5 * m + 0.5 * grad, 0.75 * v + 0.25 * grad * grad
        p -= 0.1 * (m / (1 - 0.5**t)) / (np.sqrt(v / (1 - 0.75**t)) + 1e-3)
        np.testing.assert_allclose(w.item(), p, rtol=1e-5)
    assert step.records == 1


def test_two_optimisers_count_for_themselves(array):
    a, b = array([1.0], requires_grad=True), array([1.0], requires_grad=True)
    first, second = opt.Adam(0.1), opt.Adam(lambda step: 0.1 * (step + 1))

    @graph
    def step(x):
        first((a * x).sum())
        first((a * a * x).sum())
        second((b * x).sum())

    for _ in range(3):
        step(array([1.0]))
    assert (first.steps.value, second.steps.value) == (6, 3)
    assert abs(second.lr - 0.4) < 1e-12


def test_a_loss_without_a_parameter_counts_no_step(array):
    adam, x = opt.Adam(0.1), array([1.0])
    with pytest.raises(Exception, match="backward: needs a tensor that depends on a leaf"):
        adam(x.sum())
    with pytest.raises(Exception, match="backward: needs a tensor that depends on a leaf"):
        graph(lambda x: adam(x.sum()))(x)
    assert adam.steps.value == 0


def test_scalar_outside_a_recording_is_read_at_once(device):
    values = [1, 2]
    assert scalar(values.pop, device=device).item() == 2.0
    assert scalar(True, dtype="bool", device=device).item() is True
    assert scalar(np.float32(1.5), device=device).item() == 1.5
    with pytest.raises(
        ArgumentError, match=r"scalar: needs a function that gives a number, got 'a'"
    ):
        scalar(lambda: "a", device=device)


def test_a_counter_as_a_loop_s_own_state(array, device):
    count = Counter()
    schedule = [0.5, 0.25, 0.125, 0.0]

    @graph
    def step(x):
        rate = scalar(lambda: schedule[min(count.moment(), 3)], device=device)
        count.advance()
        return x * rate

    assert [step(array(8.0)).item() for _ in range(5)] == [4.0, 2.0, 1.0, 0.0, 0.0]
    count.value = 0
    assert step(array(8.0)).item() == 4.0


def test_many_scalars_share_one_upload(array, device, monkeypatch):
    @graph
    def step(x):
        for i in range(5):
            x = x + scalar(lambda i=i: float(i), device=device)
        return x

    x = array(0.0)
    assert step(x).item() == 10.0
    uploads = []
    monkeypatch.setattr(device, "upload", lambda *a, up=device.upload: uploads.append(up(*a)))
    assert step(x).item() == 10.0
    assert len(uploads) == (1 if device.capabilities.sub_buffers else 5)


def test_a_gradient_through_a_scalar_source(array, device):
    w = array([3.0], requires_grad=True)

    @graph
    def step(x):
        return gradients((w * scalar(lambda: 4.0, device=device) * x).sum(), w)

    assert step(array([1.0])).item() == 4.0


def test_a_counter_read_in_eager_code_and_not_in_a_recording(array):
    count = Counter(2)
    assert count.value == 2
    count.advance(3)
    assert count.value == 5
    with pytest.raises(RecordingError, match="Counter.value"):
        graph(lambda x: x * count.value)(array([1.0]))
    with no_grad():
        assert tensor(count.value).item() == 5
