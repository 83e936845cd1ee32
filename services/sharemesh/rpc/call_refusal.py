"""How a call ends that has no answer: code, words and trailing metadata."""

import logging
from typing import Any, NamedTuple

import grpc

from sharemesh.methods import Method
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.rpc.limits import THROTTLE_TIME, TOKEN_STALE
from sharemesh.rpc.receiving_memory import TooMuchReceivedError
from sharemesh.rpc.silent_calls import TooManySilentError
from sharemesh.rpc.status import code_of

_log = logging.getLogger(__name__)


class StatusError(Exception):
    """A handler ends its call with a status that the network port has no failure for."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class CallRefusal(NamedTuple):
    """How a call ends that has no answer."""

    code: grpc.StatusCode
    message: str
    trailing: tuple[tuple[str, str], ...] = ()


def refuse(context: Any, refusal: CallRefusal) -> None:  # noqa: ANN401 - untyped
    """Let the call end with a status once its handler returns.

    An ``abort`` would raise: gRPC keeps that exception in a cycle with the frames that it passed
    and the call, until the next search for cycles. Of 20,000 refused calls a process held 100 MiB
    so, and the search that found them stopped it for a second (measured).
    """
    context.set_code(refusal.code)
    context.set_details(refusal.message)
    context.set_trailing_metadata(refusal.trailing)


def silent(method: Method[Any, Any], what: str, waited_ms: int) -> CallRefusal:
    """Return how a call ends that said nothing in time (BND-1)."""
    return CallRefusal(
        grpc.StatusCode.DEADLINE_EXCEEDED,
        f"{method.name}: nothing came for {waited_ms} ms after the {what} was opened: send its "
        f"first {method.request.DESCRIPTOR.name} at once",
    )


def refused_silent(
    method: Method[Any, Any], why: TooManySilentError | TooMuchReceivedError
) -> CallRefusal:
    """Return how a call ends that had not come when others took its place (BND-29, BND-30)."""
    return CallRefusal(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        f"{method.name}: {why}: send its first {method.request.DESCRIPTOR.name} at once, and try "
        "again",
    )


def refusal_of(method: str, error: Exception) -> CallRefusal:
    """Return how a call ends whose handler raised."""
    if isinstance(error, CallFailedError):
        return CallRefusal(code_of(error.failure), error.message, mark(error))
    if isinstance(error, StatusError):
        return CallRefusal(error.code, error.message)
    _log.error("handler of %s failed", method, exc_info=error)
    return CallRefusal(code_of(Failure.INTERNAL), f"{type(error).__name__} in the server")


def mark(error: CallFailedError) -> tuple[tuple[str, str], ...]:
    """Return the trailing metadata of a refusal that the caller, or time, heals (IDN-4, QUO-14)."""
    if error.throttle_ms:
        return ((THROTTLE_TIME, str(error.throttle_ms)),)
    return ((TOKEN_STALE, "1"),) if error.stale else ()
