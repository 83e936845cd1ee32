"""Invariant 15: what explain says of a record agrees with the model, and with what is there."""

import random
from collections.abc import Callable
from typing import Any

from sharemesh.domain.delivery_state import Cause, DeliveryState
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.partition.led_partitions import LedPartition
from sharemesh.share_leader.partition.share_partition_runner import Phase, SharePartitionRunner
from sharemesh.share_leader.requests.reasons import Reason, why
from tests.simulation.checkers.grants import Grant, GrantChecker
from tests.simulation.checkers.in_flight_limit import Room
from tests.simulation.invariants import EXPLAIN_IS_TRUE
from tests.simulation.patching import Patches
from tests.simulation.world import DELIVERY_COUNT_LIMIT, World

ASK_ONE_OF = 2
BELOW, ABOVE = 3, 1
WAITS = {
    Reason.DRAINING,
    Reason.IN_FLIGHT_LIMIT,
    Reason.BEHIND_OTHERS,
    Reason.MEMBER_STALLED,
    Reason.THROTTLED,
    Reason.NO_MEMBER_ASKS,
    Reason.DELIVERABLE,
}
OF_THE_LOG = {Reason.NOT_PRODUCED, Reason.BELOW_LOG_START}
NEVER_HERE = {
    Reason.GROUP_NOT_SEEN,
    Reason.OPEN_TRANSACTION,
    Reason.DAMAGED,
    Reason.RUNS_LIMIT,
    Reason.STORAGE_UNAVAILABLE,
}
DONE = {
    Reason.ACKNOWLEDGED: DeliveryState.ACKNOWLEDGED,
    Reason.REJECTED: DeliveryState.ARCHIVED,
    Reason.ARCHIVED: DeliveryState.ARCHIVED,
    Reason.ARCHIVED_BY_LIMIT: DeliveryState.ARCHIVED,
}
ENDINGS = {Cause.REJECT: Reason.REJECTED, Cause.DELIVERY_LIMIT: Reason.ARCHIVED_BY_LIMIT}


class ExplainChecker:
    """Asks, after steps that chance chooses, why a record is not delivered (invariant 15)."""

    def __init__(
        self, world: World, grants: GrantChecker, was_compacted: Callable[[str, int], bool]
    ) -> None:
        """``was_compacted``: whether a record, by partition and offset, was removed."""
        self._world = world
        self._was_compacted = was_compacted
        self._grants = grants
        self._rng = random.Random(world.seed)

    def install(self, patches: Patches) -> None:
        """Check each step of each runner from now on."""
        real = SharePartitionRunner.step
        checker = self

        def step(runner, event):
            real(runner, event)
            if checker._rng.randrange(ASK_ONE_OF) == 0:
                checker.asked(runner)

        patches.setattr(SharePartitionRunner, "step", step)

    def asked(self, runner: SharePartitionRunner) -> None:
        """Judge one answer."""
        machine = runner.machine
        low, high = machine.start_offset - BELOW, machine.end_offset + ABOVE
        offset = max(0, self._rng.randint(low, high))
        led: Any = runner._on_ended.__self__  # type: ignore[attr-defined]
        if led._handing_over is not None:  # it decides nothing more, not even that a lock is over
            return  # (HND-4), for a second at most; then it answers nobody
        try:
            record = machine.state_at(offset)
            reason = why(led, runner, record, offset)
        except (FencedError, LogFailedError):
            return
        EXPLAIN_IS_TRUE.judged(self._world.event_log.counters)
        self._world.event_log.counters[f"explained: {reason.value}"] += 1
        problem = self._problem(runner, offset, reason)
        if reason is Reason.ARCHIVED and self._is_gone(machine, offset):
            problem = ""  # a read found nothing there (OFF-23), or its holder did (T5)
        if not problem and reason in WAITS and not self._has_holes(machine):
            problem = _problem_of_waiting(led, runner, offset, reason)
        if problem:
            where = self._world.place(machine.key, offset)
            text = f"explain of {where}: {reason.value}, but {problem}"
            self._world.event_log.violation(self._world.now_s, EXPLAIN_IS_TRUE.broken(text))

    def _is_gone(self, machine: SharePartition, offset: int) -> bool:
        key = machine.key
        topic = self._world.topic_names.get(key.topic_id, "")
        return self._was_compacted(f"{topic}/{key.partition}", offset)

    def _has_holes(self, machine: SharePartition) -> bool:
        """Whether between what is in flight records were removed: some holes are none to wait for.

        Only reads tell which, and no model of what was acquired can.
        """
        position = machine.start_offset
        for view in machine.record_states():
            if view.first_offset > position and self._is_gone(machine, position):
                return True
            position = max(position, view.last_offset + 1)
        return False

    def _problem(self, runner: SharePartitionRunner, offset: int, reason: Reason) -> str:
        """Return what the model knows better, or nothing."""
        is_in_log = runner.log.log_start_offset <= offset < runner.log.high_watermark
        damage = runner.log.damage
        if reason is Reason.DAMAGED and damage is not None and offset >= damage[0]:
            return ""
        if not is_in_log or reason in OF_THE_LOG:  # even a holder can only decide about it
            return _problem_of_log(runner, offset, reason)
        is_ready = runner.phase is Phase.ACTIVE
        if not is_ready or reason is Reason.INITIALIZING:
            is_so = reason is Reason.INITIALIZING and not is_ready
            return "" if is_so else f"the share partition is {runner.phase.name}"
        if reason is Reason.STORAGE_UNAVAILABLE and runner.log.unavailable:
            return ""
        is_never = reason is Reason.PAUSED and not runner.config.paused
        if is_never or reason in NEVER_HERE:
            return "nothing in this run makes it so"
        if offset < runner.machine.start_offset:
            is_done = reason is Reason.BELOW_START_OFFSET or reason in DONE
            return "" if is_done else f"the start offset is {runner.machine.start_offset}"
        grant = self._grants.grant_of(runner.machine, offset)
        if grant is None:
            held_or_done = {Reason.LOCKED, Reason.BEING_WRITTEN, *DONE}
            return "nobody was given it" if reason in held_or_done else ""
        is_forgotten = reason is Reason.ARCHIVED and runner.telemetry.outcome_of(offset) is None
        return self._problem_of(runner.machine, grant, reason, is_forgotten=is_forgotten)

    def _problem_of(
        self, machine: SharePartition, grant: Grant, reason: Reason, *, is_forgotten: bool
    ) -> str:
        """The same of a record that somebody got; of a later leader its cause may be forgotten."""
        if grant.state is not None:
            return _problem_of_finished(grant, reason, is_forgotten=is_forgotten)
        if grant.ended and not grant.left and not grant.decided:
            return "" if reason is Reason.BEING_WRITTEN else f"{grant.member} decides about it"
        if not grant.ended and self._grants.held_now(grant, machine):
            return "" if reason is Reason.LOCKED else f"{grant.member} holds it"
        if reason is Reason.LOCKED:  # one who left may hold it on, if that could not be written
            if grant.decided:
                return f"{grant.member} gave it back"
            return "its lock is over" if self._grants.is_overdue(grant, machine) else ""
        if reason is Reason.BEING_WRITTEN:
            return "" if grant.left and not grant.decided else "nobody decides about it"
        is_at_limit = grant.count >= DELIVERY_COUNT_LIMIT
        is_called_so = reason is Reason.ARCHIVED_BY_LIMIT or is_forgotten
        if is_called_so is not is_at_limit:
            return f"it was delivered {grant.count} times"
        return "nobody finished it" if reason in DONE and not is_at_limit else ""


