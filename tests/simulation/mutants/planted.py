"""Bugs planted by patching the product for one run; the simulation must see each of them."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from sharemesh.backends.embedded import take_over
from sharemesh.backends.embedded.fences import Fences
from sharemesh.backends.embedded.owned_log import OwnedLog
from sharemesh.backends.embedded.producers import Producers
from sharemesh.client.consumer_calls import ConsumerCalls
from sharemesh.codec import state_record
from sharemesh.codec.batch_frame import walk_frames
from sharemesh.domain.delivery_state import AcknowledgeType, DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId
from sharemesh.domain.share_group.group import FIRST_EPOCH
from sharemesh.domain.share_group.shard import GroupShard
from sharemesh.domain.share_partition import acquire, expiry, machine
from sharemesh.domain.share_partition.acknowledge import _Acknowledger
from sharemesh.domain.share_partition.cached_batch import CachedBatch
from sharemesh.domain.share_partition.changes import Changes
from sharemesh.domain.share_partition.events import Acquire
from sharemesh.domain.share_partition.locks import Lock, LockIndex
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_partition.record_status import RecordStatus
from sharemesh.domain.share_state import fold, key_text
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.persister.persister import Persister
from sharemesh.ports.share_state import StateWriteResult
from sharemesh.runtime.shard import Shard
from sharemesh.serve.roles import group_coordinator, share_coordinator, share_leader
from sharemesh.share_coordinator import shard_kind
from sharemesh.share_leader import explain
from sharemesh.share_leader.partition_watch import PartitionWatch
from sharemesh_spark import data_directory
from tests.conformance import test_planted_bugs as shipped
from tests.domain.share_partition import test_mutants as domain
from tests.simulation.patching import Patches


def lost_fsync(patch: Patches) -> None:
    """Confirmed, but never synced: a power cut takes it."""
    for role in (share_leader, share_coordinator, group_coordinator):
        real = role.log_settings
        patch.setattr(
            role, "log_settings", lambda settings, real=real: replace(real(settings), fsync=False)
        )


def nobody_looks_for_fences(patch: Patches) -> None:
    """A deposed owner goes on writing."""
    patch.setattr(Fences, "look", lambda _fences: None)


def fences_are_looked_for_before_the_sync_only(patch: Patches) -> None:
    """What falls between the look and the confirmation is not seen."""
    real_commit, real_look = OwnedLog.commit, OwnedLog.look
    blind: set[int] = set()

    def commit(log, data, end_offset, log_start_offset):
        real_look(log)
        blind.add(id(log))
        try:
            return real_commit(log, data, end_offset, log_start_offset)
        finally:
            blind.discard(id(log))

    patch.setattr(OwnedLog, "commit", commit)
    patch.setattr(OwnedLog, "look", lambda log: None if id(log) in blind else real_look(log))


def acknowledged_before_durable(patch: Patches) -> None:
    """An acknowledgement is answered while its write is still under way."""
    real = Persister.write_state

    async def write_state(persister, key, write):
        task = asyncio.ensure_future(real(persister, key, write))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return StateWriteResult(ErrorCode.NONE)

    patch.setattr(Persister, "write_state", write_state)


def state_writer_is_not_checked(patch: Patches) -> None:
    """A deposed leader's state writes are taken."""
    patch.setattr(
        ShareStateMachine, "_check_writer", lambda _machine, _key, _state, _request, **_: None
    )


def producers_are_forgotten(patch: Patches) -> None:
    """A batch that is sent again after a time-out is appended again."""
    patch.setattr(Producers, "check", lambda _producers, frames: [None] * len(frames))


def locks_expire_early(patch: Patches) -> None:
    """A record is given to somebody else while its lock is still valid."""
    real = SharePartition.step

    def step(machine, event, *, now_ms):
        early_ms = 3_000 if isinstance(event, Acquire) else 0
        return real(machine, event, now_ms=now_ms - early_ms)

    patch.setattr(SharePartition, "step", step)


def commit_sync_overruns(patch: Patches) -> None:
    """KAFKA-21485: commit_sync takes longer than its time-out."""
    real = ConsumerCalls.commit_sync
    patch.setattr(
        ConsumerCalls,
        "commit_sync",
        lambda calls, timeout_ms=None: real(calls, None if timeout_ms is None else 60_000),
    )


def predecessor_is_truncated(patch: Patches) -> None:
    """Who takes a log over drops what lies behind the end that it finds published."""
    real = take_over.read_tail

    def read_tail(*arguments, **words):
        tail = real(*arguments, **words)
        return replace(tail, end_offset=tail.base_offset, data=bytearray())

    patch.setattr(take_over, "read_tail", read_tail)


