"""Access rules (spec ACL, Kafka's rules): what a set of them allows, and how they are stored."""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sharemesh.cluster.store.keys import Keys
from sharemesh.cluster.store.records import RecordFormatError, decode, encode, text
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import (
    MAX_GROUP_ID_CHARS,
    MAX_TOPIC_NAME_CHARS,
    MAX_TRANSACTIONAL_ID_CHARS,
    check_user_principal,
)
from sharemesh.ports.authorizer import CLUSTER_NAME, Operation, ResourceType
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.coordination import OPERATIONS_MAX, Coordination, Delete, KeyValue, Put

ANY_NAME = "*"
"""As a literal resource name: every resource of the type."""

ANY_USER = "User:*"

ACLS_MAX = 10_000
"""Rules of one cluster."""

NAME_CHARS_MAX: Mapping[ResourceType, int] = {
    ResourceType.TOPIC: MAX_TOPIC_NAME_CHARS,
    ResourceType.GROUP: MAX_GROUP_ID_CHARS,
    ResourceType.CLUSTER: len(CLUSTER_NAME),
    ResourceType.TRANSACTIONAL_ID: MAX_TRANSACTIONAL_ID_CHARS,
}
"""The longest name that a resource of each type can have."""

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
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
"""What may be allowed or denied on each type of resource."""

