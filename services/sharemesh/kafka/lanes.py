"""The connections of one process: a few lanes to each broker, opened when they are needed.

A broker serves one request of a connection at a time: a long poll, or an acks=all that waits for
replicas, would hold up all that is behind it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sharemesh.backoff import Backoff
from sharemesh.kafka.connection import BrokerConnection
from sharemesh.ports.brokers import (
    BrokerAddress,
    BrokerLane,
    BrokerRefusedError,
    BrokerUnreachableError,
    UnsupportedRequestError,
)
from sharemesh.ports.clock import Clock
from sharemesh.tasks import OwnedTasks

CONNECTIONS_MAX = {
    BrokerLane.WATCH: 1,
    BrokerLane.READ: 3,
    BrokerLane.PRODUCE: 1,
    BrokerLane.CONTROL: 1,
    BrokerLane.SHARD: 1,
}
"""Connections of a lane to one broker; produce has two lanes, and each shard and watch its own."""

IDLE_MS = 180_000
"""After so long without a word a connection is replaced before it is used: what stands in between
forgets one after 4 to 6 minutes without telling, and brokers close it after 10."""

BACKOFF_MIN_MS = 50
BACKOFF_MAX_MS = 500
_CLOSED = "this process has closed its connections to Kafka"

LaneKey = tuple[str, int, BrokerLane, object]
_Opened = BrokerConnection | BrokerRefusedError | BrokerUnreachableError | UnsupportedRequestError


@dataclass(eq=False, slots=True)
class _Slot:
    """One connection, or the task that opens it."""

    opening: "asyncio.Task[_Opened]"
    wanted: int = 0

    def connection(self) -> BrokerConnection | None:
        """Return it once it is open."""
        if not self.opening.done() or self.opening.cancelled() or self.opening.exception():
            return None
        found = self.opening.result()
        return None if isinstance(found, Exception) else found

    def is_over(self, now_ms: int) -> bool:
        """Whether it is of no more use; one that grew old or idle is closed behind its requests."""
        if not self.opening.done():
            return False
        found = self.connection()
        if found is None or found.closed:
            return True
        is_old = found.renew_at_ms is not None and found.renew_at_ms <= now_ms
        is_idle = not found.waiting and now_ms - found.used_at_ms >= IDLE_MS
        if is_old or is_idle:
            found.retire()
        return is_old or is_idle

    def load(self) -> int:
        """Return how many wait for it."""
        found = self.connection()
        return self.wanted if found is None else found.waiting


class BrokerLanes:
    """Gives each request a connection; it opens and closes them all."""

    def __init__(
        self,
        open_: Callable[[BrokerAddress], Awaitable[BrokerConnection]],
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._open = open_
        self._clock = clock
        self._rng = rng
        self._slots: dict[LaneKey, list[_Slot]] = {}
        self._backoffs: dict[tuple[str, int], Backoff] = {}
        self._not_before_ms: dict[tuple[str, int], int] = {}
        self._tasks = OwnedTasks("the connections to Kafka")
        self._closed = False

    async def connection(
        self, broker: BrokerAddress, lane: BrokerLane, share: object = None
    ) -> BrokerConnection:
        """Return the least busy connection of a lane; ``share`` tells lanes of one kind apart.

        Raises:
            BrokerRefusedError: The broker refused the login.
            BrokerUnreachableError: The broker cannot be reached.
            UnsupportedRequestError: It does not speak what a login needs.
        """
        if self._closed:
            raise BrokerUnreachableError(_CLOSED)
        key = broker.host, broker.port, lane, share
        now_ms = self._clock.now_ms()
        slots = [each for each in self._slots.get(key, ()) if not each.is_over(now_ms)]
        self._slots[key] = slots
        slot = min(slots, key=_Slot.load, default=None)
        if slot is None or (slot.load() and len(slots) < CONNECTIONS_MAX[lane]):
            slot = _Slot(self._tasks.spawn(self._dial(broker)))
            self._drop_dead(now_ms)
            self._slots.setdefault(key, []).append(slot)
        slot.wanted += 1
        try:
            found = await asyncio.shield(slot.opening)
        except asyncio.CancelledError:
            if slot.opening.cancelled():
                raise BrokerUnreachableError(_CLOSED) from None
            raise
        finally:
            slot.wanted -= 1
        if isinstance(found, Exception):
            raise found.with_traceback(None)  # one error may be that of several callers
        return found

    def open_connection(
        self, broker: BrokerAddress, lane: BrokerLane, share: object = None
    ) -> BrokerConnection | None:
        """Return a connection of a lane that is open now; none is dialled for it."""
        now_ms = self._clock.now_ms()
        slots = self._slots.get((broker.host, broker.port, lane, share), ())
        found = (each.connection() for each in slots if not each.is_over(now_ms))
        return next((each for each in found if each is not None), None)

    async def close(self) -> None:
        """Close every connection; none is opened any more."""
        self._closed = True
        await self._tasks.close()
        for slots in self._slots.values():
            for slot in slots:
                found = slot.connection()
                if found is not None:
                    found.close()
        self._slots.clear()

    def _drop_dead(self, now_ms: int) -> None:
        """Forget what brokers closed, of lanes that nobody asks for any more."""
        for key, slots in list(self._slots.items()):
            kept = [each for each in slots if not each.is_over(now_ms)]
            if kept:
                self._slots[key] = kept
            else:
                del self._slots[key]

    async def _dial(self, broker: BrokerAddress) -> _Opened:
        place = broker.host, broker.port
        wait_ms = self._not_before_ms.get(place, 0) - self._clock.now_ms()
        if wait_ms > 0:
            await self._clock.sleep_ms(wait_ms)
        try:
            connection = await self._open(broker)
        except (BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError) as error:
            backoff = self._backoffs.setdefault(
                place, Backoff(BACKOFF_MIN_MS, BACKOFF_MAX_MS, self._rng)
            )
            self._not_before_ms[place] = self._clock.now_ms() + backoff.next_ms()
            return error
        self._backoffs.pop(place, None)
        self._not_before_ms.pop(place, None)
        return connection
