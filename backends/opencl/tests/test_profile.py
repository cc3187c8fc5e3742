"""Profiles: by the device's own clock, on a queue that is made for them."""

import numpy as np
import pytest

import singa_core as sc
from nets import check_profile

cl = pytest.importorskip("pyopencl")


def test_a_profiled_step_is_the_step_that_it_is_without(either):
    check_profile(either)


def test_a_launch_of_several_kernels_is_their_sum(either, monkeypatch):
    program = pytest.importorskip("singa_opencl.program")
    f = sc.graph(lambda x: x.sum())  # partial sums, and their sum
    x = sc.tensor(np.ones(1 << 20, np.float32), device=either)
    assert float(f(x)) == 1 << 20
    (launch,) = f.recordings[0].executable._code
    kernels = program.kernels_of(*launch)
    assert len(kernels) > 1
    events = []

    def counted(*work):
        events.append(cl.enqueue_nd_range_kernel(*work))
        return events[-1]

    monkeypatch.setattr("singa_opencl.device.enqueue", counted)
    with sc.profile() as times:
        assert float(f(x)) == 1 << 20
    taken = [event.profile.end - event.profile.start for event in events]
    assert len(taken) == len(kernels)
    assert times.seconds == pytest.approx(sum(taken) * 1e-9)
    assert times.seconds > 0


def test_copies_are_timed_by_the_device(either, monkeypatch):
    """A cell whose new value is another one's old value is copied."""
    a, b = (sc.tensor(np.full(1 << 18, n, np.float32), device=either) for n in (1, 2))

    @sc.graph(device=either)
    def swap():
        old = a.detach()
        a.assign(b)
        b.assign(old)

    swap()
    monkeypatch.setattr(sc.Device, "timed", None)  # the host's clock is not asked
    with sc.profile() as times:
        swap()
    assert (a.numpy()[-1], b.numpy()[-1]) == (1, 2)
    assert "copy" in {launch.name for launch in times.launches}
    assert all(launch.seconds > 0 for launch in times.launches)


def test_only_a_profile_makes_a_queue_with_a_clock(either):
    either._clocked = None
    f = sc.graph(lambda x: x + 1.0)
    x = sc.tensor([1.0], device=either)
    f(x)
    assert either._clocked is None
    with sc.profile():
        assert f(x).tolist() == [2.0]
    timing = cl.command_queue_properties.PROFILING_ENABLE
    assert either._clocked.properties & timing
    assert not either.queue.properties & timing
    first = either._clocked
    with sc.profile():
        f(x)
    assert either._clocked is first
