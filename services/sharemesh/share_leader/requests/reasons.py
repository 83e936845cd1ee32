"""Why a record is not being delivered, or how it ended: from the memory of its leader."""

from enum import StrEnum

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.group_config import GroupConfig, IsolationLevel
from sharemesh.domain.share_partition.view import RecordView
from sharemesh.share_leader.partition.led_partitions import LedPartition
from sharemesh.share_leader.partition.share_partition_runner import Phase, SharePartitionRunner


class Reason(StrEnum):
    """Every way in which a record is not being delivered, or how it ended."""

    DELIVERABLE = "DELIVERABLE"
    NOT_PRODUCED = "NOT_PRODUCED"
    BELOW_LOG_START = "BELOW_LOG_START"
    DAMAGED = "DAMAGED"
    STORAGE_UNAVAILABLE = "STORAGE_UNAVAILABLE"
    BELOW_START_OFFSET = "BELOW_START_OFFSET"
    OPEN_TRANSACTION = "OPEN_TRANSACTION"
    GROUP_NOT_SEEN = "GROUP_NOT_SEEN"
    INITIALIZING = "INITIALIZING"
    DRAINING = "DRAINING"
    PAUSED = "PAUSED"
    LOCKED = "LOCKED"
    BEING_WRITTEN = "BEING_WRITTEN"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    REJECTED = "REJECTED"
    ARCHIVED_BY_LIMIT = "ARCHIVED_BY_LIMIT"
    ARCHIVED = "ARCHIVED"
    DELAYED = "DELAYED"
    IN_FLIGHT_LIMIT = "IN_FLIGHT_LIMIT"
    RUNS_LIMIT = "RUNS_LIMIT"
    BEHIND_OTHERS = "BEHIND_OTHERS"
    MEMBER_STALLED = "MEMBER_STALLED"
    THROTTLED = "THROTTLED"
    NO_MEMBER_ASKS = "NO_MEMBER_ASKS"


WORDS = {
    Reason.DELIVERABLE: "the next fetch of a member may get it",
    Reason.NOT_PRODUCED: "no record has this offset yet; the high watermark is the next one",
    Reason.BELOW_LOG_START: "retention or DeleteRecords removed it from the log",
    Reason.DAMAGED: "the log of its topic-partition is damaged at or before it",
    Reason.STORAGE_UNAVAILABLE: (
        "the records of its topic-partition cannot be read just now; fetches wait until they can"
    ),
    Reason.BELOW_START_OFFSET: "it is finished for this group, or lay before where the group began",
    Reason.OPEN_TRANSACTION: (
        "the group reads only committed records, and an open transaction begins at or before it; "
        "see and end it with `sharemesh transactions list` and `abort`, or wait until it times out"
    ),
    Reason.GROUP_NOT_SEEN: (
        "nothing is stored of this group for this partition, and no member fetches it: the group "
        "does not exist, or never subscribed to the topic, or its offsets were deleted"
    ),
    Reason.INITIALIZING: "the group's state is being read from the share coordinator; wait",
    Reason.DRAINING: "the partition is moving to another leader; it is delivered there",
    Reason.PAUSED: (
        "the group is paused (share.paused): it is delivered after `sharemesh groups resume`, or "
        "spec.paused: false of its ShareGroup; what members hold they may acknowledge meanwhile"
    ),
    Reason.LOCKED: "a member holds its acquisition lock; it acknowledges, or the lock expires",
    Reason.BEING_WRITTEN: "a change of its state is being made durable; wait",
    Reason.ACKNOWLEDGED: "a member accepted it; it is never delivered again",
    Reason.ARCHIVED_BY_LIMIT: (
        "it was delivered as often as share.delivery.count.limit allows; raise the limit and "
        "reset the offsets to deliver it again"
    ),
    Reason.REJECTED: "a member rejected it; it is never delivered again",
    Reason.ARCHIVED: (
        "it is never delivered again: the offset holds no record, its transaction was aborted, the "
        "log start moved past it, or the stored state does not say why it ended"
    ),
    Reason.DELAYED: (
        "it was released and waits before it is delivered again: release_delay_ms of the release, "
        "or the group's share.retry settings, say how long"
    ),
    Reason.IN_FLIGHT_LIMIT: (
        "members hold as many records as share.partition.max.record.locks allows (with "
        "share.in.flight.limit.type=span: so many offsets are in flight from the start offset on): "
        "acknowledge the oldest, or raise the limit"
    ),
    Reason.RUNS_LIMIT: (
        "finished and unfinished records alternate so often above the start offset that "
        "share.partition.max.runs is reached, and nothing above the end offset goes out: "
        "finish the record at the start offset, or raise the limit"
    ),
    Reason.BEHIND_OTHERS: "earlier records are delivered first; members fetch them as they can",
    Reason.MEMBER_STALLED: (
        "it is available, but each member that could get it let the locks of its last records end "
        "without an acknowledgement, and gets nothing before its next request: see what its "
        "application is busy with, stop it, or start another member"
    ),
    Reason.THROTTLED: "it is available, but a quota lets the members get no records just now",
    Reason.NO_MEMBER_ASKS: "it is available, but no member waits for records now",
}


