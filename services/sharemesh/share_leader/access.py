"""Who may fetch, acknowledge, produce and ask (spec section 26)."""

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.authorizer import Authorizer, Operation, ResourceType
from sharemesh.ports.cluster import ClusterView
from sharemesh.share_leader.redirects import not_led

_CLUSTER = "kafka-cluster"


class Access:
    """Checks that raise the refusal of the rule; topics are checked by name."""

    def __init__(self, authorizer: Authorizer, view: ClusterView) -> None:
        self._authorizer = authorizer
        self._view = view

    def group(self, principal: str, group_id: str, operation: Operation = Operation.READ) -> None:
        """Raise GROUP_AUTHORIZATION_FAILED unless the principal may (spec ACL-3)."""
        if not self._authorizer.allows(principal, operation, ResourceType.GROUP, group_id):
            raise RefusedError(
                ErrorCode.GROUP_AUTHORIZATION_FAILED,
                f"{principal} may not {operation.value} group {group_id!r}; ask for the ACL",
            )

    def topic(
        self, principal: str, partition: TopicPartition, operation: Operation = Operation.READ
    ) -> None:
        """Raise TOPIC_AUTHORIZATION_FAILED, or what is wrong with the id (spec REQ-5).

        Raises:
            RefusedError: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID or
                UNKNOWN_TOPIC_OR_PARTITION.
        """
        topic = self._view.topic(partition.topic_id)
        if topic is None or not 0 <= partition.partition < topic.partitions:
            raise RefusedError(*not_led(self._view, partition))
        if not self._authorizer.allows(principal, operation, ResourceType.TOPIC, topic.name):
            raise RefusedError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                f"{principal} may not {operation.value} topic {topic.name!r}; ask for the ACL",
            )

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
