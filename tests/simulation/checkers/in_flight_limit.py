"""Invariant 13: how many records a member may get, by what is in flight (ACQ-2, ACQ-10, WIN-3)."""

from collections.abc import Sequence
from dataclasses import dataclass

from sharemesh.domain.group_config import InFlightLimitType
from sharemesh.domain.share_partition.effects import AcquiredRun
from sharemesh.domain.share_partition.events import Acquire, AcquireMode
from sharemesh.domain.share_partition.machine import SharePartition


@dataclass(frozen=True, slots=True)
class Room:
    """A share partition before records are acquired.

    Attributes:
        left: Offsets that may still be taken in flight.
        end_offset: The last one in flight; without room only what is in flight is delivered.
        locks_left: Records that may still be held, if the limit counts locks (WIN-3).
    """

    left: int
    end_offset: int
    locks_left: int | None = None

    @classmethod
    def before(cls, machine: SharePartition) -> "Room":
        """Look at it."""
        config = machine.config
        limit = config.partition_max_record_locks
        if config.in_flight_limit_type is InFlightLimitType.SPAN:
            return cls(limit - machine.in_flight_count, machine.end_offset)
        runs = machine.record_states()
        held = sum(
            each.last_offset - each.first_offset + 1
            for each in runs
            if each.lock_deadline_ms is not None
        )
        if len(runs) + held >= config.partition_max_runs:  # WIN-5
            return cls(0, machine.end_offset, limit - held)
        return cls(limit - held, machine.end_offset, limit - held)

    def problem(
        self, machine: SharePartition, event: Acquire, ranges: Sequence[AcquiredRun]
    ) -> str:
        """Return what is wrong with a grant, or nothing."""
        if not ranges:
            return ""
        total = sum(each.last_offset - each.first_offset + 1 for each in ranges)
        last = ranges[-1].last_offset
        budget = event.max_fetch_records
        if self.left > 0:
            budget = min(budget, self.left)
        elif last > self.end_offset:
            return f"offset {last} was granted without room behind {self.end_offset}"
        if self.locks_left is not None:
            if self.locks_left <= 0:
                return f"granted {total} records while as many are held as the limit allows"
            budget = min(budget, self.locks_left)
        if total <= budget:
            return ""
        if event.mode is AcquireMode.RECORD_LIMIT:
            return f"granted {total} records, limit {budget}"
        # What is cut only at the ends of batches may exceed the limit by a part of the last one.
        if total - budget >= _longest(machine, event, ranges):
            return f"granted {total} records, which is {total - budget} more than the limit"
        return ""


def _longest(machine: SharePartition, event: Acquire, ranges: Sequence[AcquiredRun]) -> int:
    first, last = ranges[0].first_offset, ranges[-1].last_offset
    read = [each.last_offset - each.base_offset + 1 for each in event.log_batches]
    cached = [
        each.last_offset - each.first_offset + 1
        for each in machine.cached_batches()
        if each.last_offset >= first and each.first_offset <= last
    ]
    return max(*read, *cached)
