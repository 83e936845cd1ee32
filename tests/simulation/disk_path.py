"""Files on port Disk for readers that take paths."""

import io

from sharemesh.ports.disk import Disk


class DiskPath:
    """As much of a ``Path`` as readers of a data directory use, on port Disk."""

    def __init__(self, disk: Disk, path: str = "") -> None:
        self._disk = disk
        self._path = path

    def __truediv__(self, other: object) -> "DiskPath":
        return DiskPath(self._disk, f"{self._path}/{other}" if self._path else str(other))

    def __str__(self) -> str:
        return self._path

    @property
    def name(self) -> str:
        """The last part."""
        return self._path.rpartition("/")[2]

    def exists(self) -> bool:
        """Whether there is a file of this name, or a directory with something in it."""
        parent, _, name = self._path.rpartition("/")
        return name in self._disk.list(parent)

    def is_dir(self) -> bool:
        """Whether anything lies in it."""
        return bool(self._disk.list(self._path))

    def iterdir(self) -> "list[DiskPath]":
        """Return what lies in it."""
        return [self / name for name in self._disk.list(self._path)]

    def read_bytes(self) -> bytes:
        """Return the whole file."""
        return bytes(self._disk.read(self._path))

    def open(self, mode: str) -> io.BytesIO:
        """Open it for reading."""
        assert mode == "rb"
        return io.BytesIO(self.read_bytes())
