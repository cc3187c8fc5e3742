"""The same step in singa-core: `singa.py WORKLOAD eager|graph [DEVICE]`."""

from __future__ import annotations

from typing import Any

from common import MOMENTUM, RATE, Convolutional, Step, Workload, serve

import singa_core
from singa_core import Model, layers, ops, opt, tensor


class Network(Model):
    """Layers in a row, softmax cross-entropy and momentum."""

    def __init__(self, workload: Workload | Convolutional) -> None:
        convolutional = isinstance(workload, Convolutional)
        self.steps = cnn(workload) if convolutional else mlp(workload)
        self.optimizer = opt.SGD(RATE, momentum=MOMENTUM)

    def forward(self, x: Any) -> Any:
        """The logits."""
        return self.steps(x)

    def train_one_batch(self, x: Any, labels: Any) -> Any:
        """The loss, after an update."""
        loss = ops.cross_entropy(self.forward(x), labels)
        self.optimizer(loss)
        return loss


def mlp(workload: Workload) -> layers.Sequential:
    """Linear layers with ReLU between them."""
    steps: list[Any] = []
    for weight, bias in workload.weights():
        steps += [layers.Linear(len(bias), weight_init=weight, bias_init=bias), layers.ReLU()]
    return layers.Sequential(*steps[:-1])


def cnn(workload: Convolutional) -> layers.Sequential:
    """Two convolutions, each with ReLU and pooling, and two linear layers."""
    steps: list[Any] = []
    for weight, bias in workload.weights():
        init = {"weight_init": weight, "bias_init": bias}
        if weight.ndim == 4:
            conv = layers.Conv2d(len(bias), weight.shape[2], **init)
            steps += [conv, layers.ReLU(), layers.MaxPool2d(2)]
        else:
            steps += [layers.Linear(len(bias), **init), layers.ReLU()]
    return layers.Sequential(*steps[:6], layers.Flatten(), *steps[6:-1])


def build(
    workload: Workload | Convolutional, mode: str, device: str | None = None
) -> tuple[Step, str]:
    """The step, see `common.serve`."""
    where = singa_core.device(device)
    batches = [
        (tensor(x, device=where), tensor(labels, device=where)) for x, labels in workload.batches()
    ]
    model = Network(workload)
    model.compile([batches[0][0]], is_train=True, use_graph=mode == "graph")
    about = f"singa-core {singa_core.__version__}, {mode}, {where}"
    return lambda i: model.train_one_batch(*batches[i % len(batches)]), about


if __name__ == "__main__":
    serve(build)
