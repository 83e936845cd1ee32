"""A watch over many partitions: one fetch session with each broker that leads some of them."""

import asyncio
import contextlib
from collections.abc import Sequence

from sharemesh.kafka.answers import fetched_records
from sharemesh.kafka.dialing import REQUEST_TIMEOUT_MS
from sharemesh.kafka.directory import LeaderDirectory
from sharemesh.kafka.lanes import BrokerLanes
from sharemesh.kafka.messages import KafkaMessage, milliseconds
from sharemesh.kafka.quiet_brokers import QuietBrokers
from sharemesh.kafka.silent_leaders import SilentLeaders
from sharemesh.kafka.versions import LAST_WITH_NAMES, KafkaRequest
from sharemesh.kafka.watch_errors import WatchErrors
from sharemesh.kafka.watch_session import Wanted, WatchedAtLeader, WatchSession
from sharemesh.ports.brokers import (
    NO_TOPIC_ID,
    BrokerAddress,
    BrokerLane,
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    Isolation,
    UnsupportedRequestError,
    WatchAnswer,
    WatchedPartition,
)
from sharemesh.ports.clock import Clock
from sharemesh.tasks import OwnedTasks, first_done

RESPONSE_BYTES_MAX = 8 << 20
"""Records of one answer, all partitions together; one batch that is larger comes whole."""

_END_TIMEOUT_MS = 1_000
_NETWORK_EXCEPTION = 13
_UNSUPPORTED_VERSION = 35
_REFUSALS = BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError


