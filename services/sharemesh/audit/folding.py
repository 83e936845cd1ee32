"""Equal events become one line and a count, in bounded memory (AUD-6); times are arguments."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace

from sharemesh.audit.events import AuditEvent, Repeats

WINDOW_MS = 60_000
PRINCIPAL_MAX = 50
"""Different events of one principal in a window."""

DIFFERENT_MAX = 500
"""Different events of all principals in a window; of those beyond, as many sums by principal."""


@dataclass(slots=True)
class _Folded:
    """Events that are equal; ``again`` counts those without a line.

    ``began_ms`` is monotonic time: a wall clock that steps back must keep no minute open.
    """

    event: AuditEvent
    began_ms: int
    first_ms: int = 0
    last_ms: int = 0
    again: int = 0

    def count(self, at_ms: int) -> None:
        """Count one that has no line of its own; ``at_ms`` is what people read."""
        if not self.again:
            self.first_ms = at_ms
        self.again += 1
        self.last_ms = at_ms


class Folding:
    """What was heard within the last minute: each different event, and sums of what is beyond.

    Both tables are in the order in which their entries began.
    """

    def __init__(self) -> None:
        self.folded = 0
        self._different: dict[Hashable, _Folded] = {}
        self._of_principal: Counter[str] = Counter()
        self._beyond: dict[Hashable, _Folded] = {}

    def __len__(self) -> int:
        return len(self._different) + len(self._beyond)

    def is_new(self, event: AuditEvent, now_ms: int, at_ms: int) -> bool:
        """Return whether the event has a line; ``now_ms`` is monotonic, ``at_ms`` wall time."""
        key = _key(event)
        known = self._different.get(key)
        if known is None:
            if self._has_room(event.principal):
                self._different[key] = _Folded(event, now_ms)
                self._of_principal[event.principal] += 1
                return True
            known = self._sum(event, now_ms)
        known.count(at_ms)
        self.folded += 1
        return False

    def ended(self, now_ms: int, *, at_once: bool = False) -> list[tuple[AuditEvent, Repeats]]:
        """Forget entries whose minute is over, or all; return what came again."""
        over: list[_Folded] = []
        for table in (self._different, self._beyond):
            for key, each in list(table.items()):
                if not at_once and now_ms - each.began_ms < WINDOW_MS:
                    break
                del table[key]
                over.append(each)
                if table is self._different:
                    self._gone(each.event.principal)
        return [
            (each.event, Repeats(each.again, each.first_ms, each.last_ms))
            for each in over
            if each.again
        ]

    def _has_room(self, principal: str) -> bool:
        return (
            len(self._different) < DIFFERENT_MAX and self._of_principal[principal] < PRINCIPAL_MAX
        )

    def _sum(self, event: AuditEvent, now_ms: int) -> _Folded:
        """Return the sum that the event belongs to: of its principal, or of its error."""
        whose = replace(event, peer="", operation="", resources=(), more=0, trace_id="")
        if whose not in self._beyond and len(self._beyond) >= DIFFERENT_MAX:
            whose = replace(whose, principal="", rpc="")
        return self._beyond.setdefault(whose, _Folded(whose, now_ms))

    def _gone(self, principal: str) -> None:
        self._of_principal[principal] -= 1
        if not self._of_principal[principal]:
            del self._of_principal[principal]


def _key(event: AuditEvent) -> Hashable:
    """Return what equal events have in common: a connection's port is none of it."""
    return (
        event.kind,
        event.decision,
        event.principal,
        event.peer.rpartition(":")[0],
        event.rpc,
        event.operation,
        event.resources,
        event.more,
        event.error,
    )
