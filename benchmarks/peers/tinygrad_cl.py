"""The convolutional network in tinygrad, jitted, on the first OpenCL driver there is.

tinygrad looks for an OpenCL library of the system. The one that comes with pyopencl knows drivers
that pip installs, if pyopencl has been loaded before.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyopencl

from benchmarks.peers.serve import Call, serve
from benchmarks.workloads import MOMENTUM, RATE, Workload

pyopencl.get_platforms()
for _library in Path(pyopencl.__file__).parent.glob(".libs/libOpenCL*"):
    os.environ.setdefault("OPENCL_PATH", str(_library))
os.environ.setdefault("DEV", "CL")
os.environ.setdefault("TRAINING", "1")  # its optimisers want to be told

from tinygrad import Tensor, TinyJit  # noqa: E402  (reads the environment)
from tinygrad.nn.optim import SGD  # noqa: E402


def logits_of(weights: dict[str, Any], x: Any) -> Any:
    """The network's output."""
    for i in (0, 1):
        conv = x.conv2d(weights[f"convs.{i}.weight"], weights[f"convs.{i}.bias"])
        x = conv.relu().max_pool2d((2, 2))
    x = x.flatten(1)
    x = (x @ weights["linears.0.weight"] + weights["linears.0.bias"]).relu()
    return x @ weights["linears.1.weight"] + weights["linears.1.bias"]


def build(workload: Workload, part: str) -> tuple[Call, str]:
    """The call, see `serve`."""
    weights = {name: Tensor(w).realize() for name, w in workload.weights().items()}
    batches = [[Tensor(a).realize() for a in pair] for pair in workload.batches()]
    for w in weights.values():
        w.requires_grad = True
    optimizer = SGD(list(weights.values()), lr=RATE, momentum=MOMENTUM)

    @TinyJit
    def step(x: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        loss = logits_of(weights, x).sparse_categorical_crossentropy(labels)
        loss.backward()
        optimizer.step()
        return loss.realize()

    @TinyJit
    def forward(x: Any) -> Any:
        return logits_of(weights, x).realize()

    def train(i: int) -> Any:
        return step(*batches[i % len(batches)]).numpy()

    def infer(i: int) -> Any:
        return forward(batches[i % len(batches)][0]).numpy()

    about = f"tinygrad, {pyopencl.get_platforms()[0].version}"
    return (train if part == "step" else infer), about


if __name__ == "__main__":
    serve(build)
