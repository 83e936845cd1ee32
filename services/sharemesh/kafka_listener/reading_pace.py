"""How fast a client reads an answer: by what has left the buffer of its connection (spec KLS-6)."""

READ_BYTES_PER_S_MIN = 64 * 1024
"""What a client reads of an answer on average, once it has had its time, or is too slow."""


class ReadingPace:
    """One answer that waits to be read."""

    def __init__(self, size: int, now_ms: int) -> None:
        self._size = self._left = size
        self._began_ms = self._read_ms = now_ms

    def is_too_slow(self, left: int, now_ms: int, patience_ms: int) -> bool:
        """Return whether nothing was read for so long, or too little since that has passed."""
        if left < self._left:
            self._left, self._read_ms = left, now_ms
        earned_ms = (self._size - self._left) * 1_000 // READ_BYTES_PER_S_MIN
        return (
            now_ms - self._read_ms >= patience_ms
            or now_ms - self._began_ms >= patience_ms + earned_ms
        )
