"""Files for the embedded logs; a double tears writes and forgets what was not synced."""

from collections.abc import Callable
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class AppendFile(Protocol):
    """One open file that only grows. Its methods block: call them inside ``Disk.run``."""

    @property
    def size(self) -> int:
        """Bytes appended so far, synced or not, plus what the file held when opened."""
        ...

    def append(self, *data: bytes | bytearray | memoryview) -> None:
        """Append all of ``data``, one piece behind the other, as one write.

        Raises:
            OSError: Nothing, or only a part, was written (disk full, I/O error); the owner
                must give the file up (LOG-9: nobody retries).
        """
        ...

    def sync(self) -> None:
        """Return once all that was appended would survive a power cut (fdatasync).

        Raises:
            OSError: Dirty pages may be gone although a read still shows them.
        """
        ...

    def close(self) -> None:
        """Close without syncing."""
        ...


class SlotFile(Protocol):
    """One small file that is written over in place. Its methods block, as those of AppendFile."""

    def write(self, position: int, data: bytes) -> None:
        """Put ``data`` at ``position``; other processes see it at once, a power cut may not.

        Raises:
            OSError: It may have been written in part.
        """
        ...

    def sync(self) -> None:
        """Return once what was written would survive a power cut.

        Raises:
            OSError: It may not.
        """
        ...

    def close(self) -> None:
        """Close without syncing."""
        ...


class Disk(Protocol):
    """A directory tree; paths are relative, ``/``-separated.

    Everything but ``run`` blocks and must be called inside a job that is given to ``run``.
    """

    async def run(self, job: Callable[[], Result]) -> Result:
        """Run a blocking job in the storage pool and return its result, or raise its error."""
        ...

    def create(self, path: str) -> AppendFile:
        """Create a file exclusively.

        Raises:
            FileExistsError: The name is taken.
        """
        ...

    def open(self, path: str) -> AppendFile:
        """Open an existing file for appending."""
        ...

    def open_slots(self, path: str, size: int) -> SlotFile:
        """Open a file of ``size`` bytes for writing over; create it, full of zeros, if absent."""
        ...

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Return up to ``size`` bytes from ``offset``; fewer at the end of the file.

        Raises:
            FileNotFoundError: There is no such file.
        """
        ...

    def size(self, path: str) -> int:
        """Return the length of a file in bytes."""
        ...

    def write_small(self, path: str, data: bytes) -> None:
        """Replace a small file atomically: temporary name, sync, rename, sync of the directory."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename within the tree; durable only after ``sync_directory``."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file or an empty directory; absent is fine.

        Raises:
            OSError: A directory is not empty.
        """
        ...

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; an absent directory is empty."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, and sync each new name."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return once the names in this directory would survive a power cut."""
        ...

    def free_bytes(self) -> int:
        """Return the space left on the volume."""
        ...
