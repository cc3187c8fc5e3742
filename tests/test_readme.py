"""The README's Python runs, and says what it says it does."""

import re
from pathlib import Path

import numpy as np

import singa_core as sc

README = Path(__file__).resolve().parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


def test_the_model_learns_its_batch(capsys):
    np.random.seed(0)
    exec(BLOCKS[0], {})
    assert float(capsys.readouterr().out) < 0.1  # ln 10 = 2.3 at the start


def test_an_own_step_learns_too(capsys):
    names = {}
    np.random.seed(0)
    exec(BLOCKS[0] + BLOCKS[1], names)
    net = names["Weighted"]()
    net.compile([sc.Placeholder((32, 20))])
    losses = [float(net.train_one_batch(names["x"], names["labels"])) for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]
    assert (
        f"{net.train_one_batch(names['x'], names['labels']):.1f}"
    )  # a tensor formats as its number


def test_the_gradient_is_the_one_it_shows():
    names = {"sc": sc}
    exec(BLOCKS[2], names)
    assert names["x"].grad.tolist() == [[3.0, 4.0]]  # 2 x, and 1 for x[0, 0] alone
