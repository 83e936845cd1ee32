"""The data directory of a cluster: made once, checked at every start."""

from functools import partial

from sharemesh.codec.log_layout import (
    CLUSTER_FILE,
    ClusterFile,
    DataDirectoryError,
    decode_cluster_file,
    encode_cluster_file,
)
from sharemesh.ports.disk import Disk


async def open_data_directory(
    disk: Disk, *, cluster_id: str, group_shards: int, state_shards: int
) -> ClusterFile:
    """Create ``cluster.json``, or check that it is this cluster's.

    Two clusters cannot share a directory, because their ids differ: ``cluster_id`` must come from
    where the cluster was created (etcd), not from a configuration file that can be copied. Should
    two processes believe in the same epoch nevertheless, the fences let one of them write.

    Raises:
        DataDirectoryError: Another cluster's, another number of shards, a newer format, or not
            readable. Nothing was changed.
    """
    wanted = ClusterFile(cluster_id, group_shards, state_shards)
    return await disk.run(partial(_open, disk, wanted))


def _open(disk: Disk, wanted: ClusterFile) -> ClusterFile:
    if CLUSTER_FILE not in disk.list("."):
        _create(disk, wanted)
    found = decode_cluster_file(disk.read(CLUSTER_FILE))
    if found.cluster_id != wanted.cluster_id:
        raise DataDirectoryError(
            f"the data directory belongs to cluster {found.cluster_id!r}, not to "
            f"{wanted.cluster_id!r}: give each cluster its own directory"
        )
    for word in ("group_shards", "state_shards"):
        if getattr(found, word) != getattr(wanted, word):
            raise DataDirectoryError(
                f"the data directory was made with {word} = {getattr(found, word)}, and "
                f"{getattr(wanted, word)} is configured: the number never changes, set it back"
            )
    return found


def _create(disk: Disk, wanted: ClusterFile) -> None:
    others = [name for name in disk.list(".") if name not in (CLUSTER_FILE, "lost+found")]
    strays = [name for name in others if not name.startswith(CLUSTER_FILE)]
    if strays:
        raise DataDirectoryError(
            f"the data directory holds {strays[0]!r} but no {CLUSTER_FILE}: it is not a data "
            "directory of a cluster, or the file was lost; use an empty directory"
        )
    disk.write_small(CLUSTER_FILE, encode_cluster_file(wanted))
