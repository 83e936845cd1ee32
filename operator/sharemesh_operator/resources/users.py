"""Compares a ShareUser with the access rules and quotas of its principal (spec IDN-10 to 13)."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sharemesh.ports.authorizer import CLUSTER_NAME
from sharemesh_operator.resources.conditions import Condition
from sharemesh_operator.resources.names import KubeObject

FINGERPRINT_CHARS = 16
_HUMP = re.compile(r"(?<!^)(?=[A-Z])")


class UserRule(NamedTuple):
    """One access rule, in the words of the admin client."""

    principal: str
    operation: str
    resource_type: str
    name: str
    prefixed: bool
    permission: str


@dataclass(frozen=True, slots=True)
class UserFound:
    """What the mesh has for a principal, whoever made it."""

    rules: Sequence[UserRule] = ()
    quotas: Mapping[str, float] = field(default_factory=dict)
    unread: str = ""
    """Why the cluster does not even tell its rules, in its words; empty: it does."""


@dataclass(frozen=True, slots=True)
class UserMade:
    """What the operator made for an object: fingerprints of rules, names of quotas."""

    rules: frozenset[str] = frozenset()
    quotas: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class UserChange:
    """What has to be done; all empty: nothing."""

    create: tuple[UserRule, ...] = ()
    delete: tuple[UserRule, ...] = ()
    quotas: Mapping[str, float | None] = field(default_factory=dict)


def user_principal(body: KubeObject) -> str:
    """Return the principal that an object is about."""
    name: str = body["spec"]["principal"]
    return name


def user_rules(body: KubeObject) -> tuple[UserRule, ...]:
    """Return the access rules that an object asks for, each once."""
    principal = user_principal(body)
    found = {
        UserRule(
            principal,
            _words(operation),
            _words(each["resourceType"]),
            each.get("name", CLUSTER_NAME),
            prefixed=each.get("patternType", "Literal") == "Prefixed",
            permission=_words(each.get("permission", "Allow")),
        ): None
        for each in body["spec"].get("acls") or ()
        for operation in each["operations"]
    }
    return tuple(found)


def user_quotas(body: KubeObject) -> dict[str, float]:
    """Return the quotas that an object asks for, by the names of the mesh."""
    given = body["spec"].get("quotas") or {}
    return {_words(name): float(value) for name, value in given.items()}


def user_made(body: KubeObject) -> UserMade:
    """Return what the operator made for an object, as its status says."""
    status = body.get("status") or {}
    return UserMade(
        frozenset(status.get("madeRules") or ()), frozenset(status.get("madeQuotas") or ())
    )


def user_change(body: KubeObject, found: UserFound, *, gone: bool = False) -> UserChange:
    """Return how to bring the mesh to what an object says; ``gone``: it says nothing any more.

    Rules and quotas that the operator did not make are never taken away (IDN-11). Rules that
    cannot be read are left alone.
    """
    wanted = () if gone or found.unread else user_rules(body)
    quotas = {} if gone else user_quotas(body)
    made = user_made(body)
    there, kept = dict.fromkeys(found.rules), dict.fromkeys(wanted)
    changed: dict[str, float | None] = {
        name: value for name, value in quotas.items() if found.quotas.get(name) != value
    }
    surplus = sorted(made.quotas & found.quotas.keys() - quotas.keys())
    return UserChange(
        create=tuple(each for each in wanted if each not in there),
        delete=tuple(
            each for each in found.rules if each not in kept and fingerprint(each) in made.rules
        ),
        quotas=changed | dict.fromkeys(surplus),
    )


def made_with(body: KubeObject, change: UserChange) -> KubeObject:
    """Return the part of the status that says what is made, before a change begins (IDN-11)."""
    made = user_made(body)
    rules = made.rules | {fingerprint(each) for each in change.create}
    quotas = made.quotas | {name for name, value in change.quotas.items() if value is not None}
    return {"madeRules": sorted(rules), "madeQuotas": sorted(quotas)}


def user_status(body: KubeObject, found: UserFound) -> KubeObject:
    """Return the status but for its conditions, once the mesh was brought to what is wanted."""
    made, wanted, quotas = user_made(body), user_rules(body), user_quotas(body)
    left = {fingerprint(each) for each in found.rules}
    return {
        "principal": user_principal(body),
        "rules": len(dict.fromkeys(wanted).keys() & dict.fromkeys(found.rules).keys()),
        "madeRules": sorted(made.rules if found.unread else made.rules & left),
        "madeQuotas": sorted(made.quotas & (quotas.keys() | found.quotas.keys())),
    }


def user_condition(body: KubeObject, found: UserFound, refused: Sequence[str]) -> Condition:
    """Return Ready of a ShareUser; ``refused`` are the words of the mesh about what it refused."""
    if refused:
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        return Condition.false("Ready", "RulesRefused", f"the cluster refuses: {refused[0]}{more}")
    left = user_change(body, found)
    if left != UserChange():
        missing, surplus = len(left.create), len(left.delete)
        return Condition.false(
            "Ready",
            "OutOfSync",
            f"{missing} rules are missing, {surplus} too many, {len(left.quotas)} quotas differ; "
            "they are corrected unless the object or its cluster is paused or only observed",
        )
    said = f"{len(user_rules(body))} access rules and {len(user_quotas(body))} quotas"
    return Condition.true("Ready", "InSync", f"{said} of {user_principal(body)} are in force")


def principal_taken(body: KubeObject, rival: str) -> Condition:
    """Return Ready of a ShareUser for whose principal an older one stands."""
    return Condition.false(
        "Ready",
        "PrincipalTaken",
        f"ShareUser {rival!r} stands for {user_principal(body)!r} already; put the rules of both "
        "into one of them and delete the other",
    )


def fingerprint(rule: UserRule) -> str:
    """Return what a rule is known by in the status: short, whatever its name is."""
    return hashlib.sha256(json.dumps(rule).encode()).hexdigest()[:FINGERPRINT_CHARS]


def _words(camel: str) -> str:
    """Return a word of the object as the mesh has it: ``ClusterAction`` is ``cluster_action``."""
    return _HUMP.sub("_", camel).lower()
