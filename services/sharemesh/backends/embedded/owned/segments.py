"""Segments as their owner knows them."""

from dataclasses import dataclass

from sharemesh.codec.segment import SegmentName


@dataclass(slots=True)
class Segment:
    """One segment of the log; what lies behind the ends is not committed, or not the log's.

    Ends are exclusive. Those of the newest segment move with each commit. ``problem`` says why
    nothing of it can be read (its header is invalid, or the file is gone), else it is empty.
    """

    name: SegmentName
    end_offset: int
    end_position: int
    problem: str = ""

    @property
    def base_offset(self) -> int:
        """The first offset that the segment can hold."""
        return self.name.base_offset
