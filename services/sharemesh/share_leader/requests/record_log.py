"""The requests of a record log but for Produce: offsets, deletion, producers, transactions."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from sharemesh.authorization.slices import Slices
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.places import SharedPlaces
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import CallContext
from sharemesh.ports.record_log import OpenTransaction, PartitionLog, ProducerIds
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.failures import outcome_of
from sharemesh.share_leader.partition.led_partitions import LedPartition, LedPartitions
from sharemesh.share_leader.requests.access import LeaderAccess, NamedPartition
from sharemesh.share_leader.requests.leader_epochs import check_epoch
from sharemesh.share_leader.requests.produce import check_parts, within
from sharemesh.v1 import record_log_pb2 as pb

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
LAST_STABLE_TIMESTAMP = -4

PRODUCERS_MAX = 10_000
"""Open transactions that one answer of DescribeProducers tells of (BND-12)."""

_PARALLEL = 64
"""Partitions whose ends are asked for, or whose records are deleted, at once in a process."""

_MAX_TIME_MS = 2**63 - 1
_MAX_PRODUCER_EPOCH = 32_766
_MARKERS_AT_ONCE = 256

_Search = Callable[[int], Awaitable[tuple[int, int] | None]]

Part = TypeVar("Part")
Result = TypeVar("Result")


class _LedLogs:
    """What requests about the logs that are led here need."""

    def __init__(
        self, environment: LeaderEnvironment, partitions: LedPartitions, access: LeaderAccess
    ) -> None:
        self._environment = environment
        self._partitions = partitions
        self._access = access


class Offsets(_LedLogs):
    """Answers ListOffsets and DeleteRecords, partition by partition."""

    def __init__(
        self, environment: LeaderEnvironment, partitions: LedPartitions, access: LeaderAccess
    ) -> None:
        super().__init__(environment, partitions, access)
        self._places = SharedPlaces(_PARALLEL)

    async def list_offsets(
        self, request: pb.ListOffsetsRequest, context: CallContext
    ) -> pb.ListOffsetsResponse:
        """Answer one request; what is answered is committed and led here (LOG-8)."""
        check_parts(request.partitions, self._bound, "partitions")
        results = await _in_slices(
            request.partitions, lambda one: self._list(one, context), at_once=_PARALLEL
        )
        return pb.ListOffsetsResponse(partitions=results)

    async def delete_records(
        self, request: pb.DeleteRecordsRequest, context: CallContext
    ) -> pb.DeleteRecordsResponse:
        """Move log starts; answered once each is a committed record of its log."""
        check_parts(request.partitions, self._bound, "partitions")
        results = await _in_slices(
            request.partitions, lambda one: self._delete(one, context), at_once=_PARALLEL
        )
        return pb.DeleteRecordsResponse(partitions=results)

    @property
    def _bound(self) -> int:
        return self._environment.settings.max_partitions_per_request

    async def _list(
        self, asked: pb.ListOffsetsPartition, context: CallContext
    ) -> pb.ListOffsetsResult:
        result = pb.ListOffsetsResult(
            topic_id=asked.topic_id, partition=asked.partition, offset=-1, timestamp=-1
        )
        led: LedPartition | None = None
        try:
            led = self._led(context.principal, asked, Operation.DESCRIBE)
            result.topic_id = led.partition.topic_id
            check_epoch(asked, led.leader_epoch)
            async with self._places.place(context.principal):
                await led.looks.look()
                found = await _special_offset(led, asked.timestamp)
            if found is None:  # its turn has a bound of its own
                found = await self._by_time(led.log, asked.timestamp, context.principal)
            self._check_again(context.principal, asked, Operation.DESCRIBE, result)
            result.offset, result.timestamp = found
            result.leader_epoch = led.leader_epoch
        except Exception as error:
            self._told(result, led, "asking the log", error)
        return result

    def _check_again(
        self,
        principal: str,
        asked: NamedPartition,
        operation: Operation,
        result: pb.ListOffsetsResult | pb.DeleteRecordsResult,
    ) -> None:
        """Check the right after a wait (spec AUT-4); who has lost it is told nothing.

        Raises:
            RefusedError: As ``LeaderAccess.partition``.
        """
        try:
            self._access.partition(principal, asked, operation)
        except RefusedError:
            result.topic_id = asked.topic_id
            raise

    async def _by_time(
        self, log: PartitionLog, timestamp_ms: int, principal: str
    ) -> tuple[int, int]:
        def find(time_ms: int) -> Awaitable[tuple[int, int] | None]:
            return self._environment.time_searches.find(log, time_ms, principal)

        if timestamp_ms == MAX_TIMESTAMP:
            found = await _of_max_timestamp(find)
        else:
            found = await find(timestamp_ms)
        return (-1, -1) if found is None else found

    async def _delete(
        self, asked: pb.DeleteRecordsPartition, context: CallContext
    ) -> pb.DeleteRecordsResult:
        result = pb.DeleteRecordsResult(
            topic_id=asked.topic_id, partition=asked.partition, low_watermark=-1
        )
        led: LedPartition | None = None
        try:
            led = self._led(context.principal, asked, Operation.DELETE)
            result.topic_id = led.partition.topic_id
            async with self._places.place(context.principal):
                self._check_again(context.principal, asked, Operation.DELETE, result)
                result.low_watermark = await led.log.delete_records(asked.offset)
        except Exception as error:
            self._told(result, led, "deleting records", error)
        return result

    def _led(self, principal: str, asked: NamedPartition, operation: Operation) -> LedPartition:
        return self._partitions.with_log(self._access.partition(principal, asked, operation))

    def _told(
        self,
        result: pb.ListOffsetsResult | pb.DeleteRecordsResult,
        led: LedPartition | None,
        what: str,
        error: Exception,
    ) -> None:
        """Put an error of any kind into the result: it concerns this partition only."""
        if led is not None and isinstance(error, FencedError | LogFailedError):
            self._partitions.epoch_ended(led, error)
        code, result.error_message = outcome_of(what, led.partition if led else "", error)
        result.error_code = int(code)


async def _special_offset(led: LedPartition, timestamp_ms: int) -> tuple[int, int] | None:
    """Return (offset, -1) for an end of the log, None for what is searched by time."""
    if timestamp_ms >= 0 or timestamp_ms == MAX_TIMESTAMP:
        return None
    await led.log.refresh()
    special = {
        LATEST_TIMESTAMP: led.log.high_watermark,
        EARLIEST_TIMESTAMP: led.log.log_start_offset,
        LAST_STABLE_TIMESTAMP: led.log.last_stable_offset,
    }
    if timestamp_ms not in special:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            f"timestamp {timestamp_ms} is neither a time in ms nor -1 (latest), -2 (earliest), "
            "-3 (largest timestamp), -4 (last stable offset)",
        )
    return special[timestamp_ms], -1


async def _of_max_timestamp(find: _Search) -> tuple[int, int] | None:
    """Return the first record of the largest timestamp: found by times that are ever later.

    Steps double until no record is as late, and halve from there: twice the logarithm of the time
    that the log spans, in milliseconds. Each is a search of its own, with its own turn (BND-35).
    """
    newest = await find(0)
    step, is_beyond = 1, False
    while newest is not None and step:
        found = await find(min(newest[1] + step, _MAX_TIME_MS))
        if found is None or found[1] == newest[1]:
            is_beyond = True
        else:
            newest = found
        step = step // 2 if is_beyond else step * 2
    return newest


class InitProducerId:
    """Answers InitProducerId: a new id, or the next epoch of one that the producer has."""

    def __init__(self, producer_ids: ProducerIds, access: LeaderAccess, clock: Clock) -> None:
        self._producer_ids = producer_ids
        self._clock = clock
        self._access = access

    async def __call__(
        self, request: pb.InitProducerIdRequest, context: CallContext
    ) -> pb.InitProducerIdResponse:
        """Answer one request; there is no transaction coordinator behind it.

        No epoch is kept here: the logs keep the newest one that was written under, and its
        batches' sequences, and refuse older ones, also after a restart and after retention.
        """
        producer_id, epoch = request.producer_id, request.producer_epoch
        try:
            await self._access.some_topic(context.principal, Slices(self._clock, context.principal))
            if producer_id > 0 and 0 <= epoch < _MAX_PRODUCER_EPOCH:
                return pb.InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch + 1)
            producer_id = await self._producer_ids.allocate()
        except RefusedError as refused:
            return pb.InitProducerIdResponse(
                error_code=int(refused.error),
                error_message=refused.message,
                producer_id=-1,
                producer_epoch=-1,
            )
        return pb.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


class WriteTxnMarkers(_LedLogs):
    """Answers WriteTxnMarkers: ends open transactions in the log (read_committed, ISO-1)."""

    async def __call__(
        self, request: pb.WriteTxnMarkersRequest, context: CallContext
    ) -> pb.WriteTxnMarkersResponse:
        """Append one control batch for each marker, in order; those of a slice share commits."""
        bound = self._environment.settings.max_partitions_per_request
        check_parts(request.markers, bound, "markers")
        results = await _in_slices(
            request.markers, lambda marker: self._write(marker, context), at_once=_MARKERS_AT_ONCE
        )
        return pb.WriteTxnMarkersResponse(results=results)

    async def _write(self, marker: pb.TxnMarker, context: CallContext) -> pb.TxnMarkerResult:
        partition = TopicPartition(TopicId(marker.topic_id), marker.partition)
        result = pb.TxnMarkerResult(
            topic_id=marker.topic_id, partition=marker.partition, producer_id=marker.producer_id
        )
        try:
            self._access.markers(context.principal)
            led = self._partitions.with_log(partition)
            append = led.log.append_txn_marker(
                marker.producer_id, marker.producer_epoch, commit=marker.commit
            )
            await within(
                led, self._partitions, append, self._environment.settings.max_produce_wait_ms
            )
        except RefusedError as refused:
            result.error_code, result.error_message = int(refused.error), refused.message
        return result


class DescribeProducers(_LedLogs):
    """Answers DescribeProducers: who has a transaction open, from memory (BND-12)."""

    async def __call__(
        self, request: pb.DescribeProducersRequest, context: CallContext
    ) -> pb.DescribeProducersResponse:
        """Answer one request; a partition that is refused does not hinder the others.

        What one request may cost is bounded: each partition is told once, and transactions of
        all of them up to ``PRODUCERS_MAX``.
        """
        check_parts(
            request.partitions, self._environment.settings.max_partitions_per_request, "partitions"
        )
        response = pb.DescribeProducersResponse()
        slices = Slices(self._environment.clock, context.principal)
        told = _Told()
        for asked in request.partitions:
            partition = TopicPartition(TopicId(asked.topic_id), asked.partition)
            result = response.partitions.add(topic_id=asked.topic_id, partition=asked.partition)
            before = told.looked_at
            try:
                self._access.topic(context.principal, partition, Operation.READ)
                for each in told.transactions(self._partitions.with_log(partition)):
                    result.active_producers.add(
                        producer_id=each.producer_id,
                        producer_epoch=each.producer_epoch,
                        current_txn_start_offset=each.first_offset,
                        open_ms=each.age_ms,
                    )
            except RefusedError as refused:
                result.error_code, result.error_message = int(refused.error), refused.message
            await slices.spend(1 + told.looked_at - before)
        return response


class _Told:
    """What one answer has told already: partitions, and how many transactions."""

    def __init__(self) -> None:
        self._partitions: set[TopicPartition] = set()
        self.looked_at = 0

    def transactions(self, led: LedPartition) -> list[OpenTransaction]:
        """Return the open transactions of a partition; once there are too many, none is looked at.

        Raises:
            RefusedError: INVALID_REQUEST, RECORD_LIST_TOO_LARGE.
        """
        if led.partition in self._partitions:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST,
                f"{led.partition} is named twice in the request; name each partition once",
            )
        if self.looked_at < PRODUCERS_MAX:
            found = led.log.open_transactions()
            self.looked_at += len(found)
            if self.looked_at <= PRODUCERS_MAX or not self._partitions:
                self._partitions.add(led.partition)
                return found
        raise RefusedError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{led.partition} is not told: an answer has at most {PRODUCERS_MAX} transactions; "
            "ask for this partition alone",
        )


async def _in_slices(
    parts: Sequence[Part], work: Callable[[Part], Awaitable[Result]], *, at_once: int
) -> list[Result]:
    """Return what ``work`` returns for each part; parts of a slice begin in their order."""
    results: list[Result] = []
    for first in range(0, len(parts), at_once):
        results += await asyncio.gather(*map(work, parts[first : first + at_once]))
    return results
