"""One entry of the in-flight cache: contiguous offsets as runs of equal status (IFB-1)."""

from bisect import bisect_right

from sharemesh.domain.share_partition.cache.record_status import RecordStatus

Run = tuple[int, int, RecordStatus]


class CachedBatch:
    """Offsets ``first_offset..last_offset``, both included (spec IFB-1).

    Where a batch begins and ends is data that the rules observe; inside there are only runs.
    ``per_offset`` says that an operation once touched a part of it, so that from then on each
    offset has an acquisition lock of its own (IFB-2, LK-2); it never goes back.

    Attributes:
        is_packed: It stands for what ``CachedBatches`` keeps of a settled batch: unpack it before
            it is changed.
        open_count: How many of its records are not done; ``InFlight`` keeps it true.
    """

    done = False  # unlike the status of a packed batch, this says nothing: look at the runs

    __slots__ = (
        "_starts",
        "_statuses",
        "first_offset",
        "is_packed",
        "last_offset",
        "open_count",
        "per_offset",
    )

    def __init__(self, first_offset: int, last_offset: int, status: RecordStatus) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.per_offset = False
        self.is_packed = False
        self.open_count = 0 if status.done else last_offset - first_offset + 1
        self._starts = [first_offset]
        self._statuses = [status]

    def __len__(self) -> int:
        return self.last_offset - self.first_offset + 1

    @property
    def run_count(self) -> int:
        """How many runs the batch consists of."""
        return len(self._starts)

    @property
    def status(self) -> RecordStatus:
        """The one status of a batch that is not tracked per offset."""
        return self._statuses[0]

    def status_at(self, offset: int) -> RecordStatus:
        """Return the status of one offset inside the batch."""
        return self._statuses[bisect_right(self._starts, offset) - 1]

    def runs(self) -> list[Run]:
        """Return all runs as (first offset, last offset, status)."""
        return self.runs_between(self.first_offset, self.last_offset)

    def runs_between(self, first: int, last: int) -> list[Run]:
        """Return the runs of ``first..last``, cut to it; both must lie inside the batch."""
        starts, statuses = self._starts, self._statuses
        if len(starts) == 1:
            return [(first, last, statuses[0])]
        low = bisect_right(starts, first) - 1
        if first == last:
            return [(first, last, statuses[low])]
        high = bisect_right(starts, last, low)
        result = []
        begin = first
        for index in range(low, high - 1):
            following = starts[index + 1]
            result.append((begin, following - 1, statuses[index]))
            begin = following
        result.append((begin, last, statuses[high - 1]))
        return result

    def done_end(self, offset: int) -> int:
        """Return the last offset of the done records that begin at ``offset``, or the one before.

        The cost follows the runs that are passed.
        """
        starts, statuses = self._starts, self._statuses
        index = bisect_right(starts, offset) - 1
        if not statuses[index].done:
            return offset - 1
        count = len(starts)
        while index < count and statuses[index].done:
            index += 1
        return self.last_offset if index == count else starts[index] - 1

    def status_of(self, first: int, last: int) -> RecordStatus | None:
        """Return the status of ``first..last``, inside the batch, or None if it is not one run."""
        starts = self._starts
        following = bisect_right(starts, first)
        if following < len(starts) and starts[following] <= last:
            return None
        return self._statuses[following - 1]

    def replace(self, first: int, last: int, status: RecordStatus) -> int:
        """Give all of ``first..last`` one status; what it had before is another one.

        Returns:
            How many runs more there are.
        """
        starts, statuses = self._starts, self._statuses
        following = bisect_right(starts, first)
        index = following - 1
        end = starts[following] - 1 if following < len(starts) else self.last_offset
        if starts[index] != first or last > end:
            return self.splice(first, last, [first], [status])
        joins_left = index > 0 and statuses[index - 1] is status
        if last < end:  # the head of a run
            starts[index] = last + 1
            if joins_left:
                return 0
            starts.insert(index, first)
            statuses.insert(index, status)
            return 1
        more = 0
        if following < len(starts) and statuses[following] is status:
            del starts[following], statuses[following]
            more = -1
        if joins_left:
            del starts[index], statuses[index]
            return more - 1
        statuses[index] = status
        return more

    def splice(self, first: int, last: int, starts: list[int], statuses: list[RecordStatus]) -> int:
        """Put the given runs in place of ``first..last``; ``starts[0]`` is ``first``.

        Neighbouring runs of the same status become one.

        Returns:
            How many runs more there are.
        """
        old_starts, old_statuses = self._starts, self._statuses
        before = len(old_starts)
        low = bisect_right(old_starts, first) - 1
        high = bisect_right(old_starts, last, low)
        if last < self.last_offset and (high == len(old_starts) or old_starts[high] != last + 1):
            if old_statuses[high - 1] is not statuses[-1]:
                starts.append(last + 1)
                statuses.append(old_statuses[high - 1])
        elif high < len(old_starts) and old_statuses[high] is statuses[-1]:
            high += 1
        if old_starts[low] < first:
            low += 1
        if low > 0 and old_statuses[low - 1] is statuses[0]:
            del starts[0], statuses[0]
        old_starts[low:high] = starts
        old_statuses[low:high] = statuses
        return len(old_starts) - before

    def is_well_formed(self) -> bool:
        """Return whether runs are in order, inside the batch and merged."""
        starts, statuses = self._starts, self._statuses
        return (
            starts[0] == self.first_offset <= self.last_offset
            and starts[-1] <= self.last_offset
            and len(starts) == len(statuses)
            and all(starts[i] < starts[i + 1] for i in range(len(starts) - 1))
            and all(statuses[i] is not statuses[i + 1] for i in range(len(starts) - 1))
            and (self.per_offset or len(starts) == 1)
            and self.open_count
            == sum(last - first + 1 for first, last, status in self.runs() if not status.done)
        )
