"""On what the data directory lies: a file system whose directories all processes see alike."""

from dataclasses import dataclass
from pathlib import Path

from sharemesh.serve.exit_codes import ExitCode, StartError

MOUNTINFO = Path("/proc/self/mountinfo")
NFS_OPTIONS = ("actimeo=0", "lookupcache=none")
_NO_ATTRIBUTE_CACHE = ("acregmin=0", "acregmax=0", "acdirmin=0", "acdirmax=0")
"""What the kernel shows for ``actimeo=0``."""

_LOCAL = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)
_SHARED = frozenset({"ceph", "fuse.ceph-fuse"})


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
