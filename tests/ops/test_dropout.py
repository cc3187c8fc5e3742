import math

import numpy as np
import pytest

from checks import both, check_gradients, random
from singa_core import ops
from singa_core.autograd import gradients
from singa_core.conformance.oracles import random as oracle
from singa_core.engine import graph
from singa_core.errors import ArgumentError, DTypeError
from singa_core.random import STREAMS, manual_seed

STATE = (1, 2, 2**32 - 1, 5)


def test_dropout_by_hand(array):
    a, b, c, d = words = oracle.words(np.zeros(4, np.uint32), 4)
    p = sorted(words)[2] / 2**32  # two words are below it
    x = array([1.0, 2.0, 3.0, 4.0])
    y, mask = both(lambda *t: ops.random_dropout(*t, p=p), x, array([0, 0, 0, 0], "uint32"))
    kept = [w >= sorted(words)[2] for w in (a, b, c, d)]
    assert mask.tolist() == kept
    wanted = [v / (1 - p) if k else 0.0 for v, k in zip([1.0, 2.0, 3.0, 4.0], kept, strict=True)]
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_what_is_left_keeps_the_mean(device, array, p):
    y = ops.dropout(array(np.ones(100_000, np.float32)), p=p).numpy()
    np.testing.assert_allclose(y[y != 0], 1 / (1 - p), rtol=1e-6)
    dropped = (y == 0).mean()
    assert abs(dropped - p) < 4 * math.sqrt(p * (1 - p) / y.size)


def test_dropout_is_the_identity_when_not_training_or_with_p_0(array):
    x, before = array([1.0, 2.0]), STREAMS["train"].position
    assert ops.dropout(x, p=0.5, training=False).tolist() == x.tolist()
    assert ops.dropout(x, p=0.0).tolist() == x.tolist()
    assert STREAMS["train"].position == before


def test_dropout_with_p_1_gives_zeros_and_no_gradient(array):
    x = array([1.0, math.inf, math.nan], requires_grad=True)
    y = ops.dropout(x, p=1.0)
    assert y.tolist() == [0.0] * 3
    assert gradients(y.sum(), x).tolist() == [0.0] * 3


def test_what_is_dropped_is_0_whatever_it_was(array):
    y = ops.dropout(array(np.full(64, math.inf, np.float32)), p=0.5).numpy()
    assert set(y.tolist()) == {0.0, math.inf}


def test_the_gradient_is_dropped_where_x_was(array):
    x = array(np.ones(1000, np.float32), requires_grad=True)
    y = ops.dropout(x, p=0.4)
    np.testing.assert_array_equal(gradients(y.sum(), x).numpy(), y.numpy())


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("shape", [(3, 4), (), (0, 2)])
def test_dropout_gradients(device, shape, order):
    def squared(x, words):
        y, _ = ops.random_dropout(x, words.astype("uint32"), p=0.3)
        return y * y

    check_gradients(squared, device, random(*shape), np.array(STATE), order=order)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_the_mask_does_not_depend_on_the_dtype(array, dtype):
    words = array(STATE, "uint32")
    x = np.ones((3, 5))
    y, mask = both(lambda *t: ops.random_dropout(*t, p=0.5), array(x, dtype), words)
    assert y.dtype.name == dtype
    np.testing.assert_array_equal(y.numpy(), mask.numpy() * 2.0)
    np.testing.assert_array_equal(
        mask.numpy(), ops.random_dropout(array(x, "float32"), words, p=0.5)[1].numpy()
    )


def test_a_seed_gives_the_same_mask_everywhere(device, array):
    x = np.ones((7, 9), np.float32)
    manual_seed(3)
    y = ops.dropout(array(x), p=0.25)
    manual_seed(3)
    state = STREAMS["train"].take(0)
    mask = ~oracle.bernoulli(state, shape=(7, 9), p=0.25)
    np.testing.assert_array_equal(y.numpy() != 0, mask)


def test_replays_drop_what_eager_code_drops(array, device):
    x = array(random(5, 6), requires_grad=True)

    def step(v):
        y = ops.dropout(v, p=0.5)
        return y, gradients((y * y).sum(), v)

    manual_seed(9)
    eager = [[t.numpy().copy() for t in step(x)] for _ in range(3)]
    assert not np.array_equal(eager[0][0], eager[1][0])
    manual_seed(9)
    recorded = graph(step)
    for wanted in eager:
        for made, value in zip(recorded(x), wanted, strict=True):
            assert made.numpy().tobytes() == value.tobytes()
    assert recorded.records == 1


def test_training_is_part_of_what_is_recorded(array):
    x = array([1.0, 2.0])
    recorded = graph(lambda v, training: ops.dropout(v, p=1.0, training=training))
    assert recorded(x, True).tolist() == [0.0, 0.0]
    assert recorded(x, False).tolist() == [1.0, 2.0]


def test_user_draws_do_not_move_the_masks(array, device):
    x = array(np.ones(50, np.float32))
    manual_seed(1)
    first = ops.dropout(x, p=0.5).numpy().copy()
    manual_seed(1)
    ops.rand((10,), device=device).numpy()
    np.testing.assert_array_equal(ops.dropout(x, p=0.5).numpy(), first)


@pytest.mark.parametrize("p", [-0.1, 1.5, math.nan])
def test_p_is_a_probability(array, p):
    with pytest.raises(ArgumentError, match=rf"^dropout: needs a number 0 <= p <= 1, got {p}"):
        ops.dropout(array([1.0]), p=p, training=False)


def test_dropout_of_integers_is_refused(array):
    before = STREAMS["train"].position
    with pytest.raises(
        DTypeError, match="^dropout, random_dropout: needs a floating dtype, got int64"
    ):
        ops.dropout(array([1]), p=0.5)
    assert STREAMS["train"].position == before
