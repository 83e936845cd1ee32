"""What a client sees of an error of the share coordinator (spec PER-8, PER-9)."""

from sharemesh.domain.error_policy import coordinator_moved
from sharemesh.domain.errors import ErrorCode

_SEEN_AS = {
    ErrorCode.NONE: ErrorCode.NONE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}

_DROPS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


def seen_by_client(error: ErrorCode) -> ErrorCode:
    """Return the error that the client gets for an error of the persister (PER-8)."""
    if coordinator_moved(error):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return _SEEN_AS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)


def drops_partition(seen: ErrorCode) -> bool:
    """Return whether the share partition must be read anew after this error (PER-9)."""
    return seen in _DROPS
