"""Bounds of the listener (spec KLS-3 to KLS-7)."""

from dataclasses import dataclass

PRODUCE_BYTES_MAX = 20 * 1024 * 1024
"""Longest Produce request; its record batches have a bound of their own, 16 MiB."""

REQUEST_BYTES_MAX = 512 * 1024
"""Longest request of any other kind."""

PARTS_MAX = 20_000
"""Most topics and partitions, or keys, that a request may name: its answer has one entry each."""

SMALL_FRAME_BYTES = 64 * 1024
"""Frames up to this length are received without asking whether there is room for them."""

WRITE_BUFFER_BYTES = 64 * 1024
"""While more than this waits to be sent on a connection, its next request waits."""


@dataclass(frozen=True, slots=True)
class KafkaListenerLimits:
    """What one Kafka listener takes on; a connection beyond a bound is closed.

    Attributes:
        max_connections: Open connections; more are closed at once.
        max_held_bytes: Larger requests that are being received or answered, and answers that wait
            to be sent, of all connections together.
        first_request_ms: Time from the opening of a connection to its first whole request.
        frame_ms: Time in which a request that has begun must be whole, and an answer sent.
        idle_ms: Time without a request after which a connection is closed.
        max_held_sessions: Share sessions of one connection.
    """

    max_connections: int = 1_000
    max_held_bytes: int = 268_435_456
    first_request_ms: int = 10_000
    frame_ms: int = 30_000
    idle_ms: int = 600_000
    max_held_sessions: int = 100
