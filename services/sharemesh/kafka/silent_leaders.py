"""Requests to leaders that say nothing are given up once another broker leads (KBR-16).

A broker that froze, or whose machine vanished, closes no connection: only a time-out would tell,
long after Kafka has elected another leader.
"""

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sharemesh.kafka.connection import BrokerConnection
from sharemesh.kafka.directory import LeaderDirectory
from sharemesh.ports.brokers import BrokerAddress, BrokerPartition, BrokerUnreachableError
from sharemesh.ports.clock import Clock
from sharemesh.tasks import OwnedTasks

OVERDUE_MS = 1_000
"""Beyond what a request may take by itself: from then on it is asked who leads."""

ASK_EVERY_MS = 500


@dataclass(slots=True)
class AwaitedLeader:
    """One request that is not answered yet."""

    task: "asyncio.Task[object]"
    broker: BrokerAddress
    places: Collection[BrokerPartition]
    due_ms: int
    connection: BrokerConnection | None = None
    reads_before: int = 0
    given_up: bool = False

    def goes_over(self, connection: BrokerConnection) -> None:
        """Note where it is sent: a connection that stays silent may end with it."""
        self.connection, self.reads_before = connection, connection.reads

    def give_up(self) -> None:
        """End the awaits of the request."""
        self.given_up = True
        self.task.cancel()
        if self.connection is not None:
            self.connection.give_up(self.reads_before)


class SilentLeaders:
    """Looks after all requests of a process from one task, which lives while there are some."""

    def __init__(self, directory: LeaderDirectory, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._waiting: dict[int, AwaitedLeader] = {}
        self._number = 0
        self._looking: asyncio.Task[None] | None = None
        self._tasks = OwnedTasks("what looks after silent brokers")

    @contextmanager
    def given_up(
        self, broker: BrokerAddress, places: Collection[BrokerPartition], wait_ms: int = 0
    ) -> Iterator[AwaitedLeader]:
        """End the awaits of the block once an answer is overdue and another broker leads.

        Args:
            broker: Whom the request goes to.
            places: Partitions that it is for.
            wait_ms: How long the broker may take before it answers.

        Raises:
            BrokerUnreachableError: It was given up; it may be done, even later.
        """
        task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        waiting = AwaitedLeader(task, broker, places, self._clock.now_ms() + wait_ms + OVERDUE_MS)
        self._number += 1
        number = self._number
        self._waiting[number] = waiting
        if self._looking is None or self._looking.done():
            self._looking = self._tasks.spawn(self._look())
        try:
            yield waiting
        except asyncio.CancelledError:
            if waiting.given_up and task.uncancel() <= cancelled_before:
                raise BrokerUnreachableError(
                    "the leader did not answer, and another broker leads now"
                ) from None
            raise
        finally:
            del self._waiting[number]

    async def close(self) -> None:
        """Look after nothing any more."""
        await self._tasks.close()

    async def _look(self) -> None:
        while self._waiting:
            await self._clock.sleep_ms(ASK_EVERY_MS)
            now_ms = self._clock.now_ms()
            overdue = [each for each in self._waiting.values() if each.due_ms <= now_ms]
            if not overdue:
                continue
            places = dict.fromkeys(place for each in overdue for place in each.places)
            await self._directory.ask_again(list(places))
            for number, each in list(self._waiting.items()):
                is_overdue = any(each is one for one in overdue)
                if is_overdue and number in self._waiting and self._others_lead(each):
                    each.give_up()

    def _others_lead(self, waiting: AwaitedLeader) -> bool:
        if waiting.given_up:
            return False
        leaders = (self._directory.known_leader(place) for place in waiting.places)
        return any(now is not None and now.broker != waiting.broker for now in leaders)
