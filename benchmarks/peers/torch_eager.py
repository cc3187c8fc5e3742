"""The same step in eager PyTorch, as its tutorials write it."""

from __future__ import annotations

from typing import Any

import torch
from common import MOMENTUM, RATE, Convolutional, Step, Workload, serve
from torch import nn


def mlp(workload: Workload) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for weight, bias in workload.weights():
        layers += [filled(nn.Linear(*weight.shape), weight.T, bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn(workload: Convolutional) -> nn.Sequential:
    """Two convolutions, each with ReLU and pooling, and two linear layers."""
    layers: list[nn.Module] = []
    for weight, bias in workload.weights():
        if weight.ndim == 4:
            conv = nn.Conv2d(weight.shape[1], weight.shape[0], weight.shape[2])
            layers += [filled(conv, weight, bias), nn.ReLU(), nn.MaxPool2d(2)]
        else:
            layers += [filled(nn.Linear(*weight.shape), weight.T, bias), nn.ReLU()]
    return nn.Sequential(*layers[:6], nn.Flatten(), *layers[6:-1])


def filled(layer: Any, weight: Any, bias: Any) -> nn.Module:
    """The layer with these numbers."""
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        layer.bias.copy_(torch.from_numpy(bias))
    made: nn.Module = layer
    return made


def build(workload: Workload | Convolutional) -> tuple[Step, str]:
    """The step, see `common.serve`."""
    model = cnn(workload) if isinstance(workload, Convolutional) else mlp(workload)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    batches = [(torch.from_numpy(x), torch.from_numpy(y)) for x, y in workload.batches()]

    def step(i: int) -> Any:
        x, labels = batches[i % len(batches)]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step, f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads"


if __name__ == "__main__":
    serve(build)
