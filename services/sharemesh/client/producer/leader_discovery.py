"""Finds the next leader of partitions with a long-poll metadata request."""

import asyncio
from collections.abc import Callable, Collection, Iterable

from sharemesh.client.errors import SharemeshError
from sharemesh.client.metadata.metadata_cache import MetadataCache
from sharemesh.client.producer.batches import PartitionQueue
from sharemesh.ports.clock import Clock
from sharemesh.tasks import cancel_and_wait

_REFRESH_TIMEOUT_MS = 10_000

_NEWS_WAIT_MS = 500
"""Longest wait of a metadata request that is answered as soon as there is a newer leader."""

_PAUSE_MS = 40
"""Shortest time between two metadata requests: a known move is otherwise followed at once."""


TOLD_MAX = 3
"""Partitions whose wait is explained."""


class LeaderDiscovery:
    """Awaits the next leader of partitions; one request at a time, none while nothing is lost."""

    def __init__(
        self,
        leaders: MetadataCache,
        clock: Clock,
        on_news: Callable[[], None],
        on_end: Callable[["asyncio.Task[None]"], None],
    ) -> None:
        """``on_news`` is called when a partition may be tried again, ``on_end`` with each task."""
        self._leaders = leaders
        self._clock = clock
        self._on_news = on_news
        self._on_end = on_end
        self._lost: dict[tuple[bytes, int], PartitionQueue] = {}
        self._task: asyncio.Task[None] | None = None

    def lost(self, queue: PartitionQueue) -> None:
        """Find a newer leader than ``queue.asked``; if one is known, retry at once."""
        if self._found(queue):
            return
        self._lost[queue.key] = queue
        if self._task is None:
            self._begin()

    def settled(self, queue: PartitionQueue) -> None:
        """Stop the search: its leader answered."""
        self._lost.pop(queue.key, None)

    async def close(self) -> None:
        """Stop all searches."""
        self._lost.clear()
        if self._task is not None:
            await cancel_and_wait(self._task)

    def _begin(self) -> None:
        self._task = asyncio.ensure_future(self._look())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        self._on_end(task)
        if self._lost and not task.cancelled() and task.exception() is None:
            self._begin()  # it was lost after the last request

    def _found(self, queue: PartitionQueue) -> bool:
        leader = self._leaders.leader(*queue.key)
        if leader is None:
            return False
        if queue.asked is not None and leader.leader_epoch <= queue.asked.leader_epoch:
            return False  # one epoch, two leaders (a restored store): back off instead
        queue.retry_at_ms = 0
        queue.backoff.reset()
        return True

    async def _look(self) -> None:
        backoff = self._leaders.backoff()
        while self._lost:
            names = sorted({queue.topic for queue in self._lost.values()})
            began_ms = self._clock.now_ms()
            try:
                await self._leaders.refresh(
                    names,
                    timeout_ms=_REFRESH_TIMEOUT_MS,
                    awaited=tuple(self._lost),
                    wait_ms=_NEWS_WAIT_MS,
                )
            except SharemeshError:
                await self._clock.sleep_ms(backoff.next_ms())
                continue
            news = [
                queue for queue in self._lost.values() if not queue.batches or self._found(queue)
            ]
            for queue in news:
                self.settled(queue)
                self._on_news()
            if news or self._clock.now_ms() - began_ms >= _NEWS_WAIT_MS // 2:
                backoff.reset()
                await self._clock.sleep_ms(_PAUSE_MS)
            else:  # it does not wait, being old or asked by too many
                await self._clock.sleep_ms(backoff.next_ms())


def awaited(
    leaders: MetadataCache, queues: Iterable[PartitionQueue], topic: str, partition: int | None
) -> str:
    """Return what records of a topic, or of one partition of it, wait for."""
    if leaders.topic(topic) is None:
        return f"metadata of topic {topic}; {leaders.trouble or 'it may not exist'}"
    found = [
        _of(leaders, queue)
        for queue in queues
        if queue.topic == topic and queue.batches and partition in (None, queue.partition)
    ]
    return "; ".join(found[:TOLD_MAX]) or f"topic {topic}: the answer is on its way"


def awaited_of_all(
    leaders: MetadataCache, queues: Collection[PartitionQueue], unknown: Iterable[str]
) -> str:
    """Return what records wait for: those of unknown topics, and those in batches."""
    topics = dict.fromkeys(unknown)
    topics |= {queue.topic: None for queue in tuple(queues) if queue.batches}
    found = [awaited(leaders, queues, topic, None) for topic in tuple(topics)[:TOLD_MAX]]
    return "; ".join(found) or "the answer is on its way"


def _of(leaders: MetadataCache, queue: PartitionQueue) -> str:
    leader = queue.asked
    if leader is None:
        return f"{queue.topic}/{queue.partition}: it has no leader"
    address = leaders.address(leader.node_id) or "an unknown address"
    refusal = f"; its last answer was: {queue.last_refusal}" if queue.last_refusal else ""
    return f"{queue.topic}/{queue.partition}: leader {leader.node_id} at {address}{refusal}"
