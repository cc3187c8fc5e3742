"""One training step of a convolutional network in singa-core and in PyTorch: prints Markdown.

python benchmarks/main_job.py [--blocks 31] [--threads 1 --threads 2] [--clock cpu|wall]
"""

from __future__ import annotations

import argparse

from driver import Peer, compare, same_work, table, verdict

GRAPH, EAGER, TORCH = "ours, graph", "ours, eager", "PyTorch eager"
PEERS = (
    Peer(GRAPH, "singa.py", ("graph",)),
    Peer(EAGER, "singa.py", ("eager",)),
    Peer(TORCH, "torch_eager.py", needs="torch"),
)
STEPS = 4  # in a block: about 80 ms


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=31)
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--clock", choices=("cpu", "wall"))
    options = parser.parse_args()
    for threads in options.threads or (1, 2):
        clock = options.clock or ("cpu" if threads == 1 else "wall")
        rows = compare(
            PEERS, "cnn64", steps=STEPS, blocks=options.blocks, threads=threads, clock=clock
        )
        print("\n### 20c5-pool-50c5-pool-500-10 with ReLU, batch 64 of 28x28, momentum\n")
        print(
            f"{threads} thread(s), {clock} time, medians of {options.blocks} blocks of {STEPS} "
            "steps\n"
        )
        print(table(rows, TORCH), "", verdict(rows, GRAPH, TORCH, high=1.5), sep="\n")
        print(verdict(rows, GRAPH, EAGER, high=1.02))
        if not same_work(rows):
            print("- THE LOSSES DIFFER: the peers do not compute the same thing")


if __name__ == "__main__":
    main()