_IMPLIED_BY: Mapping[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""An allowed operation allows these as well; a denied one denies itself only."""

_OF_0_1_0 = frozenset({ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER})
"""Version 0.1.0 lets only super users in while ``acls/`` has a rule of another type (ACL-12)."""

_Place = tuple[ResourceType, str, str]  # type of resource, principal, name or prefix
_Whose = tuple[ResourceType, str]  # type of resource, principal


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
    check_user_principal(rule.principal, or_else=f", or {ANY_USER} for everybody")
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
            f"a {rule.resource.value} has no operation {rule.operation.value}; use one of {names}, "
            f"{ALL}"
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
        self._names: dict[_Whose, dict[str, None]] = {}
        self._prefixes: dict[_Whose, _Prefixes] = {}
        for rule in rules:
            self.add(rule)

    def add(self, rule: AclRule) -> None:
        """Take in a rule; the same one may be there more than once."""
        places = self._prefixed if rule.pattern is Pattern.PREFIXED else self._literal
        places.setdefault((rule.resource, rule.principal, rule.name), []).append(rule)
        if rule.pattern is Pattern.PREFIXED:
            whose = (rule.resource, rule.principal)
            self._names.setdefault(whose, {})[rule.name] = None
            self._prefixes.pop(whose, None)

    def remove(self, rule: AclRule) -> None:
        """Take out a rule that is there, once."""
        places = self._prefixed if rule.pattern is Pattern.PREFIXED else self._literal
        place = (rule.resource, rule.principal, rule.name)
        places[place].remove(rule)
        if places[place]:
            return
        del places[place]
        if rule.pattern is Pattern.PREFIXED:
            whose = (rule.resource, rule.principal)
            del self._names[whose][rule.name]
            self._prefixes.pop(whose, None)
            if not self._names[whose]:
                del self._names[whose]

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
            for prefix in self._prefixes_of((resource, who), name):
                yield from self._prefixed[resource, who, prefix]

    def _prefixes_of(self, whose: _Whose, name: str) -> Iterator[str]:
        """Yield the prefixes of a principal's rules that the name begins with.

        They are put in order by the first question after a change of that principal's rules.
        """
        names = self._names.get(whose)
        if names is None:
            return iter(())
        if whose not in self._prefixes:
            self._prefixes[whose] = _Prefixes(names)
        return self._prefixes[whose].of(name)


class _Prefixes:
    """Prefixes in order, each with the longest other one that it begins with.

    The last of them that is not after a name in that order begins with the longest prefix of
    the name: what lies between a prefix and the name in order begins with that prefix too. So
    those of a name are found along one chain, by binary search, however many others there are.
    """

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._sorted = sorted(prefixes)
        self._above: dict[str, str | None] = {}
        chain: list[str] = []
        for prefix in self._sorted:
            while chain and not prefix.startswith(chain[-1]):
                chain.pop()
            self._above[prefix] = chain[-1] if chain else None
            chain.append(prefix)

    def of(self, name: str) -> Iterator[str]:
        """Yield those that the name begins with, the longest first."""
        place = bisect_right(self._sorted, name)
        found = self._sorted[place - 1] if place else None
        while found is not None:
            if name.startswith(found):
                yield found
            found = self._above[found]


def encode_rule(rule: AclRule) -> bytes:
    """Return the value that a rule is stored as."""
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


async def add_rules(
    coordination: Coordination, view: ClusterView, rules: Sequence[AclRule]
) -> None:
    """Store rules; one that is there already stays. At most ``OPERATIONS_MAX`` at once.

    Raises:
        RefusedError: INVALID_REQUEST; a rule is not allowed, or they would be too many.
        CoordinationError: The store does not answer.
    """
    keys = Keys(view.cluster_id)
    puts = {each.rule_id: Put(_key(keys, each), encode_rule(check_rule(each))) for each in rules}
    stored = {entry.key for entry in await _entries(coordination, keys)}
    moved = {keys.acl(rule_id) for rule_id in puts} & stored - {put.key for put in puts.values()}
    count = len(stored - moved | {put.key for put in puts.values()})
    if count > ACLS_MAX:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            f"{count} access rules; a cluster may have {ACLS_MAX}: use prefixed names, or remove "
            "rules",
        )
    await coordination.commit([], [*puts.values(), *map(Delete, sorted(moved))])


async def find_rules(
    coordination: Coordination, view: ClusterView, wanted: Callable[[AclRule], bool]
) -> list[AclRule]:
    """Return the stored rules that are wanted, sorted; unreadable ones are left out.

    Raises:
        CoordinationError: The store does not answer.
    """
    found = await _found(coordination, Keys(view.cluster_id), wanted)
    return sorted(set(found.values()), key=str)


async def remove_rules(
    coordination: Coordination, view: ClusterView, wanted: Callable[[AclRule], bool]
) -> list[AclRule]:
    """Remove the rules that are wanted and return them.

    Raises:
        CoordinationError: The store does not answer; some may be removed, repeat it.
    """
    found = await _found(coordination, Keys(view.cluster_id), wanted)
    keys = sorted(found)
    for first in range(0, len(keys), OPERATIONS_MAX):
        await coordination.commit([], [Delete(key) for key in keys[first : first + OPERATIONS_MAX]])
    return sorted(set(found.values()), key=str)


def known_type(resource: str) -> bool:
    """Return whether questions about this type of resource are asked in this build."""
    return any(resource == each.value for each in ResourceType)


def _key(keys: Keys, rule: AclRule) -> str:
    """Return where a rule is stored: older processes look below ``acls/`` only (ACL-12)."""
    if rule.resource in _OF_0_1_0:
        return keys.acl(rule.rule_id)
    return keys.typed_acl(rule.resource.value, rule.rule_id)


async def _entries(coordination: Coordination, keys: Keys) -> list[KeyValue]:
    old = await coordination.list(keys.acls)
    return [*old.entries, *(await coordination.list(keys.typed_acls)).entries]


async def _found(
    coordination: Coordination, keys: Keys, wanted: Callable[[AclRule], bool]
) -> dict[str, AclRule]:
    """Return the stored rules that are wanted, by key; unreadable ones are left out."""
    found = {}
    for entry in await _entries(coordination, keys):
        try:
            rule = decode_rule(entry.value)
        except RecordFormatError:
            continue
        if wanted(rule):
            found[entry.key] = rule
    return found


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, message)
