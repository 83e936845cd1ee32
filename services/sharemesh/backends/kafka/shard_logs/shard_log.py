"""One open shard log on Kafka: appends that wait become one unit, one unit at a time."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple

from sharemesh.backends.kafka.shard_logs.confirmed_units import ConfirmedUnits
from sharemesh.backends.kafka.shard_logs.log_partition import (
    JudgedBatch,
    LogPartition,
    LogStartMovedError,
)
from sharemesh.backends.kafka.shard_logs.settings import StampedLogSettings
from sharemesh.backends.kafka.shard_logs.unit_writer import PlainRecord, UnitWriter
from sharemesh.codec.log_stamp import STAMP_OVERHEAD_BYTES
from sharemesh.codec.plain_batch import plain_batch
from sharemesh.codec.record_set import RecordSetError, decode_records_as
from sharemesh.domain.stamped_log.judgement import Judgement, OwnFence
from sharemesh.domain.stamped_log.stamp import BrokenLogError
from sharemesh.domain.stamped_log.writing import WriterPosition
from sharemesh.ports.brokers import (
    BrokerRefusedError,
    BrokerUnreachableError,
    UnsupportedRequestError,
)
from sharemesh.ports.clock import Clock
from sharemesh.ports.shard_log import (
    CorruptLogError,
    FencedError,
    LogFailedError,
    LogFullError,
    LogRecord,
)
from sharemesh.tasks import cancel_and_wait, first_done

_log = logging.getLogger(__name__)

DELETION_REFUSED = {
    29: "grant the principal the right Delete on the topic",
    44: "a policy of the cluster forbids DeleteRecords on the topic: allow it there",
}
"""TOPIC_AUTHORIZATION_FAILED, POLICY_VIOLATION: it stays so until somebody sees to it."""
RECORD_OVERHEAD_BYTES = 21  # at most: length, attributes, deltas, lengths of key and value
START_RECORD: PlainRecord = (None, None, 0)
"""Of the log itself: a unit of this one record declares a log start and is never replayed."""


class _QueuedAppend(NamedTuple):
    """The records of one append."""

    records: tuple[PlainRecord, ...]
    size_bytes: int
    declared_start: int  # −1: as before


class _AppendWaiter(NamedTuple):
    appends: int  # so many must be confirmed
    future: asyncio.Future[None]


class KafkaShardLog:
    """One open shard log (port ShardLog).

    Args:
        partition: Where it lies.
        position: What the take-over found.
        confirmed: Remembers how far the log was confirmed.
        still_ours: A look (STL-18); raises FencedError.
        clock: Time.
        settings: Bounds.
    """

    def __init__(
        self,
        partition: LogPartition,
        position: WriterPosition,
        confirmed: ConfirmedUnits,
        still_ours: Callable[[], Awaitable[None]],
        clock: Clock,
        settings: StampedLogSettings,
    ) -> None:
        self._partition = partition
        self._writer = UnitWriter(partition, position, settings.give_up_ms)
        self._fence = OwnFence(position.own, position.fence, position.number)
        self._confirmed = confirmed
        self._still_ours = still_ours
        self._clock = clock
        self._settings = settings
        self._queue: deque[_QueuedAppend] = deque()
        self._queued_bytes = 0
        self._unconfirmed_records = 0
        self._appends = 0
        self._confirmed_appends = 0
        self._waiters: deque[_AppendWaiter] = deque()
        self._writing_since_ms = -1
        self._committed_end = position.end
        self._deleted_below = 0
        self._deletes = True
        self._is_refusal_said = False
        self._task: asyncio.Task[None] | None = None
        self._error: Exception | None = None

    @property
    def epoch(self) -> int:
        """The epoch under which this log was taken over."""
        return self._writer.position.own.epoch

    @property
    def start_offset(self) -> int:
        """The first offset that still counts."""
        return self._writer.position.declared_start

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets, or a lower one (STL-14)."""
        return self._writer.position.end + self._unconfirmed_records

    @property
    def committed_end_offset(self) -> int:
        """Everything below is durable and confirmed."""
        return self._committed_end

    async def replay(self, from_offset: int | None = None) -> AsyncIterator[Sequence[LogRecord]]:
        """Yield what is committed, oldest first; a chunk is one unit (STL-12).

        Raises:
            CorruptLogError: The log is not what its writers made of it.
            FencedError: The log is no longer ours.
            LogFailedError: No answer, or ``delete_before`` pruned what was still to be read.
        """
        first = self.start_offset if from_offset is None else max(from_offset, self.start_offset)
        end = self._committed_end
        limit_ms = self._settings.open_timeout_ms
        try:
            async for window in self._partition.read(first, end, limit_ms, self._fence):
                for batch in window:
                    if batch.judgement is Judgement.COUNTS:
                        records = self._records(batch, first)
                        if records:
                            yield records
        except LogStartMovedError as moved:
            if moved.start <= self.start_offset:
                raise LogFailedError(
                    f"{self._partition.name}: records from offset {first} to {moved.start} were "
                    "pruned by this process itself while it read them: read from offset "
                    f"{self.start_offset} on"
                ) from moved
            await self._look()  # a successor deletes what a sleeper has not read: no damage
            raise self._partition.corrupt(
                BrokenLogError(
                    f"records from offset {first} to {moved.start} were removed by retention or "
                    "by others",
                    first,
                )
            ) from moved

    def append(self, records: Sequence[LogRecord]) -> int:
        """Queue records as one atomic batch and return the offset of the last one, or a lower one.

        Wait for them with ``committed``: the offset is no ticket (STL-14).
        """
        if not records:
            raise ValueError("an append needs at least one record")
        now_ms = self._clock.wall_ms()
        size = STAMP_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES * len(records)
        for record in records:
            size += len(record.key) + (0 if record.value is None else len(record.value))
        self._enqueue(
            _QueuedAppend(tuple((each.key, each.value, now_ms) for each in records), size, -1)
        )
        return self.end_offset - 1

    def has_room(self, more_bytes: int) -> bool:
        """Whether an append of that many bytes would be taken, and written soon (STL-16)."""
        return not self._is_stuck() and self._fits(more_bytes)

    def why_no_room(self) -> str:
        """Return why ``has_room`` says no, and what to do."""
        if self._is_stuck():
            waits_ms = self._clock.now_ms() - self._writing_since_ms
            why = self._partition.writes.why or "no answer yet"
            return (
                f"{self._partition.name} has not taken a write for {waits_ms} ms ({why}); see to "
                "its brokers"
            )
        return f"{self._queued_bytes} bytes wait for {self._partition.name}: try again"

    async def refresh_room(self) -> None:
        """Nothing to ask: an answer to the unit under way is what gives room."""

    async def committed(self, end_offset: int) -> None:
        """Return once what was appended before is committed and the log was ours after the call.

        A unit that is sent after the call shows that by counting; otherwise a look does (STL-17).
        """
        self._check()
        if end_offset > self.end_offset:
            raise ValueError(
                f"offset {end_offset} is past the end {self.end_offset} of {self._partition.name}"
            )
        is_sent_after = bool(self._queue)
        await self._until_confirmed(self._appends)
        if not is_sent_after:
            await self._look()

    async def delete_before(self, offset: int) -> None:
        """Declare a new log start in a unit, then delete what lies below it (STL-20, STL-21)."""
        self._check()
        if offset > self._committed_end:
            raise ValueError(
                f"log start {offset} is past the committed end {self._committed_end} of "
                f"{self._partition.name}"
            )
        if offset > self.start_offset:
            self._enqueue(_QueuedAppend((START_RECORD,), STAMP_OVERHEAD_BYTES, offset))
            await self._until_confirmed(self._appends)
        await self._delete(self._writer.position.prune_limit())

    async def close(self) -> None:
        """Write what is queued if that is possible soon, then write no more."""
        task = self._task
        if task is not None and self._error is None:
            await first_done(task, self._clock.sleep_ms(self._settings.close_timeout_ms))
        if self._error is None:
            self._fail(LogFailedError(f"the log in {self._partition.name} is closed"))
        if task is not None:
            await cancel_and_wait(task)
        await self._confirmed.settle()

    # ---- the one unit under way ------------------------------------------------------------------

    def _enqueue(self, append: _QueuedAppend) -> None:
        self._check()
        if self._queue and not self._fits(append.size_bytes):
            raise LogFullError(f"{self.why_no_room()}, {append.size_bytes} more are too many")
        self._queue.append(append)
        self._queued_bytes += append.size_bytes
        self._unconfirmed_records += len(append.records)
        self._appends += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._write_units(), name=f"units of {self._partition.name}"
            )

    async def _write_units(self) -> None:
        try:
            while self._queue:
                await self._write_unit(self._take())
        except CorruptLogError as error:
            await self._confirmed.settle()  # before anybody else takes over: it may be cut
            self._fail(error)
        except (FencedError, LogFailedError) as error:
            self._fail(error)
        except BaseException as error:
            self._fail(LogFailedError(f"{self._partition.name}: {type(error).__name__}: {error}"))
            raise
        finally:
            self._task = None

    async def _write_unit(self, appends: list[_QueuedAppend]) -> None:
        records = [record for append in appends for record in append.records]
        start = max(self.start_offset, appends[0].declared_start)
        self._writing_since_ms = self._clock.now_ms()
        await self._writer.write(records, start)
        self._writing_since_ms = -1
        self._committed_end = self._writer.position.newest + len(records)
        self._confirmed.note(self._writer.position.number, self._committed_end, self._fail)
        self._unconfirmed_records -= len(records)
        self._confirmed_appends += len(appends)
        while self._waiters and self._waiters[0].appends <= self._confirmed_appends:
            future = self._waiters.popleft().future
            if not future.done():
                future.set_result(None)

    def _take(self) -> list[_QueuedAppend]:
        """Take what becomes one unit; a declared start is a unit of its own."""
        taken: list[_QueuedAppend] = []
        size = 0
        while self._queue:
            append = self._queue[0]
            size += append.size_bytes
            is_alone = append.declared_start >= 0
            if taken and (is_alone or size > self._settings.commit_bytes_max):
                break
            taken.append(self._queue.popleft())
            self._queued_bytes -= append.size_bytes
            if is_alone:
                break
        return taken

    async def _until_confirmed(self, appends: int) -> None:
        if appends <= self._confirmed_appends:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(_AppendWaiter(appends, future))
        await future

    async def _look(self) -> None:
        try:
            await self._still_ours()
        except FencedError as error:
            self._fail(error)
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error.with_traceback(None)  # else each raise makes it longer

    def _fail(self, error: Exception) -> None:
        """End the epoch: nothing more is written or confirmed."""
        if self._error is not None:
            return
        self._error = error
        self._queue.clear()
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.future.done():
                waiter.future.set_exception(error)
                waiter.future.exception()  # one that was cancelled does not make it "never read"
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def _is_stuck(self) -> bool:
        since_ms = self._writing_since_ms
        return since_ms >= 0 and self._clock.now_ms() - since_ms >= self._settings.stuck_ms

    def _fits(self, more_bytes: int) -> bool:
        return self._queued_bytes + more_bytes <= self._settings.queued_bytes_max

    # ---- reading and deleting --------------------------------------------------------------------

    def _records(self, batch: JudgedBatch, first: int) -> Sequence[LogRecord]:
        try:
            records = decode_records_as(plain_batch(batch.data), LogRecord)
        except (RecordSetError, ValueError) as error:
            offset = batch.header.base_offset
            raise self._partition.corrupt(
                BrokenLogError(f"the unit at offset {offset}: {error}", offset)
            ) from error
        if len(records) == 1 and records[0].key is None:
            return ()
        if batch.header.base_offset >= first:
            return records
        return [record for record in records if record.offset >= first]

    async def _delete(self, limit: int) -> None:
        if limit <= self._deleted_below or not self._deletes:
            return
        try:
            await self._partition.delete_below(limit)
        except UnsupportedRequestError as error:
            self._deletes = False
            _log.warning("%s: it only grows: %s", self._partition.name, error)
            return
        except BrokerRefusedError as error:
            repair = DELETION_REFUSED.get(error.code)
            if repair is None:
                _log.info("%s: nothing is deleted now: %s", self._partition.name, error)
            elif not self._is_refusal_said:
                self._is_refusal_said = True
                _log.warning(
                    "%s: it only grows, nothing may be deleted: %s; %s",
                    self._partition.name,
                    error,
                    repair,
                )
            return
        except BrokerUnreachableError as error:
            _log.info("%s: nothing is deleted now: %s", self._partition.name, error)
            return
        self._deleted_below = limit
        self._is_refusal_said = False
