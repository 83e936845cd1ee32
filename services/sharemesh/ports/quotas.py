"""How much each principal and each group may use (spec QUO)."""

from collections.abc import Callable
from typing import Protocol

from sharemesh.domain.quota.names import QuotaName


class Quotas(Protocol):
    """Answers from memory; the table is watched."""

    def limit(self, name: QuotaName, entity: str) -> float | None:
        """Return the bound of a principal or group: its own, else the default, else None.

        ``entity`` is a principal (``User:jane``) or a group id, as ``name.entity_type`` says.
        The principals of the cluster's own processes and super users have no bound (QUO-3).
        """
        ...

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back on the loop when bounds may have changed; returns what unsubscribes.

        ``limit`` already answers by the new bounds then.
        """
        ...
