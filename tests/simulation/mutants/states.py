"""Bugs of durable share states and groups: writes, epochs, snapshots, generations."""

from dataclasses import replace

from sharemesh.codec import state_record
from sharemesh.domain import ids
from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import GroupId
from sharemesh.domain.share_group.group import FIRST_EPOCH
from sharemesh.domain.share_group.records import (
    NEVER_MS,
    GroupMetadata,
    TargetAssignmentMetadata,
)
from sharemesh.domain.share_group.shard import GroupShard
from sharemesh.domain.share_partition import machine
from sharemesh.domain.share_state import fold
from sharemesh.domain.share_state import machine as share_state_machine
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.group_coordinator import group_shard
from sharemesh.share_coordinator import shard_kind
from tests.simulation.patching import Patches


def state_writer_is_not_checked(patch: Patches) -> None:
    """A deposed leader's state writes are taken."""
    patch.setattr(
        ShareStateMachine, "_check_writer", lambda _machine, _key, _state, _request, **_: None
    )


def delivery_count_is_lost_on_failover(patch: Patches) -> None:
    """A new leader counts deliveries from zero."""
    real = machine.load

    def load(flight, start_offset, batches):
        real(flight, start_offset, tuple(each._replace(delivery_count=0) for each in batches))

    patch.setattr(machine, "load", load)


def tail_after_a_generation_is_skipped(patch: Patches) -> None:
    """A load goes on some records behind the generation's end."""
    real = shard_kind.restore

    async def restore(machine, shard, log, *, reader):
        end = await real(machine, shard, log, reader=reader)
        return None if end is None else min(end + 3, log.committed_end_offset)

    patch.setattr(shard_kind, "restore", restore)


def keys_are_cut_at_the_first_colon(patch: Patches) -> None:
    """KAFKA-20183: what is stored of a group with a colon in its id is read as another group's."""

    def cut(key):
        return key._replace(group_id=GroupId(key.group_id.partition(":")[0]))

    real_key, real_parse = state_record._key, ids.parse_key
    patch.setattr(state_record, "_key", lambda message: cut(real_key(message)))
    patch.setattr(state_record, "parse_key", lambda text: cut(real_parse(text)))


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


def snapshots_lose_what_waits(patch: Patches) -> None:
    """Snapshots keep what is finished, and forget how often the rest was delivered."""
    real = share_state_machine._snapshot

    def snapshot(key, state, now_ms, origin):
        kept = tuple(
            each for each in state.batches if each.delivery_state is not DeliveryState.AVAILABLE
        )
        return real(key, replace(state, batches=kept), now_ms, origin)

    patch.setattr(share_state_machine, "_snapshot", snapshot)


def epochs_of_groups_go_back(patch: Patches) -> None:
    """The log says less than what members were told: the next coordinator begins below it."""
    real = group_shard.record_value

    def record_value(record, moment):
        if isinstance(record, GroupMetadata) and record.epoch % 3 == 0:
            record = replace(record, epoch=record.epoch - 2)
        return real(record, moment)

    patch.setattr(group_shard, "record_value", record_value)


def the_last_assignment_is_forgotten(patch: Patches) -> None:
    """A new coordinator does not know when the last assignment was computed."""
    real = group_shard.read_record

    def read_record(key, value, moment):
        record = real(key, value, moment)
        is_assignment = isinstance(record, TargetAssignmentMetadata)
        return replace(record, assigned_at_ms=NEVER_MS) if is_assignment else record

    patch.setattr(group_shard, "read_record", read_record)


def archived_records_count_again(patch: Patches) -> None:
    """What a write archives is counted whether or not it was finished before."""
    real = share_state_machine.newly_archived

    def newly_archived(_, new, cause, *, start_offset):
        return real((), new, cause, start_offset=start_offset)

    patch.setattr(share_state_machine, "newly_archived", newly_archived)


def snapshots_forget_what_was_archived(patch: Patches) -> None:
    """A snapshot begins the counts anew, and says that it counted all the while."""
    real = share_state_machine._snapshot

    def snapshot(key, state, now_ms, origin):
        made = real(key, state, now_ms, origin)
        return replace(made, archived=replace(made.archived, counts=()))

    patch.setattr(share_state_machine, "_snapshot", snapshot)
