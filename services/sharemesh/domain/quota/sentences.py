"""What is said to one whom a quota slows down or refuses, and how often (spec QUO-15)."""

import shlex
from collections.abc import Hashable

from sharemesh.domain.printable import escaped
from sharemesh.domain.quota.names import EntityType, QuotaName

SPELL_MS = 60_000
"""Who was not slowed down for so long begins a new spell, which is said again."""

SPELLS_MAX = 10_000

_SHOWN = 100  # characters of a name

_UNITS = {
    QuotaName.PRODUCER_BYTE_RATE: " bytes/s",
    QuotaName.CONSUMER_BYTE_RATE: " bytes/s",
    QuotaName.REQUEST_PERCENTAGE: "% of a core",
    QuotaName.RECORD_RATE: " records/s",
}


def in_words(name: QuotaName, entity: str, limit: float) -> str:
    """Return which quota of whom binds, how high it is, and what to do."""
    whose = shown = escaped(entity[:_SHOWN])
    if name.entity_type is EntityType.GROUP:
        whose = f"group {shown!r}"
    remedy = "slow down" if name in _UNITS else "use fewer"
    return (
        f"quota {name.value} of {whose} is {limit:.16g}{_UNITS.get(name, '')}: {remedy}, or raise "
        f"it with `sharemesh quotas alter --{name.entity_type.value} {shlex.quote(shown)} --set "
        f"{name.value}=…`"
    )


class Spells:
    """Remembers who is being slowed down, so that it is said once and not for each request."""

    def __init__(self, spells_max: int = SPELLS_MAX) -> None:
        self._spells_max = spells_max
        self._last_ms: dict[Hashable, int] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._last_ms)

    def begins(self, what: Hashable, now_ms: int) -> bool:
        """Note that it happens now; return whether it did not for a while."""
        before_ms = self._last_ms.pop(what, None)
        self._last_ms[what] = now_ms
        if len(self._last_ms) > self._spells_max:
            del self._last_ms[next(iter(self._last_ms))]
        return before_ms is None or now_ms - before_ms > SPELL_MS
