"""Bugs of what is read of compacted topics (KRL-6, OFF-23)."""

from sharemesh.backends.kafka.record_logs import log_reads
from sharemesh.client.consumer.application_state import ConsumerState
from sharemesh.domain.share_partition.machine import SharePartition
from tests.simulation.patching import Patches


def holes_are_read_for_ever(patch: Patches) -> None:
    """A read whose offsets are all gone does not look behind them (KRL-6)."""
    real = log_reads.read_out

    def read_out(parts, offset, end_offset, max_bytes):
        found = real(parts, offset, end_offset, max_bytes)
        is_behind = bool(found.headers) and max_bytes == 1
        return log_reads.NOTHING if is_behind else found

    patch.setattr(log_reads, "read_out", read_out)


def passed_holes_are_not_stored(patch: Patches) -> None:
    """A start offset that went over a hole waits for the next acknowledgement (OFF-26)."""
    patch.setattr(SharePartition, "_passed_hole", lambda machine: [])


def gaps_are_not_acknowledged(patch: Patches) -> None:
    """Members say nothing of acquired offsets that have no record: their locks expire (CL-14)."""
    patch.setattr(ConsumerState, "_add_gaps", lambda state, delivery, gaps: None)
