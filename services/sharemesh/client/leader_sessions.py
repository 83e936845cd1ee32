"""One share session with each leader of an assigned partition, kept as leaders move."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence

from sharemesh.client.backoff import Backoff
from sharemesh.client.errors import SharemeshError
from sharemesh.client.leader_stream import LeaderStream, SessionEvents
from sharemesh.client.leaders import Leaders
from sharemesh.client.records import TopicIdPartition
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import Caller
from sharemesh.v1.share_leader_pb2 import ConsumeStart

_REFRESH_TIMEOUT_MS = 10_000
_REFRESH_PAUSE_MS = 40
"""News of a move is followed at once, but metadata is read no more often than so."""


class LeaderSessions:
    """Follows the assignment and the leaders; ``run`` is its owner task.

    Attributes:
        assignment: The assigned partitions by topic id and number.
        is_paused: Whether leaders deliver nothing until ``resume``.
    """

    def __init__(
        self,
        leaders: Leaders,
        caller: Caller,
        clock: Clock,
        start: ConsumeStart,
        bytes_ahead: int,
        events: SessionEvents,
    ) -> None:
        self._leaders = leaders
        self._caller = caller
        self._clock = clock
        self._start = start
        self._bytes_ahead = bytes_ahead
        self._events = events
        self.assignment: dict[tuple[bytes, int], TopicIdPartition] = {}
        self.is_paused = False
        self._streams: dict[str, LeaderStream] = {}
        self._stream_tasks: dict[LeaderStream, asyncio.Task[None]] = {}
        self._draining: dict[tuple[bytes, int], str] = {}
        self._stale: set[tuple[bytes, int]] = set()
        self._retry_at_ms: dict[str, int] = {}
        self._backoffs: dict[str, Backoff] = {}
        self._refresh_backoff = leaders.backoff()
        self._refresh_at_ms = 0
        self._refreshed_ms = 0
        self._credit = 0
        self._work = asyncio.Event()

    def assign(self, assignment: Mapping[tuple[bytes, int], TopicIdPartition]) -> None:
        """Take over an assignment."""
        self.assignment = dict(assignment)
        for key in [key for key in self._draining if key not in self.assignment]:
            del self._draining[key]
        self._stale &= self.assignment.keys()
        self._work.set()

    def grant(self, records: int) -> None:
        """Let each leader send up to ``records``; sessions opened later get the same."""
        self._credit = max(records, 0)
        if records > 0:
            for stream in self._streams.values():
                stream.grant(records, self._bytes_ahead)

    def hold_back(self) -> None:
        """Let no leader deliver until ``resume``, whatever credit it still has."""
        self.is_paused = True
        for stream in self._streams.values():
            stream.forget(stream.partitions)

    def resume(self) -> None:
        """Let leaders deliver again."""
        if self.is_paused:
            self.is_paused = False
            self._work.set()

    def worked(self, node_id: str) -> None:
        """Forget failures of a leader: it delivered."""
        self._backoffs.pop(node_id, None)

    def ended(self, stream: LeaderStream) -> bool:
        """Open a new session later; False if this one had been given up before."""
        if self._streams.get(stream.node_id) is not stream:
            return False
        del self._streams[stream.node_id]
        for source in stream.partitions:
            self._stale.add((source.topic_id, source.partition))
        backoff = self._backoffs.setdefault(stream.node_id, self._leaders.backoff())
        self._retry_at_ms[stream.node_id] = self._clock.now_ms() + backoff.next_ms()
        self._work.set()
        return True

    async def close(self, *, timeout_ms: int) -> None:
        """Close the sessions; those that do not end in time are dropped."""
        self.assignment.clear()
        self._draining.clear()
        for stream in self._streams.values():
            stream.close()
        tasks = list(self._stream_tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_ms / 1_000)
        await cancelled(tasks)

    async def drop(self) -> None:
        """Drop all connections."""
        await cancelled(list(self._stream_tasks.values()))

    def look_again(self, source: TopicIdPartition, node_id: str) -> None:
        """Look for the leader of a partition that ``node_id`` lost, drains, or cannot serve."""
        key = (source.topic_id, source.partition)
        self._draining[key] = node_id
        self._stale.add(key)
        # It moves now: waits that grew while it was about to are over.
        self._refresh_backoff.reset()
        self._refresh_at_ms = min(self._refresh_at_ms, self._refreshed_ms + _REFRESH_PAUSE_MS)
        self._work.set()

    async def run(self) -> None:
        """Keep one session with each leader of an assigned partition."""
        while True:
            self._work.clear()
            wait_ms = await self._reconcile()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait_ms is None else wait_ms / 1_000):
                    await self._work.wait()

    async def _reconcile(self) -> int | None:
        """Refresh, forget, add, open; return ms until something is to be tried again."""
        await self._refresh()
        wanted: dict[str, list[TopicIdPartition]] = {}
        unplaced = False
        for key, source in self.assignment.items() if not self.is_paused else ():
            leader = self._leaders.leader(*key)
            if leader is None or self._draining.get(key) == leader.node_id:
                unplaced = True
                self._stale.add(key)  # else nobody would ask again, and the wait would be none
                continue
            self._draining.pop(key, None)
            wanted.setdefault(leader.node_id, []).append(source)
        self._forget_lost(wanted)
        waits = [self._serve(node_id, sources) for node_id, sources in wanted.items()]
        if unplaced or self._stale:
            waits.append(max(self._refresh_at_ms - self._clock.now_ms(), 0))
        due = [wait for wait in waits if wait is not None]
        return min(due) if due else None

    async def _refresh(self) -> None:
        """Read metadata if a leader is unknown or said to have moved."""
        unknown = [key for key in self.assignment if self._leaders.leader(*key) is None]
        now_ms = self._clock.now_ms()
        if not unknown and not self._stale:
            self._refresh_backoff.reset()
            return
        if now_ms < self._refresh_at_ms:
            return
        names = sorted({source.topic for source in self.assignment.values()})
        stale, self._stale = self._stale, set()
        self._refreshed_ms = now_ms
        self._refresh_at_ms = now_ms + self._refresh_backoff.next_ms()
        try:
            await self._leaders.refresh(names, timeout_ms=_REFRESH_TIMEOUT_MS)
        except SharemeshError:
            self._stale |= stale
            return
        for key in stale:
            leader = self._leaders.leader(*key)
            if leader is not None and self._draining.get(key) == leader.node_id:
                self._retry_on_same_leader(key, leader.node_id)

    def _retry_on_same_leader(self, key: tuple[bytes, int], node_id: str) -> None:
        """A partition that failed here and is still led here: ask again, unless it drains."""
        stream = self._streams.get(node_id)
        source = self.assignment.get(key)
        if source is None:
            return
        if stream is not None and source in stream.partitions:
            self._stale.add(key)  # draining: wait until it has moved
        else:
            del self._draining[key]

    def _forget_lost(self, wanted: dict[str, list[TopicIdPartition]]) -> None:
        for node_id, stream in list(self._streams.items()):
            keep = set(wanted.get(node_id, ()))
            stream.forget(
                source
                for source in stream.partitions
                if source not in keep and (source.topic_id, source.partition) not in self._draining
            )

    def _serve(self, node_id: str, sources: Sequence[TopicIdPartition]) -> int | None:
        """Consume ``sources`` from a node; return ms to wait before its session may be opened."""
        stream = self._streams.get(node_id)
        if stream is None:
            wait_ms = self._retry_at_ms.get(node_id, 0) - self._clock.now_ms()
            if wait_ms > 0:
                return wait_ms
            address = self._leaders.address(node_id)
            if address is None:
                self._stale.update((each.topic_id, each.partition) for each in sources)
                return None
            stream = self._open(node_id, address)
        have = set(stream.partitions)
        stream.add(source for source in sources if source not in have)
        return None

    def _open(self, node_id: str, address: str) -> LeaderStream:
        stream = LeaderStream(
            node_id, address, self._start, self._caller, self._clock, self._events
        )
        self._streams[node_id] = stream
        task = asyncio.ensure_future(stream.run())
        self._stream_tasks[stream] = task
        task.add_done_callback(lambda _: self._stream_tasks.pop(stream, None))
        if self._credit:
            stream.grant(self._credit, self._bytes_ahead)
        return stream


async def cancelled(tasks: Iterable["asyncio.Task[None]"]) -> None:
    """Cancel tasks and wait for their end."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
