"""gRPC status codes and the failures of the network port, both ways, in words."""

import grpc

from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.advice import ConnectionAdvice

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
    Failure.DEADLINE_EXCEEDED: "the call may still take effect; look before repeating it",
    Failure.RESOURCE_EXHAUSTED: "send less at once, or later",
    Failure.UNAUTHENTICATED: "check the client's certificate and the tls settings",
    Failure.PERMISSION_DENIED: "an access rule must allow it: see sharemesh acls",
    Failure.INVALID_ARGUMENT: "correct the request",
    Failure.UNIMPLEMENTED: "no role at this address offers it, or the server is older",
    Failure.CANCELLED: "this side or the server closed",
    Failure.INTERNAL: "see the server's log",
}


def code_of(failure: Failure) -> grpc.StatusCode:
    """Return the status code that carries a failure."""
    return _CODES[failure]


_UNREACHABLE = {
    "connection refused": "connection refused",
    "dns resolution failed": "the name cannot be resolved",
    "no route to host": "no route to the host",
    "network is unreachable": "the network is unreachable",
}
"""gRPC has one status code for these: words of its details, and ours."""


def failed(
    failure: Failure, method: str, address: str, details: str, advice: str = ""
) -> CallFailedError:
    """Return the error of a call: which method, to whom, what happened, and what to do."""
    what_to_do = advice or _ADVICE[failure]
    lower = details.lower() if failure is Failure.UNAVAILABLE else ""
    unreachable = next((ours for words, ours in _UNREACHABLE.items() if words in lower), "")
    return CallFailedError(
        failure,
        f"{method} to {address}: {details or failure.value} ({what_to_do})",
        unreachable=unreachable,
    )


def failure_of(
    error: grpc.aio.AioRpcError, method: str, address: str, advice: ConnectionAdvice
) -> CallFailedError:
    """Return what a status that gRPC raised means to the caller."""
    failure = _FAILURES.get(error.code(), Failure.INTERNAL)
    details = error.details() or ""
    return failed(failure, method, address, details, advice.of(details))
