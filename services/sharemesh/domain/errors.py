"""Kafka's error codes (spec ERR), what each one asks of its caller, and their exception."""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Self


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
    """What an error code asks of the caller that gets it.

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


class ErrorCode(IntEnum):
    """Why a request, or one partition of it, was refused; the numbers are Kafka's."""

    policy: ErrorPolicy

    def __new__(cls, number: int, policy: ErrorPolicy = _FINAL) -> Self:
        """Make a code that is its number and knows what it asks of the caller."""
        code = int.__new__(cls, number)
        code._value_ = number
        code.policy = policy
        return code

    UNKNOWN_SERVER_ERROR = -1, _FINAL
    NONE = 0, _FINAL
    OFFSET_OUT_OF_RANGE = 1, _RETRY
    CORRUPT_MESSAGE = 2, _RETRY
    UNKNOWN_TOPIC_OR_PARTITION = 3, _LEADER
    LEADER_NOT_AVAILABLE = 5, _LEADER
    NOT_LEADER_OR_FOLLOWER = 6, _LEADER
    REQUEST_TIMED_OUT = 7, _RETRY
    MESSAGE_TOO_LARGE = 10, _FINAL
    NETWORK_EXCEPTION = 13, _RETRY
    COORDINATOR_LOAD_IN_PROGRESS = 14, _COORDINATOR
    COORDINATOR_NOT_AVAILABLE = 15, _COORDINATOR
    NOT_COORDINATOR = 16, _COORDINATOR
    INVALID_TOPIC_EXCEPTION = 17, _FINAL
    RECORD_LIST_TOO_LARGE = 18, _FINAL
    INCONSISTENT_GROUP_PROTOCOL = 23, _FINAL
    INVALID_GROUP_ID = 24, _CONSUMER
    UNKNOWN_MEMBER_ID = 25, _JOIN
    TOPIC_AUTHORIZATION_FAILED = 29, _CONSUMER
    GROUP_AUTHORIZATION_FAILED = 30, _CONSUMER
    CLUSTER_AUTHORIZATION_FAILED = 31, _FINAL
    INVALID_TIMESTAMP = 32, _FINAL
    UNSUPPORTED_VERSION = 35, _CONSUMER
    TOPIC_ALREADY_EXISTS = 36, _FINAL
    INVALID_PARTITIONS = 37, _FINAL
    INVALID_CONFIG = 40, _FINAL
    NOT_CONTROLLER = 41, _RETRY
    INVALID_REQUEST = 42, _CONSUMER
    POLICY_VIOLATION = 44, _FINAL
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, _PRODUCER
    DUPLICATE_SEQUENCE_NUMBER = 46, _FINAL
    INVALID_PRODUCER_EPOCH = 47, _PRODUCER
    INVALID_TXN_STATE = 48, _FINAL
    INVALID_PRODUCER_ID_MAPPING = 49, _PRODUCER
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, _FINAL
    SECURITY_DISABLED = 54, _FINAL
    KAFKA_STORAGE_ERROR = 56, _LEADER
    UNKNOWN_PRODUCER_ID = 59, _PRODUCER
    NON_EMPTY_GROUP = 68, _FINAL
    GROUP_ID_NOT_FOUND = 69, _FINAL
    FENCED_LEADER_EPOCH = 74, _LEADER
    UNKNOWN_LEADER_EPOCH = 75, _LEADER
    GROUP_MAX_SIZE_REACHED = 81, _FINAL
    INVALID_RECORD = 87, _FINAL
    THROTTLING_QUOTA_EXCEEDED = 89, _RETRY
    RESOURCE_NOT_FOUND = 91, _FINAL
    UNACCEPTABLE_CREDENTIAL = 93, _FINAL
    UNKNOWN_TOPIC_ID = 100, _LEADER
    FENCED_MEMBER_EPOCH = 110, _JOIN
    INVALID_RECORD_STATE = 121, _FINAL
    SHARE_SESSION_NOT_FOUND = 122, _RETRY
    INVALID_SHARE_SESSION_EPOCH = 123, _RETRY
    FENCED_STATE_EPOCH = 124, _FINAL
    SHARE_SESSION_LIMIT_REACHED = 133, _RETRY


class RefusedError(Exception):
    """A rule refused something; ``message`` names the thing, the value and what to do."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(f"{error.name}: {message}")
        self.error = error
        self.message = message


class BoundReachedError(RefusedError):
    """A caller would use up, or take over, what is there for others; it is audited (AUD-3)."""


def invalid_request(message: str) -> RefusedError:
    """Return the refusal of a request that its caller must correct."""
    return RefusedError(ErrorCode.INVALID_REQUEST, message)


def invalid_config(message: str) -> RefusedError:
    """Return the refusal of a setting."""
    return RefusedError(ErrorCode.INVALID_CONFIG, message)


def policy_of(code: int) -> ErrorPolicy:
    """Return the policy of a code; a number that this version does not know is final."""
    try:
        return ErrorCode(code).policy
    except ValueError:
        return _FINAL


def coordinator_moved(code: int) -> bool:
    """Return whether to find the coordinator again: it moved, loads or is gone."""
    return policy_of(code).refresh is Refresh.COORDINATOR


def leader_moved(code: int) -> bool:
    """Return whether to find the partition's leader again."""
    return policy_of(code).refresh is Refresh.LEADER


_SEEN_AS = {
    ErrorCode.NONE: ErrorCode.NONE,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
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
    """Return whether the share partition must be initialized again after this error (PER-9)."""
    return seen in _DROPS
