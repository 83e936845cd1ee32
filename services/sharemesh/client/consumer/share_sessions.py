"""One share session with each leader of an assigned partition, kept as leaders move."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sharemesh.backoff import Backoff, backoff_ms
from sharemesh.client.consumer.consume_stream import LeaderSession, SessionEvents
from sharemesh.client.errors import SharemeshError
from sharemesh.client.metadata.metadata_cache import Leader, MetadataCache
from sharemesh.client.records import TopicIdPartition
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import Caller
from sharemesh.tasks import cancel_and_wait, wait_until_set
from sharemesh.v1.share_leader_pb2 import ConsumeStart

_Key = tuple[bytes, int]

_REFRESH_TIMEOUT_MS = 10_000

_NEWS_WAIT_MS = 500
"""Longest wait of a metadata request that is answered as soon as there is a newer leader."""

_REFRESH_PAUSE_MS = 40
"""Shortest time between two metadata requests: a known move is otherwise followed at once."""

_REFUSED_FIRST_MS = 40
_REFUSED_MOST_MS = 1_000
"""First and longest wait before a leader that refused a partition is asked again."""


@dataclass(slots=True)
class _Away:
    """A partition that is not consumed from the leader that metadata shows, in that epoch.

    ``retry_at_ms`` None: that leader hands it over, so only a newer epoch counts; ``next_node_id``
    is the successor that it named, where the partition is added ahead.
    """

    leader: Leader
    retry_at_ms: int | None
    refusals: int
    next_node_id: str = ""

    def left_ms(self, leader: Leader, now_ms: int) -> int | None:
        """Return ms until ``leader`` may be asked; None: never."""
        same = self.leader.node_id == leader.node_id
        if not same or leader.leader_epoch > self.leader.leader_epoch:
            return 0
        return None if self.retry_at_ms is None else max(self.retry_at_ms - now_ms, 0)


class ShareSessionPool:
    """Keeps a session with each leader of an assigned partition; ``run`` is its owner task.

    Attributes:
        assignment: The assigned partitions by topic id and number.
        paused: Those that the application paused (spec PAU-6).
        is_paused: Whether leaders deliver nothing until ``resume``.
    """

    def __init__(
        self,
        leaders: MetadataCache,
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
        self.assignment: dict[_Key, TopicIdPartition] = {}
        self.paused: dict[_Key, TopicIdPartition] = {}
        self.is_paused = False
        self._streams: dict[str, LeaderSession] = {}
        self._stream_tasks: dict[LeaderSession, asyncio.Task[None]] = {}
        self._away: dict[_Key, _Away] = {}
        self._following: dict[tuple[LeaderSession, TopicIdPartition], None] = {}
        self._followed: dict[tuple[LeaderSession, TopicIdPartition], LeaderSession] = {}
        self._stale = False
        self._retry_at_ms: dict[str, int] = {}
        self._backoffs: dict[str, Backoff] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._refresh_backoff = leaders.backoff()
        self._refresh_at_ms = 0
        self._refreshed_ms = -_REFRESH_PAUSE_MS
        self._credit = 0
        self._work = asyncio.Event()

    def assign(self, assignment: Mapping[_Key, TopicIdPartition]) -> None:
        """Set the assignment."""
        self.assignment = dict(assignment)
        for key in [key for key in self._away if key not in self.assignment]:
            del self._away[key]
        for key in [key for key in self.paused if key not in self.assignment]:
            del self.paused[key]
        self._work.set()

    def pause(self, sources: Iterable[TopicIdPartition]) -> None:
        """Let nobody deliver of these until they are resumed, or assigned away (PAU-6, PAU-7)."""
        self.paused |= {(each.topic_id, each.partition): each for each in sources}
        self._work.set()

    def unpause(self, sources: Iterable[TopicIdPartition]) -> None:
        """Let leaders deliver of these again."""
        for each in sources:
            self.paused.pop((each.topic_id, each.partition), None)
        self._work.set()

    def grant(self, records: int) -> None:
        """Let each leader send up to ``records``; sessions opened later get the same."""
        self._credit = max(records, 0)
        if records > 0:
            for stream in self._streams.values():
                stream.grant(records, self._bytes_ahead)

    def acquire(self, mode: int) -> None:
        """Change the acquire mode of all sessions, and of those opened later."""
        self._start.share_acquire_mode = mode
        for stream in self._streams.values():
            stream.acquire(mode)

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

    def worked(self, node_id: str, source: TopicIdPartition) -> None:
        """Forget failures of a leader: it delivered."""
        self._backoffs.pop(node_id, None)
        if self._away:
            away = self._away.get((source.topic_id, source.partition))
            if away is not None and away.retry_at_ms is not None:
                del self._away[source.topic_id, source.partition]

    def ended(self, stream: LeaderSession) -> bool:
        """Open a new session later; False if this one was already abandoned."""
        for way, to in list(self._followed.items()):
            if to is stream:
                del self._followed[way]
                before, source = way
                if before.looks_for_next(source):
                    self._following[way] = None
        if self._streams.get(stream.node_id) is not stream:
            return False
        del self._streams[stream.node_id]
        self._refresh_soon()
        backoff = self._backoffs.setdefault(stream.node_id, self._leaders.backoff())
        self._retry_at_ms[stream.node_id] = self._clock.now_ms() + backoff.next_ms()
        return True

    async def close(self, *, timeout_ms: int) -> None:
        """Close the sessions; those that do not end in time are dropped."""
        self.assignment.clear()
        self.paused.clear()
        self._away.clear()
        self._lose_all()
        for stream in self._streams.values():
            stream.close()
        tasks = list(self._stream_tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_ms / 1_000)
        await cancel_and_wait(*tasks)
        self._lose_all()  # what was handed over meanwhile: nobody looks for its next leader

    def _lose_all(self) -> None:
        for stream, source in list(self._following):
            stream.lose(source)
        self._following.clear()

    async def drop(self) -> None:
        """Drop all connections."""
        await cancel_and_wait(*self._stream_tasks.values())

    def leaving(self, source: TopicIdPartition, node_id: str, next_node_id: str) -> None:
        """Find the next leader of a partition that ``node_id`` is about to hand over."""
        self._note_away(source, node_id, refused=False)
        away = self._away.get((source.topic_id, source.partition))
        if away is not None and away.leader.node_id == node_id and next_node_id != node_id:
            away.next_node_id = next_node_id

    def handed_over(self, source: TopicIdPartition, stream: LeaderSession) -> None:
        """Find a session in which the records of a partition are acknowledged now (HND-10)."""
        self._following[stream, source] = None
        self._followed.pop((stream, source), None)
        self._note_away(source, stream.node_id, refused=False)

    def leader_known(self) -> None:
        """A refusal named a leader: what was handed over may have moved on to it."""
        if self._followed:
            self._work.set()

    def refused(self, source: TopicIdPartition, node_id: str) -> None:
        """Find the leader of a partition that ``node_id`` does not, or cannot, serve.

        If metadata still names this node in this epoch, the node is asked again later.
        """
        self._note_away(source, node_id, refused=True)

    def _note_away(self, source: TopicIdPartition, node_id: str, *, refused: bool) -> None:
        key = (source.topic_id, source.partition)
        leader = self._leaders.leader(*key)
        before = self._away.get(key)
        if before is not None and before.next_node_id == node_id:
            before.next_node_id = ""  # this node does not take it over after all
        if leader is not None and leader.node_id == node_id:
            if before is None or before.left_ms(leader, 0) == 0:
                before = None
            refusals = before.refusals if before is not None else 0
            gone = not refused or (before is not None and before.retry_at_ms is None)
            wait_ms = backoff_ms(refusals, _REFUSED_FIRST_MS, _REFUSED_MOST_MS)
            self._away[key] = _Away(
                leader,
                None if gone else self._clock.now_ms() + wait_ms,
                refusals + 1,
                before.next_node_id if before is not None else "",
            )
        self._refresh_soon()

    def _refresh_soon(self) -> None:
        """Read metadata soon: the back-off of earlier reads ends."""
        self._stale = True
        self._refresh_backoff.reset()
        self._refresh_at_ms = min(self._refresh_at_ms, self._refreshed_ms + _REFRESH_PAUSE_MS)
        self._work.set()

    async def run(self) -> None:
        """Keep one session with each leader of an assigned partition."""
        try:
            while True:
                self._work.clear()
                wait_ms = self._reconcile()
                await wait_until_set(self._work, wait_ms)
        finally:
            if self._refreshing is not None:
                await cancel_and_wait(self._refreshing)

    def _reconcile(self) -> int | None:
        """Bring sessions in line with assignment and leaders; return ms until the next attempt."""
        wanted: dict[str, list[TopicIdPartition]] = {}
        waits: list[int | None] = []
        unplaced = False
        undecided: set[TopicIdPartition] = set()
        now_ms = self._clock.now_ms()
        for key, source in self.assignment.items() if not self.is_paused else ():
            if key in self.paused:
                continue
            leader = self._leaders.leader(*key)
            away = self._away.get(key)
            if leader is None:
                unplaced = True
                undecided.add(source)
                if away is not None and away.next_node_id:
                    wanted.setdefault(away.next_node_id, []).append(source)
            elif away is not None and (left_ms := away.left_ms(leader, now_ms)) != 0:
                unplaced = True
                waits.append(left_ms)
                if away.next_node_id:
                    wanted.setdefault(away.next_node_id, []).append(source)
            else:
                wanted.setdefault(leader.node_id, []).append(source)
        waits.append(self._follow(wanted, now_ms))
        unplaced |= bool(self._following)
        self._forget_lost(wanted, undecided)
        waits += [self._serve(node_id, sources) for node_id, sources in wanted.items()]
        waits.append(self._refresh_if_due(needed=unplaced or self._stale))
        due = [wait for wait in waits if wait is not None]
        return min(due) if due else None

    def _follow(self, wanted: dict[str, list[TopicIdPartition]], now_ms: int) -> int | None:
        """Lead what was handed over to the sessions of next leaders; return ms until one is lost.

        Where there is no such session yet, it is wanted.
        """
        waits: list[int] = []
        for (stream, source), followed in list(self._followed.items()):
            leader = self._leaders.leader(source.topic_id, source.partition)
            if leader is not None and stream.look_further(source, leader.leader_epoch):
                del self._followed[stream, source]
                self._following[stream, source] = None
                continue
            until_ms = stream.follows_until_ms(source, stream.handed_over_in(source))
            # Else what is said must hear of its end.
            if followed.has_shown(source) and until_ms <= now_ms:
                del self._followed[stream, source]
        for stream, source in list(self._following):
            leader = self._leaders.leader(source.topic_id, source.partition)
            before = stream.handed_over_in(source)
            left_ms = stream.follows_until_ms(source, before) - now_ms
            if leader is not None and leader.leader_epoch > before:
                to = self._streams.get(leader.node_id)
                if to is not None and to.is_open:
                    del self._following[stream, source]
                    stream.follow(source, to, leader.leader_epoch)
                    self._followed[stream, source] = to
                    continue
                if to is None:
                    wanted.setdefault(leader.node_id, [])
            if left_ms <= 0:
                del self._following[stream, source]
                stream.lose(source)
                continue
            waits.append(left_ms)
        return min(waits, default=None)

    def _refresh_if_due(self, *, needed: bool) -> int | None:
        """Read metadata beside the sessions that work; return ms until it is due."""
        running = self._refreshing
        if running is not None:
            if not running.done():
                return None  # its end sets ``_work``
            self._refreshing = None
            running.result()
            return self._refresh_if_due(needed=needed or self._stale)
        if not needed:
            self._refresh_backoff.reset()
            fresh_ms = self._fresh_ms()
            if fresh_ms != 0:
                return fresh_ms
        left_ms = self._refresh_at_ms - self._clock.now_ms()
        if left_ms > 0:
            return left_ms
        self._refreshing = asyncio.ensure_future(self._refresh())
        self._refreshing.add_done_callback(lambda _: self._work.set())
        return None

    def _fresh_ms(self) -> int | None:
        """Return ms until metadata of an assigned topic is too old; None: it will not be."""
        names = {source.topic for source in self.assignment.values()}
        known = [left for name in names if (left := self._leaders.fresh_ms(name)) is not None]
        return min(known, default=None)

    async def _refresh(self) -> None:
        sought = {(each.topic_id, each.partition): each for _, each in self._following}
        sought |= self.assignment  # what was handed over may be assigned to others by now
        names = sorted({source.topic for source in sought.values()})
        began_ms = self._refreshed_ms = self._clock.now_ms()
        before = {key: self._known(key) for key in sought}
        self._stale = False
        try:
            await self._leaders.refresh(
                names, timeout_ms=_REFRESH_TIMEOUT_MS, awaited=before, wait_ms=_NEWS_WAIT_MS
            )
        except SharemeshError:
            self._stale = True
            self._refresh_at_ms = self._clock.now_ms() + self._refresh_backoff.next_ms()
            return
        now_ms = self._clock.now_ms()
        news = any(self._known(key) > known for key, known in before.items())
        if news or now_ms - began_ms >= _NEWS_WAIT_MS // 2:
            self._refresh_at_ms = began_ms + _REFRESH_PAUSE_MS
        else:
            self._refresh_at_ms = now_ms + self._refresh_backoff.next_ms()

    def _known(self, key: _Key) -> tuple[int, bool]:
        return self._leaders.epoch(key), self._leaders.leader(*key) is not None

    def _forget_lost(
        self, wanted: dict[str, list[TopicIdPartition]], undecided: set[TopicIdPartition]
    ) -> None:
        """Forget what another leader serves; a partition between leaders stays where it is."""
        for node_id, stream in list(self._streams.items()):
            keep = set(wanted.get(node_id, ()))
            stream.forget(
                source
                for source in stream.partitions
                if not (source in keep or source in undecided or self._is_leaving(source, node_id))
            )

    def _is_leaving(self, source: TopicIdPartition, node_id: str) -> bool:
        away = self._away.get((source.topic_id, source.partition))
        leaving = away is not None and away.retry_at_ms is None
        return leaving and away is not None and away.leader.node_id == node_id

    def _serve(self, node_id: str, sources: Sequence[TopicIdPartition]) -> int | None:
        """Consume ``sources`` from a node; return ms to wait before its session may be opened."""
        stream = self._streams.get(node_id)
        if stream is None:
            wait_ms = self._retry_at_ms.get(node_id, 0) - self._clock.now_ms()
            if wait_ms > 0:
                return wait_ms
            address = self._leaders.address(node_id)
            if address is None:
                self._stale = True
                return None
            stream = self._open(node_id, address)
            self._work.set()  # what follows to this session is looked at again
        have = set(stream.partitions)
        stream.add(source for source in sources if source not in have)
        return None

    def _open(self, node_id: str, address: str) -> LeaderSession:
        stream = LeaderSession(
            node_id, address, self._start, self._caller, self._clock, self._events
        )
        self._streams[node_id] = stream
        task = asyncio.ensure_future(stream.run())
        self._stream_tasks[stream] = task
        task.add_done_callback(lambda _: self._stream_tasks.pop(stream, None))
        if self._credit:
            stream.grant(self._credit, self._bytes_ahead)
        return stream
