"""Explain: what became of one record for one group, and why it is not delivered now."""

from enum import StrEnum

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.group_config import IsolationLevel
from sharemesh.domain.ids import GroupId, TopicPartition
from sharemesh.domain.share_partition.view import RecordView
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.network import CallContext
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.access import Access
from sharemesh.share_leader.environment import Environment
from sharemesh.share_leader.partitions import LedPartition, LedPartitions
from sharemesh.share_leader.redirects import not_led
from sharemesh.share_leader.share_partition_shell import Phase, SharePartitionShell
from sharemesh.v1 import share_leader_pb2 as pb


class Reason(StrEnum):
    """Every way in which a record is not being delivered, or how it ended."""

    DELIVERABLE = "DELIVERABLE"
    NOT_PRODUCED = "NOT_PRODUCED"
    BELOW_LOG_START = "BELOW_LOG_START"
    DAMAGED = "DAMAGED"
    BELOW_START_OFFSET = "BELOW_START_OFFSET"
    OPEN_TRANSACTION = "OPEN_TRANSACTION"
    GROUP_NOT_SEEN = "GROUP_NOT_SEEN"
    INITIALIZING = "INITIALIZING"
    DRAINING = "DRAINING"
    LOCKED = "LOCKED"
    BEING_WRITTEN = "BEING_WRITTEN"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    ARCHIVED_BY_LIMIT = "ARCHIVED_BY_LIMIT"
    ARCHIVED = "ARCHIVED"
    IN_FLIGHT_LIMIT = "IN_FLIGHT_LIMIT"
    BEHIND_OTHERS = "BEHIND_OTHERS"
    MEMBER_STALLED = "MEMBER_STALLED"
    NO_MEMBER_ASKS = "NO_MEMBER_ASKS"


_WORDS = {
    Reason.DELIVERABLE: "the next fetch of a member may get it",
    Reason.NOT_PRODUCED: "no record has this offset yet; the high watermark is the next one",
    Reason.BELOW_LOG_START: "retention or DeleteRecords removed it from the log",
    Reason.DAMAGED: "the log of its topic-partition is damaged at or before it",
    Reason.BELOW_START_OFFSET: "it is finished for this group, or lay before where the group began",
    Reason.OPEN_TRANSACTION: (
        "the group reads only committed records, and an open transaction begins at or before it; "
        "end that transaction"
    ),
    Reason.GROUP_NOT_SEEN: (
        "no member of this group fetches from this leader, so its state is not loaded; let a "
        "member fetch, or read the durable state at the share coordinator"
    ),
    Reason.INITIALIZING: "the group's state is being read from the share coordinator; wait",
    Reason.DRAINING: "the partition is moving to another leader; it is delivered there",
    Reason.LOCKED: "a member holds its acquisition lock; it acknowledges, or the lock expires",
    Reason.BEING_WRITTEN: "a change of its state is being made durable; wait",
    Reason.ACKNOWLEDGED: "a member accepted it; it is never delivered again",
    Reason.ARCHIVED_BY_LIMIT: (
        "it was delivered as often as share.delivery.count.limit allows; raise the limit and "
        "reset the offsets to deliver it again"
    ),
    Reason.ARCHIVED: "it was rejected, was a gap, was aborted, or was below a moved log start",
    Reason.IN_FLIGHT_LIMIT: (
        "too many records are in flight (share.partition.max.record.locks counts from the start "
        "offset): acknowledge the oldest, or raise the limit"
    ),
    Reason.BEHIND_OTHERS: "earlier records are delivered first; members fetch them as they can",
    Reason.MEMBER_STALLED: (
        "it is available, but each member that could get it let the locks of its last records end "
        "without a word, and gets nothing until it is heard of; see what its application is busy "
        "with, end it, or start another member"
    ),
    Reason.NO_MEMBER_ASKS: "it is available, but no member waits for records now",
}


