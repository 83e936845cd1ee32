"""The record that makes a cluster: written once, compared ever after."""

from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import Keys
from sharemesh.cluster.store.records import ClusterRecord, RecordFormatError
from sharemesh.cluster.view.watched_view import SHARE_VERSION_DEFAULT
from sharemesh.ports.coordination import Coordination, CoordinationError, Guard, Put

SHARDS_MAX = 1_000


class ClusterMismatchError(Exception):
    """The store holds a cluster that differs from what this process was told."""


async def ensure_cluster(
    coordination: Coordination, cluster_id: str, *, group_shards: int, state_shards: int
) -> ClusterRecord:
    """Create the cluster if it is not there, and return its record.

    The numbers of shards (1 to ``SHARDS_MAX``) are fixed at creation: keys are spread by them.

    Raises:
        ClusterMismatchError: It was created with other numbers, or by a newer build.
        CoordinationError: The store does not answer.
    """
    for name, count in (("group", group_shards), ("state", state_shards)):
        if not 1 <= count <= SHARDS_MAX:
            raise ValueError(f"{count} {name} shards; choose 1 to {SHARDS_MAX}")
    keys = Keys(cluster_id)
    wanted = ClusterRecord(cluster_id, group_shards, state_shards)
    await coordination.commit(
        [Guard(keys.cluster, create_revision=0)],
        [
            Put(keys.cluster, records.encode_cluster(wanted)),
            Put(keys.share_version, records.encode_number(SHARE_VERSION_DEFAULT)),
        ],
    )
    stored = await coordination.get(keys.cluster)
    if stored is None:
        raise CoordinationError(f"the record of cluster {cluster_id!r} vanished; try again")
    try:
        found = records.decode_cluster(stored.value)
    except RecordFormatError as error:
        raise ClusterMismatchError(f"record of cluster {cluster_id!r}: {error}") from None
    if found != wanted:
        raise ClusterMismatchError(
            f"cluster {cluster_id!r} has {found.group_shards} group shards and "
            f"{found.state_shards} state shards, this process was told {group_shards} and "
            f"{state_shards}; shard counts are fixed at creation: use the cluster's, or another "
            "cluster id"
        )
    return found
