"""Permissions of the leader's requests, and which of their partitions are led here (INI-1)."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sharemesh.authorization.access import Access, refusal_on
from sharemesh.authorization.slices import UNITS_OF_A_SLICE, Slices
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, TopicId, TopicPartition
from sharemesh.ports.authorizer import Authorizer, Operation, ResourceType
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView, TopicInfo
from sharemesh.share_leader.failures import Outcome
from sharemesh.share_leader.partition.led_partitions import LedPartitions, not_led
from sharemesh.share_leader.partition.share_partition_runner import SharePartitionRunner

PARTITIONS_OF_A_SLICE = 250
"""Partitions of a session that are looked at in a turn of the loop: some 5 ms at most."""

FoundInSlices = AsyncIterator[tuple[list[SharePartitionRunner], dict[TopicPartition, Outcome]]]
"""Share partitions led here, in order, and why others are refused; a slice at a time."""

_RIGHTS = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


_SHOWN = 100  # characters of a name that was sent, in a refusal
_ANY = "*"  # the name, in the audit log, where one of all topics would do


class NamedPartition(Protocol):
    """A partition as requests name it."""

    topic_id: bytes
    topic_name: str
    partition: int


class LeaderAccess:
    """Checks that raise the refusal of the rule; topics are checked by name."""

    def __init__(self, authorizer: Authorizer, view: ClusterView) -> None:
        self._access = Access(authorizer)
        self._view = view

    def group(self, principal: str, group_id: str, operation: Operation = Operation.READ) -> None:
        """Raise GROUP_AUTHORIZATION_FAILED unless the principal may (spec ACL-3)."""
        self._access.group(principal, operation, group_id)

    def topic(
        self, principal: str, partition: TopicPartition, operation: Operation = Operation.READ
    ) -> None:
        """Check a right on a topic that was named by its id, then its partition (REQ-5, AUT-2).

        Raises:
            RefusedError: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID or
                UNKNOWN_TOPIC_OR_PARTITION.
        """
        topic = self._view.topic(partition.topic_id)
        if topic is None:
            raise RefusedError(*not_led(self._view, partition))
        if not self._access.may(principal, operation, ResourceType.TOPIC, topic.name):
            raise refusal_on(
                f"the topic with id {partition.topic_id.hex()}",
                principal,
                operation,
                ResourceType.TOPIC,
                known_as=topic.name,
            )
        if not 0 <= partition.partition < topic.partitions:
            raise RefusedError(*not_led(self._view, partition))

    def partition(
        self, principal: str, listed: NamedPartition, operation: Operation
    ) -> TopicPartition:
        """Return the partition that a request names by its topic's id, or else by its name.

        Raises:
            RefusedError: As ``topic`` and ``topic_named``.
        """
        if listed.topic_id or not listed.topic_name:
            partition = TopicPartition(TopicId(listed.topic_id), listed.partition)
            self.topic(principal, partition, operation)
            return partition
        topic = self.topic_named(principal, listed.topic_name, operation)
        return TopicPartition(topic.topic_id, listed.partition)

    def topic_named(self, principal: str, name: str, operation: Operation) -> TopicInfo:
        """Return a topic; without the right it looks like one that does not exist (AUT-1).

        Raises:
            RefusedError: TOPIC_AUTHORIZATION_FAILED or UNKNOWN_TOPIC_OR_PARTITION.
        """
        self._access.topic(principal, operation, name)
        topic = self._view.topic_named(name)
        if topic is None:
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"no topic is named {name[:_SHOWN]!r}; create it first",
            )
        return topic

    def transactional_id(self, principal: str, name: str) -> None:
        """Raise TRANSACTIONAL_ID_AUTHORIZATION_FAILED unless the principal may write (BND-10)."""
        self._access.transactional_id(principal, Operation.WRITE, name)

    async def some_topic(self, principal: str, slices: Slices) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED unless the principal may write somewhere.

        So it is for a producer id in Kafka: who may write a topic may have one.
        """
        may = self._access.may
        if may(principal, Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
            return
        for topic in self._view.topics():
            await slices.spend()
            if may(principal, Operation.WRITE, ResourceType.TOPIC, topic.name):
                return
        raise refusal_on(
            "any topic, and a producer id needs it on one",
            principal,
            Operation.WRITE,
            ResourceType.TOPIC,
            error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            known_as=_ANY,
        )

    def markers(self, principal: str) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED unless the principal may end transactions (BND-12)."""
        if not self._access.may(principal, Operation.ALTER, ResourceType.CLUSTER):
            self.cluster(principal)

    def may_read_quotas(self, principal: str) -> bool:
        """Return whether quotas of others may be told to the principal (QUO-8)."""
        return self._access.may(principal, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)

    def cluster(self, principal: str, operation: Operation = Operation.CLUSTER_ACTION) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED unless the principal may."""
        self._access.cluster(principal, operation)


@dataclass(frozen=True, slots=True)
class Reader:
    """One principal in one group; rights are those of the table now (AUT-4)."""

    access: LeaderAccess
    principal: str
    group_id: GroupId

    def check_group(self) -> None:
        """Raise GROUP_AUTHORIZATION_FAILED unless records of the group may be got."""
        self.access.group(self.principal, self.group_id)

    def check(self, partition: TopicPartition) -> None:
        """Raise what refuses records of a partition: the group, the topic, then the id (ERR-2)."""
        self.check_group()
        self.access.topic(self.principal, partition)

    def lost(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Outcome]:
        """Return those of the partitions whose right is gone, with the refusal.

        A right is looked up once for each topic: a stream may have thousands of its partitions.
        """
        found: dict[TopicPartition, Outcome] = {}
        refusals: dict[TopicId, Outcome | None] = {}
        for partition in partitions:
            topic_id = partition.topic_id
            if topic_id not in refusals:
                refusals[topic_id] = self._refusal(partition)
            refusal = refusals[topic_id]
            if refusal is not None:
                found[partition] = refusal
        return found

    def _refusal(self, partition: TopicPartition) -> Outcome | None:
        try:
            self.check(partition)
        except RefusedError as refused:
            if refused.error in _RIGHTS:
                return refused.error, refused.message
        return None


class PartitionLookup:
    """Finds, or creates, the share partitions that a member may fetch from."""

    def __init__(self, partitions: LedPartitions) -> None:
        self._partitions = partitions

    def find(
        self, reader: Reader, partitions: Sequence[TopicPartition]
    ) -> tuple[list[SharePartitionRunner], dict[TopicPartition, Outcome]]:
        """Return the share partitions led here, in order, and why others are refused (ERR-2)."""
        runners: list[SharePartitionRunner] = []
        refused: dict[TopicPartition, Outcome] = {}
        for partition in partitions:
            try:
                reader.check(partition)
                led = self._partitions.required(partition)
            except RefusedError as error:
                refused[partition] = (error.error, error.message)
            else:
                runners.append(led.share(reader.group_id))
        return runners, refused

    async def find_in_slices(
        self, reader: Reader, partitions: Sequence[TopicPartition], clock: Clock
    ) -> FoundInSlices:
        """Find those of a session, which may have thousands, a slice at a time (BND-20)."""
        slices = Slices(clock, reader.principal)
        for first in range(0, len(partitions), PARTITIONS_OF_A_SLICE):
            if first:
                await slices.spend(UNITS_OF_A_SLICE)
            yield self.find(reader, partitions[first : first + PARTITIONS_OF_A_SLICE])
