"""One watch a process over all partitions that are led here (KRL-2)."""

import asyncio
import logging
from collections.abc import Sequence

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
        self._brokers = access.brokers
        self._clock = access.clock
        self._tasks = access.tasks
        self._bounds = access.bounds
        self._logs: dict[BrokerPartition, FollowedLog] = {}
        self._asked: dict[BrokerPartition, tuple[WatchedPartition, int]] = {}
        self._task: asyncio.Task[None] | None = None

    def follow(self, log: FollowedLog) -> None:
        """Watch a log from the next poll on; an older one of the partition is not told any more."""
        self._logs[log.where] = log
        if self._task is None:
            self._task = self._tasks.spawn(self._run())

    async def leave(self, log: FollowedLog) -> None:
        """Watch a log no longer; the last one ends the watch."""
        if self._logs.get(log.where) is log:
            del self._logs[log.where]
            self._asked.pop(log.where, None)
        if not self._logs and self._task is not None:
            task, self._task = self._task, None
            await cancel_and_wait(task)

    async def _run(self) -> None:
        watch = self._brokers.watch()
        try:
            while True:
                try:
                    pause_ms = await self._turn(watch)
                except Exception:
                    _log.exception("the watch of the records failed, and goes on")
                    pause_ms = self._bounds.retry_most_ms
                if pause_ms:
                    await self._clock.sleep_ms(pause_ms)
        finally:
            await watch.close()

    async def _turn(self, watch: BrokerWatch) -> int:
        """Poll once and return how long to pause."""
        if self._ask():
            watch.set([wanted for wanted, _ in self._asked.values()])
        answers = await watch.poll(self._bounds.watch_wait_ms)
        if not answers:
            return 0
        if self._hand_out(answers):
            return 0
        if all(answer.fetched is None for answer in answers):
            return REFUSED_PAUSE_MS
        return self._bounds.watch_pause_ms

    def _ask(self) -> bool:
        """Bring up to date what is asked of each log; return whether anything changed."""
        changed = len(self._asked) != len(self._logs)
        for where, log in self._logs.items():
            wanted = log.wanted()
            before = self._asked.get(where)
            if before is None or before[0] != wanted or before[1] != log.checks:
                changed = True
                self._asked[where] = (wanted, log.checks)
        return changed

    def _hand_out(self, answers: Sequence[WatchAnswer]) -> bool:
        """Return whether somebody waits for what came."""
        is_hot = False
        for answer in answers:
            log, asked = self._logs.get(answer.partition), self._asked.get(answer.partition)
            if log is None or asked is None or asked[1] != log.checks:
                continue  # it is closed, or was asked before the epoch was compared
            is_hot |= log.heard(answer)
        return is_hot
