"""Bugs that real share-group code shipped, put in one at a time: the checks must see each.

Each mutant patches the product for one test; random histories against the naive model, or
Kafka's own histories, must then disagree.
"""

import contextlib

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from sharemesh.domain.delivery_state import AcknowledgeType, Cause, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_partition import machine
from sharemesh.domain.share_partition.cache import in_flight
from sharemesh.domain.share_partition.cache.cached_batch import CachedBatch
from sharemesh.domain.share_partition.cache.record_status import RecordStatus
from sharemesh.domain.share_partition.rules import (
    acknowledge,
    acquire,
    expiry,
    pending_transitions,
    recovery,
    start_offset,
    transitions,
)
from tests.conformance.traces import first_difference, histories
from tests.domain.share_partition.partition_machine import PartitionMachine

SEQUENCES = 300


def caught_by_a_sequence() -> bool:
    """Whether the property test of ``test_against_naive_model`` fails within so many sequences."""
    try:
        run_state_machine_as_test(
            PartitionMachine,
            settings=settings(
                max_examples=SEQUENCES,
                stateful_step_count=55,
                derandomize=True,
                database=None,
                deadline=None,
                phases=[Phase.generate],
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
    except Exception:
        return True
    return False


def caught_by_a_history() -> bool:
    for history in histories():
        with contextlib.suppress(AssertionError):
            if first_difference(history) is None:
                continue
        return True
    return False


def start_offset_is_not_guarded(patch):
    """KAFKA-19859: an acknowledgement after log truncation moves the start offset wrongly."""
    real = machine.move_start_offset

    def move(flight):
        old = flight.start_offset
        moved = real(flight)
        if moved and flight.batches and flight.batches.first_offset < old:
            flight.start_offset = flight.batches.first_offset
        return moved

    patch.setattr(machine, "move_start_offset", move)


def release_forgets_per_offset_state(patch):
    """KAFKA-19953: release when state is kept per offset."""
    real = expiry._held

    def release_whole_batches(flight, member_id, ours):
        hidden = [batch for batch in flight.batches if batch.per_offset]
        patch.setattr(
            expiry,
            "_held",
            lambda status, member: (
                real(status, member)
                and not any(status is each[2] for batch in hidden for each in batch.runs())
            ),
        )
        expiry.release_member(flight, member_id, ours)
        patch.setattr(expiry, "_held", real)

    patch.setattr(machine, "release_member", release_whole_batches)


def new_batches_overlap_after_recovery(patch):
    """KAFKA-19954: overlapping batches after re-initialization."""
    real = acquire._end_of_log_batch

    def unclamped(log_batches, offset):
        return real(log_batches, offset) + 1

    patch.setattr(acquire, "_end_of_log_batch", unclamped)


def window_is_forgotten(patch):
    """Records that were acquired before a leader change are never fetched again."""
    patch.setattr(recovery, "GapWindow", lambda gap_start, end: None)


def session_release_lowers_the_count(patch):
    """KAFKA-19972: the delivery is not counted when the session is released."""
    real = pending_transitions.PendingTransitions.start

    def start(self, first, last, old, target, cause):
        if cause is Cause.SESSION_CLOSE and old.delivery_count > 1:
            old = RecordStatus(old.state, old.delivery_count - 1, old.member_id, old.lock)
        return real(self, first, last, old, target, cause)

    patch.setattr(pending_transitions.PendingTransitions, "start", start)


def complete_count_ignores_the_start(patch):
    """KAFKA-20034: delivery-complete count wrong."""
    patch.setattr(in_flight.InFlight, "_live", lambda self, first, last: last - first + 1)


def complete_count_is_not_rolled_back(patch):
    """KAFKA-20034: delivery-complete count stays too high after a failed write."""
    real = pending_transitions.PendingTransitions.roll_back

    def roll_back(self, *, is_written):
        before = self._flight.delivery_complete_count
        result = real(self, is_written=is_written)
        self._flight.delivery_complete_count = before
        return result

    patch.setattr(pending_transitions.PendingTransitions, "roll_back", roll_back)


def log_start_keeps_the_count(patch):
    """KAFKA-20034: the count is not lowered when the log start moves."""
    real = start_offset.move_log_start

    def move(flight, offset):
        before = flight.delivery_complete_count
        moved = real(flight, offset)
        flight.delivery_complete_count = before
        return moved

    patch.setattr(machine, "move_log_start", move)


def anyone_may_acknowledge(patch):
    """Two holders: the owner of a lock is not looked at."""

    def check(self, status, first, last):
        if status.state is not DeliveryState.ACQUIRED:
            raise acknowledge.RefusedError(ErrorCode.INVALID_RECORD_STATE, "not acquired")

    patch.setattr(acknowledge._Acknowledger, "_check", check)


def half_of_a_refused_request_stays(patch):
    """A refused acknowledgement is not rolled back."""
    patch.setattr(
        pending_transitions.PendingTransitions, "roll_back", lambda self, *, is_written: False
    )


def records_in_transition_are_delivered(patch):
    """A release is visible before its write is over (RS-9)."""
    real = pending_transitions.RecordStatus

    def available_at_once(*args, **words):
        status = real(*args, **words)
        status.acquirable = status.state is DeliveryState.AVAILABLE
        return status

    patch.setattr(pending_transitions, "RecordStatus", available_at_once)


def release_ignores_the_limit(patch):
    """A poison record is delivered for ever (RS-7)."""
    patch.setattr(
        pending_transitions, "limited", lambda target, cause, count, limit: (target, cause)
    )


def roll_back_ignores_a_fired_lock(patch):
    """A record stays ACQUIRED without a lock after a failed write (RS-11): stuck for ever."""
    patch.setattr(pending_transitions.PendingTransitions, "_lost_lock", lambda self, status: False)


def expiry_skips_parts(patch):
    """Locks of single offsets never expire."""
    real = expiry.Expiry._units

    def units(self, batch, lock):
        return iter(()) if batch.per_offset else real(self, batch, lock)

    patch.setattr(expiry.Expiry, "_units", units)


def expiry_below_the_start_gives_back(patch):
    """A record below the log start becomes available again (T11)."""
    patch.setattr(expiry, "cut_at_start", lambda start, first, last: [(first, last, False)])


def reject_is_forgotten(patch):
    """REJECT makes the record available."""
    patch.setitem(transitions.TARGETS, AcknowledgeType.REJECT, DeliveryState.AVAILABLE)


def released_records_are_never_found(patch):
    """What became available is not looked for (OFF-4): delivery stalls."""
    patch.setattr(pending_transitions.PendingTransitions, "_freed", lambda self: self._available)


def commit_forgets_a_part(patch):
    """The first run of each commit stays in transition: the start offset never moves."""
    real = CachedBatch.runs_between

    def commit(self):
        patch.setattr(
            CachedBatch,
            "runs_between",
            lambda batch, first, last: real(batch, first, last)[-1:],
        )
        self._touched = [
            (batch, batch.runs_between(first, last)[0][0], last)
            for batch, first, last in self._touched
        ]
        patch.setattr(CachedBatch, "runs_between", real)
        return real_commit(self)

    real_commit = pending_transitions.PendingTransitions.commit
    patch.setattr(pending_transitions.PendingTransitions, "commit", commit)


def stale_records_stay(patch):
    """Compacted records stay available (ACQ-3): the next offset points at nothing for ever."""
    patch.setattr(acquire, "archive_available", lambda flight, first, last: False)


def throttling_is_off(patch):
    """Suspicious records go out with all others (THR-3)."""
    patch.setattr(acquire, "is_throttled", lambda config, runs: False)


def expired_records_are_lost(patch):
    """The table of transitions says that an expired lock archives: the machine follows it."""
    patch.setitem(transitions.TARGETS, transitions.Trigger.LOCK_EXPIRY, DeliveryState.ARCHIVED)


def an_uncounted_release_counts(patch):
    """What nobody has seen burns deliveries (HBK-2)."""
    real = pending_transitions.PendingTransitions.handed_back

    def handed_back(self, old):
        status = real(self, old)
        status.delivery_count = old.delivery_count
        return status

    patch.setattr(pending_transitions.PendingTransitions, "handed_back", handed_back)


def a_count_that_may_be_stored_is_given_twice(patch):
    """A write of a count failed, and the next acquisition gets the same count (HBK-4)."""
    patch.setattr(
        pending_transitions.PendingTransitions, "_held_again", lambda self, old, saved: saved
    )


def holes_of_the_log_are_not_passed(patch):
    """A hole of the gap window that compaction took keeps the start offset (OFF-23)."""
    patch.setattr(machine, "pass_missing", lambda flight, first, last: None)


def idle_start_offsets_stay(patch):
    """What was archived without a write keeps the start offset (OFF-24)."""
    patch.setattr(machine, "move_idle_start_offset", lambda flight: None)


MUTANTS = (
    start_offset_is_not_guarded,
    release_forgets_per_offset_state,
    new_batches_overlap_after_recovery,
    window_is_forgotten,
    session_release_lowers_the_count,
    complete_count_ignores_the_start,
    complete_count_is_not_rolled_back,
    log_start_keeps_the_count,
    anyone_may_acknowledge,
    half_of_a_refused_request_stays,
    records_in_transition_are_delivered,
    release_ignores_the_limit,
    roll_back_ignores_a_fired_lock,
    expiry_skips_parts,
    expiry_below_the_start_gives_back,
    reject_is_forgotten,
    released_records_are_never_found,
    commit_forgets_a_part,
    stale_records_stay,
    throttling_is_off,
    expired_records_are_lost,
    an_uncounted_release_counts,
    a_count_that_may_be_stored_is_given_twice,
    holes_of_the_log_are_not_passed,
    idle_start_offsets_stay,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_caught(mutant, monkeypatch):
    mutant(monkeypatch)
    assert caught_by_a_sequence() or caught_by_a_history(), mutant.__doc__
