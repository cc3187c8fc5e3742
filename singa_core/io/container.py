"""Named byte strings in one file that tells when it is damaged, written whole or not at all.

The file is a *stored* zip. Its first member, `manifest.json`, has a SHA-256 and a size for every
other member; zip's CRC-32 guards the manifest itself; and the zip's comment is the *seal*: a
SHA-256 over all bytes that are not content (headers, directory). So every bit of the file is under
a check, and a message can say which member is damaged. Equal contents make equal files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from singa_core.checks import check_path
from singa_core.errors import SingaError

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
HEADERS: Final = "the zip's headers and directory"

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the same for all: equal contents make equal files
_SEAL: Final = 64  # hexadecimal digits of a SHA-256
_LOCAL: Final = b"PK\x03\x04"  # before each member, with a header of
_HEADER: Final = 30  # bytes, and its name
_END: Final = b"PK\x05\x06"
_END_SIZE: Final = 22
_STALE: Final = 3600.0  # seconds after which a half-written file has nobody who writes on


class FileDamaged(SingaError, ValueError):
    """A file that is not what was written: cut short, or altered.

    `member` is the part that is damaged, `problem` what is wrong with it.
    """

    def __init__(self, path: object, member: str, problem: object) -> None:
        self.path, self.member, self.problem = str(path), member, str(problem)
        super().__init__(path, member, problem)

    def text(self) -> str:
        return f"{self.path}: {self.member} is damaged: {self.problem}\ntry: an earlier file"


class ForeignFile(FileDamaged):
    """A file that something else has written."""

    def text(self) -> str:
        return f"{self.path}: needs a file that singa-core has saved, got {self.problem}"


class FormatTooNew(SingaError, ValueError):
    """A file in a format that this version does not know."""

    def __init__(self, path: object, found: int, version: object) -> None:
        self.path, self.found, self.version = str(path), found, str(version)
        super().__init__(path, found, version)

    def text(self) -> str:
        return (
            f"{self.path}: needs format <= {FORMAT}, got {self.found}, "
            f"written by singa-core {self.version}; this is {library_version()}\n"
            "try: pip install --upgrade singa-core"
        )


class NotSaved(SingaError, OSError):
    """A file could not be written. `old` tells that what was under its name is still there."""

    def __init__(self, path: object, problem: object, *, old: bool = True) -> None:
        super().__init__(path, problem)
        self.path, self.problem, self.old = str(path), str(problem), old

    def text(self) -> str:
        if self.old:
            return f"{self.path}: not saved: {self.problem}\n  what was there before is untouched"
        return f"{self.path}: saved, but it may not outlast a crash: {self.problem}"


def library_version() -> str:
    """The version of this package."""
    return str(vars(sys.modules[__name__.partition(".")[0]])["__version__"])


# -- writing ---------------------------------------------------------------------------------------


def write(
    path: str | os.PathLike[str], manifest: Mapping[str, Any], members: Mapping[str, bytes]
) -> None:
    """Write a container in place of whatever file is at `path`, in one step.

    It is made under a temporary name in the same folder, brought to disk, and renamed; then the
    folder is brought to disk. A reader, or a start after a crash at any moment, finds the old file
    or the new one. A symbolic link stays one: what is written is the file that it leads to.

    Args:
        path: where to.
        manifest: JSON; `format`, `version` and `members` are added.
        members: contents by name.

    Raises: NotSaved if that is not possible.
    """
    named = Path(check_path("save", path))
    target = _behind_links(named)
    if target.is_dir():
        raise NotSaved(named, "it is a folder")
    if target.exists() and not target.is_file():  # a device, a pipe: it would be replaced
        raise NotSaved(named, "it is no regular file")
    sums = {name: describe(data) for name, data in members.items()}
    head = {"format": FORMAT, "version": library_version(), **manifest, "members": sums}
    contents = {MANIFEST: json.dumps(head, indent=1).encode(), **members}
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        _make(temporary, contents)
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise NotSaved(named, error.strerror or error) from error
        raise
    try:
        _sync_folder(target.parent)
    except OSError as error:
        raise NotSaved(named, f"its folder: {error.strerror or error}", old=False) from error
    _sweep(target)


def _behind_links(path: Path) -> Path:
    """The file that is meant. Raises: NotSaved for links that lead in a circle."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise NotSaved(path, "its symbolic links lead to no file")
    return target


def describe(data: bytes) -> dict[str, Any]:
    """What a manifest knows of a member."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _make(path: Path, contents: Mapping[str, bytes]) -> None:
    """A new file with these contents, on disk when this returns."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o666), "w+b") as file:
        _pack(file, contents)
        file.flush()
        os.fsync(file.fileno())


def _pack(file: IO[bytes], contents: Mapping[str, bytes]) -> None:
    from zipfile import ZIP_STORED, ZipFile, ZipInfo  # noqa: PLC0415  (not at import: 15 ms)

    with ZipFile(file, "w", ZIP_STORED) as archive:
        for name, data in contents.items():
            info = ZipInfo(name, _EPOCH)
            info.create_system, info.external_attr = 3, 0o644 << 16  # as on Unix, everywhere
            archive.writestr(info, data)
        archive.comment = b"0" * _SEAL
    file.seek(-_SEAL, os.SEEK_END)
    seal = _seal(file, archive.infolist())
    file.seek(-_SEAL, os.SEEK_END)
    file.write(seal)


