"""How long consumers wait for records that they asked for."""


class FetchLatency:
    """Times from asking leaders for records until the first of them come.

    On a stream, asking is granting credit. As in Kafka a wait for records that are yet to be
    produced counts; unlike there no ``fetch.max.wait.ms`` cuts it into several fetches.
    """

    def __init__(self) -> None:
        self.count = 0
        self.total_ms = 0
        self.max_ms = 0

    def record(self, waited_ms: int) -> None:
        """Count one fetch."""
        self.count += 1
        self.total_ms += waited_ms
        self.max_ms = max(self.max_ms, waited_ms)

    @property
    def average_ms(self) -> int:
        """The mean, rounded; 0 without a fetch."""
        return round(self.total_ms / self.count) if self.count else 0
