"""Where things lie in a data directory; paths are relative to it, ``/``-separated."""

import json
from dataclasses import dataclass

CLUSTER_FILE = "cluster.json"
RECORDS = "records"
STATE = "state"
GROUP = "group"
FORMAT = 1


class DataDirectoryError(ValueError):
    """The data directory is not one that this cluster and version may use; says what to do."""


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """What ``cluster.json`` says: whose the directory is, and what never changes about it."""

    cluster_id: str
    group_shards: int
    state_shards: int
    format: int = FORMAT


def encode_cluster_file(cluster: ClusterFile) -> bytes:
    """Return the contents of ``cluster.json``."""
    fields = {
        "format": cluster.format,
        "cluster_id": cluster.cluster_id,
        "group_shards": cluster.group_shards,
        "state_shards": cluster.state_shards,
    }
    return (json.dumps(fields, indent=1) + "\n").encode()


def decode_cluster_file(data: bytes) -> ClusterFile:
    """Return what ``cluster.json`` says.

    Raises:
        DataDirectoryError: Not readable, or written by a newer version.
    """
    try:
        fields = json.loads(data)
        form = int(fields["format"])
        if form > FORMAT:
            raise DataDirectoryError(
                f"{CLUSTER_FILE} has format {form}, newer than {FORMAT}: use a newer version"
            )
        return ClusterFile(
            str(fields["cluster_id"]),
            int(fields["group_shards"]),
            int(fields["state_shards"]),
            form,
        )
    except DataDirectoryError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise DataDirectoryError(
            f"{CLUSTER_FILE} cannot be read ({error!r}): restore it, or use another directory"
        ) from error


def shard_log_path(name: str, shard: int) -> str:
    """Return the directory of a shard log; ``name`` is ``state`` or ``group``."""
    return f"{name}/{shard:05d}"


def topic_path(topic_id: bytes) -> str:
    """Return the directory of a topic's records."""
    return f"{RECORDS}/{topic_id.hex()}"


def record_log_path(topic_id: bytes, partition: int) -> str:
    """Return the directory of a topic-partition's record log."""
    return f"{topic_path(topic_id)}/{partition:05d}"
