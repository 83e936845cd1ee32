"""Invariant 9: who was deposed commits nothing that its successor does not have.

Owners at their logs, and leaders of share partitions at the share coordinator.
"""

from collections import defaultdict

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
        self._owners: dict[str, dict[int, int]] = defaultdict(dict)
        self._ends: dict[str, dict[int, int]] = defaultdict(dict)

    def install(self, patches: Patches) -> None:
        """Look at each take-over and each commit from now on."""
        checker = self
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
        engine = self._world.engine
        engine.watch_owners(patches, self.took_over, self.committed)
        engine.watch_looks(patches, self.owner, self.looked)

    def took_over(self, log: str, epoch: int, found: int) -> None:
        """An epoch owns a log from here on: epochs only rise, and nothing committed is left out."""
        owners = self._owners[log]
        at_once = self._world.engine.fences_at_once
        for other, place in owners.items():
            is_late = not at_once and place > found  # its fence was written before the other's
            if (other >= epoch and not (is_late and other > epoch)) or (other < epoch and is_late):
                self._say(f"{log} was taken over at {found} under epoch {epoch}, after {other}")
        end_offset = max((end for by, end in self._ends[log].items() if by < epoch), default=0)
        if found < end_offset:
            text = f"was committed up to {end_offset}, and epoch {epoch} found {found}"
            self._say(f"{log} {text}")
        owners[epoch] = found
        FENCED.judged(self._world.event_log.counters)

    def committed(self, log: str, epoch: int, end_offset: int) -> None:
        """A commit passed: in its owner's epoch, or all its successors found all of it."""
        self._ends[log][epoch] = max(self._ends[log].get(epoch, 0), end_offset)
        later = {other: found for other, found in self._owners[log].items() if other > epoch}
        if not later:
            return
        FENCED.judged(self._world.event_log.counters)
        self._world.event_log.counters["commits that a successor had taken over"] += 1
        for other, found in later.items():
            if end_offset > found:
                self._say(
                    f"epoch {epoch} committed {log} up to {end_offset} after epoch {other} "
                    f"had taken it over at {found}"
                )

    def owner(self, log: str) -> int:
        """Return the highest epoch that has taken a log over by now."""
        return max(self._owners[log], default=-1)

    def looked(self, log: str, epoch: int, before: int) -> None:
        """A look let an answer go: nobody of a higher epoch was there before it began."""
        FENCED.judged(self._world.event_log.counters)
        if before > epoch:
            self._say(f"{log}: epoch {epoch} answered what was asked after {before} took it over")

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
