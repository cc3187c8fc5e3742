"""Attention: values by hand, a peer, masks, and what is said when it does not fit."""

import math

import numpy as np
import pytest

from checks import both, check_against_torch, check_gradients, random
from singa_core import ops
from singa_core import random as streams
from singa_core.errors import ArgumentError, DTypeError, ShapeError

SHAPES = {
    "matrices": ((3, 4), (5, 4), (5, 2)),
    "heads": ((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5)),
    "broadcast": ((2, 3, 4, 8), (2, 1, 6, 8), (1, 1, 6, 8)),
}


def inputs(name):
    return [random(*shape, seed=i) for i, shape in enumerate(SHAPES[name])]


def test_attention_by_hand(array):
    q, k = array([[math.log(3.0)], [0.0]]), array([[1.0], [0.0]])
    v = array([[8.0, 0.0], [0.0, 4.0]])
    y = both(ops.attention, q, k, v)  # shares 3/4 and 1/4, then 1/2 each
    np.testing.assert_allclose(y.numpy(), [[6.0, 1.0], [4.0, 2.0]], rtol=1e-6)
    y = both(lambda *xs: ops.attention(*xs, causal=True), q, k, v)
    np.testing.assert_allclose(y.numpy(), [[8.0, 0.0], [4.0, 2.0]], rtol=1e-6)
    y = both(lambda *xs: ops.attention(*xs, scale=0.0), q, k, v)
    np.testing.assert_allclose(y.numpy(), [[4.0, 2.0]] * 2, rtol=1e-6)


def test_a_query_that_sees_nothing_gives_nothing(array):
    q, k, v = (array(x) for x in inputs("matrices"))
    mask = array(np.array([[True] * 5, [False] * 5, [False, True, False, False, False]]))
    y = both(ops.attention, q, k, v, mask)
    np.testing.assert_allclose(y.numpy()[0], ops.attention(q, k, v).numpy()[0], rtol=1e-6)
    assert y.numpy()[1].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(y.numpy()[2], v.numpy()[1], rtol=1e-6)
    for x in (q, k, v):
        x.requires_grad = True
    ops.attention(q, k, v, mask)[1].sum().backward()
    assert not any(x.grad.numpy().any() for x in (q, k, v))


def test_large_products_do_not_overflow(array):
    q, v = array([[1e20], [-1e20]]), array([[1.0], [2.0]])
    assert ops.attention(q, array([[1e15], [-1e15]]), v).tolist() == [[1.0], [2.0]]
    half = ops.attention(*(array(np.full((2, 64), x), "float16") for x in (40.0, 40.0, 1.0)))
    assert (half.dtype.name, half.numpy().min()) == ("float16", 1.0)  # 102400 overflows float16


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_against_torch(device, name, causal):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")

    def peer(q, k, v):
        q, k, v = (x if x.ndim > 2 else x[None] for x in (q, k, v))
        lead = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
        q, k, v = (x.expand(*lead, *x.shape[-2:]) for x in (q, k, v))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return y if name != "matrices" else y[0]

    check_against_torch(
        lambda *xs: ops.attention(*xs, causal=causal), peer, device, *inputs(name),
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks_against_torch(device, kind):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    mask = random(2, 1, 4, 6, seed=5)
    if kind == "bool":
        mask = mask > -1
        mask[..., 0] = True

    def peer(q, k, v, mask):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)

    check_against_torch(ops.attention, peer, device, *inputs("heads"), mask, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", [1, 2])
def test_attention_gradients(device, order):
    hosts = inputs("heads")
    mask = random(4, 6, seed=5) > 0
    check_gradients(
        lambda q, k, v, m: ops.attention(q, k, v, m, causal=True), device, *hosts, mask,
        order=order, rtol=1e-5,
    )  # fmt: skip


def test_dropout_of_weights(array):
    q, k, v = (array(x) for x in inputs("heads"))
    plain = ops.attention(q, k, v).numpy()
    for options in ({"dropout_p": 0.0}, {"dropout_p": 0.5, "training": False}):
        y = ops.scaled_dot_product_attention(q, k, v, **options)
        np.testing.assert_array_equal(y.numpy(), plain)
    assert not ops.scaled_dot_product_attention(q, k, v, dropout_p=1.0).numpy().any()
    streams.manual_seed(1)
    draws = [ops.scaled_dot_product_attention(q, k, v, dropout_p=0.3).numpy() for _ in range(400)]
    np.testing.assert_allclose(np.mean(draws, axis=0), plain, atol=0.35)
    assert np.std(draws, axis=0).max() > 0.1
    streams.manual_seed(1)
    again = ops.scaled_dot_product_attention(q, k, v, dropout_p=0.3).numpy()
    np.testing.assert_array_equal(again, draws[0])


def zeros(array, *shapes):
    return [array(np.zeros(shape, np.float32)) for shape in shapes]


@pytest.mark.parametrize(
    ("shapes", "rule"),
    [
        (((3, 4), (5, 3), (5, 2)), r"q.shape\[-1\] == k.shape\[-1\], got 4 != 3\n  q: .*\n  k: .*\n  v: "),
        (((3, 4), (5, 4), (6, 2)), r"k.shape\[-2\] == v.shape\[-2\], got 5 != 6"),
        (((3,), (5, 3), (5, 2)), r"q, k and v with at least 2 axes, got 1, 2 and 2"),
        (((2, 3, 4), (3, 5, 4), (5, 2)), r"equal sizes \(or 1\) at axis -1, got 2 and 3"),
        (((3, 4), (5, 4), (5, 2), (2, 3, 5)), r"a mask that broadcasts to \(3, 5\), got \(2, 3, 5\)"),
    ],
)  # fmt: skip
def test_attention_names_the_broken_rule(array, shapes, rule):
    with pytest.raises(ShapeError, match=f"^attention: needs {rule}"):
        ops.attention(*zeros(array, *shapes))


def test_attention_names_the_bad_argument(array):
    q, k, v = zeros(array, (3, 4), (5, 4), (5, 2))
    with pytest.raises(DTypeError, match="attention: needs a mask of bool or floats, got int64"):
        ops.attention(q, k, v, array(np.zeros((3, 5), np.int64)))
    with pytest.raises(
        ArgumentError,
        match="scaled_dot_product_attention: needs a number 0 <= dropout_p <= 1, got 2",
    ):
        ops.scaled_dot_product_attention(q, k, v, dropout_p=2)
    with pytest.raises(ShapeError, match=r"attention: needs k.shape\[-2\] == v.shape\[-2\]"):
        ops.scaled_dot_product_attention(q, k, v[1:], dropout_p=0.5)