class Explain:
    """Answers Explain from memory, after a look that this node still leads (DESIGN 5.2)."""

    def __init__(self, environment: Environment, partitions: LedPartitions, access: Access) -> None:
        self._environment = environment
        self._partitions = partitions
        self._access = access

    async def __call__(
        self, request: pb.ExplainRequest, context: CallContext
    ) -> pb.ExplainResponse:
        """Answer one request; errors are in the body."""
        try:
            led = self._led(request, context.principal)
            await led.looks.look()
        except RefusedError as refused:
            return pb.ExplainResponse(error_code=int(refused.error), error_message=refused.message)
        except (FencedError, LogFailedError) as ended:
            return pb.ExplainResponse(
                error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
                error_message=f"leadership has moved ({ended}); ask the new leader",
            )
        response = pb.ExplainResponse(
            high_watermark=led.log.high_watermark, leader_epoch=led.leader_epoch
        )
        shell = led.shares.get(GroupId(request.group_id))
        record: RecordView | None = None
        if shell is not None and shell.phase is Phase.ACTIVE:
            record = shell.machine.state_at(request.offset)
            self._describe(shell, record, response)
            _trace(shell, request.offset, record, response)
        reason = why(led, shell, record, request.offset)
        response.reason = reason.value
        response.explanation = f"offset {request.offset}: {_WORDS[reason]}"
        if reason is Reason.DAMAGED and led.log.damage is not None:
            response.explanation += f": {led.log.damage[1]}"
        return response

    def _led(self, request: pb.ExplainRequest, principal: str) -> LedPartition:
        self._access.group(principal, request.group_id, Operation.DESCRIBE)
        topic = self._access.topic_named(principal, request.topic_name, Operation.DESCRIBE)
        partition = TopicPartition(topic.topic_id, request.partition)
        led = self._partitions.get(partition)
        if led is None:
            raise RefusedError(*not_led(self._environment.view, partition))
        if request.offset < 0:
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, f"offset {request.offset} is below 0; name a record"
            )
        return led

    def _describe(
        self, shell: SharePartitionShell, record: RecordView | None, response: pb.ExplainResponse
    ) -> None:
        machine = shell.machine
        response.start_offset = machine.start_offset
        response.end_offset = machine.end_offset
        response.next_fetch_offset = machine.next_fetch_offset()
        response.state_epoch = machine.state_epoch
        if record is None:
            return
        response.delivery_state = record.state.name
        response.member_id = record.member_id
        response.delivery_count = record.delivery_count
        if record.lock_deadline_ms is not None and record.state is DeliveryState.ACQUIRED:
            now_ms = self._environment.clock.now_ms()
            response.lock_remaining_ms = max(0, record.lock_deadline_ms - now_ms)


def _trace(
    shell: SharePartitionShell, offset: int, record: RecordView | None, response: pb.ExplainResponse
) -> None:
    """Say what happened last, and in which trace."""
    outcome = shell.telemetry.outcome_of(offset)
    if outcome is not None:
        response.last_cause = outcome.cause.name
    locked = record is not None and record.state is DeliveryState.ACQUIRED
    last = shell.telemetry.acquisition_of(offset) if locked else outcome
    if last is not None and last.context is not None:
        response.trace_id = last.context.trace_id.to_bytes(16, "big")
        response.span_id = last.context.span_id.to_bytes(8, "big")


def why(
    led: LedPartition, shell: SharePartitionShell | None, record: RecordView | None, offset: int
) -> Reason:
    """Return the first reason that holds, from the log up to the members."""
    damage = led.log.damage
    if damage is not None and offset >= damage[0] and record is None:
        return Reason.DAMAGED
    if offset >= led.log.high_watermark:
        return Reason.NOT_PRODUCED
    if offset < led.log.log_start_offset:
        return Reason.BELOW_LOG_START
    if shell is None:
        return Reason.GROUP_NOT_SEEN
    if shell.phase is not Phase.ACTIVE:
        return Reason.INITIALIZING
    if record is not None:
        return _why_in_flight(led, shell, record)
    return _why_not_in_flight(led, shell, offset)


def _why_in_flight(led: LedPartition, shell: SharePartitionShell, record: RecordView) -> Reason:
    if record.in_transition:
        return Reason.BEING_WRITTEN
    match record.state:
        case DeliveryState.ACQUIRED:
            return Reason.LOCKED
        case DeliveryState.ACKNOWLEDGED:
            return Reason.ACKNOWLEDGED
        case DeliveryState.ARCHIVED | DeliveryState.ARCHIVING:
            limit = shell.config.delivery_count_limit
            by_limit = record.delivery_count >= limit
            return Reason.ARCHIVED_BY_LIMIT if by_limit else Reason.ARCHIVED
        case DeliveryState.AVAILABLE:
            return _why_available(led, shell, record.first_offset)


def _why_not_in_flight(led: LedPartition, shell: SharePartitionShell, offset: int) -> Reason:
    if offset < shell.machine.start_offset:
        return Reason.BELOW_START_OFFSET
    committed = shell.config.isolation_level is IsolationLevel.READ_COMMITTED
    if committed and offset >= led.log.last_stable_offset:
        return Reason.OPEN_TRANSACTION
    return _why_available(led, shell, offset)


def _why_available(led: LedPartition, shell: SharePartitionShell, offset: int) -> Reason:
    if led.draining:
        return Reason.DRAINING
    if not shell.machine.can_acquire():
        return Reason.IN_FLIGHT_LIMIT
    if offset > shell.next_fetch_offset:
        return Reason.BEHIND_OTHERS
    if shell.has_waiters:
        return Reason.DELIVERABLE
    return Reason.MEMBER_STALLED if shell.has_stalled else Reason.NO_MEMBER_ASKS
