"""Checks who may fetch, acknowledge, produce and ask, at the request and after each wait."""

from collections.abc import Iterable
from dataclasses import dataclass

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, TopicId, TopicPartition
from sharemesh.ports.authorizer import Authorizer, Operation, ResourceType
from sharemesh.ports.cluster import ClusterView, TopicInfo
from sharemesh.share_leader.requests.redirects import not_led

_CLUSTER = "kafka-cluster"
_SHOWN = 100  # characters of a name that was sent, in a refusal


class LeaderAccess:
    """Checks that raise the refusal of the rule; topics are checked by name."""

    def __init__(self, authorizer: Authorizer, view: ClusterView) -> None:
        self._authorizer = authorizer
        self._view = view

    def group(self, principal: str, group_id: str, operation: Operation = Operation.READ) -> None:
        """Raise GROUP_AUTHORIZATION_FAILED unless the principal may (spec ACL-3)."""
        if not self._authorizer.allows(principal, operation, ResourceType.GROUP, group_id):
            raise RefusedError(
                ErrorCode.GROUP_AUTHORIZATION_FAILED,
                f"{principal} may not {operation.value} group {group_id[:_SHOWN]!r}; ask for the "
                "ACL",
            )

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
        if not self._may_topic(principal, operation, topic.name):
            raise RefusedError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                f"{principal} may not {operation.value} the topic with id "
                f"{partition.topic_id.hex()}; ask for the ACL",
            )
        if not 0 <= partition.partition < topic.partitions:
            raise RefusedError(*not_led(self._view, partition))

    def topic_named(self, principal: str, name: str, operation: Operation) -> TopicInfo:
        """Return a topic; without the right it is not told from one that is not there (AUT-1).

        Raises:
            RefusedError: TOPIC_AUTHORIZATION_FAILED or UNKNOWN_TOPIC_OR_PARTITION.
        """
        if not self._may_topic(principal, operation, name):
            raise RefusedError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                f"{principal} may not {operation.value} topic {name[:_SHOWN]!r}; ask for the ACL",
            )
        topic = self._view.topic_named(name)
        if topic is None:
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"no topic is named {name[:_SHOWN]!r}; create it first",
            )
        return topic

    def _may_topic(self, principal: str, operation: Operation, name: str) -> bool:
        return self._authorizer.allows(principal, operation, ResourceType.TOPIC, name)

    def some_topic(self, principal: str) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED unless the principal may write somewhere.

        So it is for a producer id in Kafka: who may write a topic may have one.
        """
        allows = self._authorizer.allows
        if allows(principal, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, _CLUSTER):
            return
        for topic in self._view.topics():
            if allows(principal, Operation.WRITE, ResourceType.TOPIC, topic.name):
                return
        raise RefusedError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{principal} may not write any topic, so it gets no producer id; ask for the ACL",
        )

    def cluster(self, principal: str, operation: Operation = Operation.CLUSTER_ACTION) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED unless the principal may."""
        if not self._authorizer.allows(principal, operation, ResourceType.CLUSTER, _CLUSTER):
            raise RefusedError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"{principal} may not {operation.value} the cluster; ask for the ACL",
            )


Outcome = tuple[ErrorCode, str]


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


_RIGHTS = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
