"""The workloads in singa-core: what its peers are compared with, and what tests measure."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads import MOMENTUM, RATE, Cnn, Mlp, Resnet, Transformer, Workload
from singa_core import Layer, Model, Parameter, layers, ops, opt


class Network(Model):
    """Softmax cross-entropy, backward, and SGD with momentum."""

    def __init__(self) -> None:
        self.optimizer = opt.SGD(RATE, momentum=MOMENTUM)

    def train_one_batch(self, x: Any, labels: Any) -> Any:
        """The loss, after an update."""
        loss = ops.cross_entropy(self.forward(x), labels)
        self.optimizer(loss)
        return loss


class MlpNetwork(Network):
    """See `Mlp`."""

    def __init__(self, workload: Mlp) -> None:
        super().__init__()
        self.linears = [layers.Linear(size) for size in workload.sizes[1:]]

    def forward(self, x: Any) -> Any:
        """The logits."""
        for linear in self.linears[:-1]:
            x = ops.relu(linear(x))
        return self.linears[-1](x)


class CnnNetwork(Network):
    """See `Cnn`."""

    def __init__(self, workload: Cnn) -> None:
        super().__init__()
        self.convs = [layers.Conv2d(filters, 5) for filters in workload.filters]
        self.linears = [layers.Linear(workload.hidden), layers.Linear(10)]

    def forward(self, x: Any) -> Any:
        """The logits."""
        for conv in self.convs:
            x = ops.max_pool(ops.relu(conv(x)), kernel=2)
        hidden, last = self.linears
        return last(ops.relu(hidden(x.reshape(x.shape[0], -1))))


class Block(Layer):
    """Two convolutions, added to the input or to a projection of it."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        self.conv1 = layers.Conv2d(width, 3, stride=stride, padding=1, bias=False)
        self.norm1 = layers.BatchNorm2d()
        self.conv2 = layers.Conv2d(width, 3, padding=1, bias=False)
        self.norm2 = layers.BatchNorm2d()
        changes = stride > 1 or before != width
        self.down = layers.Conv2d(width, 1, stride=stride, bias=False) if changes else None
        self.down_norm = layers.BatchNorm2d() if changes else None

    def forward(self, x: Any) -> Any:
        """The block's output."""
        y = self.norm2(self.conv2(ops.relu(self.norm1(self.conv1(x)))))
        if self.down is not None and self.down_norm is not None:
            x = self.down_norm(self.down(x))
        return ops.relu(y + x)


class ResnetNetwork(Network):
    """See `Resnet`."""

    def __init__(self, workload: Resnet) -> None:
        super().__init__()
        self.stem = layers.Conv2d(workload.widths[0], 3, padding=1, bias=False)
        self.norm = layers.BatchNorm2d()
        self.blocks = [Block(*sizes) for sizes in workload.blocks()]
        self.head = layers.Linear(10)

    def forward(self, x: Any) -> Any:
        """The logits."""
        x = ops.relu(self.norm(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(axis=(2, 3)))


class TransformerNetwork(Network):
    """See `Transformer`."""

    def __init__(self, workload: Transformer) -> None:
        super().__init__()
        w = workload
        self.tokens = layers.Embedding(w.tokens, w.width)
        self.places = Parameter((w.length, w.width), "zeros")
        self.blocks = [
            layers.TransformerEncoderLayer(
                w.width, w.heads, w.hidden, dropout=0.0, activation=ops.gelu, norm_first=True
            )
            for _ in range(w.layers)
        ]
        self.norm = layers.LayerNorm()
        self.head = layers.Linear(w.tokens)

    def forward(self, x: Any) -> Any:
        """The logits of each token, in rows."""
        x = self.tokens(x) + self.places
        for block in self.blocks:
            x = block(x, causal=True)
        y = self.head(self.norm(x))
        return y.reshape(-1, y.shape[-1])


NETWORKS: dict[type[Workload], Any] = {
    Mlp: MlpNetwork, Cnn: CnnNetwork, Resnet: ResnetNetwork, Transformer: TransformerNetwork,
}  # fmt: skip


def network(
    workload: Workload,
    x: Any,
    *,
    use_graph: bool = True,
    graph_alg: str = "memory",
    weights: bool = True,
) -> Network:
    """The workload's model, compiled for inputs like `x`, with its first weights or random ones."""
    model: Network = NETWORKS[type(workload)](workload)
    model.compile([x], is_train=True, use_graph=use_graph, graph_alg=graph_alg)
    if weights:
        model.set_params(workload.weights())
    return model
