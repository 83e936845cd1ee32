"""The state RPCs: how many share partitions become one request, and answers come apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from google.protobuf.message import Message

from sharemesh import methods
from sharemesh.codec.handed_locks import decode_locks, encode_locks
from sharemesh.codec.packed_batches import decode_packed
from sharemesh.codec.record_event import decode_event
from sharemesh.codec.state_record import (
    decode_archived,
    decode_batches,
    decode_cause,
    decode_state,
    put_batches,
)
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import SharePartitionKey, TopicId
from sharemesh.domain.packed_batches import StateBatches
from sharemesh.domain.state_batch import NO_COUNT, StateBatch
from sharemesh.methods import Method
from sharemesh.ports.share_state import (
    RecordHistoryResult,
    StateReadResult,
    StateSummaryResult,
    StateWrite,
    StateWriteResult,
)
from sharemesh.v1 import share_coordinator_pb2 as pb

Result = TypeVar(
    "Result", StateReadResult, StateWriteResult, StateSummaryResult, RecordHistoryResult
)


class MisshapenResponseError(Exception):
    """A response does not hold the topics and partitions that were asked for (spec PER-5)."""


@dataclass(frozen=True, slots=True)
class Rpc(Generic[Result]):
    """One state RPC. ``partition`` makes the part of one share partition from what is asked."""

    method: Method[Any, Any]
    topic: type[Message]
    partition: Callable[[SharePartitionKey, Any], Message]
    result: Callable[[Any], Result]
    failed: Callable[[ErrorCode, str], Result]

    def request(self, group_id: str, asked: Sequence[tuple[SharePartitionKey, Any]]) -> Any:  # noqa: ANN401
        """Return one request for all; topics and partitions in the order of first mention."""
        topics: dict[TopicId, list[Message]] = {}
        for key, item in asked:
            topics.setdefault(key.topic_id, []).append(self.partition(key, item))
        return self.method.request(
            group_id=group_id,
            topics=[
                self.topic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )

    def results(self, request: Any, response: Any) -> dict[tuple[TopicId, int], list[Result]]:  # noqa: ANN401
        """Return the results by topic and partition, in the order asked.

        Raises:
            MisshapenResponseError: Something is missing, or was not asked for.
        """
        found: dict[tuple[TopicId, int], list[Result]] = {}
        if _shape(request.topics) != _shape(response.results):
            raise MisshapenResponseError(
                f"{self.method.name} was answered for other partitions than were asked for"
            )
        for topic in response.results:
            for each in topic.partitions:
                place = (TopicId(topic.topic_id), each.partition)
                found.setdefault(place, []).append(self.result(each))
        return found


def _shape(topics: Any) -> list[tuple[bytes, list[int]]]:  # noqa: ANN401
    return [(topic.topic_id, [each.partition for each in topic.partitions]) for topic in topics]


def _initialize(key: SharePartitionKey, item: tuple[int, int, tuple[StateBatch, ...]]) -> Message:
    state_epoch, start_offset, batches = item
    message = pb.InitializePartitionState(
        partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
    )
    put_batches(message.state_batches, batches)
    return message


class PartitionRead(NamedTuple):
    """A read of one share partition; the answer to one with ``handing_over`` may wait (HND-13)."""

    leader_epoch: int
    from_offset: int
    handing_over: int = 0


def _read(key: SharePartitionKey, item: PartitionRead) -> Message:
    return pb.ReadPartitionState(
        partition=key.partition,
        leader_epoch=item.leader_epoch,
        from_offset=item.from_offset,
        handing_over_epoch=item.handing_over,
    )


def _write(key: SharePartitionKey, write: StateWrite) -> Message:
    message = pb.WritePartitionState(
        partition=key.partition,
        state_epoch=write.state_epoch,
        leader_epoch=write.leader_epoch,
        start_offset=write.start_offset,
        delivery_complete_count=write.delivery_complete_count,
        cause=write.cause,
        member_id=write.member_id,
        trace_id=write.trace_id,
        span_id=write.span_id,
        is_recount=write.is_recount,
    )
    put_batches(message.state_batches, write.batches)
    if write.is_last:
        message.hand_over.SetInParent()
        message.hand_over.locks.extend(encode_locks(write.hand_over))
    return message


def _delete(key: SharePartitionKey, state_epoch: int) -> Message:
    return pb.DeletePartitionState(partition=key.partition, state_epoch=state_epoch)


def _summary(key: SharePartitionKey, leader_epoch: int) -> Message:
    return pb.ReadSummaryPartition(partition=key.partition, leader_epoch=leader_epoch)


def _history(key: SharePartitionKey, asked: tuple[int, str, int]) -> Message:
    offset, principal, leader_epoch = asked
    return pb.ReadHistoryPartition(
        partition=key.partition, offset=offset, principal=principal, leader_epoch=leader_epoch
    )


def _error(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _written(each: pb.PartitionStateError) -> StateWriteResult:
    known = each.known_state_epoch if each.HasField("known_state_epoch") else -1
    return StateWriteResult(
        _error(each.error_code), each.error_message, known, each.keeps_hand_over
    )


def _state(each: pb.ReadPartitionStateResult) -> StateReadResult:
    batches: StateBatches = decode_batches(each.state_batches)
    if each.HasField("packed_batches"):
        try:
            batches = decode_packed(each.packed_batches)
        except ValueError as error:
            raise MisshapenResponseError(f"the state cannot be read: {error}") from error
    return StateReadResult(
        _error(each.error_code),
        each.error_message,
        each.state_epoch,
        each.start_offset,
        batches,
        each.known_leader_epoch if each.HasField("known_leader_epoch") else -1,
        each.next_offset if each.HasField("next_offset") else -1,
        decode_locks(each.handed_over),
        each.delivery_complete_count if each.HasField("delivery_complete_count") else NO_COUNT,
    )


def _summarized(each: pb.ReadSummaryPartitionResult) -> StateSummaryResult:
    return StateSummaryResult(
        _error(each.error_code),
        each.error_message,
        each.state_epoch,
        each.leader_epoch,
        each.start_offset,
        each.delivery_complete_count,
        decode_archived(each.archived) if each.HasField("archived") else None,
    )


def _told(each: pb.ReadHistoryPartitionResult) -> RecordHistoryResult:
    is_stored = each.HasField("state_epoch")
    return RecordHistoryResult(
        _error(each.error_code),
        each.error_message,
        each.state_epoch if is_stored else -1,
        each.start_offset,
        decode_state(each.delivery_state) if each.HasField("delivery_state") else None,
        each.delivery_count,
        decode_cause(each.cause),
        tuple(map(decode_event, each.events)),
        each.events_are_whole,
        each.events_from_ms,
        each.events_problem,
        each.not_before_ms,
        decode_locks([each.handed_over])[0] if each.HasField("handed_over") else None,
    )


INITIALIZE = Rpc(
    methods.INITIALIZE_SHARE_GROUP_STATE,
    pb.InitializeTopicState,
    _initialize,
    _written,
    StateWriteResult,
)
READ = Rpc(methods.READ_SHARE_GROUP_STATE, pb.ReadTopicState, _read, _state, StateReadResult)
WRITE = Rpc(methods.WRITE_SHARE_GROUP_STATE, pb.WriteTopicState, _write, _written, StateWriteResult)
DELETE = Rpc(
    methods.DELETE_SHARE_GROUP_STATE, pb.DeleteTopicState, _delete, _written, StateWriteResult
)
SUMMARY = Rpc(
    methods.READ_SHARE_GROUP_STATE_SUMMARY,
    pb.ReadSummaryTopic,
    _summary,
    _summarized,
    StateSummaryResult,
)
HISTORY = Rpc(
    methods.READ_SHARE_RECORD_HISTORY, pb.ReadHistoryTopic, _history, _told, RecordHistoryResult
)