def delivery_count_is_lost_on_failover(patch: Patches) -> None:
    """A new leader counts deliveries from zero."""
    real = machine.load

    def load(flight, start_offset, batches):
        real(flight, start_offset, tuple(each._replace(delivery_count=0) for each in batches))

    patch.setattr(machine, "load", load)


def start_offset_passes_a_hole(patch: Patches) -> None:
    """The start offset goes one record past what is done."""
    real = CachedBatch.done_end

    def done_end(batch, offset):
        end = real(batch, offset)
        return min(end + 1, batch.last_offset) if end >= offset else end

    patch.setattr(CachedBatch, "done_end", done_end)


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


def tail_after_a_generation_is_skipped(patch: Patches) -> None:
    """A load goes on some records behind the generation's end."""
    real = shard_kind.restore

    async def restore(machine, shard, log, *, reader):
        end = await real(machine, shard, log, reader=reader)
        return None if end is None else min(end + 3, log.committed_end_offset)

    patch.setattr(shard_kind, "restore", restore)


def explain_says_locked_records_are_deliverable(patch: Patches) -> None:
    """Explain does not look at locks."""
    patch.setattr(explain, "_why_in_flight", lambda led, shell, record: explain.Reason.DELIVERABLE)


def redeliveries_are_not_counted(patch: Patches) -> None:
    """The metric of acquired records leaves redelivered ones out."""
    real = PartitionWatch._count_acquired

    def count(watch, effect, seconds):
        real(watch, effect, seconds)
        again = [one for one in effect.ranges if one.delivery_count > 1]
        watch._series.acquired.value -= sum(e.last_offset - e.first_offset + 1 for e in again)

    patch.setattr(PartitionWatch, "_count_acquired", count)


def keys_are_cut_at_the_first_colon(patch: Patches) -> None:
    """KAFKA-20183: what is stored of a group with a colon in its id is read as another group's."""

    def cut(key):
        return key._replace(group_id=GroupId(key.group_id.partition(":")[0]))

    real_key, real_parse = state_record._key, key_text.parse_key
    patch.setattr(state_record, "_key", lambda message: cut(real_key(message)))
    patch.setattr(state_record, "parse_key", lambda text: cut(real_parse(text)))


def readers_pass_the_committed_end(patch: Patches) -> None:
    """A reader beside the writer takes whole batches for committed ones."""
    real = data_directory._committed_end

    def committed_end(folder):
        end = real(folder)
        if end is None:
            return None
        data = (folder / end.segment.file_name).read_bytes()
        walk = walk_frames(
            data[end.end_position :],
            start=end.end_position,
            limit=len(data),
            base_offset=end.end_offset,
            leader_epoch=end.epoch,
            check_crc=True,
        )
        return replace(end, end_offset=walk.end_offset, end_position=walk.position)

    patch.setattr(data_directory, "_committed_end", committed_end)


def pruning_does_not_wait_for_generations(patch: Patches) -> None:
    """A tombstone goes whose state an older generation still has."""
    patch.setattr(
        ShareStateMachine, "prune_limit", property(lambda machine: machine._redundant.offset)
    )


def a_late_delete_ends_the_next_life(patch: Patches) -> None:
    """The epoch of a delete is not looked at: one of an earlier life takes the state of this."""
    real = ShareStateMachine.delete
    patch.setattr(
        ShareStateMachine, "delete", lambda machine, key, _, **words: real(machine, key, 0, **words)
    )


def jobs_outlive_their_shard(patch: Patches) -> None:
    """KAFKA-20710: neither the end of its epoch nor its being given up ends a shard's jobs."""
    real = Shard.start_job

    def start_job(shard, name, job, **words):
        known, shard._tasks = shard._tasks, set()
        real(shard, name, job, **words)
        shard._tasks = known

    patch.setattr(Shard, "start_job", start_job)


def locks_last_too_long(patch: Patches) -> None:
    """A lock goes on for five seconds after its time."""
    real = Lock.__init__

    def begin(lock, deadline_ms, first_offset, last_offset):
        real(lock, deadline_ms + 5_000, first_offset, last_offset)

    patch.setattr(Lock, "__init__", begin)


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


def explain_says_waiting_records_are_finished(patch: Patches) -> None:
    """Explain takes whatever nobody holds for acknowledged."""
    patch.setattr(explain, "_why_available", lambda led, shell, offset: explain.Reason.ACKNOWLEDGED)


