"""Frames out of the bytes of a connection: bounded by kind before they are whole (spec KLS-4)."""

from sharemesh.kafka_listener.request_header import HEAD_BYTES, kind_of
from sharemesh.kafka_listener.served_requests import BY_KEY, OF_LOGINS, ServedRequest

SIZE_BYTES = 4
_TLS = b"\x16\x03"
"""What a TLS handshake begins with; as the length of a request it would be too long for any."""

_UNKNOWN_VERSION_MAX = 4 * 1024
"""Longest ApiVersions request of a version that is not spoken."""


class RefusedFrameError(Exception):
    """A frame that is not received; the message says why, and the connection is closed.

    ``reason`` is a word for a metric, ``last`` an answer that is sent before, ``beyond_bound``
    the kind of a request that is too much of it: that is audited (AUD-3).
    """

    def __init__(
        self, reason: str, message: str, last: bytes = b"", beyond_bound: str = ""
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.last = last
        self.beyond_bound = beyond_bound


class FrameReader:
    """Takes bytes as they come and gives whole frames, without their sizes.

    Until it ``is_open``, only what belongs to a login is received (spec KLS-20).
    """

    def __init__(self, *, is_open: bool = True) -> None:
        self.is_open = is_open
        self._buffer = bytearray()
        self._size = -1

    @property
    def has_begun(self) -> bool:
        """Whether there are bytes that were not taken."""
        return bool(self._buffer)

    @property
    def announced_bytes(self) -> int:
        """Length of the frame that is being received; 0: not known yet, or between frames."""
        return max(self._size, 0)

    def feed(self, data: bytes) -> None:
        """Take what came."""
        self._buffer += data

    def take(self) -> bytes | None:
        """Return the next frame if it is whole.

        Raises:
            RefusedFrameError: Its length or its kind cannot be.
        """
        if not self.is_whole():
            return None
        end = SIZE_BYTES + self._size
        frame = bytes(memoryview(self._buffer)[SIZE_BYTES:end])
        del self._buffer[:end]
        self._size = -1
        return frame

    def is_next(self, kind: ServedRequest) -> bool:
        """Return whether a whole frame of this kind is here; what cannot be one is of none."""
        try:
            if not self.is_whole():
                return False
        except RefusedFrameError:
            return False
        key, _ = kind_of(memoryview(self._buffer)[SIZE_BYTES:])
        return BY_KEY[key] is kind

    def is_whole(self) -> bool:
        """Return whether a whole frame is here.

        Raises:
            RefusedFrameError: Its length or its kind cannot be.
        """
        if len(self._buffer) < SIZE_BYTES:
            return False
        if self._size < 0:
            size = int.from_bytes(self._buffer[:SIZE_BYTES], "big", signed=True)
            if size < HEAD_BYTES:
                raise RefusedFrameError("malformed", f"it announced a request of {size} bytes")
            if self._buffer.startswith(_TLS):
                raise RefusedFrameError(
                    "tls",
                    "it speaks TLS, and this port plain text: set security.protocol=PLAINTEXT, or "
                    "SASL_PLAINTEXT",
                )
            if len(self._buffer) < SIZE_BYTES + HEAD_BYTES:
                return False
            kind = kind_of(memoryview(self._buffer)[SIZE_BYTES:])
            check_kind(*kind, size)
            if not self.is_open and BY_KEY[kind[0]] not in OF_LOGINS:
                raise RefusedFrameError(
                    "no_login",
                    f"it asked for {BY_KEY[kind[0]].label} before it had logged in: set "
                    "security.protocol, sasl.mechanism and sasl.jaas.config",
                )
            self._size = size
        return len(self._buffer) >= SIZE_BYTES + self._size


def check_kind(key: int, version: int, size: int) -> None:
    """Refuse what is not answered, or too long for its kind.

    Raises:
        RefusedFrameError: Kafka closes the connection of such a request, too.
    """
    served = BY_KEY.get(key)
    if served is None:
        raise RefusedFrameError("unknown_request", f"it asked for API key {key}")
    bytes_max = served.bytes_max
    if not served.answers(version):
        if served is not ServedRequest.API_VERSIONS:
            raise RefusedFrameError(
                "unknown_version",
                f"it asked for {served.label} version {version}; versions {served.lowest} to "
                f"{served.highest} are answered",
            )
        bytes_max = _UNKNOWN_VERSION_MAX
    if size > bytes_max:
        raise RefusedFrameError(
            "too_large",
            f"it announced a request {served.label} of {size} bytes; at most {bytes_max} are read",
            beyond_bound=served.label,
        )
