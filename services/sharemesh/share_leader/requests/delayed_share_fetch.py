"""The long poll: wait until share partitions can be fetched from (spec DF)."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.failures import Outcome
from sharemesh.share_leader.partition.share_partition_runner import Phase, SharePartitionRunner
from sharemesh.timers import Timers

_log = logging.getLogger(__name__)


class DelayedShareFetch:
    """Takes the fetch locks of all share partitions that have records, once there are enough.

    ``min_bytes`` counts log bytes from the next fetch offsets on (spec DF-4); each partition
    counts for at most its share of ``max_bytes``. A share partition that ended completes the
    wait, so that its error is answered at once (spec INI-13, DF-5); one of ``known_errors``, which
    the previous response reported, does not while others may still get records: a partition that
    fails repeatedly must not turn long polls into a busy loop. With ``enough_records`` no further
    fetch locks are taken once the locked share partitions probably hold that many.
    """

    def __init__(
        self,
        runners: Sequence[SharePartitionRunner],
        *,
        min_bytes: int,
        max_bytes: int,
        enough_records: int | None = None,
        known_errors: frozenset[TopicPartition] = frozenset(),
    ) -> None:
        self._runners = runners
        self._known_errors = known_errors
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._enough_records = enough_records if min_bytes <= 1 else None
        self.expired = False
        """Whether the deadline ended the wait (spec MET-4)."""
        self.failed: dict[TopicPartition, Outcome] = {}
        self._ready: asyncio.Future[list[SharePartitionRunner]] | None = None

    def try_now(self, *, at_deadline: bool = False) -> list[SharePartitionRunner] | None:
        """Return the share partitions locked for this fetch, or None if it has to wait.

        ``at_deadline`` takes what there is, regardless of ``min_bytes`` (spec DF-6).
        """
        kept, ended = self._lock_what_has_records()
        enough = bool(kept) and self._enough(kept)
        if ended or at_deadline or enough or self.failed:
            return kept
        for runner in kept:
            runner.unlock(self, wake=False)
        return None

    def _lock_what_has_records(self) -> tuple[list[SharePartitionRunner], bool]:
        """Return the fetch-locked partitions, and whether one has ended and must be reported."""
        ended: list[TopicPartition] = []
        kept: list[SharePartitionRunner] = []
        records = 0
        for runner in self._runners:
            if runner.phase is Phase.ENDED:
                ended.append(runner.key.topic_partition)
            elif runner.try_lock(self):
                available = self._asked(runner, runner.available_offsets)
                if not available:
                    runner.unlock(self, wake=False)
                    continue
                kept.append(runner)
                records += available
                if self._enough_records is not None and records >= self._enough_records:
                    break
        is_news = len(ended) == len(self._runners) or not self._known_errors.issuperset(ended)
        return kept, bool(ended) and is_news

    def _asked(self, runner: SharePartitionRunner, question: Callable[[], int]) -> int:
        """Return the log's answer; one that fails concerns its partition only (spec DF-8)."""
        try:
            return question()
        except (FencedError, LogFailedError) as ended:
            runner.fence(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the leader epoch has ended ({ended})")
        except Exception as error:
            _log.exception("estimating what %s holds failed", runner.key)
            self.failed[runner.key.topic_partition] = (
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"the log cannot be asked: {error}",
            )
        return 0

    async def until(self, deadline_ms: int | None, alarms: Timers) -> list[SharePartitionRunner]:
        """Return the share partitions locked for this fetch; empty at the deadline or if stopped.

        The caller unlocks them. ``None`` waits without end.
        """
        kept = self.try_now()
        if kept is not None:
            return kept
        self._ready = asyncio.get_running_loop().create_future()
        alarm = None if deadline_ms is None else alarms.at(deadline_ms, self._expire)
        for runner in self._runners:
            runner.watch(self)
        try:
            return await self._ready
        except asyncio.CancelledError:
            self._give_back()
            raise
        finally:
            if alarm is not None:
                alarm.cancel()
            for runner in self._runners:
                runner.unwatch(self)

    def poke(self) -> None:
        """Try again: something has changed (spec DF-5)."""
        if self._ready is not None and not self._ready.done():
            kept = self.try_now()
            if kept is not None:
                self._ready.set_result(kept)

    def stop(self) -> None:
        """End the wait with nothing; repeating it is fine."""
        if self._ready is not None and not self._ready.done():
            self._ready.set_result([])

    def _expire(self) -> None:
        if self._ready is not None and not self._ready.done():
            self.expired = True
            self._ready.set_result(self.try_now(at_deadline=True) or [])

    def _give_back(self) -> None:
        """The fetch was cancelled; it may have got its locks in the same turn."""
        if self._ready is not None and self._ready.done() and not self._ready.cancelled():
            for runner in self._ready.result():
                runner.unlock(self)

    def _enough(self, kept: list[SharePartitionRunner]) -> bool:
        """Return whether the locked ones hold ``min_bytes``; those that cannot say are unlocked."""
        if self._min_bytes <= 1:
            return True
        share = max(1, self._max_bytes // len(kept))
        total = 0
        for runner in list(kept):
            available = self._asked(runner, runner.available_bytes)
            if not available:
                kept.remove(runner)
                runner.unlock(self, wake=False)
            total += min(share, available)
        return total >= self._min_bytes
