"""A role process whose disk can be told to fail: `sharemesh serve` over a `BadDisk`.

    SHAREMESH_BAD_DISK=DIRECTORY python -m tests.faults.bad_disk_node <flags of serve>

While a file `fail` is in DIRECTORY, the first fdatasync of a file whose path begins with its text
fails with EIO, and nothing of what it should have made durable reaches the disk any more (a
failed fdatasync leaves the pages clean). What would be left after a power cut is noted in
`lost`: path and size at the last good sync, one line each.
"""

import errno
import os
import sys
from pathlib import Path

from sharemesh.backends.local.disk import SystemDisk
from sharemesh.serve import storage_opening
from sharemesh.serve.__main__ import main


class _BadFile:
    """An append file that knows what of it is durable."""

    def __init__(self, file, path, control, *, durable):
        self._file = file
        self._path = path
        self._control = control
        self._durable = durable
        self._broken = False

    @property
    def size(self):
        return self._file.size

    def append(self, *data):
        self._file.append(*data)

    def sync(self):
        if self._broken or self._told_to_fail():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._file.sync()
        self._durable = self._file.size

    def close(self):
        self._file.close()

    def _told_to_fail(self):
        order = self._control / "fail"
        try:
            prefix = order.read_text()
        except FileNotFoundError:
            return False
        if not self._path.startswith(prefix):
            return False
        order.unlink(missing_ok=True)
        self._broken = True
        with (self._control / "lost").open("a") as lost:
            lost.write(f"{self._path} {self._durable}\n")
        return True


class BadDisk(SystemDisk):
    """The machine's disk, with a sync that fails on demand."""

    control = Path()

    def create(self, path):
        return _BadFile(super().create(path), path, self.control, durable=0)

    def open(self, path):
        file = super().open(path)
        return _BadFile(file, path, self.control, durable=file.size)


if __name__ == "__main__":
    BadDisk.control = Path(os.environ["SHAREMESH_BAD_DISK"])
    names = vars(storage_opening)
    assert names["SystemDisk"] is SystemDisk  # else nothing would fail
    names["SystemDisk"] = BadDisk
    sys.exit(main())
