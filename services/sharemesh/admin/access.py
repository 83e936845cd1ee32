"""Who may ask what of the admin service (spec ACL and Kafka's rules for topics and the cluster)."""

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.authorizer import Authorizer, Operation, ResourceType

CLUSTER_RESOURCE = "kafka-cluster"
_SHOWN = 100  # characters of a name that was sent, in a refusal


class AdminAccess:
    """Answers from the authorizer's table; refusals carry Kafka's codes."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def topic(self, principal: str, operation: Operation, name: str) -> None:
        """Check an operation on one topic.

        Raises:
            RefusedError: TOPIC_AUTHORIZATION_FAILED.
        """
        if not self.may_topic(principal, operation, name):
            raise RefusedError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                f"{principal} may not {operation.value} topic {name[:_SHOWN]!r}; ask for that "
                "permission",
            )

    def may_topic(self, principal: str, operation: Operation, name: str) -> bool:
        """Return whether an operation on a topic is allowed."""
        return self._authorizer.allows(principal, operation, ResourceType.TOPIC, name)

    def may_cluster(self, principal: str, operation: Operation) -> bool:
        """Return whether an operation on the cluster is allowed."""
        return self._authorizer.allows(principal, operation, ResourceType.CLUSTER, CLUSTER_RESOURCE)

    def cluster(self, principal: str, operation: Operation) -> None:
        """Check an operation on the cluster.

        Raises:
            RefusedError: CLUSTER_AUTHORIZATION_FAILED.
        """
        if not self.may_cluster(principal, operation):
            raise RefusedError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"{principal} may not {operation.value} the cluster; ask for that permission",
            )

    def group(self, principal: str, operation: Operation, group_id: str) -> None:
        """Check an operation on one group.

        Raises:
            RefusedError: GROUP_AUTHORIZATION_FAILED.
        """
        if not self._authorizer.allows(principal, operation, ResourceType.GROUP, group_id):
            raise RefusedError(
                ErrorCode.GROUP_AUTHORIZATION_FAILED,
                f"{principal} may not {operation.value} group {group_id[:_SHOWN]!r}; ask for "
                "that permission",
            )

    def creation(self, principal: str, name: str) -> None:
        """Check that a topic may be created: CREATE on the cluster, or on the topic.

        Raises:
            RefusedError: TOPIC_AUTHORIZATION_FAILED.
        """
        if not self.may_cluster(principal, Operation.CREATE):
            self.topic(principal, Operation.CREATE, name)