def _problem_of_finished(grant: Grant, reason: Reason, *, is_forgotten: bool) -> str:
    """What a member finished ended as its acknowledgement says."""
    if not grant.member:
        return _problem_of_loaded(grant, reason)
    assert grant.state is not None, "only a decided grant is judged"
    is_rejected = grant.state is DeliveryState.ARCHIVED
    is_so = reason is (Reason.REJECTED if is_rejected else Reason.ACKNOWLEDGED)
    is_so = is_so or (is_rejected and is_forgotten)
    return "" if is_so else f"{grant.member} made it {grant.state.name}"


def _problem_of_loaded(grant: Grant, reason: Reason) -> str:
    """What was finished before this leader ended as the stored state says (EXP-6)."""
    if grant.cause is Cause.DELIVERY_LIMIT and grant.count < DELIVERY_COUNT_LIMIT:
        return f"the limit archived it after {grant.count} deliveries"
    expected = ENDINGS.get(grant.cause, Reason.ARCHIVED)
    if grant.state is DeliveryState.ACKNOWLEDGED:
        expected = Reason.ACKNOWLEDGED
    return "" if reason is expected else f"the stored state says {expected.value}"


def _problem_of_log(runner: SharePartitionRunner, offset: int, reason: Reason) -> str:
    """What is below the log or above it must be called so, and nothing else may be."""
    if offset >= runner.log.high_watermark:
        return "" if reason is Reason.NOT_PRODUCED else "it was not produced"
    if offset < runner.log.log_start_offset:
        return "" if reason is Reason.BELOW_LOG_START else "the log begins behind it"
    return "it was produced, and not deleted"


def _problem_of_waiting(
    led: LedPartition, runner: SharePartitionRunner, offset: int, reason: Reason
) -> str:
    """What hinders an available record, looked for anew: first of all the leader, then the room."""
    machine = runner.machine
    if runner.next_fetch_offset < runner.log.log_start_offset:
        return ""  # the log start moved, and what lies below it is archived late (T13)
    if led.draining or reason is Reason.DRAINING:
        is_so = led.draining and reason is Reason.DRAINING
        return "" if is_so else f"draining: {led.draining}"
    if runner.config.paused:
        return "the group is paused"
    waits, position = [], machine.start_offset
    views = [each for each in machine.record_states() if each.last_offset >= position]
    for view in views:
        if view.first_offset > position:  # not read again since the state was loaded (OFF-3)
            waits.append(position)
        if view.state is DeliveryState.AVAILABLE and not (view.in_transition or view.not_before_ms):
            waits.append(max(view.first_offset, machine.start_offset))
        position = max(position, view.last_offset + 1)
    behind = machine.end_offset + bool(views)  # with nothing in flight it is the next one (OFF-1)
    first = min(waits, default=behind)
    room = Room.before(machine)
    left, no_lock = room.left, room.locks_left is not None and room.locks_left <= 0  # WIN-3
    is_full = left <= 0 and (not waits or no_lock)
    if is_full or reason is Reason.IN_FLIGHT_LIMIT:
        return "" if is_full and reason is Reason.IN_FLIGHT_LIMIT else f"there is room for {left}"
    if first < offset or reason is Reason.BEHIND_OTHERS:
        is_so = first < offset and reason is Reason.BEHIND_OTHERS
        return "" if is_so else f"{first} comes first"
    waiting, stalled = len(runner.waiters()), len(runner._stalled)
    expected = Reason.MEMBER_STALLED if stalled else Reason.NO_MEMBER_ASKS
    if reason is Reason.THROTTLED and not stalled:
        expected = reason
    is_so = reason is (Reason.DELIVERABLE if waiting else expected)
    return "" if is_so else f"{waiting} fetches wait, and {stalled} members are stalled"
