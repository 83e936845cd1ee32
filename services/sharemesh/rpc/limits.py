"""Bounds of the transport, and the gRPC arguments that carry them out."""

import dataclasses
from dataclasses import dataclass

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Largest request or response, inclusive."""

HEALTH_BYTES_MAX = 64 * 1024
"""Largest request for health and reflection."""

MAX_CONNECTIONS = 10_000
"""Connections of one process, those that only begin a handshake included."""

HEALTH_CONNECTIONS_MAX = 100
"""Connections of the port for health alone."""

HEALTH_CALLS_MAX = 1_000
"""Open calls of that port."""

MAX_CONNECT_MS = 5_000
"""Longest wait for the first sign of life of a stream's peer."""

FIRST_MESSAGE_MS = 5_000
"""Longest wait for the first message of a stream (spec BND-1)."""

REQUEST_MS = 30_000
"""Longest wait for the request of a unary call, which may be large and the network slow."""

STREAM_TAKEN = "sharemesh-stream-taken"
"""Header of the answer to a stream that a handler has taken; a refused one has no headers."""

TOKEN_STALE = "sharemesh-token-stale"  # noqa: S105 - its name, not a token
"""Trailing metadata of a refusal that a newer token, or the same one later, heals (IDN-4)."""

THROTTLE_TIME = "sharemesh-throttle-time-ms"
"""Trailing metadata of a refusal by a quota that time pays: for how long it does (QUO-14)."""

INBOX_MESSAGES = 8
"""Messages of one stream that are read ahead of the application, at most."""

_KEEPALIVE_EVERY_MS = 4_000
_KEEPALIVE_TIMEOUT_MS = 3_000
_PING_ALLOWED_EVERY_MS = 1_000
_RECONNECT_FIRST_MS = 100
_RECONNECT_LAST_MS = 1_000
_CONNECT_MS = 2_000
"""For one attempt to connect, TLS and a busy peer included; one that is refused fails at once."""

_HANDSHAKE_MS = 20_000
"""For a handshake and the first words of HTTP/2; ours hold certificates for less than this."""

GrpcArguments = list[tuple[str, int | str]]

_KEEPALIVE: GrpcArguments = [
    ("grpc.keepalive_time_ms", _KEEPALIVE_EVERY_MS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    # Without this an unanswered ping is waited for a minute.
    ("grpc.http2.ping_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.max_pings_without_data", 0),
]
"""What both sides ping with."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one server takes on; everything beyond is refused with RESOURCE_EXHAUSTED.

    Attributes:
        max_message_bytes: Largest request and response, inclusive.
        max_concurrent_calls: Open calls of all clients, streams included.
        max_principal_calls: Open calls of one principal; clients without a name are one.
        reserved_calls: Open calls of the cluster's own processes, beside those of clients.
        max_concurrent_streams: Open calls of one connection.
        max_connections: Open connections; more are closed before a handshake.
        answer_bytes: Answers of all clients that have not left (spec BND-33).
        principal_answer_bytes: The same of one principal.
        parsed_bytes: Requests of many messages that wait to be parsed, or are parsed (spec BND-7).
        principal_parsed_bytes: The same of one principal: or one request that is larger.
    """

    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_concurrent_calls: int = 20_000
    max_principal_calls: int = 10_000
    reserved_calls: int = 5_000
    max_concurrent_streams: int = 4_000
    max_connections: int = MAX_CONNECTIONS
    answer_bytes: int = 256 * 1024 * 1024
    principal_answer_bytes: int = 64 * 1024 * 1024
    parsed_bytes: int = 64 * 1024 * 1024
    principal_parsed_bytes: int = 16 * 1024 * 1024


def server_limits(max_connections: int, *, callers_have_names: bool) -> ServerLimits:
    """Return the limits of a process; without names all clients are one principal."""
    limits = ServerLimits(max_connections=max_connections)
    if callers_have_names:
        return limits
    return dataclasses.replace(
        limits,
        max_principal_calls=limits.max_concurrent_calls,
        principal_answer_bytes=limits.answer_bytes,
        principal_parsed_bytes=limits.parsed_bytes,
    )


def channel_arguments(max_message_bytes: int) -> GrpcArguments:
    """Return the client's settings: a dead peer is noticed within seven seconds, idle or not."""
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        *_KEEPALIVE,
        ("grpc.initial_reconnect_backoff_ms", _RECONNECT_FIRST_MS),
        ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),  # gRPC's name for that
        ("grpc.max_reconnect_backoff_ms", _RECONNECT_LAST_MS),
        # A retry that the caller does not know of could repeat an acknowledgement.
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
        # Addresses come from the cluster itself; a proxy of the environment never knows them.
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]


def server_arguments(limits: ServerLimits, request_bytes_max: int) -> GrpcArguments:
    """Return the server's settings: it pings too, so that a dead consumer's locks come free.

    A request of more than ``request_bytes_max`` is refused by gRPC before it is received whole.
    """
    return [
        (
            "grpc.max_receive_message_length",
            min(limits.max_message_bytes, request_bytes_max),
        ),
        ("grpc.max_send_message_length", limits.max_message_bytes),
        ("grpc.max_concurrent_streams", limits.max_concurrent_streams),
        ("grpc.max_allowed_incoming_connections", limits.max_connections),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
        *_KEEPALIVE,
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", _PING_ALLOWED_EVERY_MS),
        ("grpc.http2.max_ping_strikes", 0),
        # With SO_REUSEPORT a second server would take the same port and half of its calls.
        ("grpc.so_reuseport", 0),
    ]
