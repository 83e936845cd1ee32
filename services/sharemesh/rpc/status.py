"""gRPC status codes and the failures of the network port, both ways, with what to do in words."""

import grpc

from sharemesh.methods import READS
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.limits import THROTTLE_TIME, TOKEN_STALE

HEALS_MS = 120_000
"""How long a caller goes on that is refused for its token, as if the server were away (IDN-9)."""

_THROTTLE_MAX_MS = 30_000
"""More than that no server of this kind says at once (QUO-5)."""

_NOT_CONNECTED = "failed to connect to all addresses"
"""How gRPC begins that message; the last of several reasons follows, of any address."""

_CLOSED = ("Socket closed", "Connection reset by peer")

_WITH_TLS = (
    ("WRONG_VERSION_NUMBER", "the server speaks plain text: leave out security.protocol=ssl"),
    ("CERTIFICATE_VERIFY_FAILED", "the server's certificate is not of the authority given: check "
     "ssl.ca.location"),
    ("Hostname Verification Check failed", "the server's certificate does not name this "
     "host: use one of the names in it"),
    *((said, "the server closed the TLS handshake: it may want a certificate of an authority that "
       "it trusts (ssl.certificate.location, ssl.key.location)") for said in _CLOSED),
)  # fmt: skip

_IN_PLAIN_TEXT = tuple(
    (said, "the server closed the connection at once: it may want TLS (security.protocol=ssl, "
     "ssl.ca.location)") for said in _CLOSED
)  # fmt: skip

_CODES = {
    Failure.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Failure.DEADLINE_EXCEEDED: grpc.StatusCode.DEADLINE_EXCEEDED,
    Failure.RESOURCE_EXHAUSTED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Failure.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Failure.PERMISSION_DENIED: grpc.StatusCode.PERMISSION_DENIED,
    Failure.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    Failure.UNIMPLEMENTED: grpc.StatusCode.UNIMPLEMENTED,
    Failure.CANCELLED: grpc.StatusCode.CANCELLED,
    Failure.INTERNAL: grpc.StatusCode.INTERNAL,
}

_FAILURES = {code: failure for failure, code in _CODES.items()} | {
    grpc.StatusCode.FAILED_PRECONDITION: Failure.INVALID_ARGUMENT,
    grpc.StatusCode.OUT_OF_RANGE: Failure.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND: Failure.UNIMPLEMENTED,
    grpc.StatusCode.ABORTED: Failure.UNAVAILABLE,
}

_ADVICE = {
    Failure.UNAVAILABLE: "check that the process runs and that this is its address",
    Failure.DEADLINE_EXCEEDED: "the call may still take effect; check before repeating it",
    Failure.RESOURCE_EXHAUSTED: "send less at once, or later",
    Failure.UNAUTHENTICATED: "check the client's token or certificate, and the tls settings",
    Failure.PERMISSION_DENIED: "an access rule must allow it: see sharemesh acls",
    Failure.INVALID_ARGUMENT: "correct the request",
    Failure.UNIMPLEMENTED: "no role at this address offers it, or the server is older",
    Failure.CANCELLED: "this side or the server closed",
    Failure.INTERNAL: "see the server's log",
}

_REPEAT_READ = (
    "nothing is changed by it: repeat it; if that lasts, sharemesh cluster says what is not led"
)
"""What to do about a read that was not answered in time."""

_UNREACHABLE = {
    "connection refused": "connection refused",
    "dns resolution failed": "the name cannot be resolved",
    "no route to host": "no route to the host",
    "network is unreachable": "the network is unreachable",
}
"""gRPC has one status code for these: words of its details, and ours."""


def code_of(failure: Failure) -> grpc.StatusCode:
    """Return the status code that carries a failure."""
    return _CODES[failure]


def failed(
    failure: Failure, method: str, address: str, details: str, advice: str = ""
) -> CallFailedError:
    """Return the error of a call: which method, to whom, what happened, and what to do."""
    if failure is Failure.DEADLINE_EXCEEDED and method in READS:
        advice = advice or _REPEAT_READ
    what_to_do = advice or _ADVICE[failure]
    lower = details.lower() if failure is Failure.UNAVAILABLE else ""
    unreachable = next((ours for words, ours in _UNREACHABLE.items() if words in lower), "")
    return CallFailedError(
        failure,
        f"{method} to {address}: {details or failure.value} ({what_to_do})",
        unreachable=unreachable,
    )


class ConnectionAdvice:
    """What is known of one server.

    A name may have two addresses, and gRPC reports one of them: what it reported of the other
    before is remembered until there is a connection.
    """

    def __init__(self, *, tls: bool) -> None:
        self._telling = _WITH_TLS if tls else _IN_PLAIN_TEXT
        self._known = ""

    def of(self, details: str) -> str:
        """Return what to do about a failed call; empty if there is no better advice than usual."""
        if not details.startswith(_NOT_CONNECTED):
            return ""
        for said, advice in self._telling:
            if said in details:
                self._known = advice
                break
        return self._known

    def connected(self) -> None:
        """The server answered a call."""
        self._known = ""


class StaleToken:
    """Since when one server refuses the token that is shown to it, and nothing else came."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms: int | None = None

    def refused(self) -> bool:
        """The token was refused, but a newer one may heal it; return whether to go on trying."""
        now_ms = self._clock.now_ms()
        if self._since_ms is None:
            self._since_ms = now_ms
        return now_ms - self._since_ms < HEALS_MS

    def let_in(self) -> None:
        """The server answered a call."""
        self._since_ms = None


def failure_of(
    error: grpc.aio.AioRpcError,
    method: str,
    address: str,
    advice: ConnectionAdvice,
    stale: StaleToken,
) -> CallFailedError:
    """Return what a status that gRPC raised means to the caller."""
    failure = _FAILURES.get(error.code(), Failure.INTERNAL)
    details = error.details() or ""
    if failure is Failure.UNAUTHENTICATED and _is_stale(error.trailing_metadata()):
        found = failed(
            Failure.UNAVAILABLE if stale.refused() else failure,
            method,
            address,
            details,
            "replace the token in its file; its authors may be late",
        )
        found.stale = True
        return found
    found = failed(failure, method, address, details, advice.of(details))
    if failure is Failure.RESOURCE_EXHAUSTED:
        found.throttle_ms = _throttle_ms(error.trailing_metadata())
    return found


def _throttle_ms(trailing: object) -> int:
    told = trailing.get(THROTTLE_TIME) if isinstance(trailing, grpc.aio.Metadata) else None
    return min(int(told), _THROTTLE_MAX_MS) if isinstance(told, str) and told.isdecimal() else 0


def _is_stale(trailing: object) -> bool:
    return isinstance(trailing, grpc.aio.Metadata) and bool(trailing.get_all(TOKEN_STALE))
