"""A training step written by hand: every array is allocated once, every call writes into one.

This is what a framework on NumPy can hope to reach, and nothing in it is a framework.
"""

from __future__ import annotations

import numpy as np

from benchmarks.peers.serve import Call, serve
from benchmarks.workloads import MOMENTUM, RATE, Array, Mlp


class Layer:
    """One layer's arrays: parameters, their gradients and momenta as windows of flat buffers."""

    def __init__(self, weight: Array, gradient: Array, bias: Array, bias_gradient: Array) -> None:
        self.weight, self.gradient = weight, gradient
        self.bias, self.bias_gradient = bias, bias_gradient


class Network:
    """The whole step."""

    def __init__(self, workload: Mlp) -> None:
        given = workload.weights()
        count = len(workload.sizes) - 1
        pairs = [(given[f"linears.{i}.weight"], given[f"linears.{i}.bias"]) for i in range(count)]
        batch, sizes = workload.batch, workload.sizes
        total = sum(weight.size + bias.size for weight, bias in pairs)
        # one buffer for all parameters: the update is four calls, not four for each of them
        self.parameters, self.gradients, self.momenta, self.scratch = (
            np.zeros(total, np.float32) for _ in range(4)
        )
        self.layers: list[Layer] = []
        at = 0
        for weight, bias in pairs:
            views = []
            for initial in (weight, bias):
                for flat in (self.parameters, self.gradients):
                    views.append(flat[at : at + initial.size].reshape(initial.shape))
                views[-2][...] = initial
                at += initial.size
            self.layers.append(Layer(*views))
        self.outputs = [np.empty((batch, n), np.float32) for n in sizes[1:]]
        self.deltas = [np.empty((batch, n), np.float32) for n in sizes[1:]]
        self.masks = [np.empty((batch, n), np.bool_) for n in sizes[1:-1]]
        self.ones = np.ones(batch, np.float32)
        self.rows = np.arange(batch) * sizes[-1]
        self.index = np.empty(batch, np.int64)
        self.top, self.total = (np.empty((batch, 1), np.float32) for _ in range(2))
        self.picked = np.empty(batch, np.float32)
        self.zero, self.share = np.float32(0), np.float32(1 / batch)
        self.rate, self.momentum = np.float32(RATE), np.float32(MOMENTUM)

    def step(self, x: Array, labels: Array) -> np.float32:
        """Forward, loss, backward, update."""
        self.forward(x)
        loss = self.softmax_cross_entropy(labels)
        self.backward(x)
        self.update()
        return loss

    def forward(self, x: Array) -> None:
        """Layer by layer; the last one without ReLU."""
        last = self.outputs[-1]
        for layer, y in zip(self.layers, self.outputs, strict=True):
            np.matmul(x, layer.weight, out=y)
            np.add(y, layer.bias, out=y)
            if y is not last:
                np.maximum(y, self.zero, out=y)
            x = y

    def softmax_cross_entropy(self, labels: Array) -> np.float32:
        """The loss, and its gradient in deltas[-1]: (softmax - one hot) / batch."""
        logits, p, top, total = self.outputs[-1], self.deltas[-1], self.top, self.total
        flat = p.reshape(-1)
        np.maximum.reduce(logits, axis=1, out=top, keepdims=True)
        np.subtract(logits, top, out=p)
        np.add(self.rows, labels, out=self.index)
        np.take(flat, self.index, out=self.picked, mode="clip")
        np.exp(p, out=p)
        np.add.reduce(p, axis=1, out=total, keepdims=True)
        np.divide(p, total, out=p)
        flat[self.index] -= 1
        np.multiply(p, self.share, out=p)
        np.log(total, out=total)
        loss: np.float32 = (total.sum() - self.picked.sum()) * self.share
        return loss

    def backward(self, x: Array) -> None:
        """From the last layer to the first, whose input needs no gradient."""
        for i in range(len(self.layers) - 1, -1, -1):
            layer, delta = self.layers[i], self.deltas[i]
            below = self.outputs[i - 1] if i else x
            np.matmul(below.T, delta, out=layer.gradient)
            np.matmul(self.ones, delta, out=layer.bias_gradient)  # half the time of a sum
            if i:
                np.matmul(delta, layer.weight.T, out=self.deltas[i - 1])
                np.greater(below, self.zero, out=self.masks[i - 1])
                np.multiply(self.deltas[i - 1], self.masks[i - 1], out=self.deltas[i - 1])

    def update(self) -> None:
        """Momentum: m <- momentum m + g; p <- p - rate m."""
        np.multiply(self.momenta, self.momentum, out=self.momenta)
        np.add(self.momenta, self.gradients, out=self.momenta)
        np.multiply(self.momenta, self.rate, out=self.scratch)
        np.subtract(self.parameters, self.scratch, out=self.parameters)


def build(workload: Mlp, part: str) -> tuple[Call, str]:
    """The call, see `serve`."""
    network, batches = Network(workload), workload.batches()
    if part == "forward":

        def forward(i: int) -> Array:
            network.forward(batches[i % len(batches)][0])
            return network.outputs[-1]

        return forward, f"NumPy {np.__version__}"
    return lambda i: network.step(*batches[i % len(batches)]), f"NumPy {np.__version__}"


if __name__ == "__main__":
    serve(build)
