"""Access rules as the admin client gives and takes them, in words."""

from dataclasses import dataclass
from typing import Protocol

from sharemesh.client.errors import IllegalArgumentError
from sharemesh.ports import authorizer
from sharemesh.v1 import admin_pb2 as pb

RESOURCE_TYPES = ("topic", "group", "cluster")
OPERATIONS = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
)
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


class _Words(Protocol):
    @property
    def operation(self) -> str | None: ...
    @property
    def resource_type(self) -> str | None: ...
    @property
    def prefixed(self) -> bool | None: ...
    @property
    def permission(self) -> str | None: ...


def rule_message(binding: AclBinding) -> pb.AclRule:
    """Return the message of a rule.

    Raises:
        IllegalArgumentError: A word is not known.
    """
    resource, pattern, operation, permission = _names(binding)
    return pb.AclRule(
        resource_type=resource,
        resource_name=binding.name,
        pattern_type=pattern,
        principal=binding.principal,
        operation=operation,
        permission=permission,
    )


def filter_message(wanted: AclBindingFilter) -> pb.AclFilter:
    """Return the message of a filter.

    Raises:
        IllegalArgumentError: A word is not known.
    """
    resource, pattern, operation, permission = _names(wanted)
    return pb.AclFilter(
        resource_type=resource,
        resource_name=wanted.name,
        pattern_type=pattern,
        principal=wanted.principal,
        operation=operation,
        permission=permission,
    )


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


def _names(words: _Words) -> tuple[str, str, str, str]:
    for what, given, known in (
        ("resource type", words.resource_type, RESOURCE_TYPES),
        ("operation", words.operation, OPERATIONS),
        ("permission", words.permission, ("allow", "deny")),
    ):
        if given is not None and given not in known:
            raise IllegalArgumentError(f"{what} {given!r}: must be one of {', '.join(known)}")
    pattern = "ANY" if words.prefixed is None else "PREFIXED" if words.prefixed else "LITERAL"
    return (
        f"ACL_RESOURCE_TYPE_{(words.resource_type or 'any').upper()}",
        f"ACL_PATTERN_TYPE_{pattern}",
        f"ACL_OPERATION_{(words.operation or 'any').upper()}",
        f"ACL_PERMISSION_{(words.permission or 'any').upper()}",
    )
