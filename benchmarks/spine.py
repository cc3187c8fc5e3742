"""One training step in singa-core, in NumPy by hand and in PyTorch: prints Markdown.

python benchmarks/spine.py [--workload mlp64|small8] [--blocks 31] [--threads 1] [--clock cpu|wall]
"""

from __future__ import annotations

import argparse

from driver import Peer, Row, compare, same_work, table, verdict

GRAPH, EAGER, NUMPY, TORCH = "ours, graph", "ours, eager", "NumPy by hand", "PyTorch eager"
PEERS = (
    Peer(GRAPH, "singa.py", ("graph",)),
    Peer(EAGER, "singa.py", ("eager",)),
    Peer(NUMPY, "numpy_mlp.py"),
    Peer(TORCH, "torch_eager.py", needs="torch"),
)
STEPS = {"mlp64": 20, "small8": 300}  # in a block: about 50 ms
TITLES = {
    "mlp64": "784-512-512-10, batch 64, momentum",
    "small8": "64-64-64-10, batch 8, momentum",
}


def verdicts(workload: str, rows: list[Row]) -> list[str]:
    """How the measured ratios stand to those wanted."""
    if workload == "mlp64":
        return [verdict(rows, GRAPH, NUMPY, high=1.10), verdict(rows, GRAPH, TORCH, high=1.0)]
    return [verdict(rows, EAGER, GRAPH, low=2.5), verdict(rows, TORCH, GRAPH, low=3.0)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", choices=STEPS, action="append")
    parser.add_argument("--blocks", type=int, default=31)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=("cpu", "wall"), default="cpu")
    options = parser.parse_args()
    for workload in options.workload or STEPS:
        rows = compare(
            PEERS, workload, steps=STEPS[workload], blocks=options.blocks,
            threads=options.threads, clock=options.clock,
        )  # fmt: skip
        print(f"\n### {TITLES[workload]}\n")
        print(
            f"{options.threads} thread(s), {options.clock} time, medians of {options.blocks} "
            f"blocks of {STEPS[workload]} steps\n"
        )
        print(table(rows, GRAPH), "", *verdicts(workload, rows), sep="\n")
        if not same_work(rows):
            print("- THE LOSSES DIFFER: the peers do not compute the same thing")


if __name__ == "__main__":
    main()
