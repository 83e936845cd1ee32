"""A disk in memory that behaves badly in the ways real ones do (port Disk).

A crash forgets what was not synced: bytes (whole, in part, or leaving zeros) and names. A failed
sync drops the dirty pages, and reads go on showing them until the crash. Appends can be short, the
volume can be full, and a hook sees each operation before it happens. All chance is seeded.
"""

import asyncio
import errno
import random
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TypeVar

Result = TypeVar("Result")
Hook = Callable[[str, str], None]

CAPACITY_BYTES = 1 << 40
_ROOT = "."


class _Inode:
    """Bytes as reads show them, and as they would be after a power cut."""

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = bytearray()
        self.dirty: list[tuple[int, int]] = []
        self.name_count = 0

    def put(self, position: int, data: bytes | bytearray | memoryview) -> None:
        end = position + len(data)
        if len(self.cached) < end:
            self.cached.extend(bytes(end - len(self.cached)))
        self.cached[position:end] = data
        self.dirty.append((position, end))

    def flush(self, position: int, end: int) -> None:
        if len(self.durable) < end:
            self.durable.extend(bytes(end - len(self.durable)))
        self.durable[position:end] = self.cached[position:end]

    def sync(self) -> None:
        for position, end in self.dirty:
            self.flush(position, end)
        self.dirty.clear()

    def drop(self) -> None:
        """Forget that there is something to write: the pages are clean, the disk has nothing."""
        self.dirty.clear()

    def crash(self, rng: random.Random) -> None:
        """Keep what was synced, and of the rest a part that chance chooses."""
        for position, end in self.dirty:
            fate = rng.randrange(4)
            if fate == 0:
                break
            torn = rng.randint(position, end) if fate in (1, 2) else end
            self.flush(position, torn)
            if fate == 2 and len(self.durable) < end:  # length reached the disk, bytes did not
                self.durable.extend(bytes(end - len(self.durable)))
            if torn < end:
                break
        self.dirty.clear()
        self.cached = bytearray(self.durable)


