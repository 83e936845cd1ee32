"""The authorizer over the rules in the coordination store."""

import logging
from collections.abc import Iterable

from sharemesh.cluster.acl_rules import AclRule, allowed
from sharemesh.cluster.tables import Changes
from sharemesh.cluster.view import WatchedView
from sharemesh.ports.authorizer import Operation, ResourceType

NODE_PRINCIPAL = "Node:sharemesh"
"""Who another process of the cluster is. Clients are always ``User:…``, so none can claim it."""

ANSWERS_MAX = 100_000
"""Remembered answers; beyond that they are worked out again."""

_log = logging.getLogger(__name__)


class AclTable:
    """Fills ``ports.authorizer.Authorizer`` from the watched view.

    Without a rule that allows it, only super users and the cluster's own processes may do
    anything. A rule that this build cannot read might be a DENY: until it can be read, or is
    removed, only they may. While the store is away the last rules stay in force.
    """

    def __init__(self, view: WatchedView, *, super_users: Iterable[str]) -> None:
        self._view = view
        self._above = frozenset({NODE_PRINCIPAL, *super_users})
        self._rules: dict[ResourceType, tuple[AclRule, ...]] = {}
        self._readable = True
        self._answers: dict[tuple[str, Operation, ResourceType, str], bool] = {}
        self._read()
        view.subscribe(self._changed)

    def allows(
        self, principal: str, operation: Operation, resource: ResourceType, name: str
    ) -> bool:
        """Return whether the principal may do this (see the port)."""
        if principal in self._above:
            return True
        asked = (principal, operation, resource, name)
        answer = self._answers.get(asked)
        if answer is None:
            answer = self._readable and allowed(
                self._rules.get(resource, ()), principal, operation, resource, name
            )
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            self._answers[asked] = answer
        return answer

    def _changed(self, changes: Changes) -> None:
        if changes.everything or changes.acls:
            self._read()

    def _read(self) -> None:
        tables = self._view.tables
        self._answers.clear()
        by_type: dict[ResourceType, list[AclRule]] = {}
        for rule in tables.acls.values():
            by_type.setdefault(rule.resource, []).append(rule)
        self._rules = {resource: tuple(rules) for resource, rules in by_type.items()}
        unreadable = [
            why for key, why in tables.unreadable.items() if key.startswith(self._view.keys.acls)
        ]
        self._readable = not unreadable
        if unreadable:
            _log.error("only super users are let in: an access rule cannot be read: %s", unreadable)
