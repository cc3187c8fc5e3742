"""The same networks in PyTorch, as its tutorials write them: options `eager` or `compile`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.peers.serve import Call, serve
from benchmarks.workloads import MOMENTUM, RATE, Cnn, Mlp, Resnet, Transformer, Workload


class MlpNetwork(nn.Module):
    """See `Mlp`."""

    def __init__(self, workload: Mlp) -> None:
        super().__init__()
        pairs = zip(workload.sizes, workload.sizes[1:], strict=False)
        self.linears = nn.ModuleList(nn.Linear(*pair) for pair in pairs)

    def forward(self, x: Any) -> Any:
        """The logits."""
        for linear in self.linears[:-1]:
            x = functional.relu(linear(x))
        return self.linears[-1](x)


class CnnNetwork(nn.Module):
    """See `Cnn`."""

    def __init__(self, workload: Cnn) -> None:
        super().__init__()
        shapes = workload.shapes()
        convs = (shapes[f"convs.{i}.weight"] for i in (0, 1))
        linears = (shapes[f"linears.{i}.weight"] for i in (0, 1))
        self.convs = nn.ModuleList(nn.Conv2d(s[1], s[0], s[2]) for s in convs)
        self.linears = nn.ModuleList(nn.Linear(*s) for s in linears)

    def forward(self, x: Any) -> Any:
        """The logits."""
        for conv in self.convs:
            x = functional.max_pool2d(functional.relu(conv(x)), 2)
        hidden, last = self.linears
        return last(functional.relu(hidden(x.flatten(1))))


class ResnetBlock(nn.Module):
    """Two convolutions, added to the input or to a projection of it."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        changes = stride > 1 or before != width
        self.down = nn.Conv2d(before, width, 1, stride, bias=False) if changes else None
        self.down_norm = nn.BatchNorm2d(width) if changes else None

    def forward(self, x: Any) -> Any:
        """The block's output."""
        y = self.norm2(self.conv2(functional.relu(self.norm1(self.conv1(x)))))
        if self.down is not None:
            x = self.down_norm(self.down(x))
        return functional.relu(y + x)


class ResnetNetwork(nn.Module):
    """See `Resnet`."""

    def __init__(self, workload: Resnet) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, workload.widths[0], 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(workload.widths[0])
        self.blocks = nn.ModuleList(ResnetBlock(*sizes) for sizes in workload.blocks())
        self.head = nn.Linear(workload.widths[-1], 10)

    def forward(self, x: Any) -> Any:
        """The logits."""
        x = functional.relu(self.norm(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class Attention(nn.Module):
    """Causal attention in several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        """What the values' means give."""
        n, t, d = x.shape
        q, k, v = (
            linear(x).view(n, t, self.heads, d // self.heads).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, t, d))


class TransformerBlock(nn.Module):
    """Attention, then two linear maps; what goes into each is normalised."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.expand, self.contract = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        """The block's output."""
        x = x + self.attention(self.norm1(x))
        return x + self.contract(functional.gelu(self.expand(self.norm2(x))))


class TransformerNetwork(nn.Module):
    """See `Transformer`."""

    def __init__(self, w: Transformer) -> None:
        super().__init__()
        self.tokens = nn.Embedding(w.tokens, w.width)
        self.places = nn.Parameter(torch.zeros(w.length, w.width))
        blocks = (TransformerBlock(w.width, w.heads, w.hidden) for _ in range(w.layers))
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.head = nn.LayerNorm(w.width), nn.Linear(w.width, w.tokens)

    def forward(self, x: Any) -> Any:
        """The logits of each token, in rows."""
        x = self.tokens(x) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


NETWORKS: dict[type[Workload], Any] = {
    Mlp: MlpNetwork, Cnn: CnnNetwork, Resnet: ResnetNetwork, Transformer: TransformerNetwork,
}  # fmt: skip


def network(workload: Workload) -> Any:
    """The workload's model with its first weights; linear maps are stored the other way round."""
    model = NETWORKS[type(workload)](workload)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            numbers = torch.from_numpy(workload.weights()[name])
            turned = numbers.ndim == 2 and name not in ("tokens.weight", "places")
            parameter.copy_(numbers.T if turned else numbers)
    return model


def build(workload: Workload, part: str, mode: str) -> tuple[Call, str]:
    """The call, see `serve`."""
    model = network(workload)
    run = torch.compile(model) if mode == "compile" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    batches = [[torch.from_numpy(a) for a in pair] for pair in workload.batches()]
    about = f"PyTorch {torch.__version__}"

    def step(i: int) -> Any:
        x, labels = batches[i % len(batches)]
        optimizer.zero_grad()
        loss = functional.cross_entropy(run(x), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def forward(i: int) -> Any:
        with torch.no_grad():
            return run(batches[i % len(batches)][0])

    if part == "step":
        return step, about
    model.eval()
    return forward, about


if __name__ == "__main__":
    serve(build)
