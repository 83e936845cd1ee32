"""The one timer of a shard: sessions of members, and moments at which groups are looked at."""

import asyncio
from collections.abc import Callable, Coroutine

from sharemesh.domain.ids import GroupId, MemberId
from sharemesh.domain.share_group.deadlines import SessionDeadlines
from sharemesh.ports.clock import Clock
from sharemesh.tasks import cancel_and_wait

IDLE_MS = 60_000
"""How long the timer sleeps when nothing is due."""


class GroupTimers:
    """Sleeps until the earliest moment; an earlier one wakes it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deadlines = SessionDeadlines()
        self._earlier = asyncio.Event()
        self._sleeps_until_ms = 0

    def start(self, group_id: GroupId, member_id: MemberId, after_ms: int) -> None:
        """Set, or move, the moment of a member to ``after_ms`` from now."""
        self.start_at(group_id, member_id, self._clock.now_ms() + after_ms)

    def start_at(self, group_id: GroupId, member_id: MemberId, due_ms: int) -> None:
        """Set, or move, the moment of a member (monotonic)."""
        self._deadlines.restart(group_id, member_id, due_ms)
        self._wake_before(due_ms)

    def shorten(self, group_id: GroupId, member_id: MemberId, after_ms: int) -> None:
        """Bring a moment forward to ``after_ms`` from now, if it is set and later."""
        due_ms = self._clock.now_ms() + after_ms
        self._deadlines.shorten(group_id, member_id, due_ms)
        self._wake_before(due_ms)

    def stop(self, group_id: GroupId, member_id: MemberId) -> None:
        """Forget a moment. Repeating it is fine."""
        self._deadlines.forget(group_id, member_id)

    def running(self, group_id: GroupId, member_id: MemberId) -> bool:
        """Return whether a moment is set that has not come yet."""
        return self._deadlines.deadline_ms(group_id, member_id) is not None

    async def run(self, due: Callable[[list[tuple[GroupId, MemberId]]], None]) -> None:
        """Call ``due`` with whose moment has come, for ever."""
        while True:
            now_ms = self._clock.now_ms()
            come = self._deadlines.take_due(now_ms)
            if come:
                due(come)
            next_ms = self._deadlines.next_ms()
            self._sleeps_until_ms = now_ms + IDLE_MS if next_ms is None else next_ms
            self._earlier.clear()
            await _first_of(
                self._clock.sleep_ms(max(1, self._sleeps_until_ms - self._clock.now_ms())),
                self._earlier.wait(),
            )

    def _wake_before(self, due_ms: int) -> None:
        if due_ms < self._sleeps_until_ms:
            self._earlier.set()


async def _first_of(*waits: Coroutine[None, None, object]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_and_wait(*tasks)
