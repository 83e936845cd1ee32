"""Read and acquire under fetch locks (spec DF-7), one piece of work a partition, none a record."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.group_config import IsolationLevel
from sharemesh.domain.ids import MemberId, TopicPartition
from sharemesh.domain.quota.counts import HeldRecords
from sharemesh.domain.share_partition.effects import AcquiredRun, RecordsAcquired
from sharemesh.domain.share_partition.events import (
    Acquire,
    AcquireMode,
    LogBatch,
    LogHole,
    LogStartMoved,
    NothingAcquired,
)
from sharemesh.domain.share_session import ShareSession
from sharemesh.ports.record_log import ReadResult
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.pacing import LeaderPacing
from sharemesh.share_leader.partition.led_partitions import LedPartition, LedPartitions
from sharemesh.share_leader.partition.share_partition_runner import SharePartitionRunner
from sharemesh.share_leader.requests.access import Reader
from sharemesh.share_leader.unpacking import OpenedBatches
from sharemesh.telemetry.trace_context import producer_contexts

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FetchOrder:
    """What a member wants, over all partitions of the fetch."""

    member_id: MemberId
    mode: AcquireMode
    batch_size: int
    max_records: int
    max_bytes: int
    session: ShareSession | None = None  # of a Consume stream
    tally: HeldRecords | None = None  # of a principal whose records in flight are bounded
    opened: OpenedBatches | None = None  # in the decoded form (BND-34)

    @property
    def is_held_back(self) -> bool:
        """Whether the member is stalled, and gets nothing (HBK-11)."""
        return self.session is not None and self.session.is_stalled


@dataclass(frozen=True, slots=True)
class PartitionFetch:
    """What a fetch got from one share partition; ``records`` are whole log batches (ACQ-22)."""

    partition: TopicPartition
    leader_epoch: int
    records: bytes = b""
    ranges: tuple[AcquiredRun, ...] = ()
    count: int = 0
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    throttled: bool = False
    state_epoch: int = 0
    acquisition_number: int = 0

    @property
    def delivered(self) -> int:
        """Offsets in the ranges: what the member sees, and what a credit pays for."""
        return sum(one.last_offset - one.first_offset + 1 for one in self.ranges)


class FetchAcquisition:
    """Fetches from share partitions whose fetch locks the caller holds."""

    def __init__(
        self, environment: LeaderEnvironment, partitions: LedPartitions, pacing: LeaderPacing
    ) -> None:
        self._environment = environment
        self._partitions = partitions
        self._pacing = pacing

    async def take(
        self,
        runners: Sequence[SharePartitionRunner],
        owner: object,
        order: FetchOrder,
        reader: Reader,
    ) -> list[PartitionFetch]:
        """Acquire from the share partitions in order and unlock them all (spec DF-7, DF-8).

        In the decoded form they are unlocked once ``order.opened`` is closed.

        The record budget is shared in order (spec ROT-5), the byte budget divided (ROT-4);
        partitions that get nothing and have no error are left out, and so are those that are
        probably not needed and that another fetch took (DF-12). Returns only after a look
        that began after this call (LOG-8). ``reader`` is asked before each grant (AUT-4).
        Nothing is acquired while a quota is used up (QUO-9).
        """
        whose = (reader.principal, reader.group_id)
        allowed = self._pacing.begin(*whose, order.max_bytes, order.max_records)
        if allowed is not None:
            order = replace(
                order,
                max_bytes=allowed.max_bytes,
                max_records=allowed.max_records,
                tally=allowed.tally,
            )
        taken: list[PartitionFetch] = []
        try:
            await self._take(runners, owner, order, reader, taken)
        finally:
            for runner in runners:
                unlock = partial(runner.unlock, owner)
                if order.opened is None:
                    unlock()
                else:  # until it is decoded: a drain gives back what waits to be sent (HND-4)
                    order.opened.at_end(unlock)
            if allowed is not None:
                size = sum(len(one.records) for one in taken)
                self._pacing.settle(allowed, *whose, size, sum(one.count for one in taken))
        return taken

    async def _take(
        self,
        runners: Sequence[SharePartitionRunner],
        owner: object,
        order: FetchOrder,
        reader: Reader,
        taken: list[PartitionFetch],
    ) -> None:
        remaining = order.max_records
        share_bytes = max(1, order.max_bytes // max(1, len(runners)))
        waiting = runners
        while waiting and remaining > 0:
            # After the first turn their locks were given back, and may be another's.
            held = waiting if waiting is runners else [r for r in waiting if r.try_lock(owner)]
            chunk = self._expected_to_fill(held, remaining)
            waiting = held[len(chunk) :]
            for runner in waiting:
                runner.unlock(owner)  # spec DF-12
            reads = [self._read(runner, share_bytes, remaining) for runner in chunk]
            results = [await reads[0]] if len(reads) == 1 else await asyncio.gather(*reads)
            for runner, found in zip(chunk, results, strict=True):
                result = await self._fitting(runner, found, order)
                lost = reader.lost([runner.key.topic_partition])
                refusal = lost.get(runner.key.topic_partition)
                one = self._acquire(runner, refusal or result, order, remaining)
                if one is not None:
                    remaining -= one.count
                    taken.append(one)

    @staticmethod
    async def _fitting(
        runner: SharePartitionRunner,
        found: tuple[int, ReadResult] | tuple[ErrorCode, str],
        order: FetchOrder,
    ) -> tuple[int, ReadResult] | tuple[ErrorCode, str]:
        """Return what the answer has room for once it is unpacked: no more is acquired."""
        offset, read = found
        if order.opened is None or isinstance(read, str):
            return found
        return offset, await order.opened.fitting(runner.key.topic_partition, read)

    @staticmethod
    def _expected_to_fill(
        runners: Sequence[SharePartitionRunner], remaining: int
    ) -> Sequence[SharePartitionRunner]:
        """Return the first share partitions that probably hold ``remaining`` records together."""
        offsets = accumulate(max(1, s.end_offset - s.next_fetch_offset) for s in runners)
        for count, total in enumerate(offsets, 1):
            if total >= remaining:
                return runners[:count]
        return runners

    async def _read(
        self, runner: SharePartitionRunner, share_bytes: int, remaining: int
    ) -> tuple[int, ReadResult] | tuple[ErrorCode, str]:
        """Return the fetch offset and what lies there, or the error of the partition."""
        led = self._partitions.get(runner.key.topic_partition)
        if led is None or led.log is not runner.log:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, "leadership has moved; refresh metadata"
        offset = runner.next_fetch_offset
        try:
            return offset, await self._read_and_look(led, runner, share_bytes, remaining)
        except Exception as error:
            return self._read_failed(led, runner, offset, error)

    async def _read_and_look(
        self, led: LedPartition, runner: SharePartitionRunner, share_bytes: int, remaining: int
    ) -> ReadResult:
        """Read from the next fetch offset; meanwhile check for a higher fence (LOG-8).

        A fetch that waited for what is read has the check of its commit.
        """
        offset, end_offset = runner.next_fetch_offset, runner.end_offset
        if runner.stands_at_damage:
            end_offset = max(end_offset, offset + 1)  # the log answers with what is wrong there
        end_offset = min(end_offset, offset + remaining)
        wanted = runner.log.bytes_between(offset, end_offset)  # not all of the last batch
        max_bytes = min(share_bytes, wanted + self._environment.settings.read_ahead_bytes)
        committed = runner.config.isolation_level is IsolationLevel.READ_COMMITTED
        read = runner.log.read(
            offset, max_bytes=max_bytes, end_offset=end_offset, committed=committed
        )
        if runner.has_looked:
            found = await read
            if not runner.has_looked:  # reading took long
                await led.looks.look()
            return found
        result, looked = await asyncio.gather(read, led.looks.look(), return_exceptions=True)
        if isinstance(looked, BaseException):
            raise looked
        if isinstance(result, BaseException):
            raise result
        return result

    def _read_failed(
        self, led: LedPartition, runner: SharePartitionRunner, offset: int, error: Exception
    ) -> tuple[int, ReadResult] | tuple[ErrorCode, str]:
        match error:
            case RefusedError(error=ErrorCode.OFFSET_OUT_OF_RANGE):
                runner.step(LogStartMoved(runner.log.log_start_offset))  # spec OFF-17
                return offset, ReadResult(b"", ())
            case RefusedError():
                return error.error, error.message
            case FencedError() | LogFailedError():
                self._partitions.epoch_ended(led, error)
                return ErrorCode.NOT_LEADER_OR_FOLLOWER, "leadership has moved; refresh metadata"
            case _:
                _log.error("reading %s at %d failed", runner.key, offset, exc_info=error)
                return ErrorCode.UNKNOWN_SERVER_ERROR, f"the log cannot be read: {error}"

    def _acquire(
        self,
        runner: SharePartitionRunner,
        result: tuple[int, ReadResult] | tuple[ErrorCode, str],
        order: FetchOrder,
        remaining: int,
    ) -> PartitionFetch | None:
        partition = runner.key.topic_partition
        if isinstance(result[1], str):
            return PartitionFetch(
                partition, runner.leader_epoch, error=ErrorCode(result[0]), message=result[1]
            )
        if remaining <= 0 or not result[1].headers or order.is_held_back:
            return None
        committed = runner.config.isolation_level is IsolationLevel.READ_COMMITTED
        if committed and result[1].aborted is None:
            return None  # the group's isolation level changed meanwhile: it is read again
        try:
            if self._environment.telemetry.spans.enabled:
                runner.telemetry.produced_by(producer_contexts(result[1].records))
            base_offset = result[1].headers[0].base_offset
            if result[0] < base_offset:
                runner.step(LogHole(result[0], base_offset - 1))
            event = _event(runner, result[0], result[1], order, remaining)
            wall_ms = self._environment.clock.wall_ms()
            number = next(self._environment.acquisitions)
            acquired = runner.acquire(event._replace(acquired_at_ms=wall_ms))
        except (FencedError, LogFailedError) as ended:
            runner.fence(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the leader epoch has ended ({ended})")
            return PartitionFetch(
                partition, runner.leader_epoch, error=runner.error, message=runner.message
            )
        except Exception as error:
            _log.exception("acquiring from %s failed", runner.key)
            return PartitionFetch(
                partition,
                runner.leader_epoch,
                error=ErrorCode.UNKNOWN_SERVER_ERROR,
                message=f"records could not be acquired: {error}",
            )
        if not acquired.ranges:
            # All of it was aborted (spec ISO-3), or nothing came of it; the former is progress.
            runner.step(NothingAcquired())
            moved = runner.next_fetch_offset != result[0]
            return PartitionFetch(partition, runner.leader_epoch) if moved else None
        records = overlapping(result[1], acquired)
        self._environment.counters.bytes_delivered += len(records)
        return PartitionFetch(
            partition,
            runner.leader_epoch,
            records,
            acquired.ranges,
            acquired.count,
            throttled=acquired.throttled,
            state_epoch=runner.machine.state_epoch,
            acquisition_number=number,
        )


def _event(
    runner: SharePartitionRunner, offset: int, read: ReadResult, order: FetchOrder, remaining: int
) -> Acquire:
    return Acquire(
        request_id=runner.next_request_id(),
        member_id=order.member_id,
        mode=order.mode,
        batch_size=order.batch_size,
        max_fetch_records=remaining,
        fetch_offset=offset,
        log_batches=tuple(
            LogBatch(
                h.base_offset,
                h.last_offset,
                h.producer_id,
                h.is_transactional,
                h.is_control,
                h.is_abort_marker,
            )
            for h in read.headers
        ),
        isolation_level=runner.config.isolation_level,
        aborted=read.aborted or (),
        tally=order.tally,
    )


def overlapping(read: ReadResult, acquired: RecordsAcquired) -> bytes:
    """Return the bytes of the log batches from the first to the last acquired offset (ACQ-22)."""
    headers = read.headers
    if len(headers) == 1:
        return read.records
    first, last = acquired.ranges[0].first_offset, acquired.ranges[-1].last_offset
    start = end = position = 0
    for header in headers:
        following = position + header.size_bytes
        if header.last_offset < first:
            start = following
        if header.base_offset <= last:
            end = following
        position = following
    return read.records if not start and end == len(read.records) else read.records[start:end]
