"""What leaders say of quotas: when to ask each of them again, and how long the waits are."""

from sharemesh.ports.clock import Clock


class ThrottleTimes:
    """Throttle times of the answers of one kind of request (spec QUO-11)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms: dict[str, int] = {}
        self._count = 0
        self._total_ms = 0
        self.max_ms = 0

    def told(self, address: str, throttle_ms: int) -> None:
        """Note the throttle time of one answer; 0: none."""
        self._count += 1
        if throttle_ms > 0:
            self._total_ms += throttle_ms
            self.max_ms = max(self.max_ms, throttle_ms)
            until_ms = self._clock.now_ms() + throttle_ms
            self._until_ms[address] = max(until_ms, self._until_ms.get(address, 0))

    def left_ms(self, address: str) -> int:
        """Return how long to wait before the next request to this node."""
        until_ms = self._until_ms.get(address)
        if until_ms is None:
            return 0
        left_ms = until_ms - self._clock.now_ms()
        if left_ms <= 0:
            del self._until_ms[address]
        return max(left_ms, 0)

    @property
    def average_ms(self) -> int:
        """The mean of all answers, rounded."""
        return round(self._total_ms / self._count) if self._count else 0
