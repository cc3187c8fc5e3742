"""The OpenCL backend on a driver for CPUs, beside NumPy, PyTorch and tinygrad: prints Markdown.

python -m benchmarks.opencl                          all parts, one thread by CPU time
python -m benchmarks.opencl --threads 2 --only step  by the clock
python -m benchmarks.opencl --write docs/measured-opencl.md

Each peer is a process of its own. With one thread CPU time is compared, which stands up to other
work on the machine; with more, time of the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.driver import Peer, Row, compare, environment, others, ratio
from benchmarks.machine import lines as machine
from benchmarks.memory import MIB, resident
from benchmarks.peers.kernel import flops
from benchmarks.workloads import WORKLOADS

if TYPE_CHECKING:
    from singa_core.device import Device

NUMPY, TORCH, TINYGRAD = "NumPy", "PyTorch eager", "tinygrad"
LAUNCHES = 500
STEPS = {"cnn": 4, "resnet": 1, "transformer": 1}  # workload -> calls in a block
REPLAYS = 1000
CLOCKS = {"cpu": "CPU time", "wall": "by the clock"}


@dataclass(frozen=True)
class Setting:
    """What all parts are measured with.

    Args:
        device: its name.
        threads: of each process.
        blocks: of each peer.
    """

    device: str
    threads: int
    blocks: int

    @property
    def clock(self) -> str:
        """A key of CLOCKS."""
        return "cpu" if self.threads == 1 else "wall"

    def __str__(self) -> str:
        return f"{self.threads} thread{'' if self.threads == 1 else 's'}, {CLOCKS[self.clock]}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.opencl", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--device", default="opencl")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--write", type=Path, metavar="FILE", help="instead of printing")
    options = parser.parse_args(arguments)
    setting = Setting(options.device, options.threads, options.blocks)
    text = []
    for line in report(setting, [options.only] if options.only else list(PARTS)):
        text.append(line)
        if options.write is None:
            print(line, flush=True)
    if options.write is not None:
        options.write.write_text("\n".join(text) + "\n", encoding="utf-8")


def report(setting: Setting, parts: Sequence[str]) -> Iterator[str]:
    """These parts."""
    yield "# What is measured of OpenCL\n"
    yield f"Made by `python -m benchmarks.opencl --threads {setting.threads}`: read ratios.\n"
    yield from machine("singa-opencl", "pyopencl", "tinygrad")
    text = "import sys, singa_core; print(singa_core.device(sys.argv[1]).driver)"
    yield f"- device: {child([sys.executable, '-c', text, setting.device], setting.threads)}"
    for name in parts:
        part = PARTS[name]
        yield f"\n## {(part.__doc__ or name).rstrip('.')}, {setting}"
        yield from part(setting)


def kernels(setting: Setting) -> Iterator[str]:
    """Products and a convolution."""
    device = setting.device
    whats = ("matmul-512", "matmul-1024", "conv")
    peers = [Peer(f"{NUMPY} {what}", "kernel", ("numpy", what)) for what in whats[:2]]
    peers += [Peer(f"{device} {what}", "kernel", (device, what)) for what in whats]
    rows = measured(peers, "mlp", "forward", setting, calls=8)
    yield "\n| kernel | GFLOP/s | best block |\n|---|---:|---:|"
    speeds = {}
    for row in rows:
        work = flops(row.peer.options[1])
        speeds[row.peer.name] = work / row.median / 1e9
        best = work / min(row.seconds) / 1e9
        yield f"| {row.peer.name} | {speeds[row.peer.name]:.0f} | {best:.0f} |"
    yield ""
    for what, base, least in (
        ("matmul-512", "matmul-512", 0.85),
        ("matmul-1024", "matmul-1024", 0.65),
        ("conv", "matmul-1024", 0.8),
    ):
        found = speeds[f"{device} {what}"] / speeds[f"{NUMPY} {base}"]
        yield verdict(f"{device} {what} / {NUMPY} {base}", found, found >= least, f">= {least}")


def steps(setting: Setting) -> Iterator[str]:
    """Training steps."""
    for workload in STEPS:
        yield from step(workload, setting)


def step(workload: str, setting: Setting) -> Iterator[str]:
    """A network's training step."""
    ours = f"{setting.device}, graph"
    peers = [
        Peer(ours, "ours", ("graph", setting.device)),
        Peer(f"{setting.device}, eager", "ours", ("eager", setting.device)),
        Peer("cpu_numpy, graph", "ours", ("graph", "cpu_numpy")),
        Peer(TORCH, "pytorch", ("eager",), ("torch",)),
    ]
    if workload == "cnn":
        peers.append(Peer(TINYGRAD, "tinygrad_cl", (), ("tinygrad",), calls=1))
    rows = measured(peers, workload, "step", setting, calls=STEPS[workload])
    yield f"\n| {WORKLOADS[workload].title} | ms | best block | first call, s | with |"
    yield "|---|---:|---:|---:|---|"
    for row in rows:
        yield (
            f"| {row.peer.name} | {row.median * 1e3:.2f} | {min(row.seconds) * 1e3:.2f} "
            f"| {row.first:.1f} | {row.about} |"
        )
    yield ""
    found = ratio(rows, ours, TORCH)
    if found is not None:
        yield verdict(f"{ours} / {TORCH}", found, found <= 1.5, "<= 1.5")
    found = ratio(rows, TINYGRAD, ours)
    if found is not None:
        yield verdict(f"{TINYGRAD} / {ours}", found, found >= 4, ">= 4")
    alike = [row for row in rows if row.peer.calls is None]
    for name in others(alike):
        yield f"- {name} COMPUTES SOMETHING ELSE: its losses differ from those of {ours}"


