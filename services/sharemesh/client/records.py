"""What the application sees of a record (spec CL-10, CL-30)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sharemesh.client.errors import UnsupportedVersionError


class TopicIdPartition(NamedTuple):
    """One partition of a topic, with the topic's id: two topics may have had the same name."""

    topic: str
    partition: int
    topic_id: bytes

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


Headers = tuple[tuple[str, bytes | None], ...]
Deserializer = Callable[[bytes], Any]


class FencingToken(NamedTuple):
    """Names one delivery of a record; each later delivery of it has a greater one (spec TOK).

    Keep it with what a handler writes, and write only where the token that is there is not greater:
    then nothing that a consumer does after it lost the record's lock takes effect. ``str`` gives a
    text of 43 characters; texts sort as tokens do.

    Attributes:
        state_epoch: State epoch of the group in the partition.
        leader_epoch: Epoch of the leader that acquired the record.
        acquisition_number: Number of the acquisition within the leader epoch.
        delivery_count: How often the record was delivered, this time included.
    """

    state_epoch: int
    leader_epoch: int
    acquisition_number: int
    delivery_count: int

    def __str__(self) -> str:
        return (
            f"{self.state_epoch:08x}-{self.leader_epoch:08x}-"
            f"{self.acquisition_number:016x}-{self.delivery_count:08x}"
        )


class RecordGrant:
    """What the records of one acquisition have in common.

    Attributes:
        state_epoch: State epoch of the group in the partition.
        acquisition_number: Number of the acquisition in the leader epoch; 0: its leader gave none.
    """

    __slots__ = ("_lost", "acquisition_number", "state_epoch")

    def __init__(self, state_epoch: int, acquisition_number: int) -> None:
        self.state_epoch = state_epoch
        self.acquisition_number = acquisition_number
        self._lost: set[int] | None = None

    def __repr__(self) -> str:
        return f"RecordGrant({self.state_epoch}, {self.acquisition_number})"

    def lose(self, offset: int) -> None:
        """Note that the lock of a record is gone."""
        if self._lost is None:
            self._lost = set()
        self._lost.add(offset)

    def has_lost(self, offset: int) -> bool:
        """Whether the lock of a record is known to be gone."""
        return self._lost is not None and offset in self._lost


NO_GRANT = RecordGrant(0, 0)
"""Of records whose leader does not number its acquisitions."""


def fencing_token(grant: RecordGrant, leader_epoch: int, delivery_count: int) -> FencingToken:
    """Return the token of a delivery.

    Raises:
        UnsupportedVersionError: The leader did not number the acquisition (spec TOK-4).
    """
    number = grant.acquisition_number
    if not number:
        raise UnsupportedVersionError(
            "the leader that delivered this record gives no fencing tokens: upgrade its process"
        )
    return FencingToken(grant.state_epoch, leader_epoch, number, delivery_count)


class ConsumerRecord(NamedTuple):
    """One delivered record.

    A named tuple, because half a million of them may be made in a second.

    Attributes:
        topic: Name of the topic.
        partition: Partition.
        offset: Offset in the partition.
        timestamp_ms: Milliseconds since the epoch.
        key: Deserialized key, or None.
        value: Deserialized value, or None.
        headers: Pairs of name and bytes, in the producer's order.
        delivery_count: How often it was delivered, this time included (spec CL-30).
        leader_epoch: Epoch of the leader that acquired it.
        topic_id: Id of the topic, 16 bytes.
        grant: What it has in common with the records that were acquired with it.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: Headers
    delivery_count: int
    leader_epoch: int
    topic_id: bytes
    grant: RecordGrant = NO_GRANT

    def __hash__(self) -> int:
        """Return a hash of its place: key and value may be of any kind."""
        return hash((self.topic_id, self.partition, self.offset))

    def __repr__(self) -> str:
        return (
            f"ConsumerRecord({self.topic}/{self.partition}@{self.offset}, key={self.key!r}, "
            f"value={self.value!r}, delivery_count={self.delivery_count})"
        )

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """Where it comes from."""
        return TopicIdPartition(self.topic, self.partition, self.topic_id)

    @property
    def fencing_token(self) -> FencingToken:
        """What guards a store against this delivery once there is a later one (spec TOK-3).

        Raises:
            UnsupportedVersionError: The leader gives none: its process is older (spec TOK-4).
        """
        return fencing_token(self.grant, self.leader_epoch, self.delivery_count)

    @property
    def lock_lost(self) -> bool:
        """Whether ``run`` knows that the lock is gone while the handler works (spec TOK-5)."""
        return self.grant.has_lost(self.offset)


@dataclass(frozen=True, slots=True)
class AcquiredRange:
    """Offsets ``first_offset..last_offset``, both included, acquired with one delivery count."""

    first_offset: int
    last_offset: int
    delivery_count: int
