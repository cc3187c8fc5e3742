"""What the larger examples are made of: their sizes, what they see, and what they count."""

import argparse
import math

import numpy as np
import pytest

import mnist_cnn
import resnet
import singa_core as sc
import transformer_text
from singa_core.summary import summary

OPTIONS = argparse.Namespace(layers=2, width=16, heads=2, context=8, rate=0.01, epochs=1)


@pytest.fixture
def writer(device):
    model = transformer_text.Writer(5, OPTIONS)
    return model.compile([sc.Placeholder((2, 8), "int64", device)], is_train=False)


@pytest.mark.parametrize(
    ("make", "shape", "parameters"),
    [
        (
            lambda: mnist_cnn.CNN(0.1, 1),
            (64, 1, 28, 28),
            "431,080",
        ),  # 520 + 25,050 + 400,500 + 5,010
        (lambda: resnet.ResNet(18, 64, 0.1, 1), (32, 3, 32, 32), "11,173,962"),  # as it is known
        (lambda: resnet.ResNet(34, 64, 0.1, 1), (32, 3, 32, 32), "21,282,122"),
    ],
    ids=["CNN", "ResNet-18", "ResNet-34"],
)
def test_parameters_of_networks_for_images(make, shape, parameters):
    assert parameters in str(summary(make(), [sc.Placeholder(shape)]))


def test_parameters_of_the_transformer():
    sizes = argparse.Namespace(**vars(OPTIONS) | {"layers": 4, "width": 256, "context": 128})
    block = 12 * 256**2 + 13 * 256  # 4 + 8 maps, their biases, two norms
    wanted = (68 + 128) * 256 + 4 * block + 2 * 256 + (256 + 1) * 68
    writer = transformer_text.Writer(68, sizes)
    assert f"{wanted:,}" in str(summary(writer, [sc.Placeholder((16, 128), "int64")]))


def test_a_character_is_foretold_from_those_before_it_and_from_its_place(writer, array):
    ids = np.array([[0, 1, 2, 3, 4, 3, 2, 1], [4, 4, 4, 4, 4, 4, 4, 4]])
    scores = writer(array(ids)).numpy()
    assert scores.shape == (2, 8, 5)
    changed = ids.copy()
    changed[:, 5] = 0
    again = writer(array(changed)).numpy()
    np.testing.assert_array_equal(again[:, :5], scores[:, :5])
    assert np.abs(again[:, 5:] - scores[:, 5:]).max() > 1e-3
    assert np.abs(scores[1, 0] - scores[1, 7]).max() > 1e-3  # of the same characters


def test_the_loss_is_in_bits(writer, array):
    uniform = array(np.zeros((2, 8, 5), np.float32))
    target = array(np.zeros((2, 8), np.int64))
    assert float(writer.loss(uniform, target)) == pytest.approx(math.log2(5), rel=1e-6)


def test_what_is_written_depends_on_the_seed_alone(writer):
    beginning = np.array([0, 1, 2, 3, 4, 0, 1, 2])
    written = transformer_text.write(writer, beginning, 30, seed=1)
    assert len(written) == 30
    assert set(written) <= set(range(5))
    assert transformer_text.write(writer, beginning, 30, seed=1) == written
    assert transformer_text.write(writer, beginning, 30, seed=2) != written


def test_likely_characters_are_written_more_often(monkeypatch):
    """Against softmax(scores / temperature): 4000 draws, within 4 deviations."""
    scores = np.log([[[0.1, 0.2, 0.7]]])

    class Known:
        def eval(self):
            pass

        def __call__(self, ids):
            return sc.tensor(scores.astype(np.float32))

    monkeypatch.setattr(transformer_text, "TEMPERATURE", 0.5)
    drawn = transformer_text.write(Known(), np.array([0]), 4000, seed=0)
    wanted = np.array([0.1, 0.2, 0.7]) ** 2 / (0.01 + 0.04 + 0.49)
    deviation = np.sqrt(wanted * (1 - wanted) / 4000)
    assert (np.abs(np.bincount(drawn) / 4000 - wanted) < 4 * deviation).all()


def test_a_table_counts():
    train, test = np.array([0, 1, 0, 1, 0, 0]), np.array([0, 1, 1])
    alone = -np.log2([4.1 / 6.2, 2.1 / 6.2, 2.1 / 6.2]).mean()  # 4 zeros and 2 ones, and 0.1 each
    assert transformer_text.counted(train, test, 1, 2) == pytest.approx(alone)
    pairs = -np.log2([2.1 / 3.2, 0.1 / 2.2]).mean()  # after 0: 1, 1, 0; after 1: 0, 0
    assert transformer_text.counted(train, test, 2, 2) == pytest.approx(pairs)


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        (
            transformer_text,
            "--width 100 --heads 3",
            "--heads: needs width % heads == 0, got 100 % 3",
        ),
        (transformer_text, "--context 1", "--context: needs an integer >= 2, got '1'"),
        (resnet, "--depth 20", "--depth: invalid choice: 20 (choose from 10, 18, 34)"),
        (resnet, "--width 0", "--width: needs an integer >= 1, got '0'"),
    ],
)
def test_a_wrong_option_of_its_own_is_one_line(capsys, module, options, message):
    with pytest.raises(SystemExit):
        module.main(options.split())
    assert f"error: argument {message}" in capsys.readouterr().err