def launches(setting: Setting) -> Iterator[str]:
    """Launches of a step."""
    text = (
        "import sys; from benchmarks.opencl import host_time; "
        "print(host_time(sys.argv[1]), flush=True)"
    )
    done = child([sys.executable, "-c", text, setting.device], setting.threads)
    number, apart, host, replay = done.split()
    yield f"\n- launches of a cnn step: {number}, without fusion {apart}"
    yield f"- host work of a step, for each launch: {float(replay):.2f} us"
    yield verdict("host time of a launch, us", float(host), float(host) <= 1.5, "<= 1.5")


def host_time(name: str) -> str:
    """Launches of a step, with and without fusion; microseconds of a fixed one, and of a step's."""
    import numpy as np  # noqa: PLC0415  (only where it runs)

    import singa_core  # noqa: PLC0415
    from benchmarks.models import network  # noqa: PLC0415
    from singa_core.kernels import table  # noqa: PLC0415

    device = singa_core.device(name)
    workload = WORKLOADS["cnn"]
    batch = [singa_core.tensor(a, device=device) for a in workload.batches()[0]]
    fusing = device.capabilities
    numbers = []
    for capabilities in (replace(fusing, fuses=frozenset(), batches=frozenset()), fusing):
        device.capabilities = capabilities
        model = network(workload, batch[0])
        for _ in range(3):
            float(np.asarray(model.train_one_batch(*batch)))
        numbers.append(sum(report["launches"] for report in model.graph_report()))
    apart, number = numbers
    step = shortest(lambda: model.train_one_batch(*batch), 20, device)
    x = singa_core.tensor([1.0] * 4, device=device)
    y = x + x
    kernel = table("c").find("add", [x.dtype] * 2, [x.dtype])
    launch = kernel.prepare(device.target("c"), [x.spec, x.spec], [y.spec])
    fixed = launch.fixed([x.array.handle, x.array.handle, y.array.handle])
    run, args = fixed.function, fixed.args
    device.target("c").make()  # compiles what has been fixed
    one = queued(lambda: run(*args), LAUNCHES, device)
    return f"{number} {apart} {one * 1e6:.3f} {step / max(number, 1) * 1e6:.3f}"


def shortest(call: Callable[[], object], count: int, device: Device) -> float:
    """Seconds of this thread for one of `count` calls, the least of several blocks."""
    best = float("inf")
    for _ in range(9):
        start = time.thread_time()
        for _ in range(count):
            call()
        best = min(best, (time.thread_time() - start) / count)
        device.synchronize()
    return best