def explain_does_not_know_the_start_offset(patch: Patches) -> None:
    """Explain says of what is finished that it waits."""
    real = explain._why_not_in_flight

    def why(led, shell, offset):
        if offset < shell.machine.start_offset:
            return explain._why_available(led, shell, offset)
        return real(led, shell, offset)

    patch.setattr(explain, "_why_not_in_flight", why)


def the_in_flight_limit_is_not_kept(patch: Patches) -> None:
    """A member gets what it asks for, whatever is in flight."""
    patch.setattr(
        acquire, "_budget", lambda flight, request, last: (request.max_fetch_records, last)
    )


def a_refusal_ends_the_lock(patch: Patches) -> None:
    """What a failed write leaves to its holder goes to the next one (spec RS-10)."""
    patch.setattr(
        Changes,
        "_lost_lock",
        lambda changes, status: status.write_id == changes.write_id and status.saved is not None,
    )


def epochs_begin_again(patch: Patches) -> None:
    """Nothing is known of the epochs of what was deleted."""
    forgotten = property(lambda _shard: FIRST_EPOCH, lambda _shard, _epoch: None)
    patch.setattr(GroupShard, "epoch_floor", forgotten, raising=False)
    patch.setattr(ShareStateMachine, "_raise_floors", lambda *_: None)


def finished_records_are_opened_again(patch: Patches) -> None:
    """A write of what is not finished wins over what is, as if it were newer."""
    real = fold._updated

    def updated(state, record, *, combining=True):
        open_again = tuple(
            each._replace(delivery_state=DeliveryState.AVAILABLE)
            if each.delivery_state is DeliveryState.ACKNOWLEDGED and each.first_offset % 7 == 3
            else each
            for each in (state.batches if state is not None else ())
        )
        return real(state and replace(state, batches=open_again), record, combining=combining)

    patch.setattr(fold, "_updated", updated)


Mutant = Callable[[Patches], None]
PLAN: dict[str, tuple[Mutant, ...]] = {
    "mixed": (
        lost_fsync,
        nobody_looks_for_fences,
        producers_are_forgotten,
        locks_expire_early,
        commit_sync_overruns,
        predecessor_is_truncated,
        delivery_count_is_lost_on_failover,
        start_offset_passes_a_hole,
        tail_after_a_generation_is_skipped,
    ),
    "short": (
        explain_says_locked_records_are_deliverable,
        explain_says_waiting_records_are_finished,
        explain_does_not_know_the_start_offset,
        redeliveries_are_not_counted,
        domain.reject_is_forgotten,
        domain.records_in_transition_are_delivered,
        domain.released_records_are_never_found,
        domain.new_batches_overlap_after_recovery,
        domain.start_offset_is_not_guarded,
        shipped.a_reset_keeps_the_group_epoch,
    ),
    "crowded": (
        timer_is_not_cancelled,
        locks_last_too_long,
        renew_resurrects,
        the_in_flight_limit_is_not_kept,
        domain.anyone_may_acknowledge,
        domain.session_release_lowers_the_count,
        domain.release_forgets_per_offset_state,
        domain.release_ignores_the_limit,
        shipped.waiters_are_told_under_the_lock,
        shipped.a_cancelled_fetch_keeps_the_lock,
        shipped.a_lost_session_is_never_replaced,
    ),
    "crashing": (
        acknowledged_before_durable,
        finished_records_are_opened_again,
        keys_are_cut_at_the_first_colon,
        domain.window_is_forgotten,
    ),
    "usurped": (
        fences_are_looked_for_before_the_sync_only,
        jobs_outlive_their_shard,
    ),
    "refused": (a_refusal_ends_the_lock,),
    "trimmed": (
        domain.expiry_skips_parts,
        domain.complete_count_ignores_the_start,
        domain.log_start_keeps_the_count,
        domain.complete_count_is_not_rolled_back,
        domain.roll_back_ignores_a_fired_lock,
    ),
    "delayed": (
        state_writer_is_not_checked,
        epochs_begin_again,
        a_late_delete_ends_the_next_life,
        shipped.a_lower_start_offset_wins,
    ),
    "pruned": (
        readers_pass_the_committed_end,
        pruning_does_not_wait_for_generations,
    ),
    "latest": (shipped.added_partitions_start_at_the_end,),
}
"""Which workload must catch what: the one in which its situation is common."""

MUTANTS: dict[str, Mutant] = {
    mutant.__name__: mutant for mutants in PLAN.values() for mutant in mutants
}
WORKLOAD_OF = {mutant.__name__: name for name, mutants in PLAN.items() for mutant in mutants}
