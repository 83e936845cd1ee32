"""Produce: appends to the record logs of the partitions that are led here."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sharemesh.authorization.slices import UNITS_OF_A_SLICE, Slices
from sharemesh.codec.decoded_records import RecordEncoder
from sharemesh.codec.produced_batches import holds_transaction
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import CallContext, CallFailedError, Failure
from sharemesh.ports.record_log import AppendResult
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.failures import outcome_of
from sharemesh.share_leader.pacing import LeaderPacing
from sharemesh.share_leader.partition.led_partitions import (
    LedPartition,
    LedPartitions,
    Redirects,
)
from sharemesh.share_leader.requests.access import LeaderAccess
from sharemesh.v1 import record_log_pb2 as pb

RECORDS_OF_A_SLICE = 500
"""Decoded records that are encoded in a turn of the loop: some 2 ms of processor time."""

PARTITIONS_OF_A_SLICE = 100
"""Partitions that are looked at in a turn of the loop: some 3 ms, if all of them are refused."""


class _Places:
    """Tells once that each append of a request has its place; one that is refused has none."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self.missing = 0

    def found(self) -> None:
        """Count an append that has its place."""
        self.missing -= 1
        if not self.missing:
            self._tell()


class Produce:
    """Answers Produce once every batch is committed, or says why it is not."""

    def __init__(
        self,
        environment: LeaderEnvironment,
        partitions: LedPartitions,
        access: LeaderAccess,
        pacing: LeaderPacing,
    ) -> None:
        self._environment = environment
        self._partitions = partitions
        self._access = access
        self._pacing = pacing

    async def __call__(
        self, request: pb.ProduceRequest, context: CallContext
    ) -> pb.ProduceResponse:
        """Append to each partition; one that is refused does not hinder the others."""
        check_parts(
            request.partitions, self._environment.settings.max_partitions_per_request, "partitions"
        )
        records = [listed.records for listed in request.partitions]  # each look is a copy
        try:
            self._check_size(request.partitions, sum(map(len, records)))
        except RefusedError as refused:
            return _all_refused(request, refused.error, refused.message)
        if self._pacing.binds_producer(context.principal):
            size = sum(map(len, records)) + _decoded_bytes(request)
            throttled = await self._pacing.admit(context.principal, size)
            if throttled is not None:
                error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
                refusal = _all_refused(request, error, throttled.message)
                refusal.throttle_time_ms = throttled.throttle_ms
                return refusal
        response = await self._append_all(request, records, context)
        throttle_ms = self._pacing.produced(context.principal)
        if throttle_ms:  # also of a quota that was set meanwhile
            response.throttle_time_ms = throttle_ms
        return response

    async def _append_all(
        self, request: pb.ProduceRequest, records: Sequence[bytes], context: CallContext
    ) -> pb.ProduceResponse:
        wait_ms = request.timeout_ms if request.timeout_ms > 0 else 0
        settings = self._environment.settings
        bound_ms = min(wait_ms or settings.max_produce_wait_ms, settings.max_produce_wait_ms)
        redirects = Redirects(self._environment.view)
        results: list[pb.ProducePartitionResult | None] = []
        appends: list[Awaitable[pb.ProducePartitionResult]] = []
        slices = _slices_of(request, self._environment.clock, context.principal)
        places = None
        if context.placed is not None and slices is None:
            places = _Places(context.placed)
        # The appends begin in the order of the request: the log keeps it within a partition.
        try:
            for position, listed in enumerate(request.partitions):
                if slices is not None and position and position % PARTITIONS_OF_A_SLICE == 0:
                    await slices.spend(UNITS_OF_A_SLICE)
                batches = records[position]
                begun = self._begin(
                    listed, batches, request.transactional_id, context, bound_ms, redirects, places
                )
                if isinstance(begun, pb.ProducePartitionResult):
                    results.append(begun)
                else:
                    results.append(None)
                    appends.append(begun if slices is None else asyncio.ensure_future(begun))
        except asyncio.CancelledError:
            for each in appends:
                asyncio.ensure_future(each).cancel()
            raise
        if places is not None:
            places.missing = len(results)  # none has begun yet; what is refused has no place
        done = iter([await appends[0]] if len(appends) == 1 else await asyncio.gather(*appends))
        return pb.ProduceResponse(
            partitions=[next(done) if result is None else result for result in results],
            node_endpoints=redirects.endpoints(),
        )

    def _check_size(self, partitions: Sequence[pb.ProducePartition], size: int) -> None:
        settings = self._environment.settings
        if size > settings.max_produce_bytes:
            raise RefusedError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{size} bytes of records in one request; send at most "
                f"{settings.max_produce_bytes}",
            )
        count = sum(len(p.decoded_records) for p in partitions)
        if count > settings.max_produce_records:
            raise RefusedError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{count} decoded records in one request; send at most "
                f"{settings.max_produce_records}",
            )

    def _begin(
        self,
        listed: pb.ProducePartition,
        records: bytes,
        transactional_id: str,
        context: CallContext,
        bound_ms: int,
        redirects: Redirects,
        places: _Places | None,
    ) -> pb.ProducePartitionResult | Awaitable[pb.ProducePartitionResult]:
        """Return the refusal, or the append that is to be awaited: refusals cost no task."""
        partition = TopicPartition(TopicId(listed.topic_id), listed.partition)
        try:
            partition = self._access.partition(context.principal, listed, Operation.WRITE)
            if holds_transaction(records):
                self._access.transactional_id(context.principal, transactional_id)
            led = self._partitions.with_log(partition)
            if listed.decoded_records:
                if records:
                    raise invalid_request("send records or decoded_records, not both")
                return self._append_decoded(listed, context.principal, bound_ms, redirects)
            if not records:
                raise RefusedError(ErrorCode.INVALID_RECORD, "there is no record to produce")
        except RefusedError as refused:
            return _refused(listed, partition, refused, redirects)
        return self._append(listed, led, records, bound_ms, redirects, places)

    async def _append_decoded(
        self, listed: pb.ProducePartition, principal: str, bound_ms: int, redirects: Redirects
    ) -> pb.ProducePartitionResult:
        partition = TopicPartition(TopicId(listed.topic_id), listed.partition)
        try:
            batches = await self._encoded(listed, principal)
            # as the rights are now (FAI-5)
            partition = self._access.partition(principal, listed, Operation.WRITE)
            led = self._partitions.with_log(partition)
        except RefusedError as refused:
            return _refused(listed, partition, refused, redirects)
        return await self._append(listed, led, batches, bound_ms, redirects)

    async def _append(
        self,
        listed: pb.ProducePartition,
        led: LedPartition,
        batches: bytes,
        bound_ms: int,
        redirects: Redirects,
        places: _Places | None = None,
    ) -> pb.ProducePartitionResult:
        append = led.log.append(batches, None if places is None else places.found)
        try:
            landed = await within(led, self._partitions, append, bound_ms)
        except RefusedError as refused:
            return _refused(listed, led.partition, refused, redirects)
        counters = self._environment.counters
        counters.records_produced += landed.last_offset - landed.base_offset + 1
        counters.bytes_produced += len(batches)
        return pb.ProducePartitionResult(
            topic_id=led.partition.topic_id,
            partition=led.partition.partition,
            base_offset=landed.base_offset,
            last_offset=landed.last_offset,
            log_start_offset=landed.log_start_offset,
        )

    async def _encoded(self, listed: pb.ProducePartition, principal: str) -> bytes:
        """Return decoded records as a batch, which is made in slices (BND-27)."""
        clock = self._environment.clock
        slices = Slices(clock, principal)
        encoder = RecordEncoder(default_timestamp_ms=clock.wall_ms())
        records = listed.decoded_records
        for first in range(0, len(records), RECORDS_OF_A_SLICE):
            if first:
                await slices.spend(UNITS_OF_A_SLICE)
            encoder.append(records[first : first + RECORDS_OF_A_SLICE])
        batches = encoder.finish()
        if len(batches) > self._environment.settings.max_produce_bytes:
            raise RefusedError(
                ErrorCode.MESSAGE_TOO_LARGE, f"the records take {len(batches)} bytes as a batch"
            )
        return batches


