"""Threads of this backend, and how many BLAS may use.

Kernels that work on tiles share them among a few Python threads, each calling NumPy, which lets go
of the interpreter while it computes. BLAS is held to one thread meanwhile: two pools that spin for
work slow each other down. The pool is made on first use, once in a process and anew in a fork.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

import numpy as np

Task = Callable[[int], None]
Inbox = SimpleQueue[tuple[Task, int, SimpleQueue[Any]]]
# Elements. NumPy's functions copy operands whose rows are strided or broadcast, and shorter than a
# third of its buffer, through that buffer. With its own 8192 rows of 1000 take 3 times as long.
BUFFER: Final = 512
LEAST_WORK: Final = 2e7  # floating-point operations for which a second thread is worth waking


def configure() -> None:
    """How NumPy computes in kernels, from now on in this context or thread."""
    np.seterr(all="ignore")
    np.setbufsize(BUFFER)


class Blas:
    """The threads of the OpenBLAS that NumPy has brought along; `with blas():` leaves it one."""

    def __init__(self, wanted: int | None = None) -> None:
        self._lock, self._holders, self._before = threading.Lock(), 0, 1
        self._get, self._set = _find_openblas()
        if wanted is not None and self._set is not None:
            self._set(wanted)

    @property
    def threads(self) -> int | None:
        """How many threads it may use; None where nobody can tell."""
        if self._get is None:
            return None
        return self._before if self._holders else int(self._get())

    def __enter__(self) -> None:
        """One thread, until the last of those who asked for it has left."""
        if self._set is None:
            return
        with self._lock:
            if not self._holders:
                self._before = int(self._get())
                if self._before != 1:
                    self._set(1)
            self._holders += 1

    def __exit__(self, *error: object) -> None:
        if self._set is None:
            return
        with self._lock:
            self._holders -= 1
            if not self._holders and self._before != 1:
                self._set(self._before)


def _find_openblas() -> tuple[Any, Any]:
    """Its functions to get and set the number of threads."""
    core = Path(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    bundled = [*core.parents[2].glob("numpy.libs/*openblas*"), *core.parents[1].glob(".dylibs/*")]
    for path in (core, *bundled):  # a library also finds what those it depends on define
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for prefix in ("scipy_openblas", "openblas"):
            for suffix in ("64_", "", "_"):
                try:
                    return (
                        getattr(library, f"{prefix}_get_num_threads{suffix}"),
                        getattr(library, f"{prefix}_set_num_threads{suffix}"),
                    )
                except AttributeError:
                    continue
    return None, None


class Team:
    """Threads that wait for their share of a task, without spinning."""

    def __init__(self) -> None:
        self._inboxes: list[Inbox] = []
        self._lock = threading.Lock()

    def run(self, task: Task, parts: int) -> None:
        """task(0) here and task(1) ... task(parts - 1) on the others; back when all have ended."""
        with self._lock:
            while len(self._inboxes) < parts - 1:
                self._inboxes.append(SimpleQueue())
                name = f"singa-cpu-numpy-{len(self._inboxes)}"
                threading.Thread(
                    target=_serve, args=self._inboxes[-1:], name=name, daemon=True
                ).start()
        ended: SimpleQueue[Any] = SimpleQueue()
        for part in range(1, parts):
            self._inboxes[part - 1].put((task, part, ended))
        try:
            task(0)
        finally:
            errors = [ended.get() for _ in range(1, parts)]  # none may go on writing
        for error in errors:
            if error is not None:
                raise error


def _serve(inbox: Inbox) -> None:
    configure()
    while True:
        task, part, ended = inbox.get()
        error = None
        try:
            task(part)
        except BaseException as raised:  # noqa: BLE001  (told to whoever waits)
            error = raised
        del task  # what it holds is not kept until the next one comes
        ended.put(error)
        del error


class _Process:
    """What there is once in a process."""

    def __init__(self) -> None:
        self.blas: Blas | None = None
        self.team = Team()
        self.lock = threading.Lock()


_PROCESS = _Process()


def _forked() -> None:
    """Threads do not come along into a fork, and a lock may have come along locked."""
    if _PROCESS.blas is not None:
        _PROCESS.blas = Blas(_PROCESS.blas.threads)
    _PROCESS.team, _PROCESS.lock = Team(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def blas() -> Blas:
    """NumPy's BLAS, looked up on first use."""
    found = _PROCESS.blas
    if found is None:
        with _PROCESS.lock:
            found = _PROCESS.blas = _PROCESS.blas or Blas()
    return found


def workers(work: float, parts: int) -> int:
    """How many threads should share `parts` tiles of together `work` floating-point operations.

    At most as many as BLAS may use, so that what holds BLAS back (OPENBLAS_NUM_THREADS) holds this
    back as well; one, where BLAS has threads that cannot be held back.
    """
    allowed = blas().threads
    if allowed is None or work < LEAST_WORK:
        return 1
    return max(min(allowed, cores(), parts), 1)


def tile(size: int, most: int, workers: int) -> int:
    """How many of `size` things make a tile: at most `most`, and as many tiles for each worker."""
    tiles = -(-size // most)
    return -(-size // min(-(-tiles // workers) * workers, size))


def parts_of(size: int, parts: int, unit: int = 1) -> list[slice]:
    """At most `parts` slices that cover range(size), all but the last of whole units."""
    step = -(-size // (parts * unit)) * unit
    return [slice(i, min(i + step, size)) for i in range(0, size, step)]


def cores() -> int:
    """Processor cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share(task: Task, parts: int) -> None:
    """Run task(0) ... task(parts - 1), each on a thread of its own; BLAS has one thread in each."""
    with blas():
        if parts == 1:
            task(0)
        else:
            _PROCESS.team.run(task, parts)
