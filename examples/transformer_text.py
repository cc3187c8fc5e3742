"""A small transformer learns to write like the King James Bible, one character after the other."""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Sequence

import numpy as np

import _options
import _run
import singa_core as sc
from singa_core.data.loader import ArrayLoader
from singa_core.data.text import Ids, load_king_james
from singa_core.data.windows import WindowLoader
from singa_core.layers import (
    Embedding,
    LayerNorm,
    Linear,
    PositionEmbedding,
    Sequential,
    TransformerEncoderLayer,
)

BATCH = 32
EPOCH = 100  # steps between two looks at the test text
WARM_UP = 50  # steps
TESTED = 128  # windows of the test text
SAMPLE = 300  # characters that it writes
TEMPERATURE = 0.8  # below 1: likely characters are more likely


class Writer(sc.Model):
    """Characters (n, m) -> scores of the next one, (n, m, symbols); each sees those before it."""

    def __init__(self, symbols: int, options: argparse.Namespace) -> None:
        width = options.width
        self.place = Sequential(Embedding(symbols, width), PositionEmbedding(options.context))
        self.blocks = [
            TransformerEncoderLayer(
                width, options.heads, 4 * width, dropout=0.0, activation=sc.ops.gelu,
                norm_first=True,
            )
            for _ in range(options.layers)
        ]  # fmt: skip
        self.score = Sequential(LayerNorm(), Linear(symbols))
        rate = sc.opt.WarmUp(sc.opt.Cosine(options.rate, options.epochs * EPOCH), WARM_UP)
        self.optimizer = sc.opt.AdamW(rate, betas=(0.9, 0.99), weight_decay=0.1)
        self.optimizer.clip_norm = 1.0

    def forward(self, ids: sc.Tensor) -> sc.Tensor:
        x = self.place(ids)
        for block in self.blocks:
            x = block(x, causal=True)
        return self.score(x)

    def loss(self, scores: sc.Tensor, target: sc.Tensor) -> sc.Tensor:
        """Bits for a character: how well it was foretold."""
        nats = sc.ops.cross_entropy(scores, target)
        return nats / math.log(2)


def write(model: Writer, beginning: Ids, count: int, seed: int) -> list[int]:
    """Draw characters from what the model foretells; the same seed draws the same ones.

    Every draw looks back on as many characters as the beginning has: one shape, one graph.
    """
    rng, ids = np.random.default_rng(seed), list(beginning)
    model.eval()
    with sc.no_grad():
        for _ in range(count):
            scores = model(np.array([ids[-len(beginning) :]]))[0, -1].numpy() / TEMPERATURE
            odds = np.exp(scores.astype(np.float64) - scores.max()).cumsum()
            ids.append(int(np.searchsorted(odds, rng.random() * odds[-1], side="right")))
    return ids[len(beginning) :]


def counted(train: Ids, test: Ids, n: int, symbols: int) -> float:
    """Bits for a character of a table that counted which one follows n - 1 others in `train`."""

    def groups(ids: Ids) -> Ids:
        """The number of each group of n neighbours."""
        windows = np.lib.stride_tricks.sliding_window_view(ids, n)
        return windows @ symbols ** np.arange(n - 1, -1, -1)

    counts = np.bincount(groups(train), minlength=symbols**n).reshape(-1, symbols) + 0.1
    shares = counts / counts.sum(axis=1, keepdims=True)  # 0.1: nothing is impossible
    return float(-np.log2(shares.reshape(-1)[groups(test)]).mean())


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, test, write, and say what it took."""
    parser = _options.parser(__file__, __doc__, epochs=15, rate=3e-3)
    parser.add_argument("--layers", type=_options.integer(1), default=2, help="blocks")
    parser.add_argument("--width", type=_options.integer(1), default=128, help="features")
    parser.add_argument("--heads", type=_options.integer(1), default=4, help="they divide --width")
    parser.add_argument("--context", type=_options.integer(2), default=64, help="characters seen")
    options = parser.parse_args(arguments)
    if options.width % options.heads:
        parser.error(
            f"argument --heads: needs width % heads == 0, got {options.width} % {options.heads}"
        )
    device, seed, context = options.device, options.seed, options.context
    text = load_king_james()
    symbols, train, test = len(text.symbols), text.encode(text.train), text.encode(text.test)
    print(f"{len(train)} characters to learn, {len(test)} to test, on {device}")
    for n, name in ((1, "characters"), (2, "pairs"), (3, "groups of three")):
        print(f"a table of {name} needs {counted(train, test, n, symbols):.2f} bits per character")
    loader = WindowLoader(train, context, batch_size=BATCH, batches=EPOCH, seed=seed)
    starts = np.linspace(0, len(test) - context - 1, TESTED).astype(int)[:, None]
    windows = test[starts + np.arange(context + 1)]  # (TESTED, context + 1)
    tests = ArrayLoader(windows[:, :-1], windows[:, 1:], batch_size=BATCH, shuffle=False)

    def make(use_graph: bool) -> Writer:
        sc.manual_seed(seed)
        inputs = [sc.Placeholder((BATCH, context), "int64", device)]  # shapes, no data
        return Writer(symbols, options).compile(inputs, use_graph=use_graph)

    run = _run.Run(options, make, loader, tests, labels={"loss": "bits per character"})
    model, history = run.train()
    print(f"test bits {history['val_loss'][-1]:.3f} per character")
    beginning = test[:context]
    print(f"after {text.decode(beginning)!r} it writes")
    for line in textwrap.wrap(text.decode(write(model, beginning, SAMPLE, seed)), 76):
        print(f"> {line}")
    run.report(model, history)


if __name__ == "__main__":
    main()
