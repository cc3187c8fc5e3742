"""How a peer is asked to run: what all peers share beside the workloads."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workloads import WORKLOADS, Workload

WARM_UP = 2  # calls after the first one, before a peer is ready

# A call works on batch i % BATCHES; the first element of what it gives is the loss, or a logit.
Call = Callable[[int], Any]
Build = Callable[..., tuple[Call, str]]


def serve(build: Build) -> None:
    """Build, call once, warm up; then one number of calls per line of input.

    Args:
        build: from a workload, "step" or "forward", and the options, a call and a word on what it
            runs on.
    """
    name, part, *options = sys.argv[1:]
    workload: Workload = WORKLOADS[name]
    workload.batches()  # what NumPy loads for random numbers is not the peer's
    base, start = resident(), time.perf_counter()
    call, about = build(workload, part, *options)
    value(call(0))
    first = time.perf_counter() - start
    for done in range(1, WARM_UP + 1):
        value(call(done))
    done = WARM_UP + 1
    answer({"about": about, "first": first})
    for line in sys.stdin:
        until = done + int(line)
        wall, cpu = time.perf_counter(), time.process_time()
        result: Any = None
        for i in range(done, until):
            result = call(i)
        last = value(result)  # waits for a device that is still at it
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        done = until
        answer({"wall": wall, "cpu": cpu, "loss": last, "grown": peak() - base})


def value(result: Any) -> float:
    """The first element of a result, read on the host."""
    return float(np.asarray(result).reshape(-1)[0])


def answer(message: dict[str, Any]) -> None:
    """One line to the driver."""
    print(json.dumps(message), flush=True)


def peak() -> int:
    """The most bytes of this process that have been in memory."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident() -> int:
    """Bytes of this process that are in memory now; where the system does not say, the most."""
    try:
        pages = Path(os.sep, "proc", "self", "statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return peak()
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
