"""Topics of a Kafka cluster that groups want: written down for the elected controller (KTP-2)."""

import asyncio
import logging
from collections.abc import Iterable

from sharemesh.cluster.store import records
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.attached_topics import AttachableTopics
from sharemesh.domain.errors import RefusedError
from sharemesh.domain.topics import check_topic_name
from sharemesh.ports.clock import Clock
from sharemesh.ports.coordination import OPERATIONS_MAX, Coordination, CoordinationError, Put
from sharemesh.tasks import cancel_and_wait

WANTED_MAX = 10_000
RETRY_MS = 1_000

_log = logging.getLogger(__name__)


class WantedTopics:
    """Fills ``ports.topic_wishes.TopicWishes``.

    Attributes:
        ignored: How often a name was not written because there are too many.
    """

    def __init__(
        self,
        coordination: Coordination,
        view: WatchedView,
        clock: Clock,
        attachable: AttachableTopics,
    ) -> None:
        self._coordination = coordination
        self._view = view
        self._clock = clock
        self._attachable = attachable
        self._to_write: dict[str, None] = {}
        self._writing: asyncio.Task[None] | None = None
        self.ignored = 0

    def want(self, names: Iterable[str]) -> None:
        """Write down what is not attached and may be; the store is written in the background."""
        tables = self._view.tables
        for name in names:
            if name in tables.topics or name in tables.wanted or name in self._to_write:
                continue
            if not self._attachable.match(name) or not _is_name(name):
                continue
            if len(tables.wanted) + len(self._to_write) >= WANTED_MAX:
                self._ignore(name)
                continue
            self._to_write[name] = None
        if self._to_write and self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="wanted topics")

    async def close(self) -> None:
        """Stop writing."""
        writing, self._writing = self._writing, None
        if writing is not None:
            await cancel_and_wait(writing)

    def _ignore(self, name: str) -> None:
        self.ignored += 1
        if self.ignored == 1:
            _log.warning(
                "topic %r is not asked for: groups want %d topics that the Kafka cluster does not "
                "show; correct their subscriptions",
                name,
                WANTED_MAX,
            )

    async def _write(self) -> None:
        try:
            while self._to_write:
                names = list(self._to_write)[:OPERATIONS_MAX]
                puts = [Put(self._view.keys.wanted_topic(n), records.encode({})) for n in names]
                try:
                    await self._coordination.commit([], puts)
                except CoordinationError as error:
                    _log.warning("wanted topics are not written, again soon: %s", error)
                    await self._clock.sleep_ms(RETRY_MS)
                    continue
                for name in names:
                    self._to_write.pop(name, None)
        finally:
            self._writing = None


def _is_name(name: str) -> bool:
    try:
        check_topic_name(name)
    except RefusedError:
        return False
    return True
