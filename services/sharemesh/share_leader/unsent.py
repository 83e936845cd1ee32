"""One bound for all records that were acquired and wait to be sent on streams (spec BND-3)."""

from collections import Counter
from collections.abc import Callable

BEYOND_BYTES = 64 * 1024
"""What a stream without anything to send may acquire although the bound is reached."""


class UnsentBudget:
    """Bytes of records that wait in all streams of a leader, and how much is whose."""

    def __init__(self, total_max: int, principal_max: int) -> None:
        self._total_max = total_max
        self._principal_max = principal_max
        self._of: Counter[str] = Counter()
        self._total = 0
        self._waiting: dict[str, dict[Callable[[], None], int]] = {}

    @property
    def total(self) -> int:
        """Bytes that wait now."""
        return self._total

    def has_room(self, principal: str, wanted: int) -> bool:
        """Return whether a principal may have so many bytes more."""
        return (
            self._of[principal] + wanted <= self._principal_max
            and self._total + wanted <= self._total_max
        )

    def changed(self, principal: str, difference: int) -> None:
        """Count bytes more, or fewer: then some that wait for room are called."""
        self._total += difference
        self._of[principal] += difference
        if not self._of[principal]:
            del self._of[principal]
        if difference < 0:
            self._call()

    def when_room(self, principal: str, wanted: int, call: Callable[[], None]) -> None:
        """Call once, when there is room; the callee must ask again."""
        self._waiting.setdefault(principal, {})[call] = wanted

    def forget(self, principal: str, call: Callable[[], None]) -> None:
        """Call no more."""
        waiting = self._waiting.get(principal, {})
        waiting.pop(call, None)
        if not waiting:
            self._waiting.pop(principal, None)

    def _call(self) -> None:
        """Call those that came first and have room together."""
        for principal in tuple(self._waiting):
            together = 0
            for call, wanted in tuple(self._waiting[principal].items()):
                if not self.has_room(principal, together + wanted):
                    break
                together += wanted
                self.forget(principal, call)
                call()


class UnsentOfStream:
    """What one stream holds of the budget."""

    def __init__(self, budget: UnsentBudget, principal: str, wake: Callable[[], None]) -> None:
        self._budget = budget
        self._principal = principal
        self._wake = wake
        self._held = 0
        self._waits = self._closed = False

    def hold(self, size: int) -> None:
        """Hold so many bytes from now on; after ``close`` it holds none."""
        if size != self._held and not self._closed:
            difference, self._held = size - self._held, size
            self._budget.changed(self._principal, difference)
            if not size and self._waits:
                self._budget.forget(self._principal, self._called)
                self._called()

    def allowed(self, wanted: int) -> int:
        """Return how many bytes may be acquired now; if none, the stream is woken later.

        A stream that has nothing to send may have a little, whatever others hold.
        """
        if self._budget.has_room(self._principal, wanted):
            return wanted
        if not self._held:
            return min(wanted, BEYOND_BYTES)
        self._waits = True
        self._budget.when_room(self._principal, wanted, self._called)
        return 0

    def _called(self) -> None:
        self._waits = False
        self._wake()

    def close(self) -> None:
        """Return all that the stream holds."""
        self._budget.forget(self._principal, self._called)
        self._waits = False
        self.hold(0)
        self._closed = True
