"""Access rules as the admin client gives and takes them, in words."""

from dataclasses import dataclass
from typing import Any

from sharemesh.client.errors import IllegalArgumentError
from sharemesh.ports import authorizer
from sharemesh.v1 import admin_pb2 as pb

RESOURCE_TYPES = tuple(each.value for each in authorizer.ResourceType)
OPERATIONS = ("all", *(each.value for each in authorizer.Operation))
CLUSTER_NAME = authorizer.CLUSTER_NAME


@dataclass(frozen=True, slots=True)
class AclBinding:
    """One access rule.

    Attributes:
        principal: ``User:<name>``, or ``User:*`` for everybody.
        operation: One of ``OPERATIONS``.
        resource_type: One of ``RESOURCE_TYPES``.
        name: The resource; ``*`` (literal) is every one, of a cluster it is ``kafka-cluster``.
        prefixed: Whether the rule is for all resources whose names begin so.
        permission: ``allow`` or ``deny``; a deny wins.
    """

    principal: str
    operation: str
    resource_type: str
    name: str
    prefixed: bool = False
    permission: str = "allow"


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """Which access rules; None: every one."""

    principal: str | None = None
    operation: str | None = None
    resource_type: str | None = None
    name: str | None = None
    prefixed: bool | None = None
    permission: str | None = None


def rule_message(binding: AclBinding) -> pb.AclRule:
    """Return the message of a rule.

    Raises:
        IllegalArgumentError: A word is not known.
    """
    return pb.AclRule(**_fields(binding))


def filter_message(wanted: AclBindingFilter) -> pb.AclFilter:
    """Return the message of a filter.

    Raises:
        IllegalArgumentError: A word is not known.
    """
    return pb.AclFilter(**_fields(wanted))


def binding_of(message: pb.AclRule) -> AclBinding:
    """Return the rule of a message."""
    return AclBinding(
        message.principal,
        pb.AclOperation.Name(message.operation).removeprefix("ACL_OPERATION_").lower(),
        pb.AclResourceType.Name(message.resource_type).removeprefix("ACL_RESOURCE_TYPE_").lower(),
        message.resource_name,
        message.pattern_type == pb.ACL_PATTERN_TYPE_PREFIXED,
        pb.AclPermission.Name(message.permission).removeprefix("ACL_PERMISSION_").lower(),
    )


def _fields(words: AclBinding | AclBindingFilter) -> dict[str, Any]:
    """Return the fields that the messages of a rule and of a filter have in common."""
    for what, given, known in (
        ("resource type", words.resource_type, RESOURCE_TYPES),
        ("operation", words.operation, OPERATIONS),
        ("permission", words.permission, ("allow", "deny")),
    ):
        if given is not None and given not in known:
            raise IllegalArgumentError(f"{what} {given!r}: must be one of {', '.join(known)}")
    pattern = "ANY" if words.prefixed is None else "PREFIXED" if words.prefixed else "LITERAL"
    return {
        "principal": words.principal,
        "resource_name": words.name,
        "resource_type": f"ACL_RESOURCE_TYPE_{(words.resource_type or 'any').upper()}",
        "pattern_type": f"ACL_PATTERN_TYPE_{pattern}",
        "operation": f"ACL_OPERATION_{(words.operation or 'any').upper()}",
        "permission": f"ACL_PERMISSION_{(words.permission or 'any').upper()}",
    }