def why(
    led: LedPartition, runner: SharePartitionRunner | None, record: RecordView | None, offset: int
) -> Reason:
    """Return the first reason that holds, from the log up to the members."""
    damage = led.log.damage
    if damage is not None and offset >= damage[0] and record is None:
        return Reason.DAMAGED
    if offset >= led.log.high_watermark:
        return Reason.NOT_PRODUCED
    if offset < led.log.log_start_offset:
        return Reason.BELOW_LOG_START
    if runner is None:
        return Reason.GROUP_NOT_SEEN
    if runner.phase is not Phase.ACTIVE:
        return Reason.INITIALIZING
    if record is not None:
        return _why_in_flight(led, runner, record, offset)
    return _why_not_in_flight(led, runner, offset)


def ending_of(state: DeliveryState, cause: Cause) -> Reason:
    """Return how a finished record ended; without its cause an archived one is no more than that.

    The delivery count does not tell: a record may be rejected in its last delivery.
    """
    if state is DeliveryState.ACKNOWLEDGED:
        return Reason.ACKNOWLEDGED
    if cause is Cause.REJECT:
        return Reason.REJECTED
    return Reason.ARCHIVED_BY_LIMIT if cause is Cause.DELIVERY_LIMIT else Reason.ARCHIVED


def _why_in_flight(
    led: LedPartition, runner: SharePartitionRunner, record: RecordView, offset: int
) -> Reason:
    if record.in_transition:
        return Reason.BEING_WRITTEN
    match record.state:
        case DeliveryState.ACQUIRED:
            return Reason.LOCKED
        case DeliveryState.ACKNOWLEDGED | DeliveryState.ARCHIVED | DeliveryState.ARCHIVING:
            cause = runner.machine.unwritten_cause(record)  # in force before it is written (LK-6)
            outcome = None if cause else runner.telemetry.outcome_of(offset)
            return ending_of(record.state, cause if outcome is None else outcome.cause)
        case DeliveryState.AVAILABLE if record.not_before_ms:
            return Reason.DELAYED
        case DeliveryState.AVAILABLE:
            return _why_available(led, runner, record.first_offset)


def _why_not_in_flight(led: LedPartition, runner: SharePartitionRunner, offset: int) -> Reason:
    if offset < runner.machine.start_offset:
        return Reason.BELOW_START_OFFSET
    if is_in_open_transaction(led, runner.config, offset):
        return Reason.OPEN_TRANSACTION
    return _why_available(led, runner, offset)


def is_in_open_transaction(led: LedPartition, config: GroupConfig, offset: int) -> bool:
    """Whether a group that reads committed records only must wait for a transaction's end."""
    committed = config.isolation_level is IsolationLevel.READ_COMMITTED
    return committed and offset >= led.log.last_stable_offset


def _why_available(led: LedPartition, runner: SharePartitionRunner, offset: int) -> Reason:
    if led.draining:
        return Reason.DRAINING
    if runner.config.paused:
        return Reason.PAUSED
    if not runner.machine.can_acquire():
        return Reason.RUNS_LIMIT if runner.machine.is_full_of_runs else Reason.IN_FLIGHT_LIMIT
    if led.log.unavailable:
        return Reason.STORAGE_UNAVAILABLE
    if offset > runner.next_fetch_offset:
        return Reason.BEHIND_OTHERS
    if runner.has_waiters:
        return Reason.DELIVERABLE
    return Reason.MEMBER_STALLED if runner.has_stalled else Reason.NO_MEMBER_ASKS
