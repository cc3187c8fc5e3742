import numpy as np
import pytest

from checks import both
from singa_core import gradients, graph, manual_seed, opt, tensor
from singa_core.errors import ArgumentError, DTypeError, OutOfRange, ShapeError, StateLost
from singa_core.layers import Embedding, Linear, PositionEmbedding, Sequential

TABLE = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def test_embedding_by_hand(array):
    layer = Embedding(3, 2, weight_init=TABLE)
    ids = array([[2, 0], [2, 1]])
    assert both(layer, ids).tolist() == [[[5.0, 6.0], [1.0, 2.0]], [[5.0, 6.0], [3.0, 4.0]]]
    assert layer(array(1)).tolist() == [3.0, 4.0]
    assert layer(array(np.zeros((0,), np.int32))).shape == (0, 2)
    slope = gradients(layer(ids).sum(), layer.weight)
    assert slope.tolist() == [[1.0, 1.0], [1.0, 1.0], [2.0, 2.0]]  # row 2 was asked for twice


def test_embedding_is_known_from_the_start():
    layer = Embedding(3, 2)
    assert layer.get_params()["weight"].shape == (3, 2)
    assert repr(layer) == "Embedding(3, 2)"


def test_rows_that_are_not_asked_for_stay(array):
    layer = Embedding(3, 2, weight_init=TABLE)
    opt.SGD(0.5)(layer(array([1, 1])).sum())
    assert layer.weight.tolist() == [[1.0, 2.0], [2.0, 3.0], [5.0, 6.0]]


@pytest.mark.parametrize("padding", [0, -1])
def test_a_row_for_padding_is_zeros_and_is_not_trained(device, padding):
    """As PyTorch's: the same numbers as without it, but for the row; several steps, with a graph too."""
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    ids = np.array([[0, 3, 2, 3], [3, 0, 1, 0]])
    tables = []
    for index in (padding, None):
        manual_seed(3)
        layer = Embedding(4, 2, padding_idx=index)
        layer(tensor(ids, device=device))
        tables.append(layer.weight.numpy().copy())
        if index is not None:
            padded = layer
    wanted = tables[1].copy()
    wanted[padding] = 0.0
    np.testing.assert_array_equal(tables[0], wanted)

    peer = torch.nn.Embedding(4, 2, padding_idx=padding, _weight=torch.tensor(wanted))
    theirs = torch.optim.SGD(peer.parameters(), lr=0.5, momentum=0.9, weight_decay=0.0)
    ours = opt.SGD(0.5, momentum=0.9)

    @graph
    def step(x):
        loss = ((padded(x) + 1.0) ** 2).sum()
        ours(loss)
        return loss

    for _ in range(3):
        loss = step(tensor(ids, device=device))
        theirs.zero_grad()
        right = ((peer(torch.tensor(ids)) + 1.0) ** 2).sum()
        right.backward()
        theirs.step()
        assert loss.item() == pytest.approx(right.item(), rel=1e-5)
    np.testing.assert_allclose(padded.weight.numpy(), peer.weight.detach().numpy(), rtol=1e-5)
    assert padded.weight[padding].tolist() == [0.0, 0.0]


def test_the_row_of_padding_is_read_as_it_is(array):
    """An array that is given is kept, as PyTorch's `from_pretrained` does."""
    layer = Embedding(3, 2, weight_init=TABLE, padding_idx=1)
    ids = array(np.array([1, 2, 1], np.uint8))
    assert both(layer, ids).tolist() == [TABLE[1], TABLE[2], TABLE[1]]
    assert gradients(layer(ids).sum(), layer.weight).tolist() == [[0, 0], [0, 0], [1, 1]]
    assert repr(layer) == "Embedding(3, 2, padding_idx=1)"


@pytest.mark.parametrize("bad", [3, -4, 1.5, True])
def test_a_row_of_padding_that_is_not_there_is_refused(bad):
    with pytest.raises(ArgumentError, match="Embedding: needs .*padding_idx"):
        Embedding(3, 2, padding_idx=bad)


