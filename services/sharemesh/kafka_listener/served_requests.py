"""Which requests of Kafka's protocol are answered, in which versions (spec KLS-9)."""

from collections.abc import Iterable
from enum import Enum

from sharemesh.kafka_listener.limits import PRODUCE_BYTES_MAX, REQUEST_BYTES_MAX


class ServedRequest(Enum):
    """One kind of request: its key in Kafka's protocol, and the versions that are answered."""

    PRODUCE = 0, 3, 13
    FETCH = 1, 4, 18
    LIST_OFFSETS = 2, 1, 11
    METADATA = 3, 0, 13
    FIND_COORDINATOR = 10, 0, 6
    API_VERSIONS = 18, 0, 5
    INIT_PRODUCER_ID = 22, 0, 5
    DESCRIBE_CLUSTER = 60, 0, 2
    SHARE_GROUP_HEARTBEAT = 76, 1, 1
    SHARE_FETCH = 78, 1, 2
    SHARE_ACKNOWLEDGE = 79, 1, 2

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
        return PRODUCE_BYTES_MAX if self is ServedRequest.PRODUCE else REQUEST_BYTES_MAX

    def answers(self, version: int) -> bool:
        """Return whether this version is answered."""
        return self.lowest <= version <= self.highest


BY_KEY = {each.key: each for each in ServedRequest}


def offered() -> tuple[tuple[int, int, int], ...]:
    """Return (key, lowest, highest) of each request that ApiVersions tells of, by key."""
    return tuple((each.key, each.lowest, each.highest) for each in ServedRequest)


def used_by_clients() -> Iterable[tuple[int, int]]:
    """Return (key, version) of what current clients ask, to be loaded before they do.

    Java's and Go's ask the newest version, librdkafka the others.
    """
    for each in ServedRequest:
        if each is not ServedRequest.API_VERSIONS:
            yield each.key, each.highest
    yield ServedRequest.PRODUCE.key, 10
    yield ServedRequest.FIND_COORDINATOR.key, 2
    yield ServedRequest.INIT_PRODUCER_ID.key, 4
    yield ServedRequest.SHARE_FETCH.key, 1
    yield ServedRequest.SHARE_ACKNOWLEDGE.key, 1
