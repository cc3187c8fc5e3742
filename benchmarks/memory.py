"""What a training step of ours holds: planned, counted by the core, and resident: prints Markdown.

python -m benchmarks.memory [--workload resnet] [--replays 20] [--algorithm memory]

Each measurement is made in a process of its own, since the system is slow to take memory back.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.driver import ROOT, environment
from benchmarks.workloads import WORKLOADS, Workload

MIB = 1 << 20


def resident() -> int:
    """Bytes of this process that are in memory now; Linux tells."""
    pages = Path(os.sep, "proc", "self", "statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def measure(workload: Workload, *, algorithm: str, replays: int) -> dict[str, Any]:
    """Bytes: what the graph plans, what the core counts, and by what the process has grown."""
    import singa_core  # noqa: PLC0415  (the driver has not loaded it)
    from benchmarks.models import network  # noqa: PLC0415
    from singa_core.storage import Storage  # noqa: PLC0415

    device = singa_core.device()
    batches = [[singa_core.tensor(a, device=device) for a in pair] for pair in workload.batches()]
    side = singa_core.ops.ones((512, 512), device=device)
    (side @ side).numpy()  # BLAS has its own buffers, whatever it computes
    del side
    gc.collect()
    counted, grown = device.memory.current, resident()
    # with random weights, drawn one by one: a host copy of all would leave holes in the heap
    model = network(workload, batches[0][0], graph_alg=algorithm, weights=False)
    for i in range(2):
        model.train_one_batch(*batches[i])
    held, least = device.memory.current, resident()
    storages = live(Storage)
    for i in range(replays):
        model.train_one_batch(*batches[i % len(batches)])
    (report,) = model.graph_report()
    parameters = sum(p.spec.nbytes for p in model.get_params().values())
    gc.collect()
    return {
        "title": workload.title,
        **{key: value for key, value in report.items() if key != "served"},
        "parameters": parameters,
        "counted": device.memory.current - counted,
        "resident": resident() - grown,
        "replays": replays,
        "counted by replays": device.memory.current - held,
        "resident by replays": resident() - least,
        "storages by replays": live(Storage) - storages,
    }


def live(kind: type) -> int:
    """How many objects of a class there are."""
    return sum(type(o) is kind for o in gc.get_objects())  # isinstance would wake lazy modules


def apart(name: str, *, algorithm: str = "memory", replays: int = 20) -> dict[str, Any]:
    """`measure` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", "--workload", name]
    command += ["--algorithm", algorithm, "--replays", str(replays), "--here"]
    done = subprocess.run(
        command, env=environment(2), cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown, in MiB."""
    head = "parameters|momentum|plan|live bound|eager, at least|all planned|counted|resident"
    lines = [f"| workload | {head.replace('|', ' | ')} |", "|---|" + "---:|" * 8]
    for f in found:
        parts = f["parameters"], f["parameters"], f["planned_peak"]
        row = [*parts, f["live_bound"], f["eager_peak"], sum(parts), f["counted"], f["resident"]]
        numbers = " | ".join(f"{value / MIB:.1f}" for value in row)
        lines.append(f"| {f['title']} | {numbers} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", choices=WORKLOADS, action="append")
    parser.add_argument("--algorithm", choices=("memory", "sequence"), default="memory")
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--here", action="store_true", help="in this process, as JSON")
    given = parser.parse_args()
    names = given.workload or ["resnet"]
    options = {"algorithm": given.algorithm, "replays": given.replays}
    if given.here:
        print(json.dumps(measure(WORKLOADS[names[0]], **options)))
    else:
        print(table([apart(name, **options) for name in names]))


if __name__ == "__main__":
    main()
