"""Where a partition starts and ends, and what of it was lost: it only moves on (pure)."""

UNREADABLE_MAX = 100
"""Places of one partition that are remembered as not to be served."""


class TopicLogEnds:
    """Start, high watermark and last stable offset as Kafka said, and what it lost (KRL-9).

    Attributes:
        log_start_offset: The first offset that still counts.
        high_watermark: One past the last committed record that may be delivered.
        last_stable_offset: One past the last record that belongs to no open transaction.
    """

    def __init__(self, log_start_offset: int, high_watermark: int, last_stable_offset: int) -> None:
        self.log_start_offset = log_start_offset
        self.high_watermark = max(log_start_offset, high_watermark)
        self.last_stable_offset = min(last_stable_offset, self.high_watermark)
        self._lost: tuple[int, int] | None = None  # from, to
        self._newest = (self.high_watermark, self.last_stable_offset)
        self._unreadable: dict[int, str] = {}

    @property
    def damage(self) -> tuple[int, str] | None:
        """The first offset that cannot be served, and why, in words."""
        if self._lost is not None:
            first, end = self._lost
            return first, (
                f"Kafka lost the records from offset {first} to {end - 1} that it had confirmed, "
                "and may have written others in their place (unclean leader election, or a disk "
                f"was lost): once the partition has reached offset {end}, give them up with "
                f"`sharemesh topics delete-records TOPIC/PARTITION --before {end}`"
            )
        return min(self._unreadable.items(), default=None)

    @property
    def lost_from(self) -> int | None:
        """The first offset that Kafka lost; None if it lost nothing."""
        return None if self._lost is None else self._lost[0]

    @property
    def lost_range(self) -> tuple[int, int] | None:
        """What Kafka lost: its first offset and one past its last; None if nothing."""
        return self._lost

    @property
    def newest_end(self) -> int:
        """Kafka's high watermark, also where what lies below it is not delivered."""
        return self._newest[0]

    @property
    def confirmed_end(self) -> int:
        """One past all that was ever seen as confirmed, also of what was lost."""
        return self.high_watermark if self._lost is None else self._lost[1]

    def saw(self, log_start_offset: int, high_watermark: int, last_stable_offset: int) -> bool:
        """Take in what Kafka says; -1 is not known. Return whether something moved on."""
        before = (self.log_start_offset, self.high_watermark, self.last_stable_offset)
        self.log_start_offset = max(self.log_start_offset, log_start_offset)
        high = max(self._newest[0], high_watermark, self.log_start_offset)
        self._newest = (high, min(high, max(self._newest[1], last_stable_offset)))
        if self._unreadable:
            kept = (
                (at, why) for at, why in self._unreadable.items() if at >= self.log_start_offset
            )
            self._unreadable = dict(kept)
        if self._lost is not None and self.log_start_offset >= self._lost[1]:
            self._lost = None
        if self._lost is None:
            self.high_watermark, self.last_stable_offset = self._newest
        elif self.log_start_offset > self._lost[0]:
            self._lost = (self.log_start_offset, self._lost[1])
            self.high_watermark = self.log_start_offset
        self.last_stable_offset = max(self.last_stable_offset, self.log_start_offset)
        return before != (self.log_start_offset, self.high_watermark, self.last_stable_offset)

    def lost(self, from_offset: int, newest_end: int, newest_stable: int) -> bool:
        """Records that had been confirmed are gone; return whether the partition stops for that.

        What lay above a loss that waits was delivered to nobody, and what lay below the log start
        is deleted.

        Args:
            from_offset: The first that is gone.
            newest_end: Where Kafka's log ends now.
            newest_stable: Where its last stable offset is.
        """
        end = max(newest_end, self.log_start_offset)
        self._newest = (end, min(end, newest_stable))
        if max(from_offset, self.log_start_offset) >= self.high_watermark:
            return False
        end = self.confirmed_end
        first = max(from_offset, self.log_start_offset)
        self._lost = (first, end)
        self.high_watermark = first
        self.last_stable_offset = min(self.last_stable_offset, first)
        return True

    def falls_to(self, newest_end: int, newest_stable: int) -> None:
        """Kafka's log ends here; what was named above it was given to nobody."""
        self._newest = (newest_end, min(newest_end, newest_stable))
        if self._lost is None:
            self.high_watermark, self.last_stable_offset = self._newest

    def lost_before(self, first: int, end: int) -> None:
        """Records were lost before this log was followed: from ``first`` to ``end``."""
        first = max(first, self.log_start_offset)
        self._lost = (first, end)
        self.high_watermark = min(self.high_watermark, first)
        self.last_stable_offset = min(self.last_stable_offset, first)

    def unreadable(self, offset: int, words: str) -> bool:
        """A batch at ``offset`` cannot be served; return whether that is news."""
        if offset in self._unreadable or len(self._unreadable) >= UNREADABLE_MAX:
            return False
        self._unreadable[offset] = words
        return True

    def unreadable_at(self, offset: int) -> str | None:
        """Return why what lies at ``offset`` cannot be served; None if it can."""
        return self._unreadable.get(offset)
