"""Tells of subscribed topics that do not exist: a member waits for them, in silence otherwise."""

import logging
from collections.abc import Callable, Collection

from sharemesh.client.errors import SharemeshError
from sharemesh.client.leaders import Leaders
from sharemesh.ports.clock import Clock

FIRST_LOOK_MS = 1_000
MOST_MS = 30_000
"""Looks are at least the first apart, later the second."""

_REFRESH_TIMEOUT_MS = 10_000
_log = logging.getLogger(__name__)


class MissingTopics:
    """Looks for subscribed topics of which nothing is assigned; ``run`` is its owner task."""

    def __init__(
        self, leaders: Leaders, clock: Clock, unassigned: Callable[[], Collection[str]]
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
                    _log.warning(
                        "topic %s is subscribed to and does not exist, or may not be described: "
                        "create it (sharemesh topics create %s) or correct the name; waiting",
                        name,
                        name,
                    )
