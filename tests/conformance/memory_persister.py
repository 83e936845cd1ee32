"""A persister in memory that keeps state as the one behind Kafka's recorded histories did.

It combines batches as the share coordinator does (spec CMB), but takes start offset and
delivery-complete count as they come, even out of order; the product's coordinator keeps the
highest start offset (SC-15, SC-16). A recount without state batches is none of Kafka's
(ACK-23): it succeeds at once and leaves nothing, so that its histories can be followed.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_partition.effects import WriteState
from sharemesh.domain.state_batch import StateBatch, combine

Outcome = Callable[[ErrorCode], None]


@dataclass
class MemoryPersister:
    """``mode`` says how writes answer: ok, fail or hold."""

    start: int = -1
    complete: int = -1
    state_epoch: int = 0
    batches: tuple[StateBatch, ...] = ()
    mode: str = "ok"
    error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE
    held: deque[tuple[WriteState, Outcome]] = field(default_factory=deque)
    log: list[WriteState] = field(default_factory=list)

    def write(self, write: WriteState, outcome: Outcome) -> None:
        """Take a write; the outcome is told now, or when a held write is completed."""
        if write.is_recount and not write.batches:
            outcome(ErrorCode.NONE)
            return
        self.log.append(write)
        if self.mode == "hold":
            self.held.append((write, outcome))
        else:
            self._finish(write, outcome, ok=self.mode == "ok")

    def complete_held(self, *, ok: bool, count: int | None = None) -> int:
        """Answer the oldest held writes and return how many there were."""
        completed = len(self.held) if count is None else min(count, len(self.held))
        for _ in range(completed):
            write, outcome = self.held.popleft()
            self._finish(write, outcome, ok=ok)
        return completed

    def _finish(self, write: WriteState, outcome: Outcome, *, ok: bool) -> None:
        if not ok:
            outcome(self.error)
            return
        self.start = write.start_offset
        self.complete = write.delivery_complete_count
        self.batches = combine(self.batches, write.batches, start_offset=self.start)
        outcome(ErrorCode.NONE)
