"""Bugs of deliveries: locks, limits, what explain and metrics say of them."""

from sharemesh.client.consumer.calls import ConsumerCalls
from sharemesh.domain.delivery_state import AcknowledgeType, Cause, DeliveryState
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch
from sharemesh.domain.share_partition.cache.record_status import Lock, LockIndex, RecordStatus
from sharemesh.domain.share_partition.events import Acquire
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_partition.rules import acquire, expiry
from sharemesh.domain.share_partition.rules.acknowledge import _Acknowledger
from sharemesh.domain.share_partition.rules.pending_transitions import PendingTransitions
from sharemesh.share_leader.requests import durable_record, reasons
from sharemesh.share_leader.telemetry.partition_telemetry import PartitionTelemetry
from tests.simulation.patching import Patches


def locks_expire_early(patch: Patches) -> None:
    """A record is given to somebody else while its lock is still valid."""
    real = SharePartition.step

    def step(machine, event, *, now_ms):
        early_ms = 3_000 if isinstance(event, Acquire) else 0
        return real(machine, event, now_ms=now_ms - early_ms)

    patch.setattr(SharePartition, "step", step)


def locks_last_too_long(patch: Patches) -> None:
    """A lock goes on for five seconds after its time."""
    real = Lock.__init__

    def begin(lock, since_ms, deadline_ms, first_offset, last_offset):
        real(lock, since_ms, deadline_ms + 5_000, first_offset, last_offset)

    patch.setattr(Lock, "__init__", begin)


def timer_is_not_cancelled(patch: Patches) -> None:
    """An old lock's deadline ends the lock that came after it."""

    def units(_expiry, batch, lock):
        low = max(batch.first_offset, lock.first_offset)
        high = min(batch.last_offset, lock.last_offset)
        for first, last, status in batch.runs_between(low, high):
            if status.state is DeliveryState.ACQUIRED:
                yield first, last, status

    patch.setattr(expiry.Expiry, "_units", units)
    patch.setattr(LockIndex, "leave", lambda _index, lock, count: _left(lock, count))


def _left(lock, count):
    lock.held -= count


def renew_resurrects(patch: Patches) -> None:
    """A RENEW that comes after the lock has ended locks the record again."""
    real_process, real_check = _Acknowledger.process, _Acknowledger._check
    renewing: set[_Acknowledger] = set()

    def process(acknowledger, entry, batch, types):
        if all(kind is AcknowledgeType.RENEW for kind in types):
            renewing.add(acknowledger)
        try:
            real_process(acknowledger, entry, batch, types)
        finally:
            renewing.discard(acknowledger)

    def check(acknowledger, status, first, last):
        if acknowledger not in renewing or status.state is not DeliveryState.AVAILABLE:
            real_check(acknowledger, status, first, last)

    real_renewed = _Acknowledger._renewed

    def renewed(acknowledger, entry, old):
        status = real_renewed(acknowledger, entry, old)
        member_id = acknowledger._member_id
        return RecordStatus(DeliveryState.ACQUIRED, old.delivery_count, member_id, status.lock)

    patch.setattr(_Acknowledger, "process", process)
    patch.setattr(_Acknowledger, "_check", check)
    patch.setattr(_Acknowledger, "_renewed", renewed)


def start_offset_passes_a_hole(patch: Patches) -> None:
    """The start offset goes one record past what is done."""
    real = CachedBatch.done_end

    def done_end(batch, offset):
        end = real(batch, offset)
        return min(end + 1, batch.last_offset) if end >= offset else end

    patch.setattr(CachedBatch, "done_end", done_end)


def the_in_flight_limit_is_not_kept(patch: Patches) -> None:
    """A member gets what it asks for, whatever is in flight."""
    patch.setattr(
        acquire, "_budget", lambda flight, request, last: (request.max_fetch_records, last)
    )


def a_refusal_ends_the_lock(patch: Patches) -> None:
    """What a failed write leaves to its holder goes to the next one (spec RS-10)."""
    patch.setattr(
        PendingTransitions,
        "_lost_lock",
        lambda changes, status: status.write_id == changes.write_id and status.saved is not None,
    )


def redeliveries_are_not_counted(patch: Patches) -> None:
    """The metric of acquired records leaves redelivered ones out."""
    real = PartitionTelemetry._count_acquired

    def count(watch, effect, seconds):
        real(watch, effect, seconds)
        again = [one for one in effect.ranges if one.delivery_count > 1]
        watch._series.acquired.value -= sum(e.last_offset - e.first_offset + 1 for e in again)

    patch.setattr(PartitionTelemetry, "_count_acquired", count)


def commit_sync_overruns(patch: Patches) -> None:
    """KAFKA-21485: commit_sync takes longer than its time-out."""
    real = ConsumerCalls.commit_sync
    patch.setattr(
        ConsumerCalls,
        "commit_sync",
        lambda calls, timeout_ms=None: real(calls, None if timeout_ms is None else 60_000),
    )


def explain_says_locked_records_are_deliverable(patch: Patches) -> None:
    """Explain does not look at locks."""
    patch.setattr(reasons, "_why_in_flight", lambda *_: reasons.Reason.DELIVERABLE)


def explain_says_waiting_records_are_finished(patch: Patches) -> None:
    """Explain takes whatever nobody holds for acknowledged."""
    patch.setattr(reasons, "_why_available", lambda *_: reasons.Reason.ACKNOWLEDGED)


def explain_does_not_know_the_start_offset(patch: Patches) -> None:
    """Explain says of what is finished that it waits."""
    real = reasons._why_not_in_flight

    def why(led, runner, offset):
        if offset < runner.machine.start_offset:
            return reasons._why_available(led, runner, offset)
        return real(led, runner, offset)

    patch.setattr(reasons, "_why_not_in_flight", why)


def explain_says_it_is_initializing(patch: Patches) -> None:
    """Explain always has the same excuse."""
    patch.setattr(reasons, "_why_available", lambda *_: reasons.Reason.INITIALIZING)


def explain_does_not_see_who_waits(patch: Patches) -> None:
    """Explain says that no member asks while some do."""
    real = reasons._why_available

    def why(led, runner, offset):
        reason = real(led, runner, offset)
        is_next = reason is reasons.Reason.DELIVERABLE
        return reasons.Reason.NO_MEMBER_ASKS if is_next else reason

    patch.setattr(reasons, "_why_available", why)


def explain_says_accepted_of_what_was_archived(patch: Patches) -> None:
    """What is durable is taken for accepted once the start offset has passed it."""
    real = durable_record.ending_of

    def ending_of(state, cause):
        is_passed = cause is not Cause.UNSPECIFIED
        return reasons.Reason.ACKNOWLEDGED if is_passed else real(state, cause)

    patch.setattr(durable_record, "ending_of", ending_of)
