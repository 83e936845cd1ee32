"""A client's side of incremental fetch sessions: one with each broker that leads something."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from sharemesh.ports.brokers import (
    BrokerLane,
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    WatchAnswer,
    WatchedPartition,
)
from sharemesh.testing.memory_brokers.broker_codes import BrokerCode
from sharemesh.testing.memory_brokers.broker_requests import Request
from sharemesh.testing.memory_brokers.fetch_sessions import (
    FULL_EPOCH,
    NO_SESSION,
    SessionAnswer,
    SessionEntry,
    SessionRequest,
)
from sharemesh.testing.memory_brokers.links import Outcome
from sharemesh.testing.memory_brokers.schedule import Schedule
from sharemesh.testing.memory_brokers.session_rounds import end_session, session_round

ANSWER_BYTES_MAX = 8 * 1024 * 1024
AGAIN_MS = 50
"""How long a partition whose leader cannot be asked waits for the next try."""
TELL_AGAIN_MS = 10_000


class WatchClient(Protocol):
    """What a watch needs of its client."""

    def known_leader(self, partition: BrokerPartition) -> tuple[int, int] | None:
        """Return who leads, and its epoch, if that is known."""
        ...

    def find_leader(self, partition: BrokerPartition, outcome: Outcome) -> None:
        """Ask who leads."""
        ...

    def forget_leader(self, partition: BrokerPartition) -> None:
        """Ask anew the next time."""
        ...

    def send(
        self,
        broker_id: int,
        lane: BrokerLane,
        request: Request,
        outcome: Outcome,
        *,
        wait_ms: int = 0,
        share: int | None = None,
    ) -> None:
        """Send a request on its lane; each watch has connections of its own."""
        ...


class _Session:
    """What one broker was asked last."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = FULL_EPOCH
        self.asked: dict[BrokerPartition, SessionEntry | None] = {}  # None: it was refused
        self.is_under_way = False

    def reset(self) -> None:
        self.session_id, self.epoch = NO_SESSION, FULL_EPOCH
        self.asked.clear()

    def round(
        self, wanted: dict[BrokerPartition, SessionEntry], max_wait_ms: int
    ) -> SessionRequest:
        forgotten = [each for each in self.asked if each not in wanted]
        changed = [
            entry for partition, entry in wanted.items() if self.asked.get(partition) != entry
        ]
        self.asked = dict(wanted)
        return SessionRequest(
            self.session_id, self.epoch, changed, forgotten, max_wait_ms, ANSWER_BYTES_MAX
        )


