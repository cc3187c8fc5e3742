"""The same networks in JAX, each call one jitted function; images have their channels last."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.peers.serve import Call, serve
from benchmarks.workloads import MOMENTUM, RATE, Cnn, Mlp, Resnet, Transformer, Workload

Weights = dict[str, Any]


def affine(weights: Weights, name: str, x: Any) -> Any:
    """A linear map."""
    return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]


def conv(weights: Weights, name: str, x: Any, stride: int = 1, padding: int = 0) -> Any:
    """A convolution, with its bias if it has one."""
    pairs = [(padding, padding)] * 2
    y = lax.conv_general_dilated(
        x, weights[f"{name}.weight"], (stride, stride), pairs,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    bias = weights.get(f"{name}.bias")
    return y if bias is None else y + bias


def normal(weights: Weights, name: str, x: Any, axes: tuple[int, ...], given: Any = None) -> Any:
    """Mean 0 and variance 1 over some axes, or with given moments; then scaled and moved."""
    mean, variance = given or (x.mean(axes, keepdims=True), x.var(axes, keepdims=True))
    y = (x - mean) * lax.rsqrt(variance + 1e-5)
    return y * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def mlp(workload: Mlp, weights: Weights, x: Any, training: bool) -> Any:
    """The logits."""
    count = len(workload.sizes) - 1
    for i in range(count):
        x = affine(weights, f"linears.{i}", x)
        x = jax.nn.relu(x) if i < count - 1 else x
    return x


def cnn(workload: Cnn, weights: Weights, x: Any, training: bool) -> Any:
    """The logits; features are flattened with their channels first, as the weights have them."""
    for i in (0, 1):
        x = jax.nn.relu(conv(weights, f"convs.{i}", x))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
    return affine(weights, "linears.1", jax.nn.relu(affine(weights, "linears.0", x)))


def resnet(workload: Resnet, weights: Weights, x: Any, training: bool) -> Any:
    """The logits. In evaluation the moments are those of a network that was never trained."""
    axes, given = (0, 1, 2), None if training else (0.0, 1.0)
    x = jax.nn.relu(normal(weights, "norm", conv(weights, "stem", x, 1, 1), axes, given))
    for i, (_, _, stride) in enumerate(workload.blocks()):
        name = f"blocks.{i}"
        y = conv(weights, f"{name}.conv1", x, stride, 1)
        y = jax.nn.relu(normal(weights, f"{name}.norm1", y, axes, given))
        y = normal(weights, f"{name}.norm2", conv(weights, f"{name}.conv2", y, 1, 1), axes, given)
        if f"{name}.down.weight" in weights:
            x = conv(weights, f"{name}.down", x, stride)
            x = normal(weights, f"{name}.down_norm", x, axes, given)
        x = jax.nn.relu(y + x)
    return affine(weights, "head", x.mean((1, 2)))


def transformer(workload: Transformer, weights: Weights, x: Any, training: bool) -> Any:
    """The logits of each token, in rows."""
    x = weights["tokens.weight"][x] + weights["places"]
    n, t, d = x.shape
    for i in range(workload.layers):
        name = f"blocks.{i}"
        h = normal(weights, f"{name}.norm1", x, (2,))
        q, k, v = (
            affine(weights, f"{name}.attention.{part}", h).reshape(n, t, workload.heads, -1)
            for part in ("query", "key", "value")
        )
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(n, t, d)
        x = x + affine(weights, f"{name}.attention.out", y)
        h = affine(weights, f"{name}.expand", normal(weights, f"{name}.norm2", x, (2,)))
        x = x + affine(weights, f"{name}.contract", jax.nn.gelu(h, approximate=False))
    return affine(weights, "head", normal(weights, "norm", x, (2,))).reshape(n * t, -1)


NETWORKS: dict[type[Workload], Any] = {
    Mlp: mlp, Cnn: cnn, Resnet: resnet, Transformer: transformer,
}  # fmt: skip


def build(workload: Workload, part: str) -> tuple[Call, str]:
    """The call, see `serve`."""

    def last(a: Any) -> Any:
        return jnp.asarray(a.transpose(0, 2, 3, 1) if a.ndim == 4 else a)

    weights = {
        name: jnp.asarray(w.transpose(2, 3, 1, 0) if w.ndim == 4 else w)
        for name, w in workload.weights().items()
    }
    batches = [[last(a) for a in pair] for pair in workload.batches()]
    momenta = jax.tree.map(jnp.zeros_like, weights)
    network = NETWORKS[type(workload)]
    about = f"JAX {jax.__version__}"

    def loss_of(weights: Weights, x: Any, labels: Any) -> Any:
        logits = jax.nn.log_softmax(network(workload, weights, x, True))
        return -jnp.take_along_axis(logits, labels[:, None], 1).mean()

    def updated(weights: Weights, momenta: Weights, x: Any, labels: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(weights, x, labels)
        momenta = jax.tree.map(lambda m, g: MOMENTUM * m + g, momenta, grads)
        return jax.tree.map(lambda w, m: w - RATE * m, weights, momenta), momenta, loss

    jitted = jax.jit(updated, donate_argnums=(0, 1))
    evaluated = jax.jit(lambda weights, x: network(workload, weights, x, False))
    state = [weights, momenta]

    def step(i: int) -> Any:
        *state[:], loss = jitted(*state, *batches[i % len(batches)])
        return loss

    def forward(i: int) -> Any:
        return evaluated(weights, batches[i % len(batches)][0]).block_until_ready()

    return (step if part == "step" else forward), about


if __name__ == "__main__":
    serve(build)
