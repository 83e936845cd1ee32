"""Explain: what became of one record for one group, and why it is not delivered now."""

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.handed_lock import HandedLock
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicPartition
from sharemesh.domain.share_partition.view import RecordView
from sharemesh.domain.share_session import ShareSessions
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.cluster import TopicInfo
from sharemesh.ports.network import CallContext
from sharemesh.ports.record_log import PartitionLog
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.ports.share_state import RecordHistoryResult
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.pacing import LeaderPacing
from sharemesh.share_leader.partition.led_partitions import LedPartition, LedPartitions
from sharemesh.share_leader.partition.share_partition_runner import Phase, SharePartitionRunner
from sharemesh.share_leader.requests.access import LeaderAccess
from sharemesh.share_leader.requests.durable_record import (
    DurableRecords,
    describe,
    in_words,
    left_of,
    lock_of,
    refined,
)
from sharemesh.share_leader.requests.reasons import WORDS, Reason, is_in_open_transaction, why
from sharemesh.v1 import share_leader_pb2 as pb

_ENDINGS = frozenset(
    {
        Reason.ACKNOWLEDGED,
        Reason.REJECTED,
        Reason.ARCHIVED_BY_LIMIT,
        Reason.ARCHIVED,
        Reason.BELOW_START_OFFSET,
        Reason.BELOW_LOG_START,
    }
)
"""Told with the last thing that happened: by what, when and by whom."""


class Explain:
    """Answers Explain: what is durable first, then what this leader knows (LOG-7)."""

    def __init__(
        self,
        environment: LeaderEnvironment,
        partitions: LedPartitions,
        access: LeaderAccess,
        sessions: ShareSessions,
        pacing: LeaderPacing,
    ) -> None:
        self._environment = environment
        self._durable_records = DurableRecords(environment)
        self._partitions = partitions
        self._access = access
        self._sessions = sessions
        self._pacing = pacing

    async def __call__(
        self, request: pb.ExplainRequest, context: CallContext
    ) -> pb.ExplainResponse:
        """Answer one request; errors are in the body."""
        try:
            led = self._led(request, context.principal)
            durable = await self._durable(led, request, context.principal)
            await led.looks.look()
            self._check_still(led, request, context.principal)
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
        runner = led.shares.get(GroupId(request.group_id))
        record: RecordView | None = None
        if runner is not None and runner.phase is Phase.ACTIVE:
            record = runner.machine.state_at(request.offset)
            self._describe(runner, record, response)
            _trace(runner, request.offset, record, response)
        reason = why(led, runner, record, request.offset)
        if durable is not None:
            describe(durable, response)
            reason = self._refined(reason, led, durable, request, response)
        quota = ""
        if reason is Reason.NO_MEMBER_ASKS:
            held = self._holding_back(led.partition, GroupId(request.group_id), context)
            if held is not None:
                reason, quota = Reason.THROTTLED, held
        response.reason = reason.value
        response.explanation = f"offset {request.offset}: {WORDS[reason]}"
        if quota:
            response.explanation += f": {quota}"
        response.explanation += _told_by_log(reason, led.log)
        if reason is Reason.DELAYED:
            response.explanation += f"; {response.delay_remaining_ms:,} ms are left"
        if durable is not None and durable.events and reason in _ENDINGS:
            response.explanation += f" ({in_words(durable.events[-1])})"
        return response

    def _holding_back(
        self, partition: TopicPartition, group_id: GroupId, caller: CallContext
    ) -> str | None:
        """Return in words the quota for which members of the partition wait; None: none.

        They are empty where the quota is another principal's and not the caller's to see (QUO-15).
        """
        principals = {
            session.principal: None
            for session in self._sessions.all()
            if session.key.group_id == group_id and partition in session.partitions
        }
        if not principals:
            return None
        words = self._pacing.holding_back_group(group_id)
        if words:
            return words
        found = {
            each: self._pacing.holding_back(each) or caller.time.holding_back(each)
            for each in principals
        }
        held = {principal: words for principal, words in found.items() if words}
        if not held:
            return None
        if self._access.may_read_quotas(caller.principal):
            return next(iter(held.values()))
        return held.get(caller.principal, "")

    def _led(self, request: pb.ExplainRequest, principal: str) -> LedPartition:
        topic = self._check_rights(request, principal)
        partition = TopicPartition(topic.topic_id, request.partition)
        led = self._partitions.required(partition)
        if request.offset < 0:
            raise invalid_request(f"offset {request.offset} is below 0; name a record")
        return led

    def _check_still(self, led: LedPartition, request: pb.ExplainRequest, principal: str) -> None:
        """Check again what may have ended meanwhile: rights (AUT-4), and what this leader leads."""
        if self._led(request, principal) is not led:
            raise FencedError("others led it meanwhile")

    def _check_rights(self, request: pb.ExplainRequest, principal: str) -> TopicInfo:
        self._access.group(principal, request.group_id, Operation.DESCRIBE)
        return self._access.topic_named(principal, request.topic_name, Operation.DESCRIBE)

    async def _durable(
        self, led: LedPartition, request: pb.ExplainRequest, principal: str
    ) -> RecordHistoryResult | None:
        """Return what is durable of a record; nothing can be of one that was not produced."""
        if request.offset >= led.log.high_watermark:
            return None
        where = led.partition
        key = SharePartitionKey(GroupId(request.group_id), where.topic_id, where.partition)
        return await self._durable_records.find(principal, key, request.offset, led.leader_epoch)

    def _refined(
        self,
        reason: Reason,
        led: LedPartition,
        durable: RecordHistoryResult,
        request: pb.ExplainRequest,
        response: pb.ExplainResponse,
    ) -> Reason:
        better = refined(reason, durable, request.offset)
        if reason is Reason.GROUP_NOT_SEEN and better is Reason.NO_MEMBER_ASKS:
            lock = lock_of(durable) if led.takes_locks(GroupId(request.group_id)) else None
            if lock is not None:
                _describe_lock(lock, response)
                return Reason.LOCKED
            left_ms = left_of(durable, self._environment.clock.wall_ms())
            if left_ms > 0:
                response.delay_remaining_ms = left_ms
                return Reason.DELAYED
            config = self._environment.view.group_config(GroupId(request.group_id))
            if is_in_open_transaction(led, config, request.offset):
                return Reason.OPEN_TRANSACTION
            if config.paused:
                return Reason.PAUSED
        return better

    def _describe(
        self, runner: SharePartitionRunner, record: RecordView | None, response: pb.ExplainResponse
    ) -> None:
        machine = runner.machine
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
        if record.not_before_ms and not record.in_transition:
            now_ms = self._environment.clock.now_ms()
            response.delay_remaining_ms = max(0, record.not_before_ms - now_ms)


