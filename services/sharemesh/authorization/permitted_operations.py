"""What a principal may do: bit fields of Kafka's numbers, ``1 << number`` each (spec KLS-45)."""

from collections.abc import Iterable, Mapping

from sharemesh.authorization.access import Access
from sharemesh.authorization.slices import Slices
from sharemesh.ports.authorizer import CLUSTER_NAME, Operation, ResourceType
from sharemesh.ports.clock import Clock

NOT_ASKED_FOR = -(2**31)
"""Kafka's answer to a request that did not ask for operations."""

_IDEMPOTENT_WRITE = 1 << 12
_NUMBERS = {
    Operation.READ: 3,
    Operation.WRITE: 4,
    Operation.CREATE: 5,
    Operation.DELETE: 6,
    Operation.ALTER: 7,
    Operation.DESCRIBE: 8,
    Operation.CLUSTER_ACTION: 9,
    Operation.DESCRIBE_CONFIGS: 10,
    Operation.ALTER_CONFIGS: 11,
}
_CONFIGS = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
_OPERATIONS: Mapping[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER),
        *_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, *_CONFIGS),
    ResourceType.CLUSTER: (
        *(Operation.CREATE, Operation.ALTER, Operation.CLUSTER_ACTION),
        *_CONFIGS,
    ),
}
"""The operations that there are on a resource, at Kafka."""


def permitted_operations(
    access: Access, principal: str, resource: ResourceType, name: str = CLUSTER_NAME
) -> int:
    """Return the bit field of what is allowed on one resource.

    Idempotent writes are no operation here: CLUSTER_ACTION gives producer ids.
    """
    allowed = {
        each for each in _OPERATIONS[resource] if access.may(principal, each, resource, name)
    }
    found = sum(1 << _NUMBERS[each] for each in allowed)
    return found | _IDEMPOTENT_WRITE if Operation.CLUSTER_ACTION in allowed else found


async def permitted_on_topics(
    access: Access, principal: str, names: Iterable[str], clock: Clock
) -> dict[str, int]:
    """Return the bit fields of topics; other requests run in between."""
    slices = Slices(clock, principal)
    found: dict[str, int] = {}
    for name in names:
        found[name] = permitted_operations(access, principal, ResourceType.TOPIC, name)
        await slices.spend(len(_OPERATIONS[ResourceType.TOPIC]))
    return found
