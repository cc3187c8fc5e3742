"""What all peers share: the workloads, their numbers, and how they are asked to run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
RATE, MOMENTUM = 0.001, 0.9
BATCHES = 8  # that a peer cycles through
WARM_UP = 3  # steps before a peer is ready: compiling, recording, first allocations


@dataclass(frozen=True)
class Workload:
    """A multilayer perceptron with ReLU between its layers and softmax cross-entropy at its end."""

    sizes: tuple[int, ...]  # of the input and of each layer's output
    batch: int

    def weights(self) -> list[tuple[Array, Array]]:
        """(weight (in, out), bias (out,)) of each layer, the same in every peer."""
        random = np.random.default_rng(0)
        pairs = []
        for inputs, outputs in zip(self.sizes, self.sizes[1:], strict=False):
            limit = np.sqrt(6 / (inputs + outputs))
            weight = random.uniform(-limit, limit, (inputs, outputs)).astype(np.float32)
            pairs.append((weight, np.zeros(outputs, np.float32)))
        return pairs

    def batches(self) -> list[tuple[Array, Array]]:
        """(x (batch, in), labels (batch,)): noise with a mean of its own for each class."""
        random = np.random.default_rng(1)
        means = random.standard_normal((self.sizes[-1], self.sizes[0]))
        pairs = []
        for _ in range(BATCHES):
            labels = random.integers(0, self.sizes[-1], self.batch)
            x = 0.3 * means[labels] + random.standard_normal((self.batch, self.sizes[0]))
            pairs.append((x.astype(np.float32), labels))
        return pairs


@dataclass(frozen=True)
class Convolutional:
    """20 filters 5x5, ReLU, pool, 50 filters 5x5, ReLU, pool, 500, ReLU, 10; on images of 28x28."""

    batch: int

    def weights(self) -> list[tuple[Array, Array]]:
        """(weight, bias) of two convolutions, (out, in, 5, 5), and two linear maps, (in, out)."""
        random = np.random.default_rng(0)
        pairs = []
        for shape in ((20, 1, 5, 5), (50, 20, 5, 5), (800, 500), (500, 10)):
            inputs = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
            outputs = shape[1] if len(shape) == 2 else shape[0]
            weight = random.standard_normal(shape) * np.sqrt(2 / inputs)
            pairs.append((weight.astype(np.float32), np.zeros(outputs, np.float32)))
        return pairs

    def batches(self) -> list[tuple[Array, Array]]:
        """(x (batch, 1, 28, 28), labels (batch,)): noise with a mean of its own for each class."""
        flat = Workload((784, 10), self.batch).batches()
        return [(x.reshape(-1, 1, 28, 28), labels) for x, labels in flat]


WORKLOADS: dict[str, Workload | Convolutional] = {
    "mlp64": Workload((784, 512, 512, 10), batch=64),
    "small8": Workload((64, 64, 64, 10), batch=8),
    "cnn64": Convolutional(batch=64),
}

# A step trains on batch i % BATCHES and returns the loss: something with `.item()`.
Step = Callable[[int], Any]


def serve(build: Callable[..., tuple[Step, str]]) -> None:
    """Run a peer: `script WORKLOAD [options]`, then one number of steps per line of input.

    Args:
        build: from a workload and the options, a step and a word on what it runs on.
    """
    workload, *options = sys.argv[1:]
    step, about = build(WORKLOADS[workload], *options)
    done = 0
    for done in range(WARM_UP):
        step(done)
    done += 1
    answer({"about": about})
    for line in sys.stdin:
        until = done + int(line)
        wall, cpu = time.perf_counter(), time.process_time()
        loss: Any = None
        for i in range(done, until):
            loss = step(i)
        value = loss.item()  # waits for a device that is still at it
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        done = until
        answer({"wall": wall, "cpu": cpu, "loss": value})


def answer(message: dict[str, Any]) -> None:
    """One line to the driver."""
    print(json.dumps(message), flush=True)
