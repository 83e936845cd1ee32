"""Reads audit files, rotated ones too, as one list by time; follows what is written (AUD-11)."""

import heapq
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from sharemesh.audit.events import LOG
from sharemesh.cli.session import CommandError
from sharemesh.serve.settings.settings import LOGS

AuditFields = dict[str, Any]
_CURRENT = re.compile(r".+\.(changes|access)\.jsonl")
_GENERATION = re.compile(r"\.(\d+)$")

LINE_MAX = 1_048_576
"""Bytes of a line that is still looked at; ours have far less."""


class AuditReader:
    """What was given, opened: ``events`` once, then ``news`` as often as one likes."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """Open the newest file of each series; older ones are opened as they are read.

        Raises:
            CommandError: A path cannot be read, or there is no audit file.
        """
        self.odd = 0
        self._directories = [_directory(path) for path in paths if path.is_dir()]
        files = [path for path in paths if not path.is_dir()]
        files += [each for found in self._directories for each in _series(found)]
        if not files and not self._directories:
            raise CommandError("name a directory or a file", code=2)
        if not files:
            raise CommandError(
                f"no audit files in {', '.join(map(str, self._directories))}; name the data "
                "directory, or files: audit_directory and audit_log say where they are"
            )
        self._current = {path: _opened(path) for path in dict.fromkeys(files)}

    def close(self) -> None:
        """Close the files."""
        for file in self._current.values():
            file.close()

    def events(self) -> Iterator[AuditFields]:
        """Yield all events by time; each series is in order already."""
        series = [self._older_and(path, file) for path, file in self._current.items()]
        yield from heapq.merge(*series, key=_time)

    def news(self) -> list[AuditFields]:
        """Return the events that were written since, by time; files that are new are read too."""
        for directory in self._directories:
            for path in _series(directory):
                if path not in self._current:
                    self._current[path] = _opened(path)
        found: list[AuditFields] = []
        for path, file in list(self._current.items()):
            found += self._read(file)
            if _moved(path, file):
                self._current[path] = _opened(path)
                found += self._read(file)
                for newer in _since_then(path, file):
                    with newer:
                        found += self._read(newer)
                file.close()
                found += self._read(self._current[path])
        return sorted(found, key=_time)

    def _older_and(self, path: Path, file: BinaryIO) -> Iterator[AuditFields]:
        """Yield the events of older generations, then of the file that was opened.

        A file that is rotated meanwhile is known by its inode: nothing is told twice.
        """
        known = {_identity(file)}
        for older in _generations(path):
            try:
                opened = older.open("rb")
            except OSError:
                continue  # the oldest goes
            with opened:
                if _identity(opened) not in known:
                    known.add(_identity(opened))
                    yield from self._read(opened)
        yield from self._read(file)

    def _read(self, file: BinaryIO) -> Iterator[AuditFields]:
        """Yield the whole lines; one that is torn is read when it is whole."""
        while True:
            start = file.tell()
            line = file.readline(LINE_MAX)
            if not line.endswith(b"\n"):
                if len(line) < LINE_MAX:
                    file.seek(start)
                    return
                self.odd += 1
                continue
            if line.strip():
                fields = _fields(line)
                if fields is None:
                    self.odd += 1
                else:
                    yield fields


def _fields(line: bytes) -> AuditFields | None:
    """Return the fields of a line; None if it is not one of an audit log."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    known = isinstance(found, dict) and found.get("log") == LOG
    return found if known and isinstance(found.get("time"), str) else None


def _time(fields: AuditFields) -> str:
    return str(fields["time"])


def _directory(path: Path) -> Path:
    """Return where the files of a data directory lie; another directory is that itself."""
    return path / LOGS if (path / LOGS).is_dir() else path


def _series(directory: Path) -> list[Path]:
    try:
        return sorted(each for each in directory.iterdir() if _CURRENT.fullmatch(each.name))
    except OSError as error:
        raise CommandError(f"cannot read {directory}: {error.strerror}") from error


def _generations(path: Path) -> list[Path]:
    """Return the older files of one, the oldest first."""
    found = [
        (int(number[1]), each)
        for each in path.parent.glob(f"{path.name}.*")
        if (number := _GENERATION.search(each.name)) and each.name == path.name + number[0]
    ]
    return [each for _, each in sorted(found, reverse=True)]


def _since_then(path: Path, file: BinaryIO) -> list[BinaryIO]:
    """Return the generations that began and ended after a file did, the oldest first."""
    found: list[BinaryIO] = []
    for older in reversed(_generations(path)):
        opened = _opened(older)
        if _identity(opened) == _identity(file):
            opened.close()
            break
        found.insert(0, opened)
    return found


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise CommandError(
            f"cannot read {path}: {error.strerror}; audit files are their process's user's"
        ) from error


def _moved(path: Path, file: BinaryIO) -> bool:
    """Return whether another file has the name now."""
    try:
        return not os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False  # between two names


def _identity(file: BinaryIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino
