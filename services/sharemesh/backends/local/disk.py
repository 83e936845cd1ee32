"""Files of the machine (port Disk)."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TypeVar

from sharemesh.backends.local.disk_threads import DiskThreads

Result = TypeVar("Result")

_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700
"""Nobody else on the machine reads records around the access rules (spec BND-4)."""

_NEW_SUFFIX = ".new"
_GATHER_FROM_BYTES = 256 * 1024  # below this a copy is cheaper than a vector
_PIECES_MAX = 1024  # IOV_MAX


class _SystemAppendFile:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    @property
    def size(self) -> int:
        return self._size

    def append(self, *data: bytes | bytearray | memoryview) -> None:
        size = sum(map(len, data))
        if len(data) == 1:
            self._count(os.write(self._descriptor, data[0]), size)
        elif size < _GATHER_FROM_BYTES:
            self._count(os.write(self._descriptor, b"".join(data)), size)
        else:
            for at in range(0, len(data), _PIECES_MAX):
                pieces = data[at : at + _PIECES_MAX]
                self._count(os.writev(self._descriptor, pieces), sum(map(len, pieces)))

    def _count(self, written: int, wanted: int) -> None:
        self._size += written
        if written != wanted:
            raise OSError(f"short write: {written} of {wanted} bytes")

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _SystemSlotFile:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, position: int, data: bytes) -> None:
        written = os.pwrite(self._descriptor, data, position)
        if written != len(data):
            raise OSError(f"short write: {written} of {len(data)} bytes")

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class SystemDisk:
    """A directory of the machine, and a small thread pool in which its calls block.

    Args:
        root: Created if absent.
        threads: Jobs that may block at the same time.
    """

    def __init__(self, root: Path, *, threads: int = 4) -> None:
        self._root = str(root)
        root.mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)
        self._threads = DiskThreads(threads, "disk")

    def close(self) -> None:
        """Wait for running jobs and end the threads."""
        self._threads.close()

    async def run(self, job: Callable[[], Result]) -> Result:
        """Run a blocking job in the pool."""
        return await self._threads.run(job)

    def create(self, path: str) -> _SystemAppendFile:
        """Create a file exclusively, for appending."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return _SystemAppendFile(os.open(self._at(path), flags, _FILE_MODE))

    def open(self, path: str) -> _SystemAppendFile:
        """Open an existing file for appending."""
        return _SystemAppendFile(os.open(self._at(path), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))

    def open_slots(self, path: str, size: int) -> _SystemSlotFile:
        """Open, or create with zeros, a file that is written over in place."""
        descriptor = os.open(self._at(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        if os.fstat(descriptor).st_size < size:
            os.ftruncate(descriptor, size)
        return _SystemSlotFile(descriptor)

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Return up to ``size`` bytes from ``offset``."""
        descriptor = os.open(self._at(path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            if size is None:
                size = max(0, os.fstat(descriptor).st_size - offset)
            data = os.pread(descriptor, size, offset)
            while len(data) < size:  # one call may return less than 2 GiB, or be interrupted
                more = os.pread(descriptor, size - len(data), offset + len(data))
                if not more:
                    break
                data += more
            return data
        finally:
            os.close(descriptor)

    def size(self, path: str) -> int:
        """Return the length of a file."""
        return Path(self._at(path)).stat().st_size

    def write_small(self, path: str, data: bytes) -> None:
        """Replace a small file atomically and durably."""
        temporary = f"{path}.{os.getpid()}{_NEW_SUFFIX}"
        descriptor = os.open(
            self._at(temporary), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE
        )
        try:
            if os.write(descriptor, data) != len(data):
                raise OSError(f"short write to {path}")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.rename(temporary, path)
        self.sync_directory(str(PurePosixPath(path).parent))

    def rename(self, source: str, target: str) -> None:
        """Rename within the tree."""
        Path(self._at(source)).rename(self._at(target))

    def delete(self, path: str) -> None:
        """Remove a file or an empty directory; absent is fine."""
        target = Path(self._at(path))
        if target.is_dir() and not target.is_symlink():
            target.rmdir()
        else:
            target.unlink(missing_ok=True)

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; an absent directory is empty."""
        try:
            with os.scandir(self._at(path)) as entries:
                return sorted(entry.name for entry in entries)
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, and sync each new name."""
        parent = "."
        for part in PurePosixPath(path).parts:
            child = part if parent == "." else f"{parent}/{part}"
            with suppress(FileExistsError):  # then another process may not have synced it yet
                Path(self._at(child)).mkdir(_DIRECTORY_MODE)
            self.sync_directory(parent)
            parent = child

    def sync_directory(self, path: str) -> None:
        """Return once the names in this directory are durable."""
        descriptor = os.open(self._at(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self) -> int:
        """Return the space left on the volume for an ordinary user."""
        return shutil.disk_usage(self._root).free

    def _at(self, path: str) -> str:
        if path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"path {path!r} leaves the data directory")
        return f"{self._root}/{path}"
