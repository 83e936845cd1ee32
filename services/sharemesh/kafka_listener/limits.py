"""Bounds of the listener (spec KLS-3 to KLS-7)."""

from dataclasses import dataclass

PRODUCE_BYTES_MAX = 20 * 1024 * 1024
"""Longest Produce request; its record batches have a bound of their own, 16 MiB."""

REQUEST_BYTES_MAX = 512 * 1024
"""Longest request of any other kind."""

PARTS_MAX = 20_000
"""Most topics and partitions, or keys, that a request may name: its answer has one entry each."""

LOGIN_BYTES_MAX = 16 * 1024
"""Longest request of those that come before a login: a token has 8,192 characters at most."""

SMALL_FRAME_BYTES = 64 * 1024
"""Frames up to this length are received without asking whether there is room for them."""

PRODUCING_MAX = 5
"""Produce requests of one connection that are under way; the log remembers as many batches of an
idempotent producer."""

WRITE_BUFFER_BYTES = 64 * 1024
"""While more than this waits to be sent on a connection, its next request waits."""


@dataclass(frozen=True, slots=True)
class KafkaListenerLimits:
    """What one Kafka listener takes on; a connection beyond a bound is closed.

    Attributes:
        max_connections: Open connections; more are closed at once.
        max_held_bytes: Larger requests that are being received or answered, and answers that wait
            to be sent, of all connections together.
        max_principal_connections: Open connections of one principal that is known by name.
        max_principal_held_bytes: Of the bytes that are held, those of one principal.
        first_request_ms: Time from the opening of a connection to its first whole request; a TLS
            handshake is a part of it.
        login_ms: Time from there until the client has logged in, where it has to, and of each later
            login.
        frame_ms: Time in which a request that has begun must be whole, and an answer be read; one
            that is being read has more (``ReadingPace``).
        idle_ms: Time without a request after which a connection is closed.
        max_held_sessions: Share sessions of one connection.
    """

    max_connections: int = 1_000
    max_held_bytes: int = 268_435_456
    max_principal_connections: int = 500
    max_principal_held_bytes: int = 134_217_728
    first_request_ms: int = 10_000
    login_ms: int = 30_000
    frame_ms: int = 30_000
    idle_ms: int = 600_000
    max_held_sessions: int = 100