class _MemoryFile:
    """An open file; a crash of the disk makes it useless."""

    def __init__(self, disk: "MemoryDisk", path: str, inode: _Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._life = disk.crashes

    @property
    def size(self) -> int:
        return len(self._inode.cached)

    def append(self, *data: bytes | bytearray | memoryview) -> None:
        self._enter("append")
        self._disk.put(self._inode, self.size, self._disk.admit(b"".join(data)))
        if self._disk.took_short:
            self._disk.took_short = False
            raise OSError(errno.ENOSPC, "short write", self._path)

    def write(self, position: int, data: bytes) -> None:
        self._enter("write")
        self._disk.put(self._inode, position, data)

    def sync(self) -> None:
        self._enter("sync")
        if self._disk.sync_fails(self._path):
            self._inode.drop()
            raise OSError(errno.EIO, "sync failed, dirty pages dropped", self._path)
        self._inode.sync()

    def close(self) -> None:
        return

    def _enter(self, operation: str) -> None:
        if self._life != self._disk.crashes:
            raise OSError(errno.EIO, "opened before the crash", self._path)
        self._disk.enter(operation, self._path)


class MemoryDisk:
    """The double of SystemDisk; settable faults are attributes.

    Attributes:
        before: Called with (operation, path) before each operation; may raise or run other code.
        capacity_bytes: Appends beyond it are short and fail.
        failing_syncs: Paths (substrings) whose next syncs fail, each entry once.
        crashes: How often ``crash`` was called.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._names: dict[str, _Inode | None] = {_ROOT: None}  # None: a directory
        self._children: dict[str, set[str]] = {}
        self._used_bytes = 0
        self._durable_names: dict[str, _Inode | None] = {_ROOT: None}
        self._changes: list[tuple[str, str, str]] = []  # operation, path, rename target
        self._changed: dict[str, _Inode | None] = {}
        self.before: Hook | None = None
        self.capacity_bytes = CAPACITY_BYTES
        self.failing_syncs: list[str] = []
        self.crashes = 0
        self.took_short = False

    # ---- faults ---------------------------------------------------------------------------

    def crash(self) -> None:
        """Cut the power: open files are lost, and whatever was not synced may be."""
        self.crashes += 1
        survivors = self._durable_names
        for operation, path, target in self._changes:
            if self._rng.random() < 0.5:
                self._make_durable(operation, path, target)
        inodes = {id(inode): inode for inode in survivors.values() if inode is not None}
        for inode in inodes.values():
            inode.crash(self._rng)
        self._drop_orphans()
        self._names = {_ROOT: None}
        self._children.clear()
        self._used_bytes = 0
        for inode in inodes.values():
            inode.name_count = 0
        for path, survivor in survivors.items():
            self._link(path, survivor)
        self._changes.clear()

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Corrupt one bit, in cache and on the medium."""
        inode = self._file(path)
        inode.cached[position] ^= 1 << bit
        if position < len(inode.durable):
            inode.durable[position] ^= 1 << bit

    def truncate(self, path: str, size: int) -> None:
        """Cut a file short, in cache and on the medium."""
        inode = self._file(path)
        self._used_bytes -= max(0, len(inode.cached) - size)
        del inode.cached[size:]
        del inode.durable[size:]
        inode.dirty = [(begin, end) for begin, end in inode.dirty if end <= size]

    def files(self) -> list[str]:
        """Return the paths of all files, sorted."""
        return sorted(path for path, inode in self._names.items() if inode is not None)

    def sync_fails(self, path: str) -> bool:
        """Whether the sync of this path fails now; uses up the fault."""
        for fault in self.failing_syncs:
            if fault in path:
                self.failing_syncs.remove(fault)
                return True
        return False

    def admit(self, data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
        """Return as much of ``data`` as the volume takes; ``took_short`` says if not all."""
        room = max(0, self.free_bytes())
        if len(data) <= room:
            return data
        self.took_short = True
        return data[:room]

    def enter(self, operation: str, path: str) -> None:
        """Tell the hook."""
        if self.before is not None:
            self.before(operation, path)

    # ---- the port -------------------------------------------------------------------------

    async def run(self, job: Callable[[], Result]) -> Result:
        """Run the job on a later turn of the loop, as a pool would."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        loop.call_soon(_finish, turn)
        await turn
        return job()

    def close(self) -> None:
        """Nothing to release; here because SystemDisk has it."""

    def create(self, path: str) -> _MemoryFile:
        """Create a file exclusively."""
        self.enter("create", path)
        if path in self._names:
            raise FileExistsError(errno.EEXIST, "exists", path)
        self._need_directory(path)
        self._link(path, _Inode())
        self._change("create", path)
        return _MemoryFile(self, path, self._file(path))

    def open(self, path: str) -> _MemoryFile:
        """Open an existing file."""
        self.enter("open", path)
        return _MemoryFile(self, path, self._file(path))

    def open_slots(self, path: str, size: int) -> _MemoryFile:
        """Open, or create with zeros, a file that is written over in place."""
        if path not in self._names:
            self.create(path)
        inode = self._file(path)
        if len(inode.cached) < size:
            self.put(inode, len(inode.cached), bytes(size - len(inode.cached)))
        return _MemoryFile(self, path, inode)

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Return up to ``size`` bytes from ``offset``."""
        self.enter("read", path)
        end = None if size is None else offset + size
        return bytes(self._file(path).cached[offset:end])

    def size(self, path: str) -> int:
        """Return the length of a file."""
        self.enter("size", path)
        return len(self._file(path).cached)

    def write_small(self, path: str, data: bytes) -> None:
        """Replace a small file atomically and durably."""
        temporary = f"{path}.new"
        self.delete(temporary)
        file = self.create(temporary)
        file.append(data)
        file.sync()
        self.rename(temporary, path)
        self.sync_directory(_parent(path))

    def rename(self, source: str, target: str) -> None:
        """Rename within the tree."""
        self.enter("rename", target)
        inode = self._file(source)
        self._unlink(target)
        self._unlink(source)
        self._link(target, inode)
        self._change("rename", source, target)

    def delete(self, path: str) -> None:
        """Remove a file or an empty directory; absent is fine."""
        self.enter("delete", path)
        if path not in self._names:
            return
        if self._names[path] is None and self._children.get(path):
            raise OSError(errno.ENOTEMPTY, "directory not empty", path)
        self._unlink(path)
        self._change("delete", path)

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        self.enter("list", path)
        return sorted(self._children.get(path, ()))

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, and sync each new name."""
        parent = _ROOT
        for part in PurePosixPath(path).parts:
            child = part if parent == _ROOT else f"{parent}/{part}"
            self.enter("mkdir", child)
            if child not in self._names:
                self._link(child, None)
                self._change("create", child)
            elif self._names[child] is not None:
                raise NotADirectoryError(errno.ENOTDIR, "a file has this name", child)
            self.sync_directory(parent)
            parent = child

    def sync_directory(self, path: str) -> None:
        """Make the names in this directory durable."""
        self.enter("sync_directory", path)
        later = []
        for change in self._changes:
            if _parent(change[1]) == path:
                self._make_durable(*change)
            else:
                later.append(change)
        self._changes = later

    def free_bytes(self) -> int:
        """Return the space left."""
        return self.capacity_bytes - self._used_bytes

    def put(self, inode: _Inode, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write into a file; bytes of a file without a name are not counted."""
        before = len(inode.cached)
        inode.put(position, data)
        if inode.name_count:
            self._used_bytes += len(inode.cached) - before

    # ---- names ----------------------------------------------------------------------------

    def _link(self, path: str, inode: _Inode | None) -> None:
        if path == _ROOT:
            return
        self._names[path] = inode
        parent, _, name = path.rpartition("/")
        self._children.setdefault(parent or _ROOT, set()).add(name)
        if inode is not None:
            inode.name_count += 1
            if inode.name_count == 1:
                self._used_bytes += len(inode.cached)

    def _unlink(self, path: str) -> None:
        if path not in self._names:
            return
        inode = self._names.pop(path)
        parent, _, name = path.rpartition("/")
        self._children[parent or _ROOT].discard(name)
        if inode is not None:
            inode.name_count -= 1
            if not inode.name_count:
                self._used_bytes -= len(inode.cached)

    def _file(self, path: str) -> _Inode:
        inode = self._names.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return inode

    def _need_directory(self, path: str) -> None:
        parent = _parent(path)
        if parent not in self._names or self._names[parent] is not None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", parent)

    def _change(self, operation: str, path: str, target: str = "") -> None:
        if operation == "create":
            self._changed[path] = self._names[path]
        self._changes.append((operation, path, target))

    def _make_durable(self, operation: str, path: str, target: str) -> None:
        durable = self._durable_names
        if operation == "create":
            durable[path] = self._changed[path]
        elif operation == "delete":
            durable.pop(path, None)
        else:
            inode = durable.pop(path, None) or self._changed.get(path)
            if inode is not None:
                durable[target] = self._changed[target] = inode

    def _drop_orphans(self) -> None:
        """Names whose directory did not survive are gone."""
        for path in sorted(self._durable_names):
            if path != _ROOT and _parent(path) not in self._durable_names:
                del self._durable_names[path]


def _finish(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or _ROOT
