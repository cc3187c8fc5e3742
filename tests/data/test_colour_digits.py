"""Colour digits: digits on photos, in the shape of CIFAR, the same for a seed."""

import dataclasses
import sys

import numpy as np
import pytest

from singa_core.data import colour_digits
from singa_core.data.colour_digits import load_colour_digits
from singa_core.data.digits import load_mnist_5k
from singa_core.data.sources import DataMissing


@pytest.fixture(scope="module")
def colours():
    try:
        return load_colour_digits()
    except DataMissing as error:
        pytest.skip(str(error).replace("\n", "; "))


@pytest.fixture(scope="module")
def photos(colours):
    return [source.read(colour_digits._decode) for source in colour_digits.PHOTOS]


def test_shapes_and_ranges(colours):
    for (images, labels), count in ((colours.train, 4000), (colours.test, 1000)):
        assert images.shape == (count, 3, 32, 32)
        assert images.dtype == np.float32
        assert images.flags.c_contiguous
        assert images.min() >= 0
        assert images.max() <= 1
        assert labels.shape == (count,)
    assert "scikit-learn" in colours.info.source
    assert "sklearn" not in sys.modules


def test_the_labels_are_those_of_the_digits(colours):
    digits = load_mnist_5k()
    np.testing.assert_array_equal(colours.train_labels, digits.train_labels)
    np.testing.assert_array_equal(colours.test_labels, digits.test_labels)


def found_in(photo, piece):
    """Where a (3, 2, 32) strip of an image lies in a photo: columns at which it starts."""
    rows = np.lib.stride_tricks.sliding_window_view(photo, piece.shape)[0]
    return [int(column) for column in np.argwhere((rows == piece).all(axis=(-1, -2, -3)))[:, 1]]


@pytest.mark.parametrize(("part", "inside"), [("train", (0, 448)), ("test", (480, 608))])
def test_pieces_are_of_the_photos_and_none_is_in_both_parts(colours, photos, part, inside):
    images, _ = getattr(colours, part)
    for image in images[:8]:
        strip = image[:, :2]  # above the digit: |piece - 0|
        columns = [column for photo in photos for column in found_in(photo, strip)]
        assert columns
        assert any(inside[0] <= column <= inside[1] for column in columns)


def test_a_digit_inverts_what_is_under_it(colours, photos):
    """Where the digit is 1, y = 1 - piece; where it is 0, y = piece."""
    digit = load_mnist_5k().train_images[0]
    image = colours.train_images[0]
    (photo,) = [photo for photo in photos if found_in(photo, image[:, :2])]
    strips = np.lib.stride_tricks.sliding_window_view(photo, (3, 2, 32))[0]
    (row, column) = np.argwhere((strips == image[:, :2]).all(axis=(-1, -2, -3)))[0]
    piece = photo[:, row : row + 32, column : column + 32]
    padded = np.pad(digit, 2)
    np.testing.assert_array_equal(image, np.abs(piece - padded))
    assert np.count_nonzero(padded > 0.95) > 5


def test_it_is_a_function_of_the_seed(colours):
    again, other = load_colour_digits(), load_colour_digits(1)
    np.testing.assert_array_equal(again.train_images, colours.train_images)
    np.testing.assert_array_equal(again.test_images, colours.test_images)
    assert not np.array_equal(other.train_images, colours.train_images)


def test_photos_are_channels_first(photos):
    assert [photo.shape for photo in photos] == [(3, 427, 640), (3, 427, 640)]
    china, _ = photos  # the sky in its upper left corner is blue
    red, green, blue = china[:, :20, :20].mean(axis=(1, 2))
    assert blue > green > red > 0.5


def test_without_the_photos(monkeypatch, colours):
    missing = dataclasses.replace(colour_digits.PHOTOS[1], package="no-such-package-at-all")
    monkeypatch.setattr(colour_digits, "PHOTOS", (colour_digits.PHOTOS[0], missing))
    message = (
        "^colour_digits: needs the file sklearn/datasets/images/flower.jpg, got no package "
        "no-such-package-at-all\ntry: pip install --no-deps no-such-package-at-all$"
    )
    with pytest.raises(DataMissing, match=message):
        load_colour_digits()


def test_without_an_image_library(monkeypatch, colours):
    def import_module(name):
        raise ImportError(name)

    monkeypatch.setattr(colour_digits, "import_module", import_module)
    message = "^colour_digits: needs Pillow to read photos, got no package pillow\ntry: pip install pillow$"
    with pytest.raises(DataMissing, match=message):
        load_colour_digits()
