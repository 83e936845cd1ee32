"""The authorizers of a process: over the rules in the coordination store, or without any rules."""

import logging
from collections.abc import Callable, Iterable, Mapping

from sharemesh.cluster.store.acl_rules import NAME_CHARS_MAX, AclRule, RuleSet
from sharemesh.cluster.view.cluster_state import StateChanges
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.remembered import Remembered

NODE_PRINCIPAL = "Node:sharemesh"
"""Who another process of the cluster is. Clients are always ``User:…``, so none can claim it."""

ANSWERS_BYTES_MAX = 8 * 1024 * 1024
"""Remembered answers (BND-21); beyond that they are worked out again."""

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
        self._rules = RuleSet()
        self._stored: dict[str, AclRule] = {}
        self._readable = True
        self._answers = Remembered[tuple[str, Operation, ResourceType, str], bool](
            ANSWERS_BYTES_MAX
        )
        self._on_change: dict[object, Callable[[], None]] = {}
        self._read()
        view.subscribe(self._changed)

    def allows(
        self, principal: str, operation: Operation, resource: ResourceType, name: str
    ) -> bool:
        """Return whether the principal may do this (see the port)."""
        if principal in self._above:
            return True
        if len(name) > NAME_CHARS_MAX[resource]:
            return False  # nothing has such a name, so nothing of it is remembered either
        asked = (principal, operation, resource, name)
        return self._answers.answer(
            asked, (principal, name), lambda: self._readable and self._rules.allows(*asked)
        )

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after each change of the rules (see the port)."""
        token = object()
        self._on_change[token] = callback
        return lambda: (self._on_change.pop(token, None), None)[1]

    def _changed(self, changes: StateChanges) -> None:
        if not changes.everything and not changes.acls:
            return
        self._read()
        for callback in tuple(self._on_change.values()):
            try:
                callback()
            except Exception:  # the others must hear of a right that is gone
                _log.exception("a listener for changes of access rules failed")

    def _read(self) -> None:
        tables = self._view.tables
        self._answers.clear()
        self._take_in(tables.acls)
        rooms = (self._view.keys.acls, self._view.keys.typed_acls)
        unreadable = [why for key, why in tables.unreadable.items() if key.startswith(rooms)]
        self._readable = not unreadable
        if unreadable:
            _log.error("only super users are let in: an access rule cannot be read: %s", unreadable)

    def _take_in(self, stored: Mapping[str, AclRule]) -> None:
        """Change what has changed: all of 10,000 rules anew would hold the loop for 100 ms."""
        for key, rule in list(self._stored.items()):
            now = stored.get(key)
            if now is not rule and now != rule:
                self._rules.remove(self._stored.pop(key))
        for key, rule in stored.items():
            if key not in self._stored:
                self._stored[key] = rule
                self._rules.add(rule)


class AllowAll:
    """Fills ``ports.authorizer.Authorizer`` for clusters without an ACL table."""

    def allows(
        self,
        principal: str,  # noqa: ARG002 - the port's words
        operation: Operation,  # noqa: ARG002
        resource: ResourceType,  # noqa: ARG002
        name: str,  # noqa: ARG002
    ) -> bool:
        """Return True."""
        return True

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Never call back: there are no rules."""
        return lambda: None