def queued(call: Callable[[], object], count: int, device: Any) -> float:
    """`shortest`, while the device waits: its driver's threads hold locks of the queue else."""
    import pyopencl as cl  # noqa: PLC0415  (only where it runs)

    best = float("inf")
    for _ in range(9):
        gate = cl.UserEvent(device.context)
        cl.enqueue_marker(device.queue, wait_for=[gate])
        start = time.thread_time()
        for _ in range(count):
            call()
        best = min(best, (time.thread_time() - start) / count)
        gate.set_status(cl.command_execution_status.COMPLETE)
        device.synchronize()
    return best


def growth(setting: Setting) -> Iterator[str]:
    """Memory of replays."""
    text = "import sys; from benchmarks.opencl import grown; print(grown(sys.argv[1]))"
    done = child([sys.executable, "-c", text, setting.device], setting.threads)
    counted, most = done.split()
    yield ""
    yield verdict(
        f"bytes more by core's count after {REPLAYS} replays", float(counted), counted == "0", "0"
    )
    yield verdict(
        f"MiB more in memory, the least of three times {REPLAYS}",
        float(most),
        float(most) < 1,
        "< 1",
    )


def grown(name: str) -> str:
    """Bytes by core's count, and MiB of the process, that replays of the cnn's step leave."""
    import singa_core  # noqa: PLC0415  (only where it runs)
    from benchmarks.models import network  # noqa: PLC0415

    device = singa_core.device(name)
    batch = [singa_core.tensor(a, device=device) for a in WORKLOADS["cnn"].batches()[0]]
    model = network(WORKLOADS["cnn"], batch[0])

    def sizes() -> tuple[int, float]:
        for _ in range(REPLAYS):
            model.train_one_batch(*batch)
        device.synchronize()
        return device.memory.current, resident() / MIB

    seen = [sizes() for _ in range(5)][1:]  # an allocator keeps what it once needed
    more = [after[1] - before[1] for before, after in pairwise(seen)]
    return f"{seen[-1][0] - seen[0][0]} {min(more):.2f}"


def firsts(setting: Setting) -> Iterator[str]:
    """First steps."""
    command = [
        sys.executable, "-m", "benchmarks.peers.first_step", "cnn", setting.device, setting.clock,
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        told = [json.loads(child(command, setting.threads, folder)) for _ in range(2)]
    yield "\n| process | import, s | build | first step | second step |\n|---|---:|---:|---:|---:|"
    for what, t in zip(("with empty caches", "the next one"), told, strict=True):
        times = " | ".join(f"{t[key]:.2f}" for key in ("import", "build", "first", "second"))
        yield f"| {what} | {times} |"
    yield ""
    found = told[1]["first"]
    yield verdict("first step of the next process after its build, s", found, found < 0.5, "< 0.5")


def child(command: list[str], threads: int, cache: str | None = None) -> str:
    """The last line that a process prints."""
    env = environment(threads)
    if cache is not None:
        env |= {"POCL_CACHE_DIR": os.path.join(cache, "pocl"), "XDG_CACHE_HOME": cache}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
    return done.stdout.strip().splitlines()[-1]


def measured(
    peers: list[Peer], workload: str, part: str, setting: Setting, *, calls: int
) -> list[Row]:
    """The peers in turn."""
    return compare(
        peers, workload, part, calls=calls, blocks=setting.blocks, threads=setting.threads,
        clock=setting.clock,
    )  # fmt: skip


def verdict(what: str, found: float, met: bool, wanted: str) -> str:
    """One line."""
    return f"- {what}: {found:.2f}, wanted {wanted}: {'met' if met else 'MISSED'}"


PARTS: dict[str, Callable[[Setting], Iterator[str]]] = {
    "kernels": kernels, "step": steps, "launches": launches, "memory": growth, "first": firsts,
}  # fmt: skip

if __name__ == "__main__":
    main()
