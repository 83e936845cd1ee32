"""What a client raises: one class for each error code of spec ERR, and local errors."""

from typing import ClassVar

from sharemesh.domain.error_policy import policy_of
from sharemesh.domain.errors import ErrorCode


class SharemeshError(Exception):
    """Everything this client raises on purpose, except wrong arguments."""


class IllegalStateError(SharemeshError, RuntimeError):
    """The call is not allowed now: closed, not subscribed, wrong mode (Kafka's IllegalState)."""


class IllegalArgumentError(SharemeshError, ValueError):
    """An argument is not allowed: null, blank, negative (Kafka's IllegalArgument)."""


class ConfigError(SharemeshError, ValueError):
    """A configuration name or value is not allowed; the message names the nearest valid name."""


class ConcurrentModificationError(SharemeshError, RuntimeError):
    """A second thread used a consumer; only ``wakeup`` is thread-safe (spec CL-1)."""


class WakeupError(SharemeshError):
    """``wakeup`` was called; nothing is lost, call again (spec CL-19)."""


class InterruptError(KeyboardInterrupt):
    """The waiting thread was interrupted; nothing is lost."""


class RecordDeserializationError(SharemeshError):
    """A record could not be deserialized; it is released unless overridden (spec CL-13).

    Attributes:
        topic: Name of its topic.
        partition: Its partition.
        offset: Its offset; ``acknowledge(topic, partition, offset, type)`` overrides the release.
        part: ``key`` or ``value``.
    """

    def __init__(self, topic: str, partition: int, offset: int, part: str, cause: str) -> None:
        super().__init__(
            f"cannot deserialize the {part} of {topic}/{partition}@{offset} ({cause}); the record "
            "is released unless it is acknowledged by topic, partition and offset"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.part = part


class CorruptRecordError(SharemeshError):
    """A batch failed its check; its offsets are rejected unless overridden (spec CL-13).

    Attributes:
        topic: Name of its topic.
        partition: Its partition.
        offset: First offset of the batch that this consumer holds.
        last_offset: Last such offset, included.
    """

    def __init__(
        self, topic: str, partition: int, offset: int, last_offset: int, cause: str
    ) -> None:
        super().__init__(
            f"corrupt batch {topic}/{partition}@{offset}..{last_offset} ({cause}); its records "
            "are rejected unless they are acknowledged by topic, partition and offset"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.last_offset = last_offset


class ConnectionFailedError(SharemeshError):
    """No process of the cluster answered; the message names the addresses and the reason.

    Attributes:
        retriable: Whether the same may succeed later without a change; false if the cluster does
            not let this client in, or does not speak its protocol.
    """

    def __init__(self, message: str, *, retriable: bool = True) -> None:
        super().__init__(message)
        self.retriable = retriable


class BufferExhaustedError(SharemeshError):
    """The buffer stayed full for ``max.block.ms``: the cluster is slower than the sender."""


class ServiceError(SharemeshError):
    """A service refused a request, or one part of it.

    Attributes:
        code: The error code of spec ERR.
        retriable: Whether the same request may succeed later without a change.
        about: The thing it is about, for example ``topic orders`` or ``orders/3``; may be empty.
        message: The service's words.
    """

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, message: str = "", *, about: str = "") -> None:
        words = message or type(self).code.name.lower().replace("_", " ")
        said = not about or about in words or repr(about.partition(" ")[2]) in words
        super().__init__(words if said else f"{about}: {words}")
        self.about = about
        self.message = words

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later without a change."""
        return policy_of(type(self).code).retriable


class UnknownServerError(ServiceError):
    """The service failed in a way that has no other code."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR


class OffsetOutOfRangeError(ServiceError):
    """The offset is not in the log."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class CorruptMessageError(ServiceError):
    """A record batch failed its check."""

    code = ErrorCode.CORRUPT_MESSAGE


class UnknownTopicOrPartitionError(ServiceError):
    """The topic or partition does not exist, or is not led here."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class LeaderNotAvailableError(ServiceError):
    """The share partition is initializing or has no leader now."""

    code = ErrorCode.LEADER_NOT_AVAILABLE


class NotLeaderOrFollowerError(ServiceError):
    """The node does not lead the partition (any more)."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class RequestTimedOutError(ServiceError):
    """The request took too long; it may still take effect."""

    code = ErrorCode.REQUEST_TIMED_OUT


class MessageTooLargeError(ServiceError):
    """A record batch is larger than the topic allows."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class NetworkError(ServiceError):
    """The connection was lost before the answer came."""

    code = ErrorCode.NETWORK_EXCEPTION


class CoordinatorLoadInProgressError(ServiceError):
    """The coordinator is loading its state."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailableError(ServiceError):
    """The coordinator is not active."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class NotCoordinatorError(ServiceError):
    """The node does not coordinate this group."""

    code = ErrorCode.NOT_COORDINATOR


class InvalidTopicError(ServiceError):
    """The topic name is not allowed."""

    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class RecordListTooLargeError(ServiceError):
    """A request holds more record batches than allowed."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class InconsistentGroupProtocolError(ServiceError):
    """The group is a share group; another protocol was used."""

    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class InvalidGroupIdError(ServiceError):
    """The group id is empty or not allowed."""

    code = ErrorCode.INVALID_GROUP_ID


class UnknownMemberIdError(ServiceError):
    """The coordinator does not know the member."""

    code = ErrorCode.UNKNOWN_MEMBER_ID


class TopicAuthorizationFailedError(ServiceError):
    """The principal may not do this with the topic."""

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class GroupAuthorizationFailedError(ServiceError):
    """The principal may not do this with the group."""

    code = ErrorCode.GROUP_AUTHORIZATION_FAILED


class ClusterAuthorizationFailedError(ServiceError):
    """The principal may not do this with the cluster."""

    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class SecurityDisabledError(ServiceError):
    """The cluster has no access rules."""

    code = ErrorCode.SECURITY_DISABLED


class InvalidTimestampError(ServiceError):
    """A timestamp is out of the allowed range."""

    code = ErrorCode.INVALID_TIMESTAMP


class UnsupportedVersionError(ServiceError):
    """The service does not support this version of the request."""

    code = ErrorCode.UNSUPPORTED_VERSION


class TopicAlreadyExistsError(ServiceError):
    """A topic of this name exists."""

    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitionsError(ServiceError):
    """The number of partitions is not allowed."""

    code = ErrorCode.INVALID_PARTITIONS


class InvalidConfigError(ServiceError):
    """A configuration value is not allowed."""

    code = ErrorCode.INVALID_CONFIG


class NotControllerError(ServiceError):
    """The node is not the controller."""

    code = ErrorCode.NOT_CONTROLLER


class InvalidRequestError(ServiceError):
    """The request is malformed."""

    code = ErrorCode.INVALID_REQUEST


class OutOfOrderSequenceNumberError(ServiceError):
    """A batch of an idempotent producer is missing before this one."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class DuplicateSequenceNumberError(ServiceError):
    """The batch was written before."""

    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class InvalidProducerEpochError(ServiceError):
    """A newer producer took over this producer id."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnStateError(ServiceError):
    """The transaction is not in a state that allows this."""

    code = ErrorCode.INVALID_TXN_STATE


class InvalidProducerIdMappingError(ServiceError):
    """The producer id does not belong to this producer."""

    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class KafkaStorageError(ServiceError):
    """The log of the partition cannot be read or written."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class UnknownProducerIdError(ServiceError):
    """The producer id is not known any more."""

    code = ErrorCode.UNKNOWN_PRODUCER_ID


class NonEmptyGroupError(ServiceError):
    """The group has members."""

    code = ErrorCode.NON_EMPTY_GROUP


class GroupIdNotFoundError(ServiceError):
    """The group does not exist, or is not a share group."""

    code = ErrorCode.GROUP_ID_NOT_FOUND


class FencedLeaderEpochError(ServiceError):
    """The leader epoch is old."""

    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpochError(ServiceError):
    """The leader epoch is newer than the one of the node."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class GroupMaxSizeReachedError(ServiceError):
    """The group is full."""

    code = ErrorCode.GROUP_MAX_SIZE_REACHED


class InvalidRecordError(ServiceError):
    """A record is not allowed in this topic."""

    code = ErrorCode.INVALID_RECORD


class ThrottlingQuotaExceededError(ServiceError):
    """A quota is exceeded; try later."""

    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class UnknownTopicIdError(ServiceError):
    """The topic id does not exist (any more)."""

    code = ErrorCode.UNKNOWN_TOPIC_ID


class FencedMemberEpochError(ServiceError):
    """The member epoch is wrong; the member must join again."""

    code = ErrorCode.FENCED_MEMBER_EPOCH


class InvalidRecordStateError(ServiceError):
    """The record is not acquired by this member (any more)."""

    code = ErrorCode.INVALID_RECORD_STATE


class ShareSessionNotFoundError(ServiceError):
    """The leader does not know the share session."""

    code = ErrorCode.SHARE_SESSION_NOT_FOUND


class InvalidShareSessionEpochError(ServiceError):
    """The share session epoch is wrong."""

    code = ErrorCode.INVALID_SHARE_SESSION_EPOCH


class FencedStateEpochError(ServiceError):
    """The state epoch is old: the offsets were reset."""

    code = ErrorCode.FENCED_STATE_EPOCH


class ShareSessionLimitReachedError(ServiceError):
    """The leader holds as many share sessions as it may."""

    code = ErrorCode.SHARE_SESSION_LIMIT_REACHED


_BY_CODE: dict[int, type[ServiceError]] = {
    int(kind.code): kind
    for kind in (
        UnknownServerError,
        OffsetOutOfRangeError,
        CorruptMessageError,
        UnknownTopicOrPartitionError,
        LeaderNotAvailableError,
        NotLeaderOrFollowerError,
        RequestTimedOutError,
        MessageTooLargeError,
        NetworkError,
        CoordinatorLoadInProgressError,
        CoordinatorNotAvailableError,
        NotCoordinatorError,
        InvalidTopicError,
        RecordListTooLargeError,
        InconsistentGroupProtocolError,
        InvalidGroupIdError,
        UnknownMemberIdError,
        TopicAuthorizationFailedError,
        GroupAuthorizationFailedError,
        ClusterAuthorizationFailedError,
        SecurityDisabledError,
        InvalidTimestampError,
        UnsupportedVersionError,
        TopicAlreadyExistsError,
        InvalidPartitionsError,
        InvalidConfigError,
        NotControllerError,
        InvalidRequestError,
        OutOfOrderSequenceNumberError,
        DuplicateSequenceNumberError,
        InvalidProducerEpochError,
        InvalidTxnStateError,
        InvalidProducerIdMappingError,
        KafkaStorageError,
        UnknownProducerIdError,
        NonEmptyGroupError,
        GroupIdNotFoundError,
        FencedLeaderEpochError,
        UnknownLeaderEpochError,
        GroupMaxSizeReachedError,
        InvalidRecordError,
        ThrottlingQuotaExceededError,
        UnknownTopicIdError,
        FencedMemberEpochError,
        InvalidRecordStateError,
        ShareSessionNotFoundError,
        InvalidShareSessionEpochError,
        FencedStateEpochError,
        ShareSessionLimitReachedError,
    )
}


def error_for(code: int, message: str = "", *, about: str = "") -> ServiceError:
    """Return the exception of an error code; an unknown code becomes UNKNOWN_SERVER_ERROR."""
    kind = _BY_CODE.get(code)
    if kind is None:
        return UnknownServerError(f"error code {code}: {message}", about=about)
    return kind(message, about=about)


def optional_error(code: int, message: str = "", *, about: str = "") -> ServiceError | None:
    """Return None for code 0, else the exception of the code."""
    return None if code == ErrorCode.NONE else error_for(code, message, about=about)
