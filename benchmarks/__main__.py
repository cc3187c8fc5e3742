"""Training steps and forward passes beside PyTorch and JAX: prints Markdown.

python -m benchmarks                      every workload, one thread by CPU time, two by the clock
python -m benchmarks --workload cnn --part step --threads 1 --blocks 31
python -m benchmarks --write docs/measured.md

CPU time of one thread stands up to other work on the machine, times of the clock do not. Other
scripts: `benchmarks.memory`, `benchmarks.kernels` and `benchmarks.micro`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import memory
from benchmarks.driver import Peer, Row, by_name, compare, others, ratio
from benchmarks.machine import lines as machine
from benchmarks.peers.gemm import FLOPS
from benchmarks.workloads import WORKLOADS, Workload

GRAPH, EAGER, NUMPY = "ours, graph", "ours, eager", "NumPy by hand"
TORCH, COMPILED, JAX, GEMM = "PyTorch eager", "torch.compile", "JAX jit", "matrix product"
PEERS = (
    Peer(GRAPH, "ours", ("graph",)),
    Peer(EAGER, "ours", ("eager",)),
    Peer(TORCH, "pytorch", ("eager",), ("torch",)),
    Peer(COMPILED, "pytorch", ("compile",), ("torch",), ("g++",)),
    Peer(JAX, "jax_jit", (), ("jax",)),
)
BY_HAND = Peer(NUMPY, "numpy_mlp")
MEASURED = ("mlp", "mlp-small", "cnn", "resnet", "transformer")
# In a block; of the others, 1. A peer's threads wake up on one core, and take some 50 ms to spread.
CALLS = {"mlp": 100, "mlp-small": 300, "cnn": 40}
# (workload, part): how many times as long as another one a peer may take, or must
WANTED = {
    ("mlp", "step"): [(GRAPH, NUMPY, 0.0, 1.1), (GRAPH, TORCH, 0.0, 1.0)],
    ("mlp-small", "step"): [(EAGER, GRAPH, 2.5, 1e9), (TORCH, GRAPH, 3.0, 1e9)],
    ("cnn", "step"): [(GRAPH, TORCH, 0.0, 1.5)],
    ("resnet", "step"): [(GRAPH, TORCH, 0.0, 1.3)],
    ("transformer", "step"): [(GRAPH, TORCH, 0.0, 1.3)],
}


def main() -> None:
    """Measure, and print or write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--workload", choices=WORKLOADS, action="append")
    parser.add_argument("--part", choices=("step", "forward"), action="append")
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--clock", choices=("cpu", "wall"), help="by default cpu for one thread")
    parser.add_argument("--only", action="append", help="a word in the names of the peers wanted")
    parser.add_argument("--write", type=Path, metavar="FILE", help="instead of printing")
    options = parser.parse_args()
    text: list[str] = []
    for line in report(options):
        text.append(line)
        print(line, flush=True, file=sys.stderr if options.write else sys.stdout)
    if options.write:
        options.write.write_text("\n".join(text) + "\n", encoding="utf-8")


def report(options: argparse.Namespace) -> Iterator[str]:
    """The whole text, a line at a time."""
    yield "# What is measured"
    yield ""
    yield "Made by `python -m benchmarks --write docs/measured.md`, on one machine at one time:"
    yield "read ratios, not milliseconds."
    yield ""
    yield from machine()
    names = options.workload or MEASURED
    for name in names:
        for part in options.part or ("step", "forward"):
            for threads in options.threads or (1, 2):
                clock = options.clock or ("cpu" if threads == 1 else "wall")
                peers = chosen(name, options.only)
                rows = compare(
                    [*peers, Peer(GEMM, "gemm", calls=4)], name, part,
                    calls=CALLS.get(name, 1), blocks=options.blocks, threads=threads, clock=clock,
                )  # fmt: skip
                yield from section(name, part, rows, threads=threads, clock=clock)
    if not options.part or "step" in options.part:
        yield from ("", "## Memory of our training steps, in MiB", "")
        found = [memory.apart(name) for name in names if name != "mlp-small"]
        yield memory.table(found)


def chosen(name: str, words: Sequence[str] | None) -> list[Peer]:
    """The peers of a workload, or those with one of the words in their names."""
    peers = [*PEERS, BY_HAND] if name.startswith("mlp") else [*PEERS]
    return [p for p in peers if not words or any(word in p.name for word in words)]


def section(
    name: str, part: str, rows: Sequence[Row], *, threads: int, clock: str
) -> Iterator[str]:
    """The table of one comparison, and what is to be said about it."""
    workload = WORKLOADS[name]
    *rows, product = rows
    what = "training step" if part == "step" else "forward pass"
    time = "CPU time" if clock == "cpu" else "time of the clock"
    yield f"\n## {workload.title}: {what}, {threads} thread{'s' * (threads > 1)}, {time}\n"
    yield from table(workload, part, rows, product)
    yield ""
    for one, other, low, high in [(GRAPH, EAGER, 0.0, 1.02), *WANTED.get((name, part), [])]:
        yield verdict(rows, one, other, low, high)
    for name in others(rows):
        first = rows[0].peer.name
        yield f"- {name} COMPUTES SOMETHING ELSE: its results differ from those of {first}"


def table(workload: Workload, part: str, rows: Sequence[Row], product: Row) -> Iterator[str]:
    """Markdown: medians of blocks, and ratios to PyTorch and to the floor."""
    flops = workload.step_flops if part == "step" else workload.forward_flops
    speed = FLOPS / product.median
    floor = flops / speed
    base = by_name(rows).get(TORCH, rows[0])
    yield (
        f"Floor: {flops / 1e9:.3g} GFLOP of matrix products at {speed / 1e9:.0f} GFLOP/s, "
        f"measured beside: {floor * 1e3:.2f} ms."
    )
    yield ""
    head = f"ms|best block|times {base.peer.name}|times floor|first call, s|grown by, MiB"
    yield f"| peer | {head.replace('|', ' | ')} | with |"
    yield "|---|" + "---:|" * 6 + "---|"
    for row in rows:
        numbers = [
            f"{row.median * 1e3:.3g}", f"{min(row.seconds) * 1e3:.3g}",
            f"{row.median / base.median:.2f}", f"{row.median / floor:.1f}", f"{row.first:.1f}",
            f"{row.grown / memory.MIB:.0f}",
        ]  # fmt: skip
        yield f"| {row.peer.name} | {' | '.join(numbers)} | {row.about} |"


def verdict(rows: Sequence[Row], one: str, other: str, low: float, high: float) -> str:
    """One line: how much longer `one` takes than `other`, and whether it is as it should be."""
    limit = f">= {low:g}" if low else f"<= {high:g}"
    found = ratio(rows, one, other)
    if found is None:
        return f"- {one} / {other}: not measured, wanted {limit}"
    word = "met" if low <= found <= high else "MISSED"
    return f"- {one} / {other}: {found:.2f}, wanted {limit}: {word}"


if __name__ == "__main__":
    main()
