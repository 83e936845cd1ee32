"""Bugs of locks that are handed over at a drain: two leaders decide, or none knows of a lock."""

from dataclasses import replace

from sharemesh.client.consumer.consume_stream import LeaderSession
from sharemesh.client.consumer.handed_over import HandedOver
from sharemesh.client.consumer.unseen_records import UnseenRecords
from sharemesh.domain.share_partition.cache.record_status import Lock
from sharemesh.domain.share_partition.events import HandOver, Lifecycle
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_partition.rules.hand_over import TakenLocks
from sharemesh.domain.share_state.hand_overs import HandOvers
from sharemesh.share_leader.partition.led_partitions import LedPartition
from sharemesh.share_leader.partition.share_partition_runner import SharePartitionRunner
from tests.simulation.patching import Patches


def the_old_leader_decides_on(patch: Patches) -> None:
    """What comes while the locks are on their way is still decided by who sent them."""
    real = SharePartition._hand_over

    def hand_over(machine, event, now_ms):
        effects = real(machine, event, now_ms)
        machine._state = Lifecycle.ACTIVE
        return effects

    async def at_once(_):
        return

    patch.setattr(SharePartition, "_hand_over", hand_over)
    patch.setattr(LedPartition, "until_handed_over", at_once)


def any_later_leader_gets_the_locks(patch: Patches) -> None:
    """A leader after the next one takes them again, whatever became of them."""
    real = HandOvers.take

    def take(hand_overs, key, reader_epoch, state_epoch, known_epoch, now_ms):
        kept = hand_overs._kept.get(key)
        if kept is not None and reader_epoch > kept.leader_epoch:
            known_epoch = kept.leader_epoch
        return real(hand_overs, key, reader_epoch, state_epoch, known_epoch, now_ms)

    patch.setattr(HandOvers, "take", take)
    patch.setattr(HandOvers, "written", lambda *_: None)


def locks_leave_while_writes_are_out(patch: Patches) -> None:
    """The old leader sends what its members held before they acknowledged it."""
    real = SharePartition._hand_over

    def hand_over(machine, event, now_ms):
        for changes, _ in machine._pending.values():
            changes.roll_back(is_written=True)
        return real(machine, event, now_ms)

    async def unsettled(runner, goes_on):
        runner.step(HandOver(goes_on))
        await runner._work.settle()

    patch.setattr(SharePartition, "_hand_over", hand_over)
    patch.setattr(SharePartitionRunner, "hand_over", unsettled)


def the_time_that_is_left_is_forgotten(patch: Patches) -> None:
    """A lock that was handed over ends at once."""
    real = TakenLocks.status

    def status(taken, first, last, lock):
        return real(taken, first, last, lock._replace(remaining_ms=0))

    patch.setattr(TakenLocks, "status", status)


def renewals_forget_where_a_lock_is_from(patch: Patches) -> None:
    """Once it is renewed, its holder's acknowledgements are of another epoch."""
    real = Lock.again

    def again(lock, *terms):
        return replace(real(lock, *terms), acquired_in=0)

    patch.setattr(Lock, "again", again)


def clients_drop_what_was_handed_over(patch: Patches) -> None:
    """Records that no poll has returned are forgotten as soon as their leader says goodbye."""
    real = UnseenRecords._give_back_old

    def give_back_old(unseen):
        unseen.buffer.remove(lambda held: held.route.is_handed_over(held.source, held.leader_epoch))
        real(unseen)

    patch.setattr(UnseenRecords, "_give_back_old", give_back_old)


def what_was_handed_over_once_is_away_for_ever(patch: Patches) -> None:
    """A session sends what it gets of a partition that came back to where it had gone."""
    real = HandedOver.take

    def take(handed_over, acknowledgements, *, may_wait, held_in=0):
        return real(handed_over, acknowledgements, may_wait=may_wait, held_in=held_in or 1)

    patch.setattr(HandedOver, "take", take)


def clients_stay_with_a_leader_that_had_no_locks(patch: Patches) -> None:
    """What was handed over waits for a next leader that leads no more, and never read the state.

    Nor does the end of the session with it let them look further: that finds most of these cases.
    """
    patch.setattr(HandedOver, "look_further", lambda *_: False)
    patch.setattr(LeaderSession, "never_had", lambda *_: False)


def any_end_of_a_session_ends_the_way(patch: Patches) -> None:
    """What was handed over is lost with a session whose leader never had its locks."""
    patch.setattr(LeaderSession, "never_had", lambda *_: False)
