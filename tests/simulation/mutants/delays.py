"""Bugs of delayed retry: what comes too early, what a failover forgets, what nobody wakes."""

from sharemesh.domain.share_partition import machine
from sharemesh.domain.share_partition.rules import acknowledge, pending_transitions
from sharemesh.share_leader.partition import state_requests
from tests.simulation.patching import Patches


def delays_are_half_as_long(patch: Patches) -> None:
    """A release waits for half of its delay."""
    real = acknowledge.released_until

    def released_until(retry, batch, delivery_count, now_ms, draw):
        until_ms = real(retry, batch, delivery_count, now_ms, draw)
        return now_ms + (until_ms - now_ms) // 2 if until_ms else 0

    patch.setattr(acknowledge, "released_until", released_until)


def delays_are_not_written(patch: Patches) -> None:
    """The state says nothing of the delay, so the next leader knows of none."""

    def stored_batches(batches, now_ms, wall_ms):
        return tuple(batch._replace(not_before_ms=0) for batch in batches)

    patch.setattr(state_requests, "stored_batches", stored_batches)


def delays_are_not_read(patch: Patches) -> None:
    """A leader that takes over begins without the delays of the one before."""

    def loaded_batches(batches, now_ms, wall_ms):
        return tuple(batch._replace(not_before_ms=0) for batch in batches)

    patch.setattr(state_requests, "loaded_batches", loaded_batches)


def a_commit_forgets_the_delay(patch: Patches) -> None:
    """Once its write has succeeded a release with a delay is available."""
    real = pending_transitions.PendingTransitions._ended

    def ended(changes, old):
        status = real(changes, old)
        if status.delayed:
            changes._available = True
            return changes._flight.settled.get(status.state, status.delivery_count)
        return status

    patch.setattr(pending_transitions.PendingTransitions, "_ended", ended)


def delayed_hand_backs_count(patch: Patches) -> None:
    """An uncounted release counts if it has a delay."""
    real = acknowledge._Acknowledger._begun

    def begun(acknowledger, entry, old, kind):
        batch = acknowledger._batch
        if batch.uncounted and batch.delay_ms:
            acknowledger._batch = batch._replace(uncounted=False)
        try:
            return real(acknowledger, entry, old, kind)
        finally:
            acknowledger._batch = batch

    patch.setattr(acknowledge._Acknowledger, "_begun", begun)


def hand_backs_have_no_delay(patch: Patches) -> None:
    """An uncounted release with a delay is available at once."""
    real = pending_transitions.PendingTransitions.handed_back
    patch.setattr(
        pending_transitions.PendingTransitions,
        "handed_back",
        lambda changes, old, not_before_ms=0: real(changes, old, min(not_before_ms, 1)),
    )


def what_was_delayed_is_not_found(patch: Patches) -> None:
    """What has waited long enough is available, and no fetch reads for its sake."""
    real = machine.end_delays

    def end_delays(flight, now_ms, limit):
        find_next = flight.find_next
        is_any = real(flight, now_ms, limit)
        flight.find_next = find_next
        return is_any

    patch.setattr(machine, "end_delays", end_delays)
