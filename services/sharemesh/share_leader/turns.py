"""Large work in slices: one in each turn of the loop, in fair order (spec FAI)."""

import asyncio

from sharemesh.domain.fairness.turn_queue import Turn, TurnQueue
from sharemesh.domain.ids import GroupId, TopicPartition

SLICE_UNITS = 1_000
"""What a request may do without waiting for a turn; a unit is about a microsecond."""


class LoopTurns:
    """Gives one waiting piece of work at a time its turn of the loop.

    Between two turns everything runs that is ready, so what is small never waits behind all of
    what is large. A turn is for work of the processor: it ends with the first wait.
    """

    def __init__(self) -> None:
        self._queue = TurnQueue(SLICE_UNITS)
        self._waiting: dict[Turn, asyncio.Future[None]] = {}
        self._planned = False

    def __len__(self) -> int:
        """How many pieces of work wait."""
        return len(self._waiting)

    async def wait(self, group_id: GroupId, partition: TopicPartition, cost: int) -> None:
        """Return when work of a share partition may go on."""
        loop = asyncio.get_running_loop()
        turn = Turn(group_id, partition, cost)
        self._queue.add(turn)
        given = self._waiting[turn] = loop.create_future()
        if not self._planned:
            self._planned = True
            loop.call_soon(self._give)
        try:
            await given
        finally:
            if self._waiting.pop(turn, None) is not None:  # cancelled
                self._queue.remove(turn)

    def _give(self) -> None:
        self._planned = bool(self._queue)
        if not self._planned:
            return
        given = self._waiting.pop(self._queue.take())
        if not given.done():
            given.set_result(None)
        asyncio.get_running_loop().call_soon(self._give)


class SlicedWork:
    """The work of one request: what fits one slice is done at once, without a wait."""

    __slots__ = ("_group_id", "_turns", "_used", "has_waited")

    def __init__(self, turns: LoopTurns, group_id: GroupId) -> None:
        self._turns = turns
        self._group_id = group_id
        self._used = 0
        self.has_waited = False

    async def spend(self, partition: TopicPartition, cost: int) -> None:
        """Return when work of this cost may be done: at once, or in a turn."""
        self._used += cost
        if self._used > SLICE_UNITS:
            self._used = cost
            self.has_waited = True
            await self._turns.wait(self._group_id, partition, cost)
