"""What each error code asks of whoever gets it: retry, refresh, begin again; or none of that."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from sharemesh.domain.errors import ErrorCode


class Refresh(Enum):
    """What the asker looks up again before it retries."""

    NOTHING = "nothing"
    LEADER = "the leader of the topic-partition"
    COORDINATOR = "the coordinator of the group or of the share partition"


class Ends(Enum):
    """What of the asker does not survive the error."""

    NOTHING = "nothing but the request"
    MEMBERSHIP = "the membership in the group: the member joins again"
    PRODUCER_ID = "the producer id: the producer asks for a new one"
    CONSUMER = "the consumer: every later session would end with the same error"


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """What an error code means to whoever gets it.

    Attributes:
        retriable: Whether the same request may succeed later without a change (spec ERR).
        refresh: What to look up again first.
        ends: What must begin again, or cannot.
    """

    retriable: bool
    refresh: Refresh = Refresh.NOTHING
    ends: Ends = Ends.NOTHING


_FINAL = ErrorPolicy(retriable=False)
_RETRY = ErrorPolicy(retriable=True)
_LEADER = ErrorPolicy(retriable=True, refresh=Refresh.LEADER)
_COORDINATOR = ErrorPolicy(retriable=True, refresh=Refresh.COORDINATOR)
_JOIN = ErrorPolicy(retriable=False, ends=Ends.MEMBERSHIP)
_PRODUCER = ErrorPolicy(retriable=False, ends=Ends.PRODUCER_ID)
_CONSUMER = ErrorPolicy(retriable=False, ends=Ends.CONSUMER)

_POLICIES: Mapping[int, ErrorPolicy] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: _FINAL,
    ErrorCode.NONE: _FINAL,
    ErrorCode.OFFSET_OUT_OF_RANGE: _RETRY,
    ErrorCode.CORRUPT_MESSAGE: _RETRY,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _LEADER,
    ErrorCode.LEADER_NOT_AVAILABLE: _LEADER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _LEADER,
    ErrorCode.REQUEST_TIMED_OUT: _RETRY,
    ErrorCode.MESSAGE_TOO_LARGE: _FINAL,
    ErrorCode.NETWORK_EXCEPTION: _RETRY,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _COORDINATOR,
    ErrorCode.NOT_COORDINATOR: _COORDINATOR,
    ErrorCode.INVALID_TOPIC_EXCEPTION: _FINAL,
    ErrorCode.RECORD_LIST_TOO_LARGE: _FINAL,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: _FINAL,
    ErrorCode.INVALID_GROUP_ID: _CONSUMER,
    ErrorCode.UNKNOWN_MEMBER_ID: _JOIN,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _CONSUMER,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _CONSUMER,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _FINAL,
    ErrorCode.INVALID_TIMESTAMP: _FINAL,
    ErrorCode.UNSUPPORTED_VERSION: _CONSUMER,
    ErrorCode.TOPIC_ALREADY_EXISTS: _FINAL,
    ErrorCode.INVALID_PARTITIONS: _FINAL,
    ErrorCode.INVALID_CONFIG: _FINAL,
    ErrorCode.NOT_CONTROLLER: _RETRY,
    ErrorCode.INVALID_REQUEST: _CONSUMER,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: _PRODUCER,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: _FINAL,
    ErrorCode.INVALID_PRODUCER_EPOCH: _PRODUCER,
    ErrorCode.INVALID_TXN_STATE: _FINAL,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: _PRODUCER,
    ErrorCode.SECURITY_DISABLED: _FINAL,
    ErrorCode.KAFKA_STORAGE_ERROR: _LEADER,
    ErrorCode.UNKNOWN_PRODUCER_ID: _PRODUCER,
    ErrorCode.NON_EMPTY_GROUP: _FINAL,
    ErrorCode.GROUP_ID_NOT_FOUND: _FINAL,
    ErrorCode.FENCED_LEADER_EPOCH: _LEADER,
    ErrorCode.UNKNOWN_LEADER_EPOCH: _LEADER,
    ErrorCode.GROUP_MAX_SIZE_REACHED: _FINAL,
    ErrorCode.INVALID_RECORD: _FINAL,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: _RETRY,
    ErrorCode.UNKNOWN_TOPIC_ID: _LEADER,
    ErrorCode.FENCED_MEMBER_EPOCH: _JOIN,
    ErrorCode.INVALID_RECORD_STATE: _FINAL,
    ErrorCode.SHARE_SESSION_NOT_FOUND: _RETRY,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: _RETRY,
    ErrorCode.FENCED_STATE_EPOCH: _FINAL,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: _RETRY,
}


def policy_of(code: int) -> ErrorPolicy:
    """Return the policy of a code; a number that this version does not know is final."""
    return _POLICIES.get(code, _FINAL)


def coordinator_moved(code: int) -> bool:
    """Return whether the coordinator is to be looked up again: it moved, loads or is gone."""
    return policy_of(code).refresh is Refresh.COORDINATOR


def leader_moved(code: int) -> bool:
    """Return whether the partition's leader is to be looked up again."""
    return policy_of(code).refresh is Refresh.LEADER
