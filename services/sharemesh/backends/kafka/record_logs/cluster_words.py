"""What a cluster's refusals are called, and what a client hears of them."""

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.brokers import (
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    UnsupportedRequestError,
)

ClusterError = BrokerRefusedError | BrokerUnreachableError | UnsupportedRequestError
CLUSTER_ERRORS = (BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError)

OFFSET_OUT_OF_RANGE = 1
NETWORK_EXCEPTION = 13  # how a watch says that no answer came
TOPIC_AUTHORIZATION_FAILED = 29
POLICY_VIOLATION = 44

OF_THE_BATCH = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_RECORD,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Refusals that concern what the producer sent: it gets them as Kafka gave them."""


def name_of(where: BrokerPartition) -> str:
    """Return a partition as Kafka's tools name it."""
    return f"{where.topic}-{where.partition}"


def error_name(code: int) -> str:
    """Return the name of a code, or its number where only Kafka knows it."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def storage_error(what: str, where: BrokerPartition, error: Exception) -> RefusedError:
    """Return what a client hears when the cluster does not do something."""
    advice = ""
    if isinstance(error, BrokerRefusedError) and error.code == TOPIC_AUTHORIZATION_FAILED:
        advice = "; give the principal of Sharemesh the right to do this on the topic"
    return RefusedError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"{what} {name_of(where)} failed in the Kafka cluster: {error}{advice}",
    )


def produce_refusal(where: BrokerPartition, error: ClusterError) -> RefusedError:
    """Return what a producer hears of a batch that Kafka did not confirm (KRL-13)."""
    is_unknown = isinstance(error, BrokerUnreachableError)
    if isinstance(error, BrokerRefusedError):
        is_unknown = error.may_be_done
        code = next((known for known in OF_THE_BATCH if known == error.code), None)
        if code is not None:
            return RefusedError(code, f"{name_of(where)}: {error}")
    if is_unknown:
        return RefusedError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"Kafka did not confirm a batch for {name_of(where)} ({error}); it may be written: an "
            "idempotent producer can safely send it again",
        )
    return storage_error("writing to", where, error)
