"""What a process asked of which broker, counted where it is sent."""


class BrokerTraffic:
    """Requests sent by (API, broker), and pauses that brokers asked for, in ms by broker.

    A broker is its id, or ``bootstrap`` where it is dialled by an address of the settings.
    """

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str], int] = {}
        self.throttled_ms: dict[str, int] = {}

    def sent(self, api: str, broker: str) -> None:
        """Count one request."""
        self.requests[api, broker] = self.requests.get((api, broker), 0) + 1

    def throttled(self, broker: str, pause_ms: int) -> None:
        """Count a pause (KBR-5)."""
        self.throttled_ms[broker] = self.throttled_ms.get(broker, 0) + pause_ms
