"""Two watches a process over all partitions that are led here: active ones, and idle ones (KRL-2).

A broker looks at every partition of a watch at each poll. So one that is polled often has few.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sharemesh.backends.kafka.record_logs.followed_log import FollowedLog
from sharemesh.backends.kafka.record_logs.log_access import LogAccess
from sharemesh.ports.brokers import (
    BrokerPartition,
    BrokerWatch,
    WatchAnswer,
    WatchedPartition,
)
from sharemesh.tasks import cancel_and_wait

REFUSED_PAUSE_MS = 200
"""Pause after an answer that was nothing but errors."""

_log = logging.getLogger(__name__)


class LogWatch:
    """Tells each followed log what is new of it; it runs while there is one."""

    def __init__(self, access: LogAccess) -> None:
        self._tasks = access.tasks
        self._logs: dict[BrokerPartition, FollowedLog] = {}
        bounds = access.bounds
        self._active = _Poller(access, self._logs, bounds.watch_wait_ms, polls_active=True)
        self._idle = _Poller(access, self._logs, bounds.idle_wait_ms, polls_active=False)
        self._running: list[asyncio.Task[None]] = []

    def follow(self, log: FollowedLog) -> None:
        """Watch a log from the next poll on; an older one of the partition is not told any more."""
        self._logs[log.where] = log
        if not self._running:
            active, idle = self._active, self._idle
            self._running = [
                self._tasks.spawn(active.run(idle)),
                self._tasks.spawn(idle.run(active)),
            ]

    async def leave(self, log: FollowedLog) -> None:
        """Watch a log no longer; the last one ends the watches."""
        if self._logs.get(log.where) is log:
            del self._logs[log.where]
            self._active.forget(log.where)
            self._idle.forget(log.where)
        if not self._logs:
            running, self._running = self._running, []
            await asyncio.gather(*[cancel_and_wait(task) for task in running])


@dataclass(slots=True)
class _WatchedLog:
    """What is asked of a log, after how many comparisons of its epoch, and since when."""

    wanted: WatchedPartition
    checks: int
    since_ms: int


class _Poller:
    """Polls a watch over the logs that are active, or over those that are not."""

    def __init__(
        self,
        access: LogAccess,
        logs: dict[BrokerPartition, FollowedLog],
        wait_ms: int,
        *,
        polls_active: bool,
    ) -> None:
        self._brokers = access.brokers
        self._clock = access.clock
        self._bounds = access.bounds
        self._logs = logs
        self._wait_ms = wait_ms
        self._polls_active = polls_active
        self._asked: dict[BrokerPartition, _WatchedLog] = {}

    def forget(self, where: BrokerPartition) -> None:
        """Take no answer about a log any more."""
        self._asked.pop(where, None)

    async def run(self, other: "_Poller") -> None:
        """Poll until it is cancelled; ``other`` has what this one has not."""
        watch = self._brokers.watch()
        try:
            while True:
                try:
                    pause_ms = await self._turn(watch, other)
                except Exception:
                    _log.exception("the watch of the records failed, and goes on")
                    pause_ms = self._bounds.retry_most_ms
                if pause_ms:
                    await self._clock.sleep_ms(pause_ms)
        finally:
            await watch.close()

    async def _turn(self, watch: BrokerWatch, other: "_Poller") -> int:
        """Poll once and return how long to pause."""
        if self._ask(other, self._clock.now_ms()):
            watch.set([each.wanted for each in self._asked.values()])
        answers = await watch.poll(self._wait_ms)
        if not answers:
            return 0
        if self._hand_out(answers):
            return 0
        if all(answer.fetched is None for answer in answers):
            return REFUSED_PAUSE_MS
        return self._bounds.watch_pause_ms

    def _ask(self, other: "_Poller", now_ms: int) -> bool:
        """Bring up to date what is asked of each log; return whether anything changed."""
        asked: dict[BrokerPartition, _WatchedLog] = {}
        changed = False
        for where, log in self._logs.items():
            before = self._asked.get(where)
            if log.is_active(now_ms) is not self._polls_active and (
                before is None or other.surely_polls(where, now_ms)
            ):
                continue
            wanted = log.wanted(now_ms) if self._polls_active else log.news()
            if before is None:
                changed = True
                before = _WatchedLog(wanted, log.checks, now_ms)
            elif before.wanted != wanted or before.checks != log.checks:
                changed = True
                before = _WatchedLog(wanted, log.checks, before.since_ms)
            asked[where] = before
        changed = changed or len(asked) != len(self._asked)
        self._asked = asked
        return changed

    def surely_polls(self, where: BrokerPartition, now_ms: int) -> bool:
        """Return whether a request about a log is under way: earlier polls have ended."""
        asked = self._asked.get(where)
        return asked is not None and now_ms - asked.since_ms >= 2 * self._wait_ms

    def _hand_out(self, answers: Sequence[WatchAnswer]) -> bool:
        """Return whether somebody waits for what came."""
        is_hot = False
        for answer in answers:
            log, asked = self._logs.get(answer.partition), self._asked.get(answer.partition)
            if log is None or asked is None or asked.checks != log.checks:
                continue  # it is closed, or was asked before the epoch was compared
            is_hot |= log.heard(answer)
        return is_hot
