"""Checks of permissions: each raises one sentence that says what is missing and how to allow it."""

import shlex

from sharemesh.authorization.refusals import Refusal, hear, hear_granted
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.ids import MAX_TRANSACTIONAL_ID_CHARS, check_group_id
from sharemesh.ports.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType

_SHOWN = 100  # characters of a name that was sent, in a refusal
_REFUSED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


RIGHTS = frozenset(_REFUSED.values())
"""Errors of a missing right."""


class Access:
    """Answers from the authorizer's table; refusals carry Kafka's codes."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def may(
        self,
        principal: str,
        operation: Operation,
        resource: ResourceType,
        name: str = CLUSTER_NAME,
    ) -> bool:
        """Return whether an operation is allowed; ``name`` is not needed for the cluster."""
        if not self._authorizer.allows(principal, operation, resource, name):
            return False
        hear_granted()
        return True

    def topic(self, principal: str, operation: Operation, name: str) -> None:
        """Check an operation on one topic.

        Raises:
            RefusedError: TOPIC_AUTHORIZATION_FAILED.
        """
        if not self.may(principal, operation, ResourceType.TOPIC, name):
            raise refusal(principal, operation, ResourceType.TOPIC, name)

    def group(self, principal: str, operation: Operation, group_id: str) -> None:
        """Check an operation on one group; the length of its id comes first (AUT-9).

        Raises:
            RefusedError: INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED.
        """
        check_group_id(group_id)
        if not self.may(principal, operation, ResourceType.GROUP, group_id):
            raise refusal(principal, operation, ResourceType.GROUP, group_id)

    def transactional_id(self, principal: str, operation: Operation, name: str) -> None:
        """Check an operation on a transactional id; one must be named, and its length is bounded.

        Raises:
            RefusedError: INVALID_REQUEST, TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
        """
        if not name:
            unnamed = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            kind = ResourceType.TRANSACTIONAL_ID.value
            hear(Refusal(principal, unnamed, operation.value, kind, name))
            raise RefusedError(
                unnamed,
                "a transactional record batch needs a transactional id: send it in "
                "transactional_id, with WRITE allowed on it, or send batches that are not "
                "transactional",
            )
        if len(name) > MAX_TRANSACTIONAL_ID_CHARS:
            raise invalid_request(
                f"transactional id of {len(name)} characters; send at most "
                f"{MAX_TRANSACTIONAL_ID_CHARS}"
            )
        if not self.may(principal, operation, ResourceType.TRANSACTIONAL_ID, name):
            raise refusal(principal, operation, ResourceType.TRANSACTIONAL_ID, name)

    def cluster(self, principal: str, operation: Operation) -> None:
        """Check an operation on the cluster.

        Raises:
            RefusedError: CLUSTER_AUTHORIZATION_FAILED.
        """
        if not self.may(principal, operation, ResourceType.CLUSTER):
            raise refusal(principal, operation, ResourceType.CLUSTER, CLUSTER_NAME)


def refusal(
    principal: str, operation: Operation, resource: ResourceType, name: str
) -> RefusedError:
    """Return the refusal of an operation on a resource whose name the caller sent."""
    words = resource.value.replace("_", " ")
    what = "the cluster" if resource is ResourceType.CLUSTER else f"{words} "
    if resource is not ResourceType.CLUSTER:
        what += repr(name[:_SHOWN])
    return refusal_on(what, principal, operation, resource, name)


def refusal_on(
    what: str,
    principal: str,
    operation: Operation,
    resource: ResourceType,
    name: str | None = None,
    *,
    error: ErrorCode | None = None,
    known_as: str = "",
) -> RefusedError:
    """Return the refusal of an operation on ``what``, described in words; it is audited (AUD-2).

    ``name`` is left out where the caller has not sent it (AUT-1); the audit log alone is told
    what it is ``known_as``. ``error`` replaces the code of the type of resource.
    """
    code = error or _REFUSED[resource]
    hear(Refusal(principal, code, operation.value, resource.value, name or known_as or what))
    asked_for = f"--{resource.value.replace('_', '-')}"
    if resource is not ResourceType.CLUSTER:
        asked_for += f" {_argument(name, 'NAME')}"
    return RefusedError(
        code,
        f"{principal[:_SHOWN]} is not authorized for {operation.name} on {what}; an administrator "
        f"can allow it with: sharemesh acls add --principal {_argument(principal, 'User:NAME')} "
        f"--operation {operation.value} {asked_for}",
    )


def _argument(value: str | None, placeholder: str) -> str:
    """Return a value as an argument of a shell, or its placeholder if it cannot be one."""
    if value is None or len(value) > _SHOWN or not value.isprintable():
        return placeholder
    return shlex.quote(value)
