"""The same step in eager PyTorch, as its tutorials write it."""

from __future__ import annotations

from typing import Any

import torch
from common import MOMENTUM, RATE, Step, Workload, serve
from torch import nn


def build(workload: Workload) -> tuple[Step, str]:
    """The step, see `common.serve`."""
    layers: list[nn.Module] = []
    for weight, bias in workload.weights():
        linear = nn.Linear(*weight.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weight.T))
            linear.bias.copy_(torch.from_numpy(bias))
        layers += [linear, nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
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
