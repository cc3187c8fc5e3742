import numpy as np
import pytest

from checks import both, check_against_torch, check_gradients, random
from singa_core import ops
from singa_core.engine import graph
from singa_core.errors import DTypeError, OutOfRange, ShapeError

IDS = [np.array([1, 0, 1, 3]), np.array([[2, 2], [0, 3]], np.int32), np.array(2), np.zeros(0, int)]


def test_embedding_gives_rows(array):
    table = array([[1.0, 2.0], [3.0, 4.0]])
    y = both(ops.embedding, array([[1, 0, 1]]), table)
    assert y.tolist() == [[[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
def test_any_integers_are_ids(array, dtype):
    table = array(np.arange(200.0).reshape(200, 1))
    top = 127 if dtype == "int8" else 199
    assert both(ops.embedding, array([0, top], dtype), table).tolist() == [[0.0], [float(top)]]


def test_a_row_used_twice_gets_both_gradients(array):
    table = array(np.zeros((3, 2), np.float32), requires_grad=True)
    y = ops.embedding(array([2, 0, 2]), table)
    y.backward(array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]))
    assert table.grad.tolist() == [[2.0, 20.0], [0.0, 0.0], [4.0, 40.0]]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("ids", IDS, ids=str)
def test_embedding_gradients(device, ids, order):
    def squared(i, weight):  # by itself it is linear, and so without a second derivative
        rows = ops.embedding(i, weight)
        return rows * rows

    check_gradients(squared, device, ids, random(4, 3), order=order)


@pytest.mark.parametrize("ids", IDS, ids=str)
def test_embedding_against_torch(device, ids):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    check_against_torch(ops.embedding, torch.nn.functional.embedding, device, ids, random(4, 3))


@pytest.mark.parametrize("bad", [4, -1, -4, -5, 99])
def test_an_id_outside_the_table_is_named(array, device, bad):
    ids, table = array([0, bad, 3]), array(np.zeros((4, 2), np.float32))
    told = rf"^embedding: needs 0 <= id < 4, got {bad}$"
    with pytest.raises(OutOfRange, match=told):
        ops.embedding(ids, table).numpy()
    with pytest.raises(OutOfRange, match=told):
        graph(ops.embedding)(ids, table).numpy()


def test_embedding_names_what_does_not_fit(array):
    table = array(np.zeros((4, 2), np.float32))
    with pytest.raises(
        DTypeError, match="^embedding: needs ids of an integer dtype, got float32\n  ids: "
    ):
        ops.embedding(array([1.0]), table)
    with pytest.raises(ShapeError, match=r"^embedding: needs weight.ndim == 2, got 1\n  ids: "):
        ops.embedding(array([1]), array([1.0]))
    with pytest.raises(DTypeError, match="^embedding: needs a floating dtype, got int64"):
        ops.embedding(array([1]), array([[1]]))