class MemoryWatch:
    """Fills ``ports.brokers.BrokerWatch``."""

    def __init__(self, number: int, client: WatchClient, schedule: Schedule) -> None:
        """``number`` tells the watches of a client apart."""
        self._number = number
        self._client = client
        self._schedule = schedule
        self._wanted: dict[BrokerPartition, WatchedPartition] = {}
        self._sessions: dict[int, _Session] = {}
        self._ready: list[WatchAnswer] = []
        self._failing: dict[BrokerPartition, tuple[int, float]] = {}  # the error, and when told
        self._not_before_ms: dict[BrokerPartition, float] = {}
        self._finding: dict[BrokerPartition, None] = {}
        self._changed: asyncio.Future[None] | None = None
        self._closed = False

    def set(self, partitions: Sequence[WatchedPartition]) -> None:
        """Watch exactly these from the next poll on."""
        self._wanted = {each.partition: each for each in partitions}
        for partition in [each for each in self._failing if each not in self._wanted]:
            del self._failing[partition]
        for partition in [each for each in self._not_before_ms if each not in self._wanted]:
            del self._not_before_ms[partition]

    async def poll(self, max_wait_ms: int) -> Sequence[WatchAnswer]:
        """Return what is new, at the latest after the wait (see the port)."""
        end_ms = self._schedule.now_ms() + max_wait_ms
        while not self._closed:
            self._ask(end_ms)
            if not self._ready and self._left_ms(end_ms) > 0:
                await self._change(self._left_ms(end_ms))
            if self._ready or self._left_ms(end_ms) <= 0:
                break
        ready, self._ready = self._ready, []
        return [each for each in ready if each.partition in self._wanted]

    async def close(self) -> None:
        """End the sessions; repeating it is fine."""
        if self._closed:
            return
        self._closed = True
        for broker_id, session in self._sessions.items():
            if session.session_id != NO_SESSION:
                request = end_session(session.session_id)
                self._client.send(
                    broker_id, BrokerLane.WATCH, request, lambda _: None, share=self._number
                )
        self._wake()

    # ---- inside -----------------------------------------------------------------------------

    def _left_ms(self, end_ms: float) -> float:
        return end_ms - self._schedule.now_ms()

    def _ask(self, end_ms: float) -> None:
        """Begin a round with every broker that has none under way."""
        by_broker: dict[int, dict[BrokerPartition, SessionEntry]] = {}
        for wanted in list(self._wanted.values()):
            entry = self._entry(wanted)
            if entry is not None:
                by_broker.setdefault(entry[0], {})[wanted.partition] = entry[1]
        for broker_id in list(self._sessions):
            by_broker.setdefault(broker_id, {})
        left_ms = max(0, round(self._left_ms(end_ms)))
        for broker_id, entries in by_broker.items():
            session = self._sessions.setdefault(broker_id, _Session())
            if session.is_under_way or not (entries or session.asked):
                continue
            session.is_under_way = True
            request = session_round(session.round(entries, left_ms))
            self._client.send(
                broker_id,
                BrokerLane.WATCH,
                request,
                partial(self._outcome, broker_id, session, list(entries)),
                wait_ms=left_ms,
                share=self._number,
            )

    def _entry(self, wanted: WatchedPartition) -> tuple[int, SessionEntry] | None:
        partition = wanted.partition
        known = self._client.known_leader(partition)
        if known is not None:
            leader, epoch = known
            return leader, SessionEntry(
                partition, epoch, wanted.offset, wanted.max_bytes, wanted.last_fetched_epoch
            )
        is_due = self._schedule.now_ms() >= self._not_before_ms.get(partition, 0.0)
        if is_due and partition not in self._finding:
            self._finding[partition] = None
            self._client.find_leader(partition, partial(self._found, partition))
        return None

    def _found(self, partition: BrokerPartition, outcome: Any) -> None:  # noqa: ANN401
        self._finding.pop(partition, None)
        if isinstance(outcome, BrokerRefusedError):
            self._failed(partition, outcome.code)
        elif isinstance(outcome, BrokerUnreachableError):
            self._failed(partition, BrokerCode.NETWORK_EXCEPTION)
        self._wake()

    def _outcome(
        self,
        broker_id: int,
        session: _Session,
        partitions: list[BrokerPartition],
        outcome: Any,  # noqa: ANN401
    ) -> None:
        session.is_under_way = False
        if isinstance(outcome, Exception):
            session.reset()
            for partition in partitions:
                self._client.forget_leader(partition)
                self._failed(partition, BrokerCode.NETWORK_EXCEPTION)
        else:
            self._answered(session, outcome)
        if not session.asked:
            self._sessions.pop(broker_id, None)
        self._wake()

    def _answered(self, session: _Session, answer: SessionAnswer) -> None:
        if answer.error or answer.session_id == NO_SESSION:
            session.reset()
        else:
            session.session_id = answer.session_id
            session.epoch += 1
        for each in answer.answers:
            if each.error:
                session.asked[each.partition] = None  # the session keeps it until told to forget
                self._client.forget_leader(each.partition)
                self._failed(each.partition, each.error)
            else:
                self._failing.pop(each.partition, None)
                self._ready.append(each)

    def _failed(self, partition: BrokerPartition, error: int) -> None:
        """Tell of an error once, until it is over or another one, and again while it lasts."""
        now_ms = self._schedule.now_ms()
        self._not_before_ms[partition] = now_ms + AGAIN_MS
        told, told_ms = self._failing.get(partition, (None, now_ms))
        if partition in self._wanted and (told != error or now_ms - told_ms >= TELL_AGAIN_MS):
            self._failing[partition] = error, now_ms
            self._ready.append(WatchAnswer(partition, None, int(error)))
            self._wake()

    async def _change(self, left_ms: float) -> None:
        """Wait for an outcome, for a partition that may be asked again, or for the end."""
        now_ms = self._schedule.now_ms()
        due = [each - now_ms for each in self._not_before_ms.values() if each > now_ms]
        changed = self._changed = asyncio.get_running_loop().create_future()
        alarm = self._schedule.later(min([left_ms, *due]), self._wake)
        try:
            await changed
        finally:
            alarm.cancel()
            self._changed = None

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