class KafkaWatch:
    """Fills the port BrokerWatch."""

    def __init__(
        self,
        number: int,
        directory: LeaderDirectory,
        lanes: BrokerLanes,
        silent: SilentLeaders,
        clock: Clock,
    ) -> None:
        """``number`` tells the watches of a process apart."""
        self._number = number
        self._directory = directory
        self._lanes = lanes
        self._silent = silent
        self._clock = clock
        self._watched: dict[BrokerPartition, WatchedPartition] = {}
        self._sessions: dict[BrokerAddress, WatchSession] = {}
        self._fetches: dict[BrokerAddress, asyncio.Task[list[WatchAnswer]]] = {}
        self._finding: asyncio.Task[list[WatchAnswer]] | None = None
        self._errors = WatchErrors()
        self._quiet = QuietBrokers()
        self._doubting: asyncio.Task[None] | None = None
        self._tasks = OwnedTasks("a watch over Kafka's partitions")

    def set(self, partitions: Sequence[WatchedPartition]) -> None:
        """Watch exactly these from the next poll on (port BrokerWatch)."""
        before, self._watched = self._watched, {each.partition: each for each in partitions}
        for place, asked in before.items():
            if self._watched.get(place) != asked:
                self._errors.forget(place)

    async def poll(self, max_wait_ms: int) -> Sequence[WatchAnswer]:
        """Return what is new, at the latest after the wait (port BrokerWatch)."""
        deadline_ms = self._clock.now_ms() + max_wait_ms
        while True:
            left_ms = max(0, deadline_ms - self._clock.now_ms())
            self._begin(left_ms)
            under_way = [*self._fetches.values(), *([self._finding] if self._finding else ())]
            pause_ms = self._errors.pause_ms(self._clock.now_ms(), left_ms)
            await first_done(*under_way, self._clock.sleep_ms(pause_ms))
            answers = self._harvest()
            if answers or self._clock.now_ms() >= deadline_ms:
                return answers

    async def close(self) -> None:
        """End the sessions (port BrokerWatch)."""
        await self._tasks.close()
        self._fetches.clear()
        self._finding = self._doubting = None
        self._watched.clear()
        open_ = [each for each in self._sessions.items() if each[1].is_open]
        self._sessions.clear()
        await asyncio.gather(*[self._end(broker, session) for broker, session in open_])

    def _begin(self, max_wait_ms: int) -> None:
        """Ask every broker that is not being asked, and for leaders that are not known.

        Partitions that pause after an error are left out.
        """
        now_ms = self._clock.now_ms()
        self._doubt(now_ms)
        by_broker: dict[BrokerAddress, dict[BrokerPartition, WatchedAtLeader]] = {}
        homeless = []
        for place, watched in self._watched.items():
            if not self._errors.may_ask(place, now_ms):
                continue
            leader = self._directory.known_leader(place)
            if leader is None:
                homeless.append(place)
            else:
                wanted = by_broker.setdefault(leader.broker, {})
                wanted[place] = WatchedAtLeader(watched, leader.epoch)
        if homeless and self._finding is None:
            self._finding = self._tasks.spawn(self._find(homeless))
        for broker in [each for each in self._sessions if each not in by_broker]:
            if broker not in self._fetches:
                session = self._sessions.pop(broker)
                if session.is_open:
                    self._tasks.spawn(self._end(broker, session))
        for broker, wanted in by_broker.items():
            if broker not in self._fetches:
                session = self._sessions.setdefault(broker, WatchSession())
                asking = self._fetch(broker, session, wanted, max_wait_ms)
                self._fetches[broker] = self._tasks.spawn(asking)

    def _doubt(self, now_ms: int) -> None:
        """Ask who leads what a broker has had no news of lately: it may be cut off (KBR-17)."""
        doubtful = [
            place
            for place, broker in self._quiet.doubtful(now_ms).items()
            if place in self._watched and self._leads(broker, place)
        ]
        if doubtful and (self._doubting is None or self._doubting.done()):
            self._doubting = self._tasks.spawn(self._directory.ask_again(doubtful))

    def _leads(self, broker: BrokerAddress, place: BrokerPartition) -> bool:
        known = self._directory.known_leader(place)
        return known is not None and known.broker == broker

    def _harvest(self) -> list[WatchAnswer]:
        """Return what has been answered, errors that last only now and then."""
        found: list[WatchAnswer] = []
        for broker, task in list(self._fetches.items()):
            if task.done():
                del self._fetches[broker]
                news = task.result()
                told = [each.partition for each in news if not each.error]
                self._quiet.heard(broker, told, self._clock.now_ms())
                found += news
        if self._finding is not None and self._finding.done():
            found += self._finding.result()
            self._finding = None
        kept = []
        for each in found:
            if each.partition not in self._watched:
                continue  # it was given up meanwhile
            if each.error:
                self._directory.forget(each.partition)
                if not self._errors.failed(each.partition, each.error, self._clock.now_ms()):
                    continue
            else:
                self._errors.forget(each.partition)
            kept.append(each)
        return kept

    async def _find(self, places: Sequence[BrokerPartition]) -> list[WatchAnswer]:
        """Ask for leaders, all at once; return who has none."""
        found = await asyncio.gather(*[self._code_of_leader(each) for each in places])
        return [
            WatchAnswer(place, None, code)
            for place, code in zip(places, found, strict=True)
            if code
        ]

    async def _code_of_leader(self, place: BrokerPartition) -> int:
        try:
            await self._directory.leader(place)
        except _REFUSALS as error:
            return _code_of(error)
        return 0

    async def _fetch(
        self, broker: BrokerAddress, session: WatchSession, wanted: Wanted, max_wait_ms: int
    ) -> list[WatchAnswer]:
        names = any(each.topic_id == NO_TOPIC_ID for each in wanted)
        at_most = LAST_WITH_NAMES if names else None
        try:
            with self._silent.given_up(broker, wanted, max_wait_ms) as awaited:
                connection = await self._lanes.connection(broker, BrokerLane.WATCH, self._number)
                awaited.goes_over(connection)
                version = connection.version_of(KafkaRequest.FETCH, at_most)
                content = {
                    **session.request(wanted, version),
                    "replica_id": -1,
                    "max_wait": milliseconds(max_wait_ms),
                    "min_bytes": 1,
                    "max_bytes": RESPONSE_BYTES_MAX,
                    "isolation_level": int(Isolation.READ_UNCOMMITTED),
                }
                answer = await connection.call(
                    KafkaRequest.FETCH,
                    content,
                    timeout_ms=max_wait_ms + REQUEST_TIMEOUT_MS,
                    at_most=at_most,
                )
            found = session.accept(answer)
        except _REFUSALS as error:
            session.reset()
            return [WatchAnswer(place, None, _code_of(error)) for place in wanted]
        if found is None:
            return []  # the next poll begins a new session
        return [_answer(place, partition, asked.leader_epoch) for place, asked, partition in found]

    async def _end(self, broker: BrokerAddress, session: WatchSession) -> None:
        """Let the broker forget a session; without an open connection it does so by itself."""
        connection = self._lanes.open_connection(broker, BrokerLane.WATCH, self._number)
        if connection is None:
            return
        content = {
            **session.end(),
            "replica_id": -1,
            "max_wait": milliseconds(0),
            "min_bytes": 0,
            "isolation_level": 0,
        }
        with contextlib.suppress(*_REFUSALS):
            await connection.call(KafkaRequest.FETCH, content, timeout_ms=_END_TIMEOUT_MS)


def _answer(place: BrokerPartition, found: KafkaMessage, leader_epoch: int) -> WatchAnswer:
    code = int(found.error_code)
    return WatchAnswer(place, None if code else fetched_records(found, leader_epoch), code)


def _code_of(error: Exception) -> int:
    if isinstance(error, BrokerRefusedError):
        return error.code
    return _NETWORK_EXCEPTION if isinstance(error, BrokerUnreachableError) else _UNSUPPORTED_VERSION
