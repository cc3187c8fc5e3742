"""The same step in singa-core: `singa.py WORKLOAD eager|graph [DEVICE]`."""

from __future__ import annotations

from typing import Any

from common import MOMENTUM, RATE, Step, Workload, serve

import singa_core
from singa_core import Model, layers, ops, opt, tensor


class MLP(Model):
    """Linear layers with ReLU between them."""

    def __init__(self, workload: Workload) -> None:
        steps: list[Any] = []
        for weight, bias in workload.weights():
            steps += [layers.Linear(len(bias), weight_init=weight, bias_init=bias), layers.ReLU()]
        self.steps = layers.Sequential(*steps[:-1])
        self.optimizer = opt.SGD(RATE, momentum=MOMENTUM)

    def forward(self, x: Any) -> Any:
        """The logits."""
        return self.steps(x)

    def train_one_batch(self, x: Any, labels: Any) -> Any:
        """The loss, after an update."""
        loss = ops.cross_entropy(self.forward(x), labels)
        self.optimizer(loss)
        return loss


def build(workload: Workload, mode: str, device: str | None = None) -> tuple[Step, str]:
    """The step, see `common.serve`."""
    where = singa_core.device(device)
    batches = [
        (tensor(x, device=where), tensor(labels, device=where)) for x, labels in workload.batches()
    ]
    model = MLP(workload)
    model.compile([batches[0][0]], is_train=True, use_graph=mode == "graph")
    about = f"singa-core {singa_core.__version__}, {mode}, {where}"
    return lambda i: model.train_one_batch(*batches[i % len(batches)]), about


if __name__ == "__main__":
    serve(build)
