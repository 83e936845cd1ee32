"""State requests as messages: what they ask of the machine, and how answers are put."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sharemesh.codec.handed_locks import decode_locks, encode_locks
from sharemesh.codec.packed_batches import encode_packed
from sharemesh.codec.record_event import encode_event
from sharemesh.codec.state_record import decode_batches, decode_cause, encode_archived, put_batches
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.handed_lock import HandedLock
from sharemesh.domain.ids import MAX_PRINCIPAL_CHARS, OFFSET_MAX, MemberId, SharePartitionKey
from sharemesh.domain.packed_batches import PackedBatches, touching
from sharemesh.domain.share_state.checks import StateDecision, StateResult, WriteRequest, invalid
from sharemesh.domain.share_state.hand_overs import HandOvers
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.domain.share_state.records import Origin
from sharemesh.share_coordinator.history_search import Found
from sharemesh.v1 import share_coordinator_pb2 as pb


@dataclass(slots=True)
class PartitionRequest:
    """One share partition of a request: its key, its part of the message, and its answer."""

    key: SharePartitionKey
    item: Any
    answer: StateResult = field(default_factory=StateResult)
    handed_over: tuple[HandedLock, ...] = ()
    keeps_hand_over: bool = False


def hand_over(
    hand_overs: HandOvers, asked: PartitionRequest, answer: StateResult, now_ms: int
) -> bool:
    """Keep what a write hands over, or give it to who reads; ``now_ms`` is monotonic (HND-7).

    Who asks for the history of a record is told of its lock, and takes nothing (EXP-12).
    Return whether it was the last write of a leader, or a read.
    """
    item, state = asked.item, answer.state
    if answer.error:
        return isinstance(item, pb.WritePartitionState) and item.HasField("hand_over")
    if isinstance(item, pb.WritePartitionState):
        if item.HasField("hand_over"):
            epochs = (item.state_epoch, item.leader_epoch)
            locks = decode_locks(item.hand_over.locks)
            asked.keeps_hand_over = hand_overs.keep(asked.key, epochs, locks, now_ms)
            return True
        hand_overs.written(asked.key, item.leader_epoch)
        return False
    if isinstance(item, pb.ReadPartitionState) and state is not None and item.from_offset <= 0:
        epochs = (item.leader_epoch, state.state_epoch)
        asked.handed_over = hand_overs.take(asked.key, *epochs, state.leader_epoch_max, now_ms)
        return True
    if isinstance(item, pb.ReadHistoryPartition) and state is not None and item.leader_epoch > 0:
        known = (state.state_epoch, state.leader_epoch_max)
        lock = hand_overs.lock_on(asked.key, item.offset, item.leader_epoch, *known, now_ms)
        asked.handed_over = () if lock is None else (lock,)
    return False


class Decide(Protocol):
    """A request on one share partition, against the machine of its shard."""

    def __call__(
        self, machine: ShareStateMachine, asked: PartitionRequest, *, in_metadata: bool, now_ms: int
    ) -> StateDecision:
        """Return the outcome; it must not change the machine."""
        ...


Grouped = Iterable[tuple[bytes, list[PartitionRequest]]]
_NO_OFFSET = -1


def initialize(
    machine: ShareStateMachine, asked: PartitionRequest, *, in_metadata: bool, now_ms: int
) -> StateDecision:
    """Put one partition of InitializeShareGroupState to the machine."""
    return machine.initialize(
        asked.key,
        asked.item.state_epoch,
        asked.item.start_offset,
        decode_batches(asked.item.state_batches),
        in_metadata=in_metadata,
        now_ms=now_ms,
    )


def read(
    machine: ShareStateMachine, asked: PartitionRequest, *, in_metadata: bool, now_ms: int
) -> StateDecision:
    """Put one partition of ReadShareGroupState to the machine."""
    return machine.read(
        asked.key,
        asked.item.leader_epoch,
        in_metadata=in_metadata,
        now_ms=now_ms,
        takes_parts=asked.item.HasField("from_offset"),
    )


def write(
    machine: ShareStateMachine, asked: PartitionRequest, *, in_metadata: bool, now_ms: int
) -> StateDecision:
    """Put one partition of WriteShareGroupState to the machine."""
    item = asked.item
    request = WriteRequest(
        state_epoch=item.state_epoch,
        leader_epoch=item.leader_epoch,
        start_offset=item.start_offset,
        delivery_complete_count=item.delivery_complete_count,
        batches=decode_batches(item.state_batches),
        origin=Origin(
            decode_cause(item.cause), MemberId(item.member_id), item.trace_id, item.span_id
        ),
        is_recount=item.is_recount,
    )
    return machine.write(asked.key, request, in_metadata=in_metadata, now_ms=now_ms)


def delete(
    machine: ShareStateMachine, asked: PartitionRequest, *, in_metadata: bool, now_ms: int
) -> StateDecision:
    """Put one partition of DeleteShareGroupState to the machine."""
    return machine.delete(asked.key, asked.item.state_epoch, in_metadata=in_metadata, now_ms=now_ms)


def summary(
    machine: ShareStateMachine,
    asked: PartitionRequest,
    *,
    in_metadata: bool,
    now_ms: int,  # noqa: ARG001 - the shape that all requests have
) -> StateDecision:
    """Put one partition of ReadShareGroupStateSummary to the machine."""
    return machine.summary(asked.key, in_metadata=in_metadata)


def history(
    machine: ShareStateMachine, asked: PartitionRequest, *, in_metadata: bool, now_ms: int
) -> StateDecision:
    """Put one record of ReadShareRecordHistory to the machine."""
    chars = len(asked.item.principal)
    if chars > MAX_PRINCIPAL_CHARS:
        return invalid(f"A principal has at most {MAX_PRINCIPAL_CHARS} characters, not {chars}.")
    return summary(machine, asked, in_metadata=in_metadata, now_ms=now_ms)


def history_results(
    grouped: Grouped, found: Mapping[int, Found]
) -> Iterator[pb.ReadHistoryTopicResult]:
    """Yield what ReadShareRecordHistory answers; ``found`` is by the identity of what was asked."""
    for topic_id, partitions in grouped:
        yield pb.ReadHistoryTopicResult(
            topic_id=topic_id,
            partitions=[_history_result(asked, found.get(id(asked))) for asked in partitions],
        )


def errors(grouped: Grouped) -> Iterator[pb.TopicStateErrors]:
    """Yield what Initialize, Write and Delete answer."""
    for topic_id, partitions in grouped:
        yield pb.TopicStateErrors(
            topic_id=topic_id,
            partitions=[_error(asked) for asked in partitions],
        )


def read_results(grouped: Grouped, part_batches: int) -> Iterator[pb.ReadTopicStateResult]:
    """Yield what Read answers, at most so many batches of a packed state."""
    for topic_id, partitions in grouped:
        yield pb.ReadTopicStateResult(
            topic_id=topic_id,
            partitions=[_read_result(asked, part_batches) for asked in partitions],
        )


def summary_results(grouped: Grouped) -> Iterator[pb.ReadSummaryTopicResult]:
    """Yield what ReadSummary answers (spec SC-20)."""
    for topic_id, partitions in grouped:
        yield pb.ReadSummaryTopicResult(
            topic_id=topic_id,
            partitions=[_summary_result(asked.key.partition, asked.answer) for asked in partitions],
        )


def _error(asked: PartitionRequest) -> pb.PartitionStateError:
    partition, answer = asked.key.partition, asked.answer
    message = pb.PartitionStateError(
        partition=partition,
        error_code=answer.error,
        error_message=answer.message,
        keeps_hand_over=asked.keeps_hand_over and not answer.error,
    )
    if answer.error is ErrorCode.FENCED_STATE_EPOCH:
        message.known_state_epoch = answer.known_state_epoch
    return message


def _read_result(asked: PartitionRequest, part_batches: int) -> pb.ReadPartitionStateResult:
    partition, answer, state = asked.key.partition, asked.answer, asked.answer.state
    if state is None:
        refusal = pb.ReadPartitionStateResult(
            partition=partition,
            error_code=answer.error,
            error_message=answer.message,
            start_offset=_NO_OFFSET,
        )
        if answer.error is ErrorCode.FENCED_LEADER_EPOCH:
            refusal.known_leader_epoch = answer.known_leader_epoch
        return refusal
    message = pb.ReadPartitionStateResult(
        partition=partition,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        handed_over=encode_locks(asked.handed_over),
        delivery_complete_count=state.delivery_complete_count,
    )
    if asked.item.HasField("from_offset") and isinstance(state.batches, PackedBatches):
        part, following = state.batches.part_from(asked.item.from_offset, part_batches)
        message.packed_batches.CopyFrom(encode_packed(part))
        if following is not None:
            message.next_offset = following
    elif asked.item.from_offset > 0:  # the state was larger when the first part was read
        put_batches(
            message.state_batches, touching(state.batches, asked.item.from_offset, OFFSET_MAX)
        )
    else:
        put_batches(message.state_batches, state.batches)
    return message


def _summary_result(partition: int, answer: StateResult) -> pb.ReadSummaryPartitionResult:
    state = answer.state
    if state is None:
        return pb.ReadSummaryPartitionResult(
            partition=partition,
            error_code=answer.error,
            error_message=answer.message,
            start_offset=_NO_OFFSET,
            delivery_complete_count=-1,
        )
    return pb.ReadSummaryPartitionResult(
        partition=partition,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        archived=None if state.archived is None else encode_archived(state.archived),
    )


def _history_result(asked: PartitionRequest, found: Found | None) -> pb.ReadHistoryPartitionResult:
    answer, state = asked.answer, asked.answer.state
    message = pb.ReadHistoryPartitionResult(
        partition=asked.key.partition,
        error_code=answer.error,
        error_message=answer.message,
        start_offset=_NO_OFFSET,
    )
    if state is not None:
        message.state_epoch, message.start_offset = state.state_epoch, state.start_offset
        for batch in touching(state.batches, asked.item.offset, asked.item.offset):
            message.delivery_state = batch.delivery_state
            message.delivery_count = batch.delivery_count
            message.cause = batch.cause
            message.not_before_ms = batch.not_before_ms
    for lock in encode_locks(asked.handed_over):
        message.handed_over.CopyFrom(lock)
    if found is not None:
        message.events.extend(map(encode_event, found.events))
        message.events_are_whole = found.is_whole
        message.events_from_ms = found.from_ms
        message.events_problem = found.problem
    return message
