"""Where lines go: files that are rotated, or one stream (AUD-7)."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from sharemesh.audit.trail import Line

CHANGES = "changes"
ACCESS = "access"
MODE = 0o600
DIRECTORY_MODE = 0o700
_ODD = re.compile(r"[^A-Za-z0-9._-]")


class AuditSink(Protocol):
    """Takes lines on the writing thread; may block."""

    def write(self, lines: Sequence[Line]) -> int:
        """Write lines in order; return how many were not taken for a known reason.

        Raises:
            OSError, ExportError: None of those that are left was taken.
        """
        ...

    def close(self) -> None:
        """Free what is held."""
        ...


class RotatedFile:
    """One file and its older generations ``.1``, ``.2`` …, each bounded."""

    def __init__(self, path: Path, *, bytes_max: int, files_max: int) -> None:
        """Open, and end a line that a crash has torn.

        Raises:
            OSError: It cannot be written.
        """
        self._path = path
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._file = self._opened()
        self._torn = _is_torn(path)

    def write(self, texts: Sequence[bytes]) -> None:
        """Append whole lines; raises OSError."""
        if not texts:
            return
        if not self._is_in_place():
            self._renew()
        if self._torn:
            self._append(b"\n")
        for part in self._parts(texts):
            self._append(part)

    def close(self) -> None:
        """Close the file; its number is forgotten first, since others get it at once."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _parts(self, texts: Sequence[bytes]) -> list[bytes]:
        """Return what is written at a time, and rotate before what would not fit."""
        parts: list[bytes] = []
        room = self._bytes_max - os.fstat(self._file).st_size
        begun: list[bytes] = []
        for text in texts:
            if len(text) > room:
                parts.append(b"".join(begun))
                begun, room = [], self._bytes_max
            begun.append(text)
            room -= len(text)
        return [*parts, b"".join(begun)]

    def _append(self, data: bytes) -> None:
        size = os.fstat(self._file).st_size
        if size and size + len(data) > self._bytes_max:
            self._rotate()
        self._torn = True
        while data:
            data = data[os.write(self._file, data) :]
        self._torn = False

    def _rotate(self) -> None:
        for number in range(self._files_max - 1, 0, -1):
            older = self._generation(number - 1)
            if older.exists():
                older.replace(self._generation(number))
        self._renew()

    def _renew(self) -> None:
        """Open the file by its name; the one before stays open until that has succeeded."""
        opened = self._opened()
        self.close()
        self._file = opened

    def _generation(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def _opened(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        file = os.open(self._path, flags, MODE)
        try:
            os.fchmod(file, MODE)
        except OSError:
            os.close(file)
            raise
        return file

    def _is_in_place(self) -> bool:
        """Return whether a file is open and has its name: somebody may have moved it away."""
        if self._file < 0:
            return False
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._file))
        except FileNotFoundError:
            return False


class AuditFiles:
    """Fills ``AuditSink`` with two rotated files of a node: changes, and everything else."""

    def __init__(self, directory: Path, node: str, *, bytes_max: int, files_max: int) -> None:
        """Make the directory if there is none, and open.

        Raises:
            OSError: The directory or a file cannot be written.
        """
        directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        name = _ODD.sub("_", node)
        self._changes, self._access = (
            RotatedFile(
                directory / f"{name}.{which}.jsonl", bytes_max=bytes_max, files_max=files_max
            )
            for which in (CHANGES, ACCESS)
        )

    def write(self, lines: Sequence[Line]) -> int:
        """Append to both files."""
        self._changes.write([each.text for each in lines if each.is_change])
        self._access.write([each.text for each in lines if not each.is_change])
        return 0

    def close(self) -> None:
        """Close both."""
        self._changes.close()
        self._access.close()


class AuditStream:
    """Fills ``AuditSink`` with a stream that belongs to somebody else, such as stdout."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, lines: Sequence[Line]) -> int:
        """Write and flush."""
        self._stream.write(b"".join(each.text for each in lines))
        self._stream.flush()
        return 0

    def close(self) -> None:
        """Leave the stream open."""


def _is_torn(path: Path) -> bool:
    """Return whether the last line of a file has no end."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
