"""Compares peers fairly on a machine that is never quiet.

Each peer is a process of its own (two thread pools in one process slow each other down), all with
the same number of threads. They are driven in turn over pipes, in short blocks of steps: whoever is
not measured is blocked in a read. What is compared is medians of blocks, so that another job on the
machine meets all peers alike.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (ROOT, *sorted(path.parent for path in ROOT.glob("backends/*/pyproject.toml")))

THREADS = ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM")
# A BLAS that is told which kernels to use would not be the one that users have.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


@dataclass(frozen=True)
class Peer:
    """One side of a comparison: a module of `benchmarks.peers`, and the options it gets.

    Args:
        name: in tables.
        module: it calls `serve`.
        options: after the workload and the part.
        needs: modules without which it is left out.
        tools: programs without which it is left out.
        calls: in a block, where not as many as the others make.
    """

    name: str
    module: str
    options: tuple[str, ...] = ()
    needs: tuple[str, ...] = ("numpy",)
    tools: tuple[str, ...] = ()
    calls: int | None = None

    @property
    def missing(self) -> list[str]:
        """What it needs and has not got."""
        modules = [name for name in self.needs if importlib.util.find_spec(name) is None]
        return modules + [name for name in self.tools if shutil.which(name) is None]


@dataclass
class Row:
    """What was measured of a peer; `seconds` of a call, one number for each block."""

    peer: Peer
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    about: str = ""
    first: float = 0.0  # seconds from nothing to the first result
    grown: int = 0  # bytes by which the process has grown at its peak

    @property
    def median(self) -> float:
        """Seconds of a call in the middlemost block."""
        return median(self.seconds)


class Child:
    """A peer's process, which waits for its turn."""

    def __init__(self, peer: Peer, workload: str, part: str, threads: int) -> None:
        self.peer = peer
        module = f"benchmarks.peers.{peer.module}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, workload, part, *peer.options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(threads),
        )  # fmt: skip

    def ready(self) -> dict[str, Any]:
        """What it says when it has imported, built and warmed up what it measures."""
        return self._answer()

    def run(self, calls: int) -> dict[str, float]:
        """One block: seconds of CPU and of the clock on the wall, the last loss, bytes grown."""
        if self._process.stdin is None:
            raise RuntimeError(f"{self.peer.name}: no pipe")
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:  # its traceback is above, on stderr
            code = self._process.wait()
            raise RuntimeError(f"{self.peer.name}: its process ended with code {code}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End of input, then the end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait()


def environment(threads: int) -> dict[str, str]:
    """Environment of a child."""
    env = {key: value for key, value in os.environ.items() if key not in UNSET}
    env |= {f"{name}_NUM_THREADS": str(threads) for name in THREADS}
    env["POCL_MAX_PTHREAD_COUNT"] = str(threads)  # an OpenCL driver for CPUs
    if threads == 1:
        env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    paths = [*map(str, PACKAGES), *filter(None, [env.get("PYTHONPATH")])]
    return env | {"PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}


def compare(
    peers: Sequence[Peer], workload: str, part: str, *, calls: int, blocks: int, threads: int,
    clock: str,
) -> list[Row]:  # fmt: skip
    """Measure the peers that can run, in turn; the first round warms up and does not count.

    Args:
        peers: at least one.
        workload: a name in `WORKLOADS`.
        part: "step" or "forward".
        calls: in each block.
        blocks: of each peer.
        threads: of each peer.
        clock: "cpu" or "wall".
    """
    children: list[Child] = []
    rows: list[Row] = []
    try:
        for peer in peers:
            if peer.missing:
                print(f"left out: {peer.name}, needs {', '.join(peer.missing)}", file=sys.stderr)
                continue
            children.append(Child(peer, workload, part, threads))
            told = children[-1].ready()
            rows.append(Row(peer, about=told["about"], first=told["first"]))
        for block in range(blocks + 1):
            for child, row in zip(children, rows, strict=True):
                number = child.peer.calls or calls
                answer = child.run(number)
                row.losses.append(answer["loss"])
                row.grown = int(answer["grown"])
                if block:
                    row.seconds.append(answer[clock] / number)
    finally:
        for child in children:
            child.close()
    return rows


def others(rows: Sequence[Row], tolerance: float = 1e-2) -> list[str]:
    """The peers whose losses are not those of the first, that is, who compute something else."""

    def near(one: float, other: float) -> bool:
        return abs(one - other) <= tolerance * (1 + abs(other))

    wanted = rows[0].losses
    return [row.peer.name for row in rows if not all(map(near, row.losses, wanted))]


def by_name(rows: Sequence[Row]) -> Mapping[str, Row]:
    """The rows by their peer's name."""
    return {row.peer.name: row for row in rows}


def ratio(rows: Sequence[Row], one: str, other: str) -> float | None:
    """How much longer `one` takes than `other`; None where one of them was not measured."""
    named = by_name(rows)
    if one not in named or other not in named:
        return None
    return named[one].median / named[other].median
