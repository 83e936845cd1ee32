"""Bugs planted by patching the product for one run; the simulation must see each of them."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from sharemesh.backends.embedded import owned_log
from sharemesh.backends.embedded.fences import Fences
from sharemesh.backends.embedded.producers import Producers
from sharemesh.client.consumer_calls import ConsumerCalls
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_partition.machine import SharePartition
from sharemesh.domain.share_state.machine import ShareStateMachine
from sharemesh.persister.persister import Persister
from sharemesh.ports.share_state import StateWriteResult
from sharemesh.serve.roles import group_coordinator, share_coordinator, share_leader
from tests.domain.share_partition import test_mutants as domain
from tests.simulation.patching import Patches


def lost_fsync(patch: Patches) -> None:
    """Confirmed, but never synced: a power cut takes it."""
    for role in (share_leader, share_coordinator, group_coordinator):
        real = role.log_settings
        patch.setattr(
            role, "log_settings", lambda settings, real=real: replace(real(settings), fsync=False)
        )


def fence_looked_for_before_the_sync_only(patch: Patches) -> None:
    """A deposed owner that slept in its sync confirms what its successor does not have."""
    real_look, real_commit = owned_log.OwnedLog.look, owned_log.OwnedLog.commit

    def commit(log, data, end_offset, log_start_offset):
        real_look(log)
        patched = log.__class__.look
        log.__class__.look = lambda _log: None
        try:
            return real_commit(log, data, end_offset, log_start_offset)
        finally:
            log.__class__.look = patched

    patch.setattr(owned_log.OwnedLog, "commit", commit)


def nobody_looks_for_fences(patch: Patches) -> None:
    """A deposed owner goes on writing."""
    patch.setattr(Fences, "look", lambda _fences: None)


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
    patch.setattr(
        SharePartition,
        "step",
        lambda machine, event, *, now_ms: real(machine, event, now_ms=now_ms + now_ms % 2_000),
    )


def commit_sync_overruns(patch: Patches) -> None:
    """KAFKA-21485: commit_sync takes longer than its time-out."""
    real = ConsumerCalls.commit_sync
    patch.setattr(
        ConsumerCalls,
        "commit_sync",
        lambda calls, timeout_ms=None: real(calls, None if timeout_ms is None else 60_000),
    )


Mutant = Callable[[Patches], None]
MUTANTS: dict[str, Mutant] = {
    mutant.__name__: mutant
    for mutant in (
        lost_fsync,
        fence_looked_for_before_the_sync_only,
        nobody_looks_for_fences,
        acknowledged_before_durable,
        state_writer_is_not_checked,
        producers_are_forgotten,
        locks_expire_early,
        commit_sync_overruns,
        domain.start_offset_is_not_guarded,
        domain.session_release_lowers_the_count,
        domain.window_is_forgotten,
        domain.anyone_may_acknowledge,
        domain.records_in_transition_are_delivered,
        domain.release_ignores_the_limit,
        domain.reject_is_forgotten,
        domain.released_records_are_never_found,
    )
}
