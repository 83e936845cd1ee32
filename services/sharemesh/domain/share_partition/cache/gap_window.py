"""Offsets that were acquired but never acknowledged before a leader change (spec INI-10)."""


class GapWindow:
    """Holes in ``gap_start..end_offset`` must be fetched again; active by ``InFlight``."""

    __slots__ = ("end_offset", "gap_start", "scan_from")

    def __init__(self, gap_start: int, end_offset: int) -> None:
        self.gap_start = gap_start
        self.end_offset = end_offset
        self.scan_from = gap_start  # no hole lies in gap_start..scan_from - 1

    def move(self, gap_start: int) -> None:
        """Set where the holes begin, after a range was acquired (spec INI-11)."""
        self.scan_from = gap_start if gap_start < self.gap_start else max(gap_start, self.scan_from)
        self.gap_start = gap_start