@pytest.mark.parametrize("bad", [[0, 3], [-1, 0]])
def test_an_id_outside_the_table_is_named_and_changes_nothing(device, array, bad):
    net = Sequential(Embedding(3, 2, weight_init=TABLE), Linear(1))
    sgd = opt.SGD(0.1)

    def step(ids):
        y = net(ids).sum()
        sgd(y)
        return y

    recorded = graph(step)
    recorded(array([0, 1]))
    for call in (step, recorded):
        before = {name: cell.numpy().copy() for name, cell in net.get_states().items()}
        if device.capabilities.synchronous:
            with pytest.raises(OutOfRange, match=r"needs -?\d <= \w+ < 3, got -?\d"):
                call(array(bad))
        else:  # told late, when the update has been asked for
            with pytest.raises(StateLost, match=r"OutOfRange: .* needs -?\d <= \w+ < 3, got -?\d"):
                call(array(bad)).item()
            net.set_states(before)
        for name, cell in net.get_states().items():
            np.testing.assert_array_equal(cell.numpy(), before[name])
        call(array([2, 2]))
        assert net[0].weight[:2].tolist() == before["steps.0.weight"][:2].tolist()
        assert net[0].weight[2].tolist() != before["steps.0.weight"][2].tolist()


def test_ids_are_integers(array):
    with pytest.raises(DTypeError, match=r"embedding: needs .*integer.*(.*\n)*  in Embedding$"):
        Embedding(3, 2)(array([1.0]))


@pytest.mark.parametrize("size", [0, -2, True, 2.0, "3", None])
def test_sizes_that_are_none(size):
    with pytest.raises(
        ArgumentError, match="^Embedding: needs an integer num_embeddings >= 1, got "
    ):
        Embedding(size, 2)
    with pytest.raises(ArgumentError, match="^Embedding: needs an integer features >= 1, got "):
        Embedding(2, size)


def test_a_table_may_be_tied_to_another_layer(array):
    class Tied(Sequential):
        """Scores of each row: the table is both ends."""

        def __init__(self):
            super().__init__(Embedding(3, 2, weight_init=TABLE))

        def forward(self, ids):
            return self[0](ids) @ self[0].weight.T

    net = Tied()
    assert net(array([0])).tolist() == [[5.0, 11.0, 17.0]]
    y = net(array([0])).sum()
    slope = gradients(y, net[0].weight)
    # the row asked for gets the sum of all rows, and each row the row asked for
    assert slope.tolist() == [[10.0, 14.0], [1.0, 2.0], [1.0, 2.0]]
    assert list(net.get_params()) == ["steps.0.weight"]


def test_embedding_starts_the_same_everywhere():
    def table(device):
        manual_seed(1)
        layer = Embedding(7, 5)
        layer(tensor([0], device=device))
        return layer.weight.numpy().tobytes()

    assert table("cpu_numpy") == table("far")


# -- places ---------------------------------------------------------------------------------------


def test_positions_by_hand(array):
    layer = PositionEmbedding(3, weight_init=TABLE)
    x = array([[[10.0, 20.0], [30.0, 40.0]], [[0.0, 0.0], [1.0, 1.0]]], requires_grad=True)
    wanted = [[[11.0, 22.0], [33.0, 44.0]], [[1.0, 2.0], [4.0, 5.0]]]
    assert both(layer, x).tolist() == wanted
    assert layer(x[0]).tolist() == wanted[0]
    slope, own = gradients((layer(x) * array([1.0, 10.0])).sum(), [layer.weight, x])
    assert slope.tolist() == [[2.0, 20.0], [2.0, 20.0], [0.0, 0.0]]  # the third is beyond the end
    assert own.tolist() == [[[1.0, 10.0]] * 2] * 2


def test_positions_learn_their_size(array):
    layer = PositionEmbedding(5)
    layer(array(np.zeros((2, 3, 4), np.float32)))
    assert layer.weight.shape == (5, 4)
    assert repr(layer) == "PositionEmbedding(5)"
    assert PositionEmbedding(5, features=6).weight.shape == (5, 6)


@pytest.mark.parametrize("shape", [(4, 2), (1, 3, 3), (2,), ()])
def test_sequences_that_do_not_fit(array, shape):
    layer = PositionEmbedding(3, features=2)
    with pytest.raises(
        ShapeError, match=r"^PositionEmbedding: needs x \(\.\.\., length <= 3, 2\), got"
    ):
        layer(array(np.zeros(shape, np.float32)))


def test_a_sequence_too_long_at_first_leaves_the_size_open(array):
    layer = PositionEmbedding(3)
    with pytest.raises(
        ShapeError, match=r"x \(\.\.\., length <= 3, features\), got \(4, 2\)\n  x: "
    ):
        layer(array(np.zeros((4, 2), np.float32)))
    assert layer(array(np.zeros((3, 7), np.float32))).shape == (3, 7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 0}, "an integer max_length >= 1, got 0"),
        ({"max_length": 3, "features": 0}, "an integer features >= 1, got 0"),
    ],
)
def test_positions_are_checked(options, message):
    with pytest.raises(ArgumentError, match=f"^PositionEmbedding: needs {message}$"):
        PositionEmbedding(**options)
