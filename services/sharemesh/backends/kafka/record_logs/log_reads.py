"""Reads of records: from memory, else from the cluster, at most one fetch of a place at a time."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sharemesh.backends.kafka.record_logs.cluster_words import CLUSTER_ERRORS
from sharemesh.backends.kafka.record_logs.fetched_batches import (
    FetchedBatches,
    holds_transactions,
    read_out,
)
from sharemesh.backends.kafka.record_logs.followed_log import FollowedLog
from sharemesh.backends.kafka.record_logs.log_access import LogAccess
from sharemesh.backoff import Backoff
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.share_partition.events import AbortedTransaction
from sharemesh.ports.brokers import Isolation
from sharemesh.ports.record_log import ReadResult
from sharemesh.ports.shard_log import LogFailedError
from sharemesh.tasks import first_done

NOTHING = ReadResult(b"", ())
NOTHING_COMMITTED = ReadResult(b"", (), ())


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What one read asks for; ``limit`` is where the log ends for it, whatever it asks for."""

    offset: int
    end_offset: int
    limit: int
    max_bytes: int

    def out_of(self, parts: Sequence[FetchedBatches]) -> ReadResult:
        """Return its batches; the next one behind it where compaction left none in it (KRL-6).

        Without that a hole as wide as what is asked for would never be passed.
        """
        read = read_out(parts, self.offset, self.end_offset, self.max_bytes)
        if read.headers or self.end_offset == self.limit:
            return read
        return read_out(parts, self.offset, self.limit, 1)


