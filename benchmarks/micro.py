"""What the engine itself costs, by CPU time of one thread: prints Markdown.

python -m benchmarks.micro [--repeat 31] [--device NAME]

The kernels are taken out where their time is not the question: a null kernel takes its handles and
does nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from benchmarks.driver import environment

WORKLOAD = "mlp-small"
SHAPE = (64, 10)
SHORT, LONG = 100, 600  # instructions of the two graphs whose difference gives the cost of one
CHAIN = 150


def microseconds(function: Callable[[], Any], number: int, repeat: int) -> float:
    """Median over blocks of the CPU time of one call."""
    times = []
    for _ in range(repeat + 1):
        start = time.process_time()
        for _ in range(number):
            function()
        times.append((time.process_time() - start) / number)
    return median(times[1:]) * 1e6


def null(*handles: Any) -> None:
    """A kernel that does nothing."""


@contextmanager
def without_kernels(device: Any) -> Iterator[None]:
    """Every launch on a device becomes a null kernel, but for those that return their result."""
    entries = [e for e in device.state.entries.values() if e.launch is not None]
    entries = [e for e in entries if e.kernel is None or not e.kernel.returning]
    launches = [e.launch for e in entries]
    for entry in entries:
        entry.launch = null
    try:
        yield
    finally:
        for entry, launch in zip(entries, launches, strict=True):
            entry.launch = launch


def launches_of(device: Any, run: Callable[[], Any]) -> int:
    """How many launches a run makes."""
    original, count = device.call, [0]

    def call(function: Any, *args: Any) -> Any:
        count[0] += 1
        return original(function, *args)

    device.call = call
    try:
        run()
    finally:
        del device.call
    return count[0]


def eager_add(device: Any, repeat: int) -> list[tuple[str, float, str]]:
    """Sum of two tensors of (64, 10), without and with a gradient."""
    from singa_core import ops  # noqa: PLC0415  (the environment is set before the first import)

    rows = []
    for wanted, limit in ((False, "<= 4"), (True, "<= 6")):
        x, y = ops.ones(SHAPE, device=device), ops.ones(SHAPE, device=device)
        x.requires_grad = wanted
        name = f"eager add on {SHAPE}, {'with' if wanted else 'without'} gradient"
        rows.append((name, microseconds(lambda x=x, y=y: x + y, 2000, repeat), limit))
    return rows


def chain(length: int) -> Callable[[Any, Any], Any]:
    """A function of `length` small operations, of which none repeats another."""

    def run(x: Any, y: Any) -> Any:
        for _ in range(length // 2):
            x = x + y
            x = x * y
        return x

    return run


def replay(device: Any, repeat: int) -> list[tuple[str, float, str]]:
    """Replays of graphs of null kernels: the cost of an instruction, and that of a step."""
    from singa_core import graph, ops  # noqa: PLC0415

    x, y = ops.ones(SHAPE, device=device), ops.ones(SHAPE, device=device)
    times = {}
    for length in (SHORT, LONG):
        function = graph(chain(length))
        function(x, y)
        executable = function.recordings[-1].executable
        if len(executable._code) != length:
            raise RuntimeError(f"{len(executable._code)} launches for {length} operations")
        executable._code[:] = [(null, handles) for _, handles in executable._code]
        times[length] = microseconds(lambda f=function: f(x, y), 200, repeat)
    handles = (None, None, None)
    kernel = microseconds(lambda: [null(*handles) for _ in range(LONG)], 50, repeat) / LONG
    each = (times[LONG] - times[SHORT]) / (LONG - SHORT)
    return [
        ("replay, per instruction above a null kernel", each - kernel, "<= 0.5"),
        ("replay, per step", times[SHORT] - SHORT * each, "<= 10"),
    ]


def chains(device: Any, repeat: int) -> list[tuple[str, float, str]]:
    """A chain of small operations, eager and replayed."""
    from singa_core import graph, no_grad, ops  # noqa: PLC0415

    x, y = ops.ones((8, 8), device=device), ops.zeros((8, 8), device=device)
    eager = chain(CHAIN)
    recorded = graph(eager)
    with no_grad():
        slow = microseconds(lambda: eager(x, y), 50, repeat)
        fast = microseconds(lambda: recorded(x, y), 200, repeat)
    name = f"chain of {CHAIN} operations on (8, 8)"
    return [
        (f"{name}, eager", slow, ""),
        (f"{name}, graph", fast, ""),
        (f"{name}, eager / graph (no unit)", slow / fast, ">= 4"),
    ]


def eager_step(device: Any, repeat: int) -> list[tuple[str, float, str]]:
    """A whole eager training step without its kernels."""
    from benchmarks.peers.ours import build  # noqa: PLC0415
    from benchmarks.workloads import WORKLOADS  # noqa: PLC0415

    step, _ = build(WORKLOADS[WORKLOAD], "step", "eager", device.name)
    for i in range(3):
        step(i)
    launches = launches_of(device, lambda: step(0))
    with without_kernels(device):
        time_ = microseconds(lambda: step(0), 100, repeat)
    return [(f"eager step, per kernel call ({launches} calls)", time_ / launches, "<= 8")]


def report(rows: list[tuple[str, float, str]]) -> str:
    """A Markdown table of (name, microseconds, limit)."""
    lines = ["| what | us | wanted | |", "|---|---:|---|---|"]
    for name, value, limit in rows:
        word = ""
        if limit:
            sign, bound = limit.split()
            met = value <= float(bound) if sign == "<=" else value >= float(bound)
            word = "met" if met else "MISSED"
        lines.append(f"| {name} | {value:.2f} | {limit} | {word} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=31)
    parser.add_argument("--device")
    options = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":  # libraries read it when they are loaded
        again = [sys.executable, "-m", "benchmarks.micro", *sys.argv[1:]]
        os.execve(sys.executable, again, environment(1))
    import singa_core  # noqa: PLC0415

    device = singa_core.device(options.device)
    rows = [
        row
        for measure in (eager_add, eager_step, replay, chains)
        for row in measure(device, options.repeat)
    ]
    print(report(rows))


if __name__ == "__main__":
    main()