def _sync_folder(folder: Path) -> None:
    """Make a rename last. Windows has no such call, and does it by itself."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(target: Path) -> None:
    """Remove what processes that were killed have left half-written beside the target."""
    leftover = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{8}\.part")
    with suppress(OSError):
        for path in target.parent.iterdir():
            if leftover.fullmatch(path.name) and time.time() - path.stat().st_mtime > _STALE:
                path.unlink()


# -- reading ---------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the members of a container, every byte of it checked.

    Raises: FileDamaged; ForeignFile, which is one, for a file of something else; FormatTooNew;
        OSError where there is no file to read.
    """
    with open(check_path("load", path), "rb") as file:
        return _read(path, file)


def _read(path: object, file: IO[bytes]) -> tuple[dict[str, Any], dict[str, bytes]]:
    from zipfile import ZipFile  # noqa: PLC0415  (not at import: 15 ms)

    _check_kind(path, file)
    with _damage_told(path, HEADERS):
        archive = ZipFile(file)
        names = archive.namelist()
    manifest = _manifest(path, _content(path, archive, MANIFEST))
    with _damage_told(path, HEADERS):
        _check_seal(file, archive)
    sums = manifest["members"]
    for name in [MANIFEST, *sums]:
        if names.count(name) != 1:
            raise FileDamaged(path, name, f"it is {names.count(name)} times in the file")
    for name in names:
        if name != MANIFEST and name not in sums:
            raise FileDamaged(path, name, "the manifest does not know it")
    members = {name: _content(path, archive, name) for name in sums}
    for name, data in members.items():
        if describe(data) != sums[name]:
            raise FileDamaged(path, name, "its size or SHA-256 is not the manifest's")
    return manifest, members


def _check_kind(path: object, file: IO[bytes]) -> None:
    """Raises: ForeignFile for what neither begins nor ends as ours; one that is damaged does."""
    head = file.read(_HEADER + len(MANIFEST))
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _END_SIZE - _SEAL, 0))
    sealed = size >= _SEAL + _END_SIZE and file.read(len(_END)) == _END
    file.seek(0)
    whole = len(head) == _HEADER + len(MANIFEST)
    ours = head.endswith(MANIFEST.encode()) if whole else _LOCAL.startswith(head[: len(_LOCAL)])
    if not (ours or sealed) and any(head):  # nothing but zeros is what a crash leaves
        zipped = head.startswith(_LOCAL)
        kind = "a zip of something else" if zipped else f"one that begins with {head[:8]!r}"
        raise ForeignFile(path, HEADERS, kind)


class _damage_told:  # noqa: N801  (used as a function)
    """Whatever zipfile says of bytes that make no sense to it, which is many things, is damage."""

    def __init__(self, path: object, member: str) -> None:
        self.path, self.member = path, member

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, SingaError):
            problem = str(error) or type(error).__name__
            raise FileDamaged(self.path, self.member, problem) from error


def _content(path: object, archive: Any, name: str) -> bytes:
    with _damage_told(path, name):
        data: bytes = archive.read(name)  # checks the CRC-32
    return data


def _manifest(path: object, data: bytes) -> dict[str, Any]:
    """The manifest of a format that is known here."""
    with _damage_told(path, MANIFEST):
        manifest = json.loads(data)
        found = manifest["format"]
        if type(found) is not int or found < 1:
            raise ValueError(f"no such format: {found!r}")
    if found > FORMAT:
        raise FormatTooNew(path, found, manifest.get("version"))
    if not isinstance(manifest.get("members"), dict):
        raise FileDamaged(path, MANIFEST, "it lists no members")
    return dict(manifest)


def _check_seal(file: IO[bytes], archive: Any) -> None:
    """Raises: ValueError if a byte outside of the contents is not as it was written."""
    file.seek(-_END_SIZE - _SEAL, os.SEEK_END)
    if not file.read(_END_SIZE).startswith(_END):
        raise ValueError("it does not end with a directory and a seal")
    if file.read() != _seal(file, archive.infolist()):
        raise ValueError("its seal is not that of its bytes")


def _seal(file: IO[bytes], infos: list[Any]) -> bytes:
    """SHA-256 of all bytes but the contents and the seal itself."""
    end = file.seek(0, os.SEEK_END) - _SEAL
    total, place = hashlib.sha256(), 0
    for info in sorted(infos, key=lambda info: int(info.header_offset)):
        file.seek(info.header_offset)
        header = file.read(_HEADER)
        start = info.header_offset + _HEADER + _short(header, 26) + _short(header, 28)
        total.update(_span(file, place, min(start, end)))
        place = start + info.compress_size
    total.update(_span(file, place, end))
    return total.hexdigest().encode()


def _span(file: IO[bytes], start: int, stop: int) -> bytes:
    file.seek(start)
    return file.read(max(stop - start, 0))


def _short(header: bytes, at: int) -> int:
    return int.from_bytes(header[at : at + 2], "little")
