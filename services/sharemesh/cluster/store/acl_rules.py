"""Access rules as values, and what a set of them allows (spec ACL, Kafka's rules)."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sharemesh.cluster.store.records import RecordFormatError, decode, encode, text
from sharemesh.domain import topics
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import MAX_GROUP_ID_CHARS
from sharemesh.ports.authorizer import CLUSTER_NAME, Operation, ResourceType

ANY_NAME = "*"
"""As a literal resource name: every resource of the type."""

ANY_USER = "User:*"
NAME_CHARS_MAX: Mapping[ResourceType, int] = {
    ResourceType.TOPIC: topics.NAME_CHARS_MAX,
    ResourceType.GROUP: MAX_GROUP_ID_CHARS,
    ResourceType.CLUSTER: len(CLUSTER_NAME),
}
"""The longest name that a resource of each type can have."""

PRINCIPAL_CHARS_MAX = 1_000
ALL = "all"

_CONFIGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
OPERATIONS: Mapping[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        *_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_CONFIGS),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        *_CONFIGS,
    ),
}
"""What may be allowed or denied on each type of resource."""

_IMPLIED_BY: Mapping[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""An allowed operation allows these as well; a denied one denies itself only."""


_Place = tuple[ResourceType, str, str]  # type of resource, principal, name or prefix


class Pattern(StrEnum):
    """How a rule's resource name is meant."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class Permission(StrEnum):
    """What a rule says; a DENY that fits wins over every ALLOW."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True, order=True)
class AclRule:
    """One rule; ``operation`` None is every operation."""

    principal: str
    permission: Permission
    operation: Operation | None
    resource: ResourceType
    name: str
    pattern: Pattern = Pattern.LITERAL

    @property
    def rule_id(self) -> str:
        """The same text for the same rule: adding it twice stores it once."""
        return hashlib.sha256(encode_rule(self)).hexdigest()[:32]


def check_rule(rule: AclRule) -> AclRule:
    """Return the rule if it may be stored.

    Raises:
        RefusedError: INVALID_REQUEST, with what to write instead.
    """
    kind, colon, user = rule.principal.partition(":")
    if kind != "User" or not colon or not user or len(rule.principal) > PRINCIPAL_CHARS_MAX:
        raise _invalid(
            f"principal {rule.principal[:100]!r}: write User:<name>, or {ANY_USER} for everybody"
        )
    if rule.resource is ResourceType.CLUSTER and (
        rule.name != CLUSTER_NAME or rule.pattern is not Pattern.LITERAL
    ):
        raise _invalid(f"cluster {rule.name[:100]!r}: its only name is {CLUSTER_NAME}, literal")
    longest = NAME_CHARS_MAX[rule.resource]
    if not 0 < len(rule.name) <= longest:
        raise _invalid(
            f"{rule.resource.value} name of {len(rule.name)} characters; give 1 to {longest}, or "
            f"{ANY_NAME} for all"
        )
    allowed = OPERATIONS[rule.resource]
    if rule.operation is not None and rule.operation not in allowed:
        names = ", ".join(each.value for each in allowed)
        raise _invalid(
            f"nobody can {rule.operation.value} a {rule.resource.value}; use one of {names}, {ALL}"
        )
    return rule


class RuleSet:
    """Rules by type of resource, principal and name: a question walks only those that fit it.

    What a question costs follows from its name and from the rules about this very principal and
    name, not from how many others there are: a caller without rights may ask about many names.
    """

    def __init__(self, rules: Iterable[AclRule] = ()) -> None:
        self._literal: dict[_Place, list[AclRule]] = {}
        self._prefixed: dict[_Place, list[AclRule]] = {}
        lengths: dict[tuple[ResourceType, str], set[int]] = {}
        for rule in rules:
            prefixed = rule.pattern is Pattern.PREFIXED
            places = self._prefixed if prefixed else self._literal
            places.setdefault((rule.resource, rule.principal, rule.name), []).append(rule)
            if prefixed:
                lengths.setdefault((rule.resource, rule.principal), set()).add(len(rule.name))
        self._prefix_lengths = {who: sorted(found) for who, found in lengths.items()}

    def allows(
        self, principal: str, operation: Operation, resource: ResourceType, name: str
    ) -> bool:
        """Return whether some rule allows it and none denies it; without a rule it is refused."""
        found = False
        granting = _IMPLIED_BY.get(operation, frozenset()) | {operation}
        for rule in self.fitting(principal, resource, name):
            if rule.permission is Permission.DENY:
                if rule.operation in (None, operation):
                    return False
            elif rule.operation is None or rule.operation in granting:
                found = True
        return found

    def fitting(self, principal: str, resource: ResourceType, name: str) -> Iterator[AclRule]:
        """Yield the rules that are about this principal and resource."""
        for who in (principal, ANY_USER):
            for literal in (name, ANY_NAME):
                yield from self._literal.get((resource, who, literal), ())
            for length in self._prefix_lengths.get((resource, who), ()):
                if length > len(name):
                    break
                yield from self._prefixed.get((resource, who, name[:length]), ())


def encode_rule(rule: AclRule) -> bytes:
    """Return the value of ``acls/<rule id>``."""
    return encode(
        {
            "principal": rule.principal,
            "permission": str(rule.permission),
            "operation": ALL if rule.operation is None else rule.operation.value,
            "resource": rule.resource.value,
            "name": rule.name,
            "pattern": str(rule.pattern),
        }
    )


def decode_rule(value: bytes) -> AclRule:
    """Return a stored rule.

    Raises:
        RecordFormatError: It is not one that this build understands.
    """
    fields = decode(value)
    operation = text(fields, "operation")
    try:
        return AclRule(
            text(fields, "principal"),
            Permission(text(fields, "permission")),
            None if operation == ALL else Operation(operation),
            ResourceType(text(fields, "resource")),
            text(fields, "name"),
            Pattern(text(fields, "pattern")),
        )
    except ValueError as error:
        raise RecordFormatError(str(error)) from None


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, message)
