"""What the data directory may lie on (LOG-4)."""

from pathlib import Path

import pytest

from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh.serve.supervise.data_directory import check_volume, is_known

ROOT = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
NFS = "40 22 0:50 / {point} rw,relatime shared:2 - nfs4 server:/data rw,vers=4.2,{options}\n"
DIRECTORY = Path("/mnt/nfs disk/cluster")
POINT = r"/mnt/nfs\040disk"


def nfs(options: str) -> str:
    return ROOT + NFS.format(point=POINT, options=options)


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ("hard", "actimeo=0,lookupcache=none"),
        ("actimeo=0", "lookupcache=none"),
        ("lookupcache=none,actimeo=3", "actimeo=0"),
        ("acregmin=0,acregmax=0,acdirmin=0,lookupcache=none", "actimeo=0"),
    ],
)
def test_nfs_with_caches_is_refused_and_the_missing_options_named(options, missing):
    with pytest.raises(StartError, match=f"without the mount options {missing};") as refused:
        check_volume(DIRECTORY, nfs(options))
    assert refused.value.code is ExitCode.DIRECTORY_UNUSABLE


@pytest.mark.parametrize(
    "options",
    [
        "actimeo=0,lookupcache=none",
        "acregmin=0,acregmax=0,acdirmin=0,acdirmax=0,lookupcache=none",  # as the kernel shows it
    ],
)
def test_nfs_without_caches_is_fine(options):
    mount = check_volume(DIRECTORY, nfs(options))
    assert mount is not None
    assert mount.kind == "nfs4"
    assert mount.point == Path("/mnt/nfs disk")
    assert is_known(mount)


def test_the_longest_mount_counts_and_of_equal_ones_the_last():
    table = nfs("hard") + f"41 40 8:2 / {POINT}/cluster rw - xfs /dev/sdb1 rw\n"
    assert check_volume(DIRECTORY, table).kind == "xfs"
    assert check_volume(Path("/var/lib"), table).kind == "ext4"
    over = nfs("hard") + f"42 40 0:60 / {POINT} rw - ceph 10.0.0.1:/ rw\n"
    assert check_volume(DIRECTORY, over).kind == "ceph"


def test_unknown_kinds_are_let_through_and_known_as_such():
    table = ROOT + "40 22 0:50 / /mnt rw - fuse.strange none rw\nnot a line\n"
    mount = check_volume(Path("/mnt/x"), table)
    assert not is_known(mount)


def test_this_machine_has_a_volume_that_is_fine(tmp_path):
    assert is_known(check_volume(tmp_path))
