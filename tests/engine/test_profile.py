"""Profiles: each launch of a replay is timed, and the replay is what it always is."""

import threading

import pytest

import singa_core as sc
from checks import Interrupted, must_copy
from nets import batch, check_profile, contents, made
from singa_core import profiling
from singa_core.errors import ArgumentError, DeviceFailure, StateLost
from singa_core.profiling import Profile
from singa_core.program import Timing


def test_a_profiled_step_is_the_step_that_it_is_without(device):
    check_profile(device)


def test_every_launch_is_named(array, device):
    w = array([1.0, 1.0])

    @sc.graph
    def step(x):
        w.assign(w + x)
        return (w * 2.0).sum()

    x = array([1.0, 2.0])
    step(x)
    with sc.profile() as times:
        assert float(step(x)) == 2 * (3 + 5)
    own = "float32 (2,), float32 (2,)"
    if device.capabilities.fuses:
        launches = [("fused[add, mul]", f"{own}, float32 ()"), ("sum", "float32 (2,)")]
    else:
        launches = [("add", own), ("mul", "float32 (2,), float32 ()"), ("sum", "float32 (2,)")]
    launches += [("copy", "float32 (2,)")] * must_copy(step.recordings[0].executable)
    assert [(t.name, t.operands) for t in times.launches] == launches
    assert all(t.seconds >= 0 for t in times.launches)


def test_only_the_block_is_timed_and_only_in_its_thread(array):
    double = sc.graph(lambda x: x + x)
    x = array([1.0])
    with sc.profile() as times:
        other = threading.Thread(target=lambda: double(x).tolist())
        other.start()
        other.join()
    double(x)
    assert times.replays == 0
    assert str(times) == "no graph was replayed; eager operations are not timed"
    with times:
        double(x)
        with sc.profile() as inner:
            double(x)
        double(x)
    with times:  # goes on counting
        double(x)
    assert (times.replays, inner.replays) == (3, 1)


def test_two_threads_may_be_in_one_block(array):
    """The first to enter is the first to leave, and counts no more."""
    double = sc.graph(lambda x: x + x)
    x = array([1.0])
    double(x)
    times = Profile()
    entered, left = threading.Event(), threading.Event()
    failures = []

    def other():
        try:
            with times:
                double(x)
                entered.set()
                assert left.wait(60)
                double(x)
            double(x)
        except BaseException as failure:
            failures.append(failure)
            entered.set()

    thread = threading.Thread(target=other)
    with times:
        thread.start()
        assert entered.wait(60)
        double(x)
    double(x)
    left.set()
    thread.join()
    assert failures == []
    assert times.replays == 3


def test_a_block_that_an_interrupt_keeps_from_being_entered_times_nothing(array, monkeypatch):
    double = sc.graph(lambda x: x + x)
    x = array([1.0])
    times = Profile()
    with monkeypatch.context() as patch:
        patch.setattr(profiling, "PROFILES", Interrupted(profiling.PROFILES))
        with pytest.raises(KeyboardInterrupt), times:
            raise AssertionError("entered")
    double(x)
    assert times.replays == 0
    with times, sc.profile() as inner:
        double(x)
    assert (times.replays, inner.replays) == (0, 1)
    with times:
        inner.__enter__()  # and an interrupt keeps it from being left
    double(x)
    assert (times.replays, inner.replays) == (0, 1)
    with times:
        inner.__exit__(None, None, None)  # was not entered here
        double(x)
    assert (times.replays, inner.replays) == (1, 1)


def test_a_graph_bound_anew_is_profiled_where_its_memory_is_now(array, device):
    """A larger graph replaces the arena that all share."""
    small = sc.graph(lambda x: ((x + 1.0) @ x + 1.0) @ x)
    large = sc.graph(lambda x: ((x + 1.0) @ x + 1.0) @ x)
    x = array([[1.0, 2.0], [3.0, 4.0]])
    expected = small(x).tolist()
    large(sc.ops.ones((64, 64), device=device))
    with sc.profile():
        assert small(x).tolist() == expected


def test_a_fault_in_a_profiled_step_is_told_of_the_launch_that_had_it(far_device):
    """Without a profile the far device tells it when somebody waits for it."""
    model = made(far_device)
    x, target = batch(far_device)
    model.train_one_batch(x, target)
    before, (report,) = contents(model), model.graph_report()
    far_device.fail_at(1)
    with sc.profile() as times, pytest.raises(DeviceFailure, match="a fault was asked for"):
        model.train_one_batch(x, target)
    assert contents(model) == before
    last = report["launches"]
    far_device.fail_at(last)
    with times, pytest.raises(StateLost, match=rf"(?s)at launch {last - 1} .*a fault was"):
        model.train_one_batch(x, target)
    assert (times.replays, times.launches) == (0, [])
    with pytest.raises(StateLost):
        model.body[0].weight.tolist()


def test_what_went_wrong_before_is_not_told_of_a_profiled_launch(far_device):
    model = made(far_device)
    x, target = batch(far_device)
    model.train_one_batch(x, target)
    far_device.fail_at(1)
    model.train_one_batch(x, target)
    with sc.profile(), pytest.raises(StateLost, match="synchronize failed"):
        model.train_one_batch(x, target)


def some():
    times = Profile()
    add = Timing("add", "float32 (2,)", 0.25e-3)
    times.add("here", [Timing("matmul", "float32 (3, 3)", 1e-3), add, add._replace(operands="b")])
    times.add("here", [Timing("matmul", "float32 (3, 3)", 2.5e-3)])
    return times


def test_the_table_has_what_takes_longest_first():
    assert str(some()) == (
        "operation  launches     ms  us each    share\n"
        "--------------------------------------------\n"
        "matmul            2  3.500   1750.0   87.5 %\n"
        "add               2  0.500    250.0   12.5 %\n"
        "--------------------------------------------\n"
        "all               4  4.000   1000.0  100.0 %\n"
        "2 replays on here"
    )
    assert some().table(by_shape=True, rows=1).splitlines()[2:4] == [
        "matmul float32 (3, 3)         2  3.500   1750.0   87.5 %",
        "2 others                      2  0.500    250.0   12.5 %",
    ]
    long = Profile()
    long.add("here", [Timing("x" * 99, "", 0.0)])
    assert long.table().splitlines()[2].startswith("x" * 57 + "...  ")


def test_totals_add_up():
    totals = some().totals(by_shape=True)
    assert [(t.name, t.operands, t.launches) for t in totals] == [
        ("matmul", "float32 (3, 3)", 2), ("add", "float32 (2,)", 1), ("add", "b", 1),
    ]  # fmt: skip
    assert sum(t.share for t in totals) == pytest.approx(1.0)
    assert sum(t.seconds for t in totals) == pytest.approx(some().seconds) == pytest.approx(4e-3)


def test_what_a_table_cannot_be_is_refused():
    with pytest.raises(ArgumentError, match="Profile.table: needs an integer rows >= 1, got 0"):
        some().table(rows=0)
    with pytest.raises(ArgumentError, match="by_shape True or False"):
        some().totals(by_shape="yes")


def test_the_device_is_asked_within_its_rules_of_arithmetic(array, device, monkeypatch):
    """NaN and overflow are values in a profile, too."""
    asked = []
    monkeypatch.setattr(device, "timed", lambda f, *args: asked.append(f(*args)) or 1.0)
    f = sc.graph(lambda x: x / 0.0 - x / 0.0)
    with sc.profile() as times:
        assert str(f(array([1.0])).item()) == "nan"
    assert len(asked) == len(times.launches) == times.seconds > 0
