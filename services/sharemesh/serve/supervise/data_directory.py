"""The data directory: on which file system, writable, locked by one supervisor, emptied again."""

import errno
import fcntl
import logging
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from sharemesh.serve.exit_codes import ExitCode, StartError

RUN_FILE = "run/cluster.json"

MOUNTINFO = Path("/proc/self/mountinfo")

NFS_OPTIONS = ("actimeo=0", "lookupcache=none")

_NO_ATTRIBUTE_CACHE = ("acregmin=0", "acregmax=0", "acdirmin=0", "acdirmax=0")
"""What the kernel shows for ``actimeo=0``."""

_LOCAL = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)

_SHARED = frozenset({"ceph", "fuse.ceph-fuse"})


_log = logging.getLogger(__name__)


def keep_files_private() -> None:
    """Let whatever this process and its children make be of its user alone (spec BND-4)."""
    os.umask(0o077)


def close_to_others(directory: Path) -> None:
    """Take a cluster's directory, as older versions made it, from other users; or say why not.

    Only what everybody may do is taken: a group was perhaps let in on purpose, and goes on reading
    the old files. New ones are for the user alone (``keep_files_private``).
    """
    mode = stat.S_IMODE(directory.stat().st_mode)
    if not mode & stat.S_IRWXO:
        return
    try:
        directory.chmod(mode & ~stat.S_IRWXO)
    except OSError as error:
        _log.warning(
            "other users of this machine may enter the data directory %s, and it could not be "
            "closed to them: %s; do so as its owner: chmod o= %s",
            directory,
            (error.strerror or str(error)).lower(),
            directory,
        )


def make_writable(directory: Path) -> None:
    """Create the directory if need be and see that it can be written to.

    Raises:
        StartError: DIRECTORY_UNUSABLE.
    """
    try:
        directory.mkdir(0o700, parents=True, exist_ok=True)
        probe = directory / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise unusable(directory, error) from error


def unusable(directory: Path, error: OSError) -> StartError:
    """Return the error of a data directory that cannot be written to."""
    reason = (error.strerror or str(error)).lower()
    advice = "change its owner or set data_directory"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        advice = "make room on that disk or set data_directory"
    elif error.errno in {errno.EEXIST, errno.ENOTDIR}:
        reason = "it is a file" if error.errno == errno.EEXIST else reason
        advice = "set data_directory to a directory"
    return StartError(
        ExitCode.DIRECTORY_UNUSABLE,
        f"cannot write to the data directory {directory}: {reason}; {advice}",
    )


class DirectoryLock:
    """A lock of the kernel on the directory itself: it ends with the process, whatever happens."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor = -1

    def take(self) -> None:
        """Take the lock.

        Raises:
            StartError: DIRECTORY_IN_USE.
        """
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise StartError(
                ExitCode.DIRECTORY_IN_USE,
                f"the data directory {self._directory} is in use by another cluster that runs on "
                "it; stop that one or set data_directory",
            ) from error
        self._descriptor = descriptor

    @property
    def held(self) -> bool:
        """Whether the directory is ours."""
        return self._descriptor >= 0

    def release(self) -> None:
        """Give the lock up. Repeating it is fine."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> "DirectoryLock":
        self.take()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class InitRollback:
    """Looks at a data directory before anything is made in it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._existed = directory.exists()
        self._was_empty = not self._existed or (directory.is_dir() and not any(directory.iterdir()))

    def undo(self) -> None:
        """Remove what was made, if there was nothing before; call it with all processes ended.

        So that a refused start is none: the next one may choose other shard counts, or another
        cluster id. A directory that was there stays, empty.
        """
        if not self._was_empty:
            return
        for made in self._directory.iterdir():
            if made.is_dir() and not made.is_symlink():
                shutil.rmtree(made, ignore_errors=True)
            else:
                made.unlink(missing_ok=True)
        if not self._existed:
            self._directory.rmdir()


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo."""

    point: Path
    kind: str
    options: frozenset[str]


def check_volume(directory: Path, mountinfo: str | None = None) -> Mount | None:
    """Return the mount of the directory if a cluster may live on it; None if that is not known.

    Fences and segments are found by name, so a name must be seen by every process once it is
    synced. Local file systems and CephFS do that; NFS only without its caches.

    Raises:
        StartError: DIRECTORY_UNUSABLE, with the mount options that are missing.
    """
    if mountinfo is None:
        try:
            mountinfo = MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None  # not Linux
    mount = _mount_of(directory.resolve(), mountinfo)
    if mount is None or mount.kind in _LOCAL | _SHARED:
        return mount
    if mount.kind not in {"nfs", "nfs4"}:
        return mount
    missing = [option for option in NFS_OPTIONS if not _has(mount.options, option)]
    if missing:
        raise StartError(
            ExitCode.DIRECTORY_UNUSABLE,
            f"the data directory {directory} is on NFS ({mount.point}) without the mount options "
            f"{','.join(missing)}; processes would not see each other's files in time: mount it "
            f"with {','.join(NFS_OPTIONS)}, or use a local disk or CephFS",
        )
    return mount


def is_known(mount: Mount | None) -> bool:
    """Return whether the kind of file system is one that was thought about."""
    return mount is not None and mount.kind in _LOCAL | _SHARED | {"nfs", "nfs4"}


def _has(options: frozenset[str], option: str) -> bool:
    if option in options:
        return True
    return option == "actimeo=0" and options.issuperset(_NO_ATTRIBUTE_CACHE)


def _mount_of(directory: Path, mountinfo: str) -> Mount | None:
    """Return the mount with the longest path above the directory; of equal ones the last."""
    found: Mount | None = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        left, right = before.split(" "), after.split(" ")
        if len(left) < 6 or len(right) < 3:
            continue
        point = Path(_unescaped(left[4]))
        if not directory.is_relative_to(point):
            continue
        if found is None or len(point.parts) >= len(found.point.parts):
            options = frozenset(f"{left[5]},{right[2]}".split(","))
            found = Mount(point, right[0], options)
    return found


def _unescaped(text: str) -> str:
    for octal, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(octal, character)
    return text
