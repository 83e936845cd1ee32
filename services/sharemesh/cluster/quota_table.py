"""The quotas of a process: over the values in the coordination store, or without any."""

import logging
from collections.abc import Callable, Iterable

from sharemesh.cluster.acl_table import NODE_PRINCIPAL
from sharemesh.cluster.view.cluster_state import StateChanges
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.quota.names import EntityType, QuotaName

_log = logging.getLogger(__name__)


class QuotaTable:
    """Fills ``ports.quotas.Quotas`` from the watched view.

    While the store is away the last values stay in force. What cannot be read binds nobody.
    """

    def __init__(self, view: WatchedView, *, super_users: Iterable[str]) -> None:
        self._view = view
        self._unbounded = frozenset({NODE_PRINCIPAL, *super_users})
        self._unreadable: list[str] = []
        self._report_unreadable()
        self.on_change(self._report_unreadable)

    def limit(self, name: QuotaName, entity: str) -> float | None:
        """Return the bound of a principal or group (see the port)."""
        bound = self._view.tables.quotas.limit(name, entity)
        if bound is None or (entity in self._unbounded and name.entity_type is EntityType.USER):
            return None
        return bound

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after each change of quotas (see the port)."""

        def changed(changes: StateChanges) -> None:
            if changes.everything or changes.quotas:
                callback()

        return self._view.subscribe(changed)

    def _report_unreadable(self) -> None:
        unreadable = [
            why
            for key, why in self._view.tables.unreadable.items()
            if key.startswith(self._view.keys.quotas)
        ]
        if unreadable and unreadable != self._unreadable:
            _log.error("quotas that cannot be read bind nobody: %s", unreadable)
        self._unreadable = unreadable


class Unlimited:
    """Fills ``ports.quotas.Quotas`` without quotas."""

    def limit(self, name: QuotaName, entity: str) -> float | None:  # noqa: ARG002 - the port's words
        """Return None: nothing binds anybody."""
        return None

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        """Never call back: there are no quotas."""
        return lambda: None
