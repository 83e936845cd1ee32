"""Produce, InitProducerId and WriteTxnMarkers: what appends to the log (issue item 2)."""

import asyncio
from collections.abc import Awaitable, Sequence

from sharemesh.codec.decoded_records import encode_records
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.network import CallContext
from sharemesh.ports.producer_ids import ProducerIds
from sharemesh.ports.record_log import AppendResult
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.failures import outcome_of
from sharemesh.share_leader.partition.led_partitions import LedPartition, LedPartitions
from sharemesh.share_leader.requests.access import LeaderAccess
from sharemesh.share_leader.requests.bounded_gather import check_parts, in_slices
from sharemesh.share_leader.requests.redirects import Redirects, not_led
from sharemesh.v1 import record_log_pb2 as pb

_MAX_PRODUCER_EPOCH = 32_766
_MARKERS_AT_ONCE = 256


class Produce:
    """Answers Produce once every batch is committed, or says why it is not."""

    def __init__(
        self, environment: LeaderEnvironment, partitions: LedPartitions, access: LeaderAccess
    ) -> None:
        self._environment = environment
        self._partitions = partitions
        self._access = access

    async def __call__(
        self, request: pb.ProduceRequest, context: CallContext
    ) -> pb.ProduceResponse:
        """Append to each partition; one that is refused does not hinder the others."""
        check_parts(
            request.partitions, self._environment.settings.max_partitions_per_request, "partitions"
        )
        try:
            self._check_size(request.partitions)
        except RefusedError as refused:
            return pb.ProduceResponse(
                partitions=[_result(p, refused.error, refused.message) for p in request.partitions]
            )
        wait_ms = request.timeout_ms if request.timeout_ms > 0 else 0
        settings = self._environment.settings
        bound_ms = min(wait_ms or settings.max_produce_wait_ms, settings.max_produce_wait_ms)
        redirects = Redirects(self._environment.view)
        results: list[pb.ProducePartitionResult | None] = []
        appends: list[Awaitable[pb.ProducePartitionResult]] = []
        for listed in request.partitions:
            begun = self._begin(listed, context, bound_ms, redirects)
            if isinstance(begun, pb.ProducePartitionResult):
                results.append(begun)
            else:
                results.append(None)
                appends.append(begun)
        # The appends begin in the order of the request: the log keeps it within a partition.
        done = iter([await appends[0]] if len(appends) == 1 else await asyncio.gather(*appends))
        return pb.ProduceResponse(
            partitions=[next(done) if result is None else result for result in results],
            node_endpoints=redirects.endpoints(),
        )

    def _check_size(self, partitions: Sequence[pb.ProducePartition]) -> None:
        settings = self._environment.settings
        size = sum(len(p.records) for p in partitions)
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
        context: CallContext,
        bound_ms: int,
        redirects: Redirects,
    ) -> pb.ProducePartitionResult | Awaitable[pb.ProducePartitionResult]:
        """Return the refusal, or the append that is to be awaited: refusals cost no task."""
        partition = TopicPartition(TopicId(listed.topic_id), listed.partition)
        try:
            partition = self._partition(listed, context.principal)
            led = self._led(partition)
            batches = self._batches(listed)
        except RefusedError as refused:
            return _refused(listed, partition, refused, redirects)
        return self._append(listed, led, batches, bound_ms, redirects)

    async def _append(
        self,
        listed: pb.ProducePartition,
        led: LedPartition,
        batches: bytes,
        bound_ms: int,
        redirects: Redirects,
    ) -> pb.ProducePartitionResult:
        try:
            landed = await within(led, self._partitions, led.log.append(batches), bound_ms)
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

    def _partition(self, listed: pb.ProducePartition, principal: str) -> TopicPartition:
        """Return what may be written to, by its id or its name."""
        if listed.topic_id or not listed.topic_name:
            partition = TopicPartition(TopicId(listed.topic_id), listed.partition)
            self._access.topic(principal, partition, Operation.WRITE)
            return partition
        topic = self._access.topic_named(principal, listed.topic_name, Operation.WRITE)
        return TopicPartition(topic.topic_id, listed.partition)

    def _led(self, partition: TopicPartition) -> LedPartition:
        led = self._partitions.get(partition)
        if led is None:
            raise RefusedError(*not_led(self._environment.view, partition))
        return led

    def _batches(self, listed: pb.ProducePartition) -> bytes:
        if not listed.decoded_records:
            if not listed.records:
                raise RefusedError(ErrorCode.INVALID_RECORD, "there is no record to produce")
            return listed.records
        if listed.records:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, "send records or decoded_records, not both"
            )
        batches = encode_records(
            listed.decoded_records, default_timestamp_ms=self._environment.clock.wall_ms()
        )
        if len(batches) > self._environment.settings.max_produce_bytes:
            raise RefusedError(
                ErrorCode.MESSAGE_TOO_LARGE, f"the records take {len(batches)} bytes as a batch"
            )
        return batches


class InitProducerId:
    """Answers InitProducerId: a new id, or the next epoch of one that the producer has."""

    def __init__(self, producer_ids: ProducerIds, access: LeaderAccess) -> None:
        self._producer_ids = producer_ids
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
            self._access.some_topic(context.principal)
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


class WriteTxnMarkers:
    """Answers WriteTxnMarkers: ends open transactions in the log (read_committed, ISO-1)."""

    def __init__(
        self, environment: LeaderEnvironment, partitions: LedPartitions, access: LeaderAccess
    ) -> None:
        self._environment = environment
        self._partitions = partitions
        self._access = access

    async def __call__(
        self, request: pb.WriteTxnMarkersRequest, context: CallContext
    ) -> pb.WriteTxnMarkersResponse:
        """Append one control batch for each marker, in order; those of a slice share commits."""
        bound = self._environment.settings.max_partitions_per_request
        check_parts(request.markers, bound, "markers")
        results = await in_slices(
            request.markers, lambda marker: self._write(marker, context), at_once=_MARKERS_AT_ONCE
        )
        return pb.WriteTxnMarkersResponse(results=results)

    async def _write(self, marker: pb.TxnMarker, context: CallContext) -> pb.TxnMarkerResult:
        partition = TopicPartition(TopicId(marker.topic_id), marker.partition)
        result = pb.TxnMarkerResult(
            topic_id=marker.topic_id, partition=marker.partition, producer_id=marker.producer_id
        )
        try:
            self._access.cluster(context.principal)
            led = self._partitions.get(partition)
            if led is None:
                raise RefusedError(*not_led(self._environment.view, partition))
            append = led.log.append_txn_marker(
                marker.producer_id, marker.producer_epoch, commit=marker.commit
            )
            await within(
                led, self._partitions, append, self._environment.settings.max_produce_wait_ms
            )
        except RefusedError as refused:
            result.error_code, result.error_message = int(refused.error), refused.message
        return result


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
