"""What happens in the stamped logs of one process, in numbers."""

from dataclasses import dataclass


@dataclass(slots=True)
class StampedLogCounts:
    """Numbers that only grow; several logs share them.

    Attributes:
        void: Batches that were read and do not count, fences left out (STL-3).
        restamps: Units that came to lie elsewhere and were sent with a new stamp (STL-8).
    """

    void: int = 0
    restamps: int = 0
