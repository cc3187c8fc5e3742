"""Threads of the backend: work is shared and waited for, failures arrive, BLAS gets its own back."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from singa_cpu_numpy import threads


@pytest.fixture
def blas():
    found = threads.blas()
    if found.threads is None:
        pytest.skip("NumPy has brought no OpenBLAS")
    before = found._get()
    yield found
    found._set(before)


def test_every_part_runs_once_on_a_thread_of_its_own():
    seen = {}
    together = threading.Barrier(4, timeout=20)

    def task(part):
        together.wait()
        seen[part] = threading.current_thread()

    for _ in range(3):
        threads.share(task, 4)
        assert sorted(seen) == [0, 1, 2, 3]
        assert len(set(seen.values())) == 4
        assert seen[0] is threading.current_thread()
        seen.clear()


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_failure_arrives_after_all_have_ended(bad):
    ended = []

    def task(part):
        if part == bad:
            raise ValueError(f"part {part}")
        time.sleep(0.05)
        ended.append(part)

    with pytest.raises(ValueError, match=f"part {bad}"):
        threads.share(task, 3)
    assert sorted(ended) == [p for p in range(3) if p != bad]
    threads.share(ended.append, 3)  # and the team goes on working


def test_parts_compute_as_kernels_do():
    """Neither warnings nor NumPy's large buffer, on any thread."""
    found = []

    def task(part):
        found.append((np.geterr()["divide"], np.getbufsize(), np.float32(1) / np.zeros(1)))

    context_errors = np.geterr()
    threads.share(lambda part: task(part) if part else None, 3)
    assert [f[:2] for f in found] == [("ignore", threads.BUFFER)] * 2
    assert np.geterr() == context_errors


def test_several_callers_do_not_meet():
    results = {}

    def call(number):
        def task(part):
            time.sleep(0.01)
            results.setdefault(number, []).append(part)

        threads.share(task, 3)

    callers = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(20)
    assert {i: sorted(parts) for i, parts in results.items()} == {i: [0, 1, 2] for i in range(4)}


def test_blas_has_one_thread_inside_and_its_own_afterwards(blas):
    blas._set(2)
    inside = []
    threads.share(lambda part: inside.append(blas._get()), 2)
    assert inside == [1, 1]
    assert blas._get() == 2
    with blas, blas:
        assert (blas._get(), blas.threads) == (1, 2)
    assert blas._get() == 2
    with pytest.raises(KeyError), blas:
        raise KeyError
    assert blas._get() == 2


def test_workers_are_bounded_by_blas_cores_work_and_tiles(blas, monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 8)
    blas._set(4)
    most = blas._get()
    assert threads.workers(1e12, 100) == most
    assert threads.workers(1e12, 1) == 1
    assert threads.workers(1e3, 100) == 1
    blas._set(1)
    assert threads.workers(1e12, 100) == 1
    monkeypatch.setattr(threads, "cores", lambda: 1)
    blas._set(4)
    assert threads.workers(1e12, 100) == 1


def test_parts_cover_everything():
    for size in range(1, 40):
        for parts in range(1, 6):
            made = threads.parts_of(size, parts, 4)
            assert [i for part in made for i in range(size)[part]] == list(range(size))
            assert len(made) <= parts
            assert all((part.stop - part.start) % 4 == 0 for part in made[:-1])


def test_tiles_are_small_and_every_worker_gets_as_many():
    for size in range(1, 30):
        for most in range(1, 12):
            for workers in range(1, 5):
                one = threads.tile(size, most, workers)
                assert 1 <= one <= most
                assert -(-size // one) > min(workers, size) / 2
    assert threads.tile(64, 22, 2) == 16  # four tiles, not three
    assert threads.tile(64, 100, 3) == 22


def test_without_a_blas_that_can_be_held_there_is_one_worker(monkeypatch):
    monkeypatch.setattr(threads, "_find_openblas", lambda: (None, None))
    monkeypatch.setattr(threads._PROCESS, "blas", None)
    assert threads.workers(1e12, 100) == 1
    done = []
    threads.share(done.append, 2)
    assert sorted(done) == [0, 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_gets_a_team_of_its_own():
    code = (
        "import os\n"
        "from singa_cpu_numpy import threads\n"
        "done = []\n"
        "threads.share(done.append, 3)\n"
        "threads._PROCESS.lock.acquire()\n"  # as if another thread were inside
        "child = os.fork()\n"
        "if not child:\n"
        "    threads.blas(); threads.share(done.append, 3)\n"
        "    os._exit(0 if sorted(done) == [0, 0, 1, 1, 2, 2] else 1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=60, check=False)
    assert run.returncode == 0


def test_importing_starts_no_thread():
    code = (
        "import threading, singa_core; singa_core.device('cpu_numpy')\n"
        "raise SystemExit(threading.active_count() - 1)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
