"""Warns of topics that do not exist: clients wait for them and raise nothing."""

import logging
from collections.abc import Callable, Collection

from sharemesh.backoff import Backoff
from sharemesh.client.errors import SharemeshError
from sharemesh.client.metadata.metadata_cache import MetadataCache
from sharemesh.client.repeated_warnings import RepeatedWarnings
from sharemesh.ports.clock import Clock

FIRST_CHECK_MS = 1_000
MOST_MS = 30_000
"""First and longest pause between checks."""

_REFRESH_TIMEOUT_MS = 10_000
_log = logging.getLogger(__name__)


def how_to_have(name: str) -> str:
    """Return what makes a topic known; a client does not know what storage its cluster has."""
    return (
        f"create it (sharemesh topics create {name}; with storage kafka create it in Kafka, or "
        f"attach one that is there with sharemesh topics attach {name})"
    )


def missing(name: str, wanted: str) -> str:
    """Return the warning of a missing topic; ``wanted`` says what uses it."""
    return (
        f"topic {name} {wanted} and does not exist, or may not be described: "
        f"{how_to_have(name)} or correct the name; waiting"
    )


class ProducedMissing:
    """Warns of a missing topic that records wait for, at growing intervals."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._warnings = RepeatedWarnings(clock)

    def wanted(self, name: str, since_ms: int, count: int) -> None:
        """Warn once records have waited long: metadata shows a new topic a little later."""
        long = self._clock.now_ms() - since_ms >= FIRST_CHECK_MS
        if long and self._warnings.is_due(name):
            _log.warning(missing(name, f"is produced to ({count} records wait)"))


class MissingTopics:
    """Checks subscribed topics of which nothing is assigned; ``run`` is its owner task."""

    def __init__(
        self, leaders: MetadataCache, clock: Clock, unassigned: Callable[[], Collection[str]]
    ) -> None:
        self._leaders = leaders
        self._clock = clock
        self._unassigned = unassigned

    async def run(self) -> None:
        """Check at growing intervals until cancelled; others log that no process answers."""
        backoff = Backoff(FIRST_CHECK_MS, MOST_MS)
        while True:
            await self._clock.sleep_ms(backoff.next_ms())
            names = sorted(self._unassigned())
            if not names:
                continue
            try:
                await self._leaders.refresh(names, timeout_ms=_REFRESH_TIMEOUT_MS)
            except SharemeshError:
                continue
            for name in names:
                if self._leaders.topic(name) is None:
                    _log.warning(missing(name, "is subscribed to"))
