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

_OF_COORDINATORS: dict[int, int] = {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
_OF_READS = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""What consumers of Kafka expect of a partition; at another code their poll raises."""


def heartbeat_code(code: int) -> int:
    """Return the code of a heartbeat, or of another request to or for the coordinator of a group.

    Members of Kafka end for good at one of no coordinator, and its Admin raises.
    """
    return _OF_COORDINATORS.get(code, code)


def produce_code(code: int) -> int:
    """Return the code of records that were not appended; librdkafka gives them up at a quota's."""
    is_throttled = code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    return int(ErrorCode.KAFKA_STORAGE_ERROR) if is_throttled else code


def topic_code(code: int) -> int:
    """Return the code of a topic that was not told, after which clients soon ask again.

    At a time-out's, or a quota's, Java forgets the topic until its next refresh, and librdkafka
    gives it up.
    """
    is_passing = code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    return int(ErrorCode.LEADER_NOT_AVAILABLE) if is_passing else code


def read_code(code: int) -> int:
    """Return the code of a partition that was not read, after which consumers ask again."""
    return code if code in _OF_READS else int(ErrorCode.KAFKA_STORAGE_ERROR)


def code_of(error: CallFailedError, elsewhere: ErrorCode) -> ErrorCode:
    """Return the code; ``elsewhere`` is what a process says that has not the role for a request."""
    if error.failure is Failure.UNIMPLEMENTED:
        return elsewhere
    return _CODES.get(error.failure, ErrorCode.UNKNOWN_SERVER_ERROR)
