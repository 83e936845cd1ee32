"""The permission that each RPC needs, and the level at which it is refused."""

from dataclasses import dataclass
from enum import Enum

from sharemesh import methods as m
from sharemesh.ports.authorizer import Operation, ResourceType


class Level(Enum):
    """Where the refusal stands in the answer."""

    CALL = "the call fails with PERMISSION_DENIED"
    REQUEST = "the request"
    GROUP = "each group"
    TOPIC = "each topic"
    PARTITION = "each partition"
    ENTRY = "each entry"
    FILTERED = "left out of the answer"


@dataclass(frozen=True, slots=True)
class RequiredPermission:
    """One operation on a type of resource; the permission ``instead`` does as well."""

    operation: Operation
    resource: ResourceType
    level: Level
    instead: tuple[Operation, ResourceType] | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """No permission is needed."""

    reason: str


def _on(resource: ResourceType, operation: Operation, level: Level) -> RequiredPermission:
    return RequiredPermission(operation, resource, level)


_O, _T, _L = Operation, ResourceType, Level
_READ_GROUP = _on(_T.GROUP, _O.READ, _L.REQUEST)
_FETCHING = (_READ_GROUP, _on(_T.TOPIC, _O.READ, _L.PARTITION))
_HEARTBEAT = (_READ_GROUP, _on(_T.TOPIC, _O.DESCRIBE, _L.REQUEST))
_STATE = (_on(_T.CLUSTER, _O.CLUSTER_ACTION, _L.PARTITION),)
_FOR_THE_CLUSTER = (_on(_T.CLUSTER, _O.CLUSTER_ACTION, _L.REQUEST),)

