"""What is kept of users' passwords, as a process knows it: over the watched view."""

import logging

from sharemesh.cluster.view.cluster_state import StateChanges
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.scram_credentials import ScramCredential, ScramMechanism

_log = logging.getLogger(__name__)


class UserTable:
    """Fills ``ports.user_credentials.UserCredentials``.

    While the store is away the last ones stay in force. A user whose record cannot be read cannot
    log in.
    """

    def __init__(self, view: WatchedView) -> None:
        self._view = view
        self._unreadable: list[str] = []
        self._report_unreadable()
        view.subscribe(self._changed)

    def credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return what is kept of a user's password (see the port)."""
        return self._view.tables.users.get(name, {}).get(mechanism)

    def _changed(self, changes: StateChanges) -> None:
        if changes.everything or changes.users:
            self._report_unreadable()

    def _report_unreadable(self) -> None:
        unreadable = [
            why
            for key, why in self._view.tables.unreadable.items()
            if key.startswith(self._view.keys.users)
        ]
        if unreadable and unreadable != self._unreadable:
            _log.error("users whose records cannot be read cannot log in: %s", unreadable)
        self._unreadable = unreadable
