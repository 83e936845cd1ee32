"""Tells of topics that do not exist: clients wait for them, in silence otherwise."""

import logging
from collections.abc import Callable, Collection, Sequence

from sharemesh.client.errors import SharemeshError
from sharemesh.client.metadata.metadata_cache import MetadataCache
from sharemesh.client.repeated_warnings import RepeatedWarnings
from sharemesh.ports.clock import Clock

FIRST_LOOK_MS = 1_000
MOST_MS = 30_000
"""Looks are at least the first apart, later the second."""

_REFRESH_TIMEOUT_MS = 10_000
_log = logging.getLogger(__name__)


def missing(name: str, wanted: str) -> str:
    """Return the words for a topic that is ``wanted`` for something, and is not there."""
    return (
        f"topic {name} {wanted} and does not exist, or may not be described: "
        f"create it (sharemesh topics create {name}) or correct the name; waiting"
    )


class ProducedMissing:
    """Tells of a missing topic that records wait for, ever more seldom."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seldom = RepeatedWarnings(clock)

    def wanted(self, name: str, since_ms: Sequence[int]) -> None:
        """Say it once records wait long: a topic that was just created is seen a little later."""
        long = self._clock.now_ms() - since_ms[0] >= FIRST_LOOK_MS
        if long and self._seldom.is_due(name):
            _log.warning(missing(name, f"is produced to ({len(since_ms)} records wait)"))


class MissingTopics:
    """Looks for subscribed topics of which nothing is assigned; ``run`` is its owner task."""

    def __init__(
        self, leaders: MetadataCache, clock: Clock, unassigned: Callable[[], Collection[str]]
    ) -> None:
        self._leaders = leaders
        self._clock = clock
        self._unassigned = unassigned

    async def run(self) -> None:
        """Look, ever more seldom, until cancelled; a cluster that is away is told by others."""
        wait_ms = FIRST_LOOK_MS
        while True:
            await self._clock.sleep_ms(wait_ms)
            names = sorted(self._unassigned())
            wait_ms = min(2 * wait_ms, MOST_MS)
            if not names:
                continue
            try:
                await self._leaders.refresh(names, timeout_ms=_REFRESH_TIMEOUT_MS)
            except SharemeshError:
                continue
            for name in names:
                if self._leaders.topic(name) is None:
                    _log.warning(missing(name, "is subscribed to"))