def _slices_of(request: pb.ProduceRequest, clock: Clock, principal: str) -> Slices | None:
    """Return the slices of a request that names more partitions than fit one (BND-20)."""
    return Slices(clock, principal) if len(request.partitions) > PARTITIONS_OF_A_SLICE else None


def check_parts(parts: Sequence[Any], bound: int, name: str) -> None:
    """Refuse a request of more parts than ``bound`` as a whole: one error, not one for each.

    Raises:
        CallFailedError: RESOURCE_EXHAUSTED.
    """
    if len(parts) > bound:
        raise CallFailedError(
            Failure.RESOURCE_EXHAUSTED,
            f"{len(parts)} {name} in one request; send at most {bound}",
        )


async def within(
    led: LedPartition, partitions: LedPartitions, append: Awaitable[AppendResult], bound_ms: int
) -> AppendResult:
    """Await an append and turn the end of the epoch, and of patience, into refusals.

    Raises:
        RefusedError: The log's own, NOT_LEADER_OR_FOLLOWER, or REQUEST_TIMED_OUT (then the
            records may still be committed).
    """
    try:
        async with asyncio.timeout(bound_ms / 1_000):
            return await append
    except TimeoutError:
        raise RefusedError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"not committed within {bound_ms} ms; it may still be: an idempotent producer can "
            "safely send it again",
        ) from None
    except (FencedError, LogFailedError) as ended:
        partitions.epoch_ended(led, ended)
        raise RefusedError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"leader epoch {led.leader_epoch} has ended; refresh metadata and send it again",
        ) from ended
    except RefusedError:
        raise
    except Exception as error:  # it concerns this partition, not the others of the request
        raise RefusedError(*outcome_of("appending", led.partition, error)) from error


def _refused(
    listed: pb.ProducePartition,
    partition: TopicPartition,
    refused: RefusedError,
    redirects: Redirects,
) -> pb.ProducePartitionResult:
    result = _result(listed, refused.error, refused.message)
    result.topic_id = partition.topic_id
    leader = redirects.leader_of(partition, refused.error)
    if leader is not None:
        result.current_leader.CopyFrom(leader)
    return result


def _all_refused(request: pb.ProduceRequest, error: ErrorCode, message: str) -> pb.ProduceResponse:
    return pb.ProduceResponse(partitions=[_result(p, error, message) for p in request.partitions])


def _decoded_bytes(request: pb.ProduceRequest) -> int:
    """Return what decoded records count in bytes: as they were sent."""
    return sum(each.ByteSize() for listed in request.partitions for each in listed.decoded_records)


def _result(
    listed: pb.ProducePartition, error: ErrorCode, message: str
) -> pb.ProducePartitionResult:
    return pb.ProducePartitionResult(
        topic_id=listed.topic_id,
        partition=listed.partition,
        error_code=int(error),
        error_message=message,
        base_offset=-1,
        last_offset=-1,
        log_start_offset=-1,
    )
