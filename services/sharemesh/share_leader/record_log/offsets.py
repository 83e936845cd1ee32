"""ListOffsets and DeleteRecords."""

import asyncio

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.network import CallContext
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.failures import outcome_of
from sharemesh.share_leader.partition.led_partitions import LedPartition, LedPartitions
from sharemesh.share_leader.requests.access import LeaderAccess
from sharemesh.share_leader.requests.bounded_gather import check_parts, in_slices
from sharemesh.share_leader.requests.redirects import not_led
from sharemesh.v1 import record_log_pb2 as pb

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
LAST_STABLE_TIMESTAMP = -4
_PARALLEL = 64


class Offsets:
    """Answers ListOffsets and DeleteRecords, partition by partition."""

    def __init__(
        self, environment: LeaderEnvironment, partitions: LedPartitions, access: LeaderAccess
    ) -> None:
        self._environment = environment
        self._partitions = partitions
        self._access = access
        self._parallel = asyncio.Semaphore(_PARALLEL)

    async def list_offsets(
        self, request: pb.ListOffsetsRequest, context: CallContext
    ) -> pb.ListOffsetsResponse:
        """Answer one request; what is answered is committed and led here (LOG-8)."""
        check_parts(request.partitions, self._bound, "partitions")
        results = await in_slices(
            request.partitions, lambda one: self._list(one, context), at_once=_PARALLEL
        )
        return pb.ListOffsetsResponse(partitions=results)

    async def delete_records(
        self, request: pb.DeleteRecordsRequest, context: CallContext
    ) -> pb.DeleteRecordsResponse:
        """Move log starts; answered once each is a committed record of its log."""
        check_parts(request.partitions, self._bound, "partitions")
        results = await in_slices(
            request.partitions, lambda one: self._delete(one, context), at_once=_PARALLEL
        )
        return pb.DeleteRecordsResponse(partitions=results)

    @property
    def _bound(self) -> int:
        return self._environment.settings.max_partitions_per_request

    async def _list(
        self, asked: pb.ListOffsetsPartition, context: CallContext
    ) -> pb.ListOffsetsResult:
        partition = TopicPartition(TopicId(asked.topic_id), asked.partition)
        result = pb.ListOffsetsResult(
            topic_id=asked.topic_id, partition=asked.partition, offset=-1, timestamp=-1
        )
        led: LedPartition | None = None
        try:
            led = self._led(context.principal, partition, Operation.DESCRIBE)
            async with self._parallel:
                await led.looks.look()
                result.offset, result.timestamp = await _offset(led, asked.timestamp)
            result.leader_epoch = led.leader_epoch
        except Exception as error:
            self._told(result, led, "asking the log", error)
        return result

    async def _delete(
        self, asked: pb.DeleteRecordsPartition, context: CallContext
    ) -> pb.DeleteRecordsResult:
        partition = TopicPartition(TopicId(asked.topic_id), asked.partition)
        result = pb.DeleteRecordsResult(
            topic_id=asked.topic_id, partition=asked.partition, low_watermark=-1
        )
        led: LedPartition | None = None
        try:
            led = self._led(context.principal, partition, Operation.DELETE)
            async with self._parallel:
                result.low_watermark = await led.log.delete_records(asked.offset)
        except Exception as error:
            self._told(result, led, "deleting records", error)
        return result

    def _led(self, principal: str, partition: TopicPartition, operation: Operation) -> LedPartition:
        self._access.topic(principal, partition, operation)
        led = self._partitions.get(partition)
        if led is None:
            raise RefusedError(*not_led(self._environment.view, partition))
        return led

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


async def _offset(led: LedPartition, timestamp_ms: int) -> tuple[int, int]:
    """Return (offset, timestamp) for a time in ms or one of the special values; -1 for none."""
    special = {
        LATEST_TIMESTAMP: led.log.high_watermark,
        EARLIEST_TIMESTAMP: led.log.log_start_offset,
        LAST_STABLE_TIMESTAMP: led.log.last_stable_offset,
    }
    if timestamp_ms in special:
        return special[timestamp_ms], -1
    if timestamp_ms < 0:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            f"timestamp {timestamp_ms} is neither a time in ms nor -1 (latest), -2 (earliest), "
            "-4 (last stable offset)",
        )
    found = await led.log.offset_for_timestamp(timestamp_ms)
    return (-1, -1) if found is None else found