PERMISSIONS: dict[str, tuple[RequiredPermission, ...] | Open] = {
    m.SHARE_GROUP_HEARTBEAT.name: _HEARTBEAT,
    m.SHARE_GROUP_HEARTBEAT_STREAM.name: _HEARTBEAT,
    m.SHARE_GROUP_DESCRIBE.name: (
        _on(_T.GROUP, _O.DESCRIBE, _L.GROUP),
        _on(_T.TOPIC, _O.DESCRIBE, _L.GROUP),
    ),
    m.LIST_GROUPS.name: (
        RequiredPermission(_O.DESCRIBE, _T.GROUP, _L.FILTERED, instead=(_O.DESCRIBE, _T.CLUSTER)),
    ),
    m.DELETE_GROUPS.name: (_on(_T.GROUP, _O.DELETE, _L.GROUP),),
    m.DESCRIBE_SHARE_GROUP_OFFSETS.name: (
        _on(_T.GROUP, _O.DESCRIBE, _L.GROUP),
        _on(_T.TOPIC, _O.DESCRIBE, _L.PARTITION),
    ),
    m.ALTER_SHARE_GROUP_OFFSETS.name: (_READ_GROUP, _on(_T.TOPIC, _O.READ, _L.PARTITION)),
    m.DELETE_SHARE_GROUP_OFFSETS.name: (
        _on(_T.GROUP, _O.DELETE, _L.REQUEST),
        _on(_T.TOPIC, _O.READ, _L.TOPIC),
    ),
    m.DESCRIBE_GROUP_CONFIGS.name: (_on(_T.GROUP, _O.DESCRIBE_CONFIGS, _L.GROUP),),
    m.ALTER_GROUP_CONFIGS.name: (_on(_T.GROUP, _O.ALTER_CONFIGS, _L.REQUEST),),
    m.SHARE_FETCH.name: _FETCHING,
    m.SHARE_ACKNOWLEDGE.name: _FETCHING,
    m.CONSUME.name: _FETCHING,
    m.HOLD_SESSION.name: (_READ_GROUP,),
    m.EXPLAIN.name: (
        _on(_T.GROUP, _O.DESCRIBE, _L.REQUEST),
        _on(_T.TOPIC, _O.DESCRIBE, _L.REQUEST),
    ),
    m.INITIALIZE_SHARE_GROUP_STATE.name: _STATE,
    m.READ_SHARE_GROUP_STATE.name: _STATE,
    m.WRITE_SHARE_GROUP_STATE.name: _STATE,
    m.DELETE_SHARE_GROUP_STATE.name: _STATE,
    m.READ_SHARE_GROUP_STATE_SUMMARY.name: _STATE,
    m.READ_SHARE_RECORD_HISTORY.name: _STATE,
    m.COMMIT_GENERATION.name: _FOR_THE_CLUSTER,
    m.PRODUCE.name: (
        _on(_T.TOPIC, _O.WRITE, _L.PARTITION),
        _on(_T.TRANSACTIONAL_ID, _O.WRITE, _L.PARTITION),
    ),
    m.INIT_PRODUCER_ID.name: (
        RequiredPermission(_O.WRITE, _T.TOPIC, _L.REQUEST, instead=(_O.CLUSTER_ACTION, _T.CLUSTER)),
    ),
    m.FETCH.name: (_on(_T.TOPIC, _O.READ, _L.PARTITION),),
    m.LIST_OFFSETS.name: (_on(_T.TOPIC, _O.DESCRIBE, _L.PARTITION),),
    m.DELETE_RECORDS.name: (_on(_T.TOPIC, _O.DELETE, _L.PARTITION),),
    m.WRITE_TXN_MARKERS.name: (
        RequiredPermission(
            _O.CLUSTER_ACTION, _T.CLUSTER, _L.PARTITION, instead=(_O.ALTER, _T.CLUSTER)
        ),
    ),
    m.DESCRIBE_PRODUCERS.name: (_on(_T.TOPIC, _O.READ, _L.PARTITION),),
    m.API_VERSIONS.name: Open("a client reads the versions before it knows anything else"),
    m.METADATA.name: (_on(_T.TOPIC, _O.DESCRIBE, _L.TOPIC),),
    m.FIND_COORDINATOR.name: (
        _on(_T.GROUP, _O.DESCRIBE, _L.ENTRY),
        _on(_T.CLUSTER, _O.CLUSTER_ACTION, _L.ENTRY),
    ),
    m.CREATE_TOPICS.name: (
        RequiredPermission(_O.CREATE, _T.TOPIC, _L.TOPIC, instead=(_O.CREATE, _T.CLUSTER)),
    ),
    m.DELETE_TOPICS.name: (_on(_T.TOPIC, _O.DELETE, _L.TOPIC),),
    m.DESCRIBE_TOPICS.name: (_on(_T.TOPIC, _O.DESCRIBE, _L.TOPIC),),
    m.CREATE_PARTITIONS.name: (_on(_T.TOPIC, _O.ALTER, _L.TOPIC),),
    m.ATTACH_TOPICS.name: (
        RequiredPermission(_O.CREATE, _T.TOPIC, _L.TOPIC, instead=(_O.CREATE, _T.CLUSTER)),
    ),
    m.DETACH_TOPICS.name: (_on(_T.TOPIC, _O.DELETE, _L.TOPIC),),
    m.DESCRIBE_CONFIGS.name: (
        _on(_T.TOPIC, _O.DESCRIBE_CONFIGS, _L.ENTRY),
        _on(_T.CLUSTER, _O.DESCRIBE_CONFIGS, _L.ENTRY),
    ),
    m.ALTER_CONFIGS.name: (
        _on(_T.TOPIC, _O.ALTER_CONFIGS, _L.REQUEST),
        _on(_T.CLUSTER, _O.ALTER_CONFIGS, _L.REQUEST),
    ),
    m.DESCRIBE_CLUSTER.name: (_on(_T.CLUSTER, _O.DESCRIBE, _L.CALL),),
    m.CREATE_ACLS.name: (_on(_T.CLUSTER, _O.ALTER, _L.ENTRY),),
    m.DELETE_ACLS.name: (_on(_T.CLUSTER, _O.ALTER, _L.ENTRY),),
    m.DESCRIBE_ACLS.name: (_on(_T.CLUSTER, _O.DESCRIBE, _L.REQUEST),),
    m.ALTER_CLIENT_QUOTAS.name: (_on(_T.CLUSTER, _O.ALTER_CONFIGS, _L.ENTRY),),
    m.DESCRIBE_CLIENT_QUOTAS.name: (_on(_T.CLUSTER, _O.DESCRIBE_CONFIGS, _L.REQUEST),),
    m.ALTER_USER_SCRAM_CREDENTIALS.name: (_on(_T.CLUSTER, _O.ALTER, _L.ENTRY),),
    m.DESCRIBE_USER_SCRAM_CREDENTIALS.name: (_on(_T.CLUSTER, _O.DESCRIBE, _L.REQUEST),),
    m.ACCEPT_LOSS.name: (_on(_T.CLUSTER, _O.ALTER, _L.REQUEST),),
    m.DRAIN_NODE.name: (_on(_T.CLUSTER, _O.ALTER, _L.REQUEST),),
}
"""By name of the method. Where a request names several types of resource, each has its line."""