class LogReads:
    """Reads of one followed log."""

    def __init__(self, log: FollowedLog, access: LogAccess) -> None:
        self._log = log
        self._brokers = access.brokers
        self._clock = access.clock
        self._bounds = access.bounds
        self._fetches: dict[int, asyncio.Future[None]] = {}
        self._closed = asyncio.Event()

    def close(self) -> None:
        """End waiting reads."""
        self._closed.set()

    async def read(
        self, offset: int, max_bytes: int, end_offset: int | None, *, committed: bool
    ) -> ReadResult:
        """Return whole batches, or none where none can be had in time (KRL-11).

        Raises:
            RefusedError: OFFSET_OUT_OF_RANGE; KAFKA_STORAGE_ERROR where the log is damaged.
            LogFailedError: The log was closed meanwhile.
        """
        deadline_ms = self._clock.now_ms() + self._bounds.read_wait_ms
        backoff = Backoff(self._bounds.retry_first_ms, self._bounds.retry_most_ms)
        while True:
            await self._log.until_checked(deadline_ms - self._clock.now_ms())
            if self._closed.is_set():
                raise LogFailedError("the log is closed")
            limit = self._limit_of(offset, end_offset, committed=committed)
            end = limit if end_offset is None else min(end_offset, limit)
            if offset >= end or self._log.is_checking:
                break
            wanted = _Wanted(offset, end, limit, max_bytes)
            found = await self._try(wanted, deadline_ms, committed=committed)
            if found is not None and found.headers:
                if found.headers[-1].last_offset + 1 >= self._log.ends.newest_end:
                    self._log.keep_hot()
                return found
            wait_ms = min(backoff.next_ms(), deadline_ms - self._clock.now_ms())
            if wait_ms <= 0:
                break
            await self._clock.sleep_ms(wait_ms)
        return NOTHING_COMMITTED if committed else NOTHING

    def _limit_of(self, offset: int, end_offset: int | None, *, committed: bool) -> int:
        """Return where every read from there ends, or refuse it."""
        ends, damage = self._log.ends, self._log.ends.damage
        wanted = offset + 1 if end_offset is None else end_offset
        if damage is not None and ends.lost_from is not None and ends.lost_from <= offset < wanted:
            raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, damage[1])
        if not ends.log_start_offset <= offset <= ends.high_watermark:
            raise RefusedError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not in {ends.log_start_offset}..{ends.high_watermark}",
            )
        return ends.last_stable_offset if committed else ends.high_watermark

    async def _try(
        self, wanted: _Wanted, deadline_ms: int, *, committed: bool
    ) -> ReadResult | None:
        """Return what lies there, from memory if it can be; None: ask again later."""
        read = self._from_memory(wanted, committed=committed)
        if read is not None:
            return read
        if committed:
            return await self._fetch_committed(wanted)
        offset, max_bytes = wanted.offset, wanted.max_bytes
        running = self._fetches.get(offset)
        if running is not None:
            left_ms = max(0, deadline_ms - self._clock.now_ms())
            await first_done(running, self._closed.wait(), self._clock.sleep_ms(left_ms))
            if not running.done():
                return None
            read = self._from_memory(wanted, committed=False)
            if read is not None:
                return read
        part = await self._fetch(offset, max_bytes)
        return None if part is None else wanted.out_of([part])

    def _from_memory(self, wanted: _Wanted, *, committed: bool) -> ReadResult | None:
        parts = self._log.cache.find(wanted.offset, wanted.end_offset, wanted.max_bytes)
        if not parts:
            return None
        read = wanted.out_of(parts)
        if not read.headers:  # a hole up to where another part begins, which was there before
            parts = self._log.cache.find(wanted.offset, wanted.limit, wanted.max_bytes)
            read = wanted.out_of(parts)
            if not read.headers:
                return None
        if not committed:
            return read
        if holds_transactions(read.headers):
            return None  # which of them were aborted, only a fetch of just these says (KRL-12)
        return replace(read, aborted=())

    async def _fetch(self, offset: int, max_bytes: int) -> FetchedBatches | None:
        """Fetch at least so much from ``offset`` and keep it."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._fetches[offset] = done
        try:
            return await self._ask(offset, max(max_bytes, self._bounds.fetch_bytes_min))
        finally:
            if self._fetches.get(offset) is done:
                del self._fetches[offset]
            done.set_result(None)

    async def _ask(self, offset: int, max_bytes: int) -> FetchedBatches | None:
        checks = self._log.checks
        try:
            fetched = await self._brokers.fetch(
                self._log.where,
                offset,
                max_bytes=max_bytes,
                last_fetched_epoch=self._log.kafka_epoch,
            )
        except CLUSTER_ERRORS as error:
            self._log.failed(error)
            return None
        if self._log.checks != checks:
            return None
        part = self._log.took(fetched, offset)
        return self._served(part)

    async def _fetch_committed(self, wanted: _Wanted) -> ReadResult | None:
        """Fetch just this range with the aborted transactions that overlap it (KRL-12)."""
        offset, checks = wanted.offset, self._log.checks
        try:
            fetched = await self._brokers.fetch(
                self._log.where,
                offset,
                max_bytes=wanted.max_bytes,
                isolation=Isolation.READ_COMMITTED,
                last_fetched_epoch=self._log.kafka_epoch,
            )
        except CLUSTER_ERRORS as error:
            self._log.failed(error)
            return None
        if self._log.checks != checks:
            return None
        part = self._served(self._log.took(fetched, offset))
        if part is None:
            return None
        read = wanted.out_of([part])
        aborted = tuple(
            AbortedTransaction(each.producer_id, each.first_offset)
            for each in fetched.aborted
            if read.headers and each.first_offset <= read.headers[-1].last_offset
        )
        return replace(read, aborted=aborted)

    def _served(self, part: FetchedBatches | None) -> FetchedBatches | None:
        """Return a part with records; None where Kafka gave none, or an end that lags behind.

        Raises:
            RefusedError: KAFKA_STORAGE_ERROR; what lies there cannot be served (KRL-6).
        """
        if part is None or part.frames:
            return part
        words = self._log.ends.unreadable_at(part.start_offset)
        if words is not None:
            raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, words)
        return None
