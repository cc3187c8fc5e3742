"""singa-core: options `graph` or `eager`, and a device."""

from __future__ import annotations

import singa_core
from benchmarks.models import network
from benchmarks.peers.serve import Call, serve
from benchmarks.workloads import Workload


def build(workload: Workload, part: str, mode: str, name: str | None = None) -> tuple[Call, str]:
    """The call, see `serve`."""
    device = singa_core.device(name)
    batches = [[singa_core.tensor(a, device=device) for a in pair] for pair in workload.batches()]
    model = network(workload, batches[0][0], use_graph=mode == "graph")
    about = f"singa-core {singa_core.__version__}, {device}"
    if part == "step":
        return lambda i: model.train_one_batch(*batches[i % len(batches)]), about
    model.eval()

    def forward(i: int) -> object:
        with singa_core.no_grad():
            return model(batches[i % len(batches)][0])

    return forward, about


if __name__ == "__main__":
    serve(build)