def _describe_lock(lock: HandedLock, response: pb.ExplainResponse) -> None:
    """Tell of a lock that waits at the share coordinator for this leader (EXP-12)."""
    response.delivery_state = DeliveryState.ACQUIRED.name
    response.member_id = lock.member_id
    response.delivery_count = lock.delivery_count
    response.lock_remaining_ms = lock.remaining_ms


def _told_by_log(reason: Reason, log: PartitionLog) -> str:
    """Return what the log adds to a reason that lies in it."""
    if reason is Reason.DAMAGED and log.damage is not None:
        return f": {log.damage[1]}"
    if reason is Reason.OPEN_TRANSACTION:
        return f": from offset {log.last_stable_offset}"
    return f": {log.unavailable}" if reason is Reason.STORAGE_UNAVAILABLE else ""


def _trace(
    runner: SharePartitionRunner,
    offset: int,
    record: RecordView | None,
    response: pb.ExplainResponse,
) -> None:
    """Say what happened last, and in which trace."""
    outcome = runner.telemetry.outcome_of(offset)
    if outcome is not None:
        response.last_cause = outcome.cause.name
    locked = record is not None and record.state is DeliveryState.ACQUIRED
    last = runner.telemetry.acquisition_of(offset) if locked else outcome
    if last is not None and last.context is not None:
        response.trace_id = last.context.trace_id.to_bytes(16, "big")
        response.span_id = last.context.span_id.to_bytes(8, "big")
