"""Who may do what (spec ACL)."""

from collections.abc import Callable
from enum import Enum
from typing import Protocol


class Operation(Enum):
    """Kafka's operations."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster_action"
    DESCRIBE_CONFIGS = "describe_configs"
    ALTER_CONFIGS = "alter_configs"


class ResourceType(Enum):
    """What an operation is on."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional_id"


CLUSTER_NAME = "kafka-cluster"
"""Kafka's name of the one resource of type cluster."""


class Authorizer(Protocol):
    """Answers from memory; the table is watched."""

    def allows(
        self, principal: str, operation: Operation, resource: ResourceType, name: str
    ) -> bool:
        """Return whether the principal may do this on the named resource."""
        ...

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back on the loop when answers may have changed; returns what unsubscribes.

        ``allows`` already answers by the new rules then (AUT-4).
        """
        ...
