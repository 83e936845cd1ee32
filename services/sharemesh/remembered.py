"""Answers that are remembered up to a number of bytes, and worked out again beyond it (BND-21)."""

import sys
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

ENTRY_BYTES = 200
"""What an answer takes beside the texts that it is about."""


class Remembered(Generic[Key, Value]):
    """Answers by question; when there is no room for another one, all are forgotten."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._answers: dict[Key, Value] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def answer(self, key: Key, texts: tuple[str, ...], work_out: Callable[[], Value]) -> Value:
        """Return the answer; ``texts`` are those in the question that a client chose."""
        known = self._answers.get(key)
        if known is not None:
            return known
        found = work_out()
        size = ENTRY_BYTES + sum(map(sys.getsizeof, texts))
        if self.size_bytes + size > self._bytes_max:
            self.clear()
        if size <= self._bytes_max:
            self._answers[key] = found
            self.size_bytes += size
        return found

    def clear(self) -> None:
        """Forget everything."""
        self._answers.clear()
        self.size_bytes = 0
