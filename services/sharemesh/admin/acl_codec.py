"""Access rules between messages and values."""

from collections.abc import Callable

from sharemesh.cluster.store.acl_rules import AclRule, Pattern, Permission
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.v1 import admin_pb2 as pb

_RESOURCES = {
    pb.ACL_RESOURCE_TYPE_TOPIC: ResourceType.TOPIC,
    pb.ACL_RESOURCE_TYPE_GROUP: ResourceType.GROUP,
    pb.ACL_RESOURCE_TYPE_CLUSTER: ResourceType.CLUSTER,
}
_PATTERNS = {
    pb.ACL_PATTERN_TYPE_LITERAL: Pattern.LITERAL,
    pb.ACL_PATTERN_TYPE_PREFIXED: Pattern.PREFIXED,
}
_PERMISSIONS = {
    pb.ACL_PERMISSION_DENY: Permission.DENY,
    pb.ACL_PERMISSION_ALLOW: Permission.ALLOW,
}
_OPERATIONS = {
    pb.ACL_OPERATION_ALL: None,
    pb.ACL_OPERATION_READ: Operation.READ,
    pb.ACL_OPERATION_WRITE: Operation.WRITE,
    pb.ACL_OPERATION_CREATE: Operation.CREATE,
    pb.ACL_OPERATION_DELETE: Operation.DELETE,
    pb.ACL_OPERATION_ALTER: Operation.ALTER,
    pb.ACL_OPERATION_DESCRIBE: Operation.DESCRIBE,
    pb.ACL_OPERATION_CLUSTER_ACTION: Operation.CLUSTER_ACTION,
    pb.ACL_OPERATION_DESCRIBE_CONFIGS: Operation.DESCRIBE_CONFIGS,
    pb.ACL_OPERATION_ALTER_CONFIGS: Operation.ALTER_CONFIGS,
}
_RESOURCE_NUMBERS = {value: number for number, value in _RESOURCES.items()}
_PATTERN_NUMBERS = {value: number for number, value in _PATTERNS.items()}
_PERMISSION_NUMBERS = {value: number for number, value in _PERMISSIONS.items()}
_OPERATION_NUMBERS = {value: number for number, value in _OPERATIONS.items()}
_ANY = (0, 1)


def rule_of(message: pb.AclRule) -> AclRule:
    """Return the rule of a message.

    Raises:
        RefusedError: INVALID_REQUEST; a field is missing, or ANY, or not known here.
    """
    try:
        return AclRule(
            message.principal,
            _PERMISSIONS[message.permission],
            _OPERATIONS[message.operation],
            _RESOURCES[message.resource_type],
            message.resource_name,
            _PATTERNS[message.pattern_type],
        )
    except KeyError:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            "an access rule needs resource_type, pattern_type, operation and permission, each one "
            "of those that this version knows and none of them ANY",
        ) from None


def rule_message(rule: AclRule) -> pb.AclRule:
    """Return the message of a rule."""
    return pb.AclRule(
        resource_type=_RESOURCE_NUMBERS[rule.resource],
        resource_name=rule.name,
        pattern_type=_PATTERN_NUMBERS[rule.pattern],
        principal=rule.principal,
        operation=_OPERATION_NUMBERS[rule.operation],
        permission=_PERMISSION_NUMBERS[rule.permission],
    )


def filter_of(message: pb.AclFilter) -> Callable[[AclRule], bool]:
    """Return whether a rule is one that a filter asks for; an empty filter asks for all."""

    def wanted(rule: AclRule) -> bool:
        found = rule_message(rule)
        return (
            message.resource_type in (*_ANY, found.resource_type)
            and message.pattern_type in (*_ANY, found.pattern_type)
            and message.operation in (*_ANY, found.operation)
            and message.permission in (*_ANY, found.permission)
            and (not message.HasField("resource_name") or message.resource_name == rule.name)
            and (not message.HasField("principal") or message.principal == rule.principal)
        )

    return wanted
