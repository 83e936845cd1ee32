"""Which requests of Kafka's protocol are answered, in which versions (spec KLS-9)."""

from collections.abc import Iterable
from enum import Enum

from sharemesh.kafka_listener.limits import (
    LOGIN_BYTES_MAX,
    PRODUCE_BYTES_MAX,
    REQUEST_BYTES_MAX,
)


class ServedRequest(Enum):
    """One kind of request: its key in Kafka's protocol, and the versions that are answered."""

    PRODUCE = 0, 3, 13
    FETCH = 1, 4, 18
    LIST_OFFSETS = 2, 1, 11
    METADATA = 3, 0, 13
    FIND_COORDINATOR = 10, 0, 6
    LIST_GROUPS = 16, 0, 5
    SASL_HANDSHAKE = 17, 1, 1
    API_VERSIONS = 18, 0, 5
    CREATE_TOPICS = 19, 2, 7
    DELETE_TOPICS = 20, 1, 6
    DELETE_RECORDS = 21, 0, 2
    INIT_PRODUCER_ID = 22, 0, 5
    DESCRIBE_ACLS = 29, 1, 3
    CREATE_ACLS = 30, 1, 3
    DELETE_ACLS = 31, 1, 3
    DESCRIBE_CONFIGS = 32, 1, 4
    SASL_AUTHENTICATE = 36, 0, 2
    CREATE_PARTITIONS = 37, 0, 3
    DELETE_GROUPS = 42, 0, 3
    INCREMENTAL_ALTER_CONFIGS = 44, 0, 1
    LIST_PARTITION_REASSIGNMENTS = 46, 0, 0
    DESCRIBE_CLIENT_QUOTAS = 48, 0, 1
    ALTER_CLIENT_QUOTAS = 49, 0, 1
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, 0, 0
    ALTER_USER_SCRAM_CREDENTIALS = 51, 0, 0
    DESCRIBE_CLUSTER = 60, 0, 2
    LIST_CONFIG_RESOURCES = 74, 0, 1
    DESCRIBE_TOPIC_PARTITIONS = 75, 0, 0
    SHARE_GROUP_HEARTBEAT = 76, 1, 1
    SHARE_GROUP_DESCRIBE = 77, 1, 1
    SHARE_FETCH = 78, 1, 2
    SHARE_ACKNOWLEDGE = 79, 1, 2
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, 0, 1
    ALTER_SHARE_GROUP_OFFSETS = 91, 0, 0
    DELETE_SHARE_GROUP_OFFSETS = 92, 0, 0

    def __init__(self, key: int, lowest: int, highest: int) -> None:
        self.key = key
        self.lowest = lowest
        self.highest = highest

    @property
    def label(self) -> str:
        """The name as Kafka writes it."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def bytes_max(self) -> int:
        """Length of the longest frame of this kind, inclusive."""
        if self in OF_LOGINS:
            return LOGIN_BYTES_MAX
        return PRODUCE_BYTES_MAX if self is ServedRequest.PRODUCE else REQUEST_BYTES_MAX

    def shape(self, version: int) -> int:
        """Return the version whose bytes are read for this one: kio ends before DeleteGroups 3."""
        return min(version, 2) if self is ServedRequest.DELETE_GROUPS else version

    def answers(self, version: int) -> bool:
        """Return whether this version is answered."""
        return self.lowest <= version <= self.highest


_TRAFFIC = (
    ServedRequest.PRODUCE,
    ServedRequest.FETCH,
    ServedRequest.METADATA,
    ServedRequest.FIND_COORDINATOR,
    ServedRequest.INIT_PRODUCER_ID,
    ServedRequest.SHARE_GROUP_HEARTBEAT,
    ServedRequest.SHARE_FETCH,
    ServedRequest.SHARE_ACKNOWLEDGE,
)
OF_LOGINS = frozenset(
    {
        ServedRequest.API_VERSIONS,
        ServedRequest.SASL_HANDSHAKE,
        ServedRequest.SASL_AUTHENTICATE,
    }
)
"""What a client may ask before it has logged in."""

BY_KEY = {each.key: each for each in ServedRequest}


def offered() -> tuple[tuple[int, int, int], ...]:
    """Return (key, lowest, highest) of each request that ApiVersions tells of, by key."""
    return tuple((each.key, each.lowest, each.highest) for each in ServedRequest)


def used_by_clients() -> Iterable[tuple[int, int]]:
    """Return (key, version) of what current clients ask, to be loaded before they do.

    Java's and Go's ask the newest version, librdkafka the others.
    """
    for each in _TRAFFIC:
        yield each.key, each.highest
    yield ServedRequest.PRODUCE.key, 10
    yield ServedRequest.FIND_COORDINATOR.key, 2
    yield ServedRequest.INIT_PRODUCER_ID.key, 4
    yield ServedRequest.SHARE_FETCH.key, 1
    yield ServedRequest.SHARE_ACKNOWLEDGE.key, 1
