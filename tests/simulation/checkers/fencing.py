"""Invariant 9: who was deposed commits nothing that its successor does not have.

Owners at their logs, and leaders of share partitions at the share coordinator.
"""

from sharemesh.backends.embedded.owned.owned_log import OwnedLog
from sharemesh.domain.ids import SharePartitionKey
from sharemesh.domain.share_state.checks import StateDecision, WriteRequest
from sharemesh.domain.share_state.fold import ShareState
from sharemesh.domain.share_state.machine import ShareStateMachine
from tests.simulation.invariants import FENCED
from tests.simulation.patching import Patches
from tests.simulation.world import World


class FencingChecker:
    """Knows who took each log over, up to where the log went that it found, and goes now."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._owners: dict[str, tuple[int, int]] = {}
        self._ends: dict[str, int] = {}

    def install(self, patches: Patches) -> None:
        """Look at each take-over and each commit from now on."""
        real_init, real_commit = OwnedLog.__init__, OwnedLog.commit
        checker = self

        def init(log, *arguments, **words):
            real_init(log, *arguments, **words)
            checker.took_over(log)

        def commit(log, data, end_offset, log_start_offset):
            place = real_commit(log, data, end_offset, log_start_offset)
            checker.committed(log, end_offset)
            return place

        real_write = ShareStateMachine.write

        def write(machine, key, request, *, in_metadata, now_ms):
            before = machine.state(key)
            outcome = real_write(machine, key, request, in_metadata=in_metadata, now_ms=now_ms)
            checker.decided(key, before, request, outcome)
            return outcome

        real_delete, real_initialize = ShareStateMachine.delete, ShareStateMachine.initialize

        def delete(machine, key, state_epoch, **words):
            before = machine.state(key)
            outcome = real_delete(machine, key, state_epoch, **words)
            checker.began_or_ended("deleted", key, before, state_epoch, outcome)
            return outcome

        def initialize(machine, key, state_epoch, *arguments, **words):
            before = machine.state(key)
            outcome = real_initialize(machine, key, state_epoch, *arguments, **words)
            checker.began_or_ended("initialized", key, before, state_epoch, outcome)
            return outcome

        patches.setattr(ShareStateMachine, "delete", delete)
        patches.setattr(ShareStateMachine, "initialize", initialize)
        patches.setattr(ShareStateMachine, "write", write)
        patches.setattr(OwnedLog, "__init__", init)
        patches.setattr(OwnedLog, "commit", commit)

    def took_over(self, log: OwnedLog) -> None:
        """An epoch owns a log from now on: epochs only rise, and nothing committed is left out."""
        epoch, _ = self._owners.get(log.path, (-1, 0))
        if log.epoch <= epoch:
            self._say(f"{log.path} was taken over under epoch {log.epoch} after {epoch}")
        end_offset, found = self._ends.get(log.path, 0), log.committed_end_offset
        if found < end_offset:
            text = f"was committed up to {end_offset}, and epoch {log.epoch} found {found}"
            self._say(f"{log.path} {text}")
        self._owners[log.path] = (log.epoch, found)
        self._ends[log.path] = max(end_offset, found)
        FENCED.judged(self._world.event_log.counters)

    def committed(self, log: OwnedLog, end_offset: int) -> None:
        """A commit passed: in its owner's epoch, or its successor found all of it."""
        epoch, taken_end_offset = self._owners[log.path]
        if log.epoch == epoch:
            self._ends[log.path] = max(self._ends[log.path], end_offset)
            return
        FENCED.judged(self._world.event_log.counters)
        self._world.event_log.counters["commits that a successor had taken over"] += 1
        if end_offset > taken_end_offset:
            self._say(
                f"epoch {log.epoch} committed {log.path} up to {end_offset} after epoch {epoch} "
                f"had taken it over at {taken_end_offset}"
            )

    def decided(
        self,
        key: SharePartitionKey,
        before: ShareState | None,
        request: WriteRequest,
        outcome: StateDecision,
    ) -> None:
        """A write of states was taken or refused: it must be the leader's of now, and its life."""
        if before is None:
            return
        known = (before.leader_epoch_max, before.state_epoch)
        FENCED.judged(self._world.event_log.counters)
        behind = request.leader_epoch < known[0] or request.state_epoch < known[1]
        self._world.event_log.counters["writes of deposed leaders"] += behind
        if behind and outcome.record is not None:
            epochs = f"leader epoch {request.leader_epoch} and state epoch {request.state_epoch}"
            self._say(f"{self._world.place(key)}: a write under {epochs} was taken after {known}")

    def began_or_ended(
        self,
        what: str,
        key: SharePartitionKey,
        before: ShareState | None,
        state_epoch: int,
        outcome: StateDecision,
    ) -> None:
        """A state was deleted or initialized: not by what was sent in an earlier life of it."""
        FENCED.judged(self._world.event_log.counters)
        if before is None or not 0 < state_epoch < before.state_epoch:
            return
        self._world.event_log.counters["late requests of an earlier life"] += 1
        if outcome.record is not None:
            text = f"{what} by a request of epoch {state_epoch}"
            where = self._world.place(key)
            self._say(f"{where}: a state of epoch {before.state_epoch} was {text}")

    def _say(self, text: str) -> None:
        self._world.event_log.violation(self._world.now_s, FENCED.broken(text))
