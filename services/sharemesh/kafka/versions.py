"""Which requests are spoken, in which versions; each connection settles on the highest common one.

Lower bounds are what the promises need: Metadata 9 for leader epochs that can be trusted, Fetch 10
for zstd, Produce 8 for errors that name the record.
"""

from collections.abc import Mapping
from enum import Enum

from sharemesh.ports.brokers import UnsupportedRequestError


class KafkaRequest(Enum):
    """One request of Kafka's protocol: its key, and the versions that are spoken here."""

    PRODUCE = 0, 8, 13
    FETCH = 1, 10, 17
    LIST_OFFSETS = 2, 5, 10
    METADATA = 3, 9, 13
    SASL_HANDSHAKE = 17, 1, 1
    API_VERSIONS = 18, 0, 3
    CREATE_TOPICS = 19, 5, 7
    DELETE_TOPICS = 20, 1, 6
    DELETE_RECORDS = 21, 1, 2
    INIT_PRODUCER_ID = 22, 3, 5
    OFFSET_FOR_LEADER_EPOCH = 23, 3, 4
    DESCRIBE_CONFIGS = 32, 1, 4
    SASL_AUTHENTICATE = 36, 1, 2
    CREATE_PARTITIONS = 37, 0, 3
    INCREMENTAL_ALTER_CONFIGS = 44, 0, 1

    def __init__(self, key: int, lowest: int, highest: int) -> None:
        self.key = key
        self.lowest = lowest
        self.highest = highest

    @property
    def label(self) -> str:
        """The name as Kafka writes it."""
        return "".join(word.capitalize() for word in self.name.split("_"))


OfferedVersions = Mapping[int, tuple[int, int]]
"""What a broker said it speaks: the lowest and the highest version by key."""

LAST_WITH_NAMES = 12
"""Fetch and Produce up to this version name topics; later ones identify them by id."""

FIRST_BY_ID = 12
"""Metadata from this version on can be asked by topic id."""


def settle(
    request: KafkaRequest, offered: OfferedVersions, broker: str, at_most: int | None = None
) -> int:
    """Return the version to speak with a broker.

    Raises:
        UnsupportedRequestError: There is none that both speak.
    """
    low, high = offered.get(request.key, (0, -1))
    highest = request.highest if at_most is None else min(at_most, request.highest)
    version = min(high, highest)
    if version < max(low, request.lowest):
        offers = f"versions {low} to {high}" if high >= low else "not at all"
        raise UnsupportedRequestError(
            f"{broker} offers {request.label} {offers}; "
            f"Sharemesh speaks {request.lowest} to {highest}: "
            "see docs/reference/compatibility.md for the engines that it runs on"
        )
    return version
