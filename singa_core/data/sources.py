"""Data sets that are files inside installed packages: which one, and what to do without it.

The packages are never imported: only a file is read, and what they depend on may be missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import TypeVar

from singa_core.errors import SingaError

T = TypeVar("T")


class DataMissing(SingaError, FileNotFoundError):
    """A data set whose package is not installed, or does not hold the file expected."""


@dataclass(frozen=True)
class DatasetInfo:
    """Where a data set comes from and under which terms."""

    name: str
    description: str
    source: str
    licence: str


@dataclass(frozen=True)
class Source:
    """A file inside a package.

    Args:
        dataset: the data set that wants it, for messages.
        package: name of the distribution.
        file: path in it.
        content: what is expected there, for messages.
    """

    dataset: str
    package: str
    file: str
    content: str

    def read(self, parse: Callable[[bytes], T]) -> T:
        """What `parse` makes of the file.

        Args:
            parse: gets the bytes; raises what it likes where they are not what it expects.

        Raises: DataMissing without the package, or where the file cannot be read or parsed.
        """
        package = self.find()
        try:
            with open(str(package.locate_file(self.file)), "rb") as file:
                return parse(file.read())
        except Exception as error:  # of gzip, of an image library, of a syntax tree, ...
            raise DataMissing(
                f"{self.dataset}: needs {self.content} in {self.file} of "
                f"{self.package} {package.version}, got {type(error).__name__}: {error}\n"
                f"try: {self.hint} --force-reinstall"
            ) from error

    def find(self) -> Distribution:
        """The package. Raises: DataMissing if it is not installed."""
        try:
            return distribution(self.package)
        except PackageNotFoundError:
            raise DataMissing(
                f"{self.dataset}: needs the file {self.file}, got no package {self.package}\n"
                f"try: {self.hint}"
            ) from None

    @property
    def hint(self) -> str:
        """How to install the package."""
        return f"pip install --no-deps {self.package}"

    def __str__(self) -> str:
        return f"file {self.file} in {self.package} {self.find().version}"
