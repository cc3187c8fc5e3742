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
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PEERS = "benchmarks.peers"
PACKAGES = (ROOT, *sorted(path.parent for path in ROOT.glob("backends/*/pyproject.toml")))

THREADS = ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM")
# A BLAS that is told which kernels to use would not be the one that users have.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


@dataclass(frozen=True)
class Peer:
    """One side of a comparison: a script that calls `common.serve`, and the options it gets."""

    name: str
    script: str
    options: tuple[str, ...] = ()
    needs: str = "numpy"  # the module without which it is left out

    @property
    def missing(self) -> bool:
        """True where it cannot run."""
        return importlib.util.find_spec(self.needs) is None


@dataclass
class Row:
    """What was measured of a peer: seconds per step, one value for each block."""

    peer: Peer
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    about: str = ""

    @property
    def median(self) -> float:
        """Seconds per step in the middlemost block."""
        return median(self.seconds)


class Child:
    """A peer's process, which waits for its turn."""

    def __init__(self, peer: Peer, workload: str, threads: int) -> None:
        self.peer = peer
        command = [sys.executable, str(PEERS / peer.script), workload, *peer.options]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment(threads),
        )  # fmt: skip
        self.about = ""

    def wait_until_ready(self) -> None:
        """Until it has imported, built and warmed up what it measures."""
        self.about = str(self._answer()["about"])

    def run(self, steps: int) -> dict[str, float]:
        """One block: seconds of CPU and of the clock on the wall, and the last loss."""
        if self._process.stdin is None:
            raise RuntimeError(f"{self.peer.name}: no pipe")
        self._process.stdin.write(f"{steps}\n")
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
    paths = [*map(str, PACKAGES), *filter(None, [env.get("PYTHONPATH")])]
    return env | {"PYTHONPATH": os.pathsep.join(paths)}


def compare(
    peers: Sequence[Peer], workload: str, *, steps: int, blocks: int, threads: int, clock: str
) -> list[Row]:
    """Measure the peers that can run, in turn; the first round warms up and does not count.

    Args:
        peers: at least one.
        workload: a name in peers/common.py.
        steps: in each block.
        blocks: of each peer.
        threads: of each peer.
        clock: "cpu" or "wall".
    """
    children: list[Child] = []
    try:
        for peer in peers:
            if peer.missing:
                print(f"left out: {peer.name}, which needs {peer.needs}", file=sys.stderr)
                continue
            children.append(Child(peer, workload, threads))
            children[-1].wait_until_ready()
        rows = [Row(child.peer, about=child.about) for child in children]
        for block in range(blocks + 1):
            for child, row in zip(children, rows, strict=True):
                answer = child.run(steps)
                row.losses.append(answer["loss"])
                if block:
                    row.seconds.append(answer[clock] / steps)
    finally:
        for child in children:
            child.close()
    return rows


def same_work(rows: Sequence[Row], tolerance: float = 1e-2) -> bool:
    """True if all peers have the same losses, that is, have computed the same thing."""
    columns = zip(*(row.losses for row in rows), strict=True)
    return all(max(losses) - min(losses) <= tolerance * max(losses) for losses in columns)


def table(rows: Sequence[Row], base: str) -> str:
    """A Markdown table of medians, and of their ratios to the peer named `base`."""
    reference = by_name(rows).get(base, rows[0])
    lines = [
        f"| peer | us per step | best block | times {reference.peer.name} | last loss | runs on |",
        "|---|---:|---:|---:|---:|---|",
    ]
    lines += [
        f"| {row.peer.name} | {row.median * 1e6:.1f} | {min(row.seconds) * 1e6:.1f} "
        f"| {row.median / reference.median:.2f} | {row.losses[-1]:.4f} | {row.about} |"
        for row in rows
    ]
    return "\n".join(lines)


def by_name(rows: Sequence[Row]) -> Mapping[str, Row]:
    """The rows by their peer's name."""
    return {row.peer.name: row for row in rows}


def verdict(
    rows: Sequence[Row], slow: str, fast: str, *, low: float = 0.0, high: float = 1e9
) -> str:
    """One line: how much longer `slow` takes than `fast`, and whether it is as it should be."""
    named = by_name(rows)
    limit = f">= {low:g}" if low else f"<= {high:g}"
    if slow not in named or fast not in named:
        return f"- {slow} / {fast}: not measured, wanted {limit}"
    ratio = named[slow].median / named[fast].median
    word = "met" if low <= ratio <= high else "MISSED"
    return f"- {slow} / {fast}: {ratio:.2f}, wanted {limit}: {word}"
