"""Multi-head attention and the transformer's encoder layer, against PyTorch's."""

import numpy as np
import pytest

from checks import both, random
from singa_core import Model, Placeholder, gradients, ops, opt
from singa_core.errors import ArgumentError, ShapeError
from singa_core.layers import (
    GELU,
    Linear,
    MultiHeadAttention,
    ReLU,
    Sequential,
    TransformerEncoderLayer,
)


def from_torch(attention, peer):
    """The numbers of PyTorch's layer under our names."""
    weights = peer.in_proj_weight.detach().numpy().reshape(3, *peer.out_proj.weight.shape)
    biases = peer.in_proj_bias.detach().numpy().reshape(3, -1)
    found = {}
    for name, w, b in zip(("query", "key", "value"), weights, biases, strict=True):
        found |= {f"{name}.weight": w.T, f"{name}.bias": b}
    out = {"out.weight": peer.out_proj.weight.detach().numpy().T}
    attention.set_params({**found, **out, "out.bias": peer.out_proj.bias.detach().numpy()})


@pytest.mark.parametrize("causal", [False, True])
def test_attention_against_torch(array, causal):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    layer, peer = MultiHeadAttention(8, 2), torch.nn.MultiheadAttention(8, 2, batch_first=True)
    torch.nn.init.normal_(peer.in_proj_bias)
    x, other = random(2, 5, 8), random(2, 5, 8, seed=1)
    layer(array(x))
    from_torch(layer, peer)
    hidden = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1) if causal else None
    for keys in (x, other):
        y = both(lambda *xs: layer(*xs, causal=causal), array(x), array(keys))
        tx, tk = torch.tensor(x), torch.tensor(keys)
        expected = peer(tx, tk, tk, attn_mask=hidden)[0].detach().numpy()
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_three_inputs_of_different_sizes_and_a_mask(array):
    layer = MultiHeadAttention(6, 3, bias=False)
    query, key, value = array(random(2, 4, 5)), array(random(2, 7, 3)), array(random(2, 7, 2))
    y = layer(query, key, value)
    assert y.shape == (2, 4, 6)
    assert [p.shape for p in layer.get_params().values()] == [(5, 6), (3, 6), (2, 6), (6, 6)]
    mask = np.ones((2, 1, 1, 7), bool)
    mask[:, :, :, 5:] = False
    masked = layer(query, key, value, mask=array(mask))
    short = layer(query, key[:, :5], value[:, :5])
    np.testing.assert_allclose(masked.numpy(), short.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer_against_torch(array, norm_first):
    torch = pytest.importorskip("torch", reason="torch is the oracle of this test")
    layer = TransformerEncoderLayer(8, 2, 12, dropout=0.0, norm_first=norm_first)
    peer = torch.nn.TransformerEncoderLayer(
        8, 2, 12, dropout=0.0, norm_first=norm_first, batch_first=True
    )
    x = random(2, 5, 8)
    layer(array(x))
    from_torch(layer.attention, peer.self_attn)
    layer.set_params({
        "expand.weight": peer.linear1.weight.detach().numpy().T,
        "expand.bias": peer.linear1.bias.detach().numpy(),
        "contract.weight": peer.linear2.weight.detach().numpy().T,
        "contract.bias": peer.linear2.bias.detach().numpy(),
    })  # fmt: skip
    tx = torch.tensor(x, requires_grad=True)
    ty = peer(tx)
    y = both(layer, array(x))
    np.testing.assert_allclose(y.numpy(), ty.detach().numpy(), rtol=1e-4, atol=1e-5)
    ours = array(x, requires_grad=True)
    (dx,) = gradients((layer(ours) * 2.0).square().sum(), [ours])
    (wanted,) = torch.autograd.grad((ty * 2.0).square().sum(), [tx])
    np.testing.assert_allclose(dx.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-3)


def test_dropout_is_for_training_only(array):
    layer = TransformerEncoderLayer(8, 2, 12, dropout=0.5)
    x = array(random(2, 5, 8))
    assert (layer(x).numpy() != layer(x).numpy()).any()
    layer.eval()
    assert both(layer, x).numpy().tobytes() == layer(x).numpy().tobytes()


def test_a_causal_layer_does_not_look_ahead(array):
    layer = TransformerEncoderLayer(8, 2, 12, activation=GELU(), norm_first=True).eval()
    x = random(1, 6, 8)
    changed = x.copy()
    changed[:, 4:] += 1
    y, z = (layer(array(v), causal=True).numpy() for v in (x, changed))
    np.testing.assert_array_equal(y[:, :4], z[:, :4])
    assert (y[:, 4:] != z[:, 4:]).all()


def test_a_transformer_learns_to_copy_the_first_token(device):
    class Net(Model):
        def __init__(self):
            self.body = Sequential(
                Linear(16),
                TransformerEncoderLayer(16, 2, 32, dropout=0.0, norm_first=True),
                Linear(4),
            )
            self.loss, self.optimizer = ops.cross_entropy, opt.Adam(0.01)

        def forward(self, x):
            return self.body(x)[:, -1]

    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 4, (32, 5))
    x = np.concatenate([np.eye(4)[tokens], np.broadcast_to(np.eye(5), (32, 5, 5))], -1)
    net = Net().compile([Placeholder(x.shape, device=device)])
    for _ in range(60):
        _, loss = net.train_one_batch(x.astype(np.float32), tokens[:, 0])
    assert float(loss) < 0.1


def test_arguments_that_do_not_fit(array):
    with pytest.raises(
        ArgumentError, match="MultiHeadAttention: needs features % heads == 0, got 8 % 3"
    ):
        MultiHeadAttention(8, 3)
    with pytest.raises(ArgumentError, match="MultiHeadAttention: needs an integer heads >= 1"):
        MultiHeadAttention(8, 0)
    with pytest.raises(ArgumentError, match="MultiHeadAttention: needs a number 0 <= dropout <= 1"):
        MultiHeadAttention(8, 2, dropout=1.5)
    with pytest.raises(ArgumentError, match="an activation that is a function, got the class ReLU"):
        TransformerEncoderLayer(8, 2, 8, activation=ReLU)
    layer = MultiHeadAttention(8, 2)
    with pytest.raises(
        ShapeError,
        match=r"attention: needs a mask that broadcasts to \(2, 2, 5, 5\), got \(5, 4\)(.*\n)*  in MultiHeadAttention$",
    ):
        layer(array(random(2, 5, 8)), mask=array(np.ones((5, 4), bool)))
    assert repr(MultiHeadAttention(8, 2)).startswith("MultiHeadAttention(8, 2, dropout=0\n")
