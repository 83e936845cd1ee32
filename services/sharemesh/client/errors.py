"""What a client raises: one class for each error code of spec ERR, and local errors."""

from typing import ClassVar

from sharemesh.domain.errors import ErrorCode, policy_of


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

    def __init_subclass__(cls, *, code: ErrorCode | None = None) -> None:
        super().__init_subclass__()
        if code is not None:  # a class of an application may have its parent's
            cls.code = code

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


class UnknownServerError(ServiceError, code=ErrorCode.UNKNOWN_SERVER_ERROR):
    """The service failed in a way that has no other code."""


class OffsetOutOfRangeError(ServiceError, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """The offset is not in the log."""


class CorruptMessageError(ServiceError, code=ErrorCode.CORRUPT_MESSAGE):
    """A record batch failed its check."""


class UnknownTopicOrPartitionError(ServiceError, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
    """The topic or partition does not exist, or is not led here."""


class LeaderNotAvailableError(ServiceError, code=ErrorCode.LEADER_NOT_AVAILABLE):
    """The share partition is initializing or has no leader now."""


class NotLeaderOrFollowerError(ServiceError, code=ErrorCode.NOT_LEADER_OR_FOLLOWER):
    """The node does not lead the partition (any more)."""


class RequestTimedOutError(ServiceError, code=ErrorCode.REQUEST_TIMED_OUT):
    """The request took too long; it may still take effect."""


class MessageTooLargeError(ServiceError, code=ErrorCode.MESSAGE_TOO_LARGE):
    """A record batch is larger than the topic allows."""


class NetworkError(ServiceError, code=ErrorCode.NETWORK_EXCEPTION):
    """The connection was lost before the answer came."""


class CoordinatorLoadInProgressError(ServiceError, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
    """The coordinator is loading its state."""


class CoordinatorNotAvailableError(ServiceError, code=ErrorCode.COORDINATOR_NOT_AVAILABLE):
    """The coordinator is not active."""


class NotCoordinatorError(ServiceError, code=ErrorCode.NOT_COORDINATOR):
    """The node does not coordinate this group."""


class InvalidTopicError(ServiceError, code=ErrorCode.INVALID_TOPIC_EXCEPTION):
    """The topic name is not allowed."""


class RecordListTooLargeError(ServiceError, code=ErrorCode.RECORD_LIST_TOO_LARGE):
    """A request holds more record batches than allowed."""


class InconsistentGroupProtocolError(ServiceError, code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
    """The group is a share group; another protocol was used."""


class InvalidGroupIdError(ServiceError, code=ErrorCode.INVALID_GROUP_ID):
    """The group id is empty or not allowed."""


class UnknownMemberIdError(ServiceError, code=ErrorCode.UNKNOWN_MEMBER_ID):
    """The coordinator does not know the member."""


class TopicAuthorizationFailedError(ServiceError, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED):
    """The principal may not do this with the topic."""


class GroupAuthorizationFailedError(ServiceError, code=ErrorCode.GROUP_AUTHORIZATION_FAILED):
    """The principal may not do this with the group."""


class ClusterAuthorizationFailedError(ServiceError, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
    """The principal may not do this with the cluster."""


class SecurityDisabledError(ServiceError, code=ErrorCode.SECURITY_DISABLED):
    """The cluster has no access rules."""


class InvalidTimestampError(ServiceError, code=ErrorCode.INVALID_TIMESTAMP):
    """A timestamp is out of the allowed range."""


class UnsupportedVersionError(ServiceError, code=ErrorCode.UNSUPPORTED_VERSION):
    """The service does not support this version of the request."""


class TopicAlreadyExistsError(ServiceError, code=ErrorCode.TOPIC_ALREADY_EXISTS):
    """A topic of this name exists."""


class InvalidPartitionsError(ServiceError, code=ErrorCode.INVALID_PARTITIONS):
    """The number of partitions is not allowed."""


class InvalidConfigError(ServiceError, code=ErrorCode.INVALID_CONFIG):
    """A configuration value is not allowed."""


class NotControllerError(ServiceError, code=ErrorCode.NOT_CONTROLLER):
    """The node is not the controller."""


class InvalidRequestError(ServiceError, code=ErrorCode.INVALID_REQUEST):
    """The request is malformed."""


class PolicyViolationError(ServiceError, code=ErrorCode.POLICY_VIOLATION):
    """The cluster is set up not to do this."""


class OutOfOrderSequenceNumberError(ServiceError, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
    """A batch of an idempotent producer is missing before this one."""


class DuplicateSequenceNumberError(ServiceError, code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
    """The batch was written before."""


class InvalidProducerEpochError(ServiceError, code=ErrorCode.INVALID_PRODUCER_EPOCH):
    """A newer producer took over this producer id."""


class InvalidTxnStateError(ServiceError, code=ErrorCode.INVALID_TXN_STATE):
    """The transaction is not in a state that allows this."""


class InvalidProducerIdMappingError(ServiceError, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING):
    """The producer id does not belong to this producer."""


class TransactionalIdAuthorizationFailedError(
    ServiceError, code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
):
    """The principal may not write under the transactional id, or none was sent."""


class KafkaStorageError(ServiceError, code=ErrorCode.KAFKA_STORAGE_ERROR):
    """The log of the partition cannot be read or written."""


class UnknownProducerIdError(ServiceError, code=ErrorCode.UNKNOWN_PRODUCER_ID):
    """The producer id is not known any more."""


class NonEmptyGroupError(ServiceError, code=ErrorCode.NON_EMPTY_GROUP):
    """The group has members."""


class GroupIdNotFoundError(ServiceError, code=ErrorCode.GROUP_ID_NOT_FOUND):
    """The group does not exist, or is not a share group."""


class FencedLeaderEpochError(ServiceError, code=ErrorCode.FENCED_LEADER_EPOCH):
    """The leader epoch is old."""


class UnknownLeaderEpochError(ServiceError, code=ErrorCode.UNKNOWN_LEADER_EPOCH):
    """The leader epoch is newer than the one of the node."""


class GroupMaxSizeReachedError(ServiceError, code=ErrorCode.GROUP_MAX_SIZE_REACHED):
    """The group is full."""


class InvalidRecordError(ServiceError, code=ErrorCode.INVALID_RECORD):
    """A record is not allowed in this topic."""


class ThrottlingQuotaExceededError(ServiceError, code=ErrorCode.THROTTLING_QUOTA_EXCEEDED):
    """A quota is exceeded; try later."""


class ResourceNotFoundError(ServiceError, code=ErrorCode.RESOURCE_NOT_FOUND):
    """What is to be removed is not there."""


class UnacceptableCredentialError(ServiceError, code=ErrorCode.UNACCEPTABLE_CREDENTIAL):
    """What is to be kept of a password would not protect it."""


class UnknownTopicIdError(ServiceError, code=ErrorCode.UNKNOWN_TOPIC_ID):
    """The topic id does not exist (any more)."""


class FencedMemberEpochError(ServiceError, code=ErrorCode.FENCED_MEMBER_EPOCH):
    """The member epoch is wrong; the member must join again."""


class InvalidRecordStateError(ServiceError, code=ErrorCode.INVALID_RECORD_STATE):
    """The record is not acquired by this member (any more)."""


class ShareSessionNotFoundError(ServiceError, code=ErrorCode.SHARE_SESSION_NOT_FOUND):
    """The leader does not know the share session."""


class InvalidShareSessionEpochError(ServiceError, code=ErrorCode.INVALID_SHARE_SESSION_EPOCH):
    """The share session epoch is wrong."""


class FencedStateEpochError(ServiceError, code=ErrorCode.FENCED_STATE_EPOCH):
    """The state epoch is old: the offsets were reset."""


class ShareSessionLimitReachedError(ServiceError, code=ErrorCode.SHARE_SESSION_LIMIT_REACHED):
    """The leader holds as many share sessions as it may."""


_BY_CODE = {int(kind.code): kind for kind in ServiceError.__subclasses__()}


def error_for(code: int, message: str = "", *, about: str = "") -> ServiceError:
    """Return the exception of an error code; an unknown code becomes UNKNOWN_SERVER_ERROR."""
    kind = _BY_CODE.get(code)
    if kind is None:
        return UnknownServerError(f"error code {code}: {message}", about=about)
    return kind(message, about=about)


def optional_error(code: int, message: str = "", *, about: str = "") -> ServiceError | None:
    """Return None for code 0, else the exception of the code."""
    return None if code == ErrorCode.NONE else error_for(code, message, about=about)
