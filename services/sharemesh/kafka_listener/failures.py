"""Kafka's codes for calls that got no answer from the service itself."""

from sharemesh.domain.errors import ErrorCode
from sharemesh.ports.network import CallFailedError, Failure

_CODES = {
    Failure.UNAVAILABLE: ErrorCode.REQUEST_TIMED_OUT,
    Failure.DEADLINE_EXCEEDED: ErrorCode.REQUEST_TIMED_OUT,
    Failure.RESOURCE_EXHAUSTED: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    Failure.PERMISSION_DENIED: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Failure.INVALID_ARGUMENT: ErrorCode.INVALID_REQUEST,
}


def code_of(error: CallFailedError, elsewhere: ErrorCode) -> ErrorCode:
    """Return the code; ``elsewhere`` is what a process says that has not the role for a request."""
    if error.failure is Failure.UNIMPLEMENTED:
        return elsewhere
    return _CODES.get(error.failure, ErrorCode.UNKNOWN_SERVER_ERROR)
