"""docs/reference/error-codes.md: every error code, its meaning, and what to do."""

from deploy.pages import REFERENCE
from sharemesh.client.errors import error_for
from sharemesh.domain.errors import ErrorCode, policy_of

PAGE = REFERENCE / "error-codes.md"

HEAD = """# Error codes

This page is made from `ErrorCode` and the errors of the Python client: `make docs` writes it, and a
test fails when it does not fit.

The numbers and names are Kafka's. They stand in `error_code` of a response, per partition where
Kafka has them so, with a sentence in `error_message` that names the value and what to do; 0, or no
number, is success. gRPC status is for transport, overload (RESOURCE_EXHAUSTED), authentication and
deadlines. [Requests and errors](../spec/wire.md#error-codes) says which rule gives which error.

*Retriable* means that the same request may succeed later without a change. The Python client
repeats most of these by itself; an exception that it raises has the attribute `retriable`.

"""
ADVICE = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "see the log of the process that answered; report it",
    ErrorCode.OFFSET_OUT_OF_RANGE: "ask for the start and end offsets again",
    ErrorCode.CORRUPT_MESSAGE: "produce: encode the batch again; fetch: see "
    "[damaged records](../guides/operations.md#damaged-records)",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "create the topic; else refresh the metadata",
    ErrorCode.LEADER_NOT_AVAILABLE: "retry; `sharemesh cluster` says what has no leader, and why",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "refresh the metadata, then ask the new leader",
    ErrorCode.REQUEST_TIMED_OUT: "check whether it took effect, then retry",
    ErrorCode.MESSAGE_TOO_LARGE: "send smaller batches, or raise `max.message.bytes` of the topic",
    ErrorCode.NETWORK_EXCEPTION: "connect again; it is not known whether the request took effect",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "retry",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "retry; find the coordinator again",
    ErrorCode.NOT_COORDINATOR: "find the coordinator again",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "choose another name",
    ErrorCode.RECORD_LIST_TOO_LARGE: "send fewer records in one request",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "use another group id",
    ErrorCode.INVALID_GROUP_ID: "choose another group id",
    ErrorCode.UNKNOWN_MEMBER_ID: "join again with member epoch 0",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "ask for the right: "
    "[access rules](../guides/security.md#access-rules)",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "ask for the right: "
    "[access rules](../guides/security.md#access-rules)",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ask for the right: "
    "[access rules](../guides/security.md#access-rules)",
    ErrorCode.INVALID_TIMESTAMP: "correct the timestamp of the record",
    ErrorCode.UNSUPPORTED_VERSION: "upgrade the process that answered",
    ErrorCode.TOPIC_ALREADY_EXISTS: "use the topic, or choose another name",
    ErrorCode.INVALID_PARTITIONS: "the number can only grow, up to 10,000",
    ErrorCode.INVALID_CONFIG: "correct the value; `sharemesh configs explain NAME` has the bounds",
    ErrorCode.POLICY_VIOLATION: "do it in the Kafka cluster, or set `kafka_manage_topics`",
    ErrorCode.NOT_CONTROLLER: "retry: another process is being elected",
    ErrorCode.INVALID_REQUEST: "correct the request as the message says",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "send the batch that is missing first",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "nothing: the records are in the log",
    ErrorCode.INVALID_PRODUCER_EPOCH: "make a new producer; another one has this id",
    ErrorCode.INVALID_TXN_STATE: "end transactions that are open, then begin again",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "make a new producer",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "send a transactional id, and ask for WRITE "
    "on it: [access rules](../guides/security.md#access-rules)",
    ErrorCode.SECURITY_DISABLED: 'set `authorizer = "acl"` on every process',
    ErrorCode.KAFKA_STORAGE_ERROR: "the message has the reason: "
    "[full disk](../guides/operations.md#what-fills-the-disk-and-how-space-comes-back), "
    "[damaged records](../guides/operations.md#damaged-records)",
    ErrorCode.UNKNOWN_PRODUCER_ID: "make a new producer",
    ErrorCode.NON_EMPTY_GROUP: "stop the members of the group first",
    ErrorCode.GROUP_ID_NOT_FOUND: "check the name: `sharemesh groups list`",
    ErrorCode.FENCED_LEADER_EPOCH: "refresh the metadata, then use the new leader epoch",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "retry: the process has yet to see the new epoch",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "stop members, or raise `group.share.max.size`",
    ErrorCode.INVALID_RECORD: "correct the record",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "send less",
    ErrorCode.RESOURCE_NOT_FOUND: "check the name: `sharemesh users list`",
    ErrorCode.UNACCEPTABLE_CREDENTIAL: "use 4,096 to 16,384 iterations and a longer salt",
    ErrorCode.UNKNOWN_TOPIC_ID: "refresh the metadata: the topic was deleted, or made again",
    ErrorCode.FENCED_MEMBER_EPOCH: "give up the assignment, and join again with member epoch 0",
    ErrorCode.INVALID_RECORD_STATE: "nothing: the lock has ended, and the record is with others; "
    "[consuming](../guides/consuming.md#records-that-take-long) says how to keep locks",
    ErrorCode.SHARE_SESSION_NOT_FOUND: "open a share session with epoch 0",
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: "open a share session with epoch 0",
    ErrorCode.FENCED_STATE_EPOCH: "read the state again: the offsets were set",
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: "retry; raise `group.share.max.share.sessions`",
}
"""What to do about each code."""


def page() -> str:
    """Return the whole page."""
    rows = ["| number | name | retriable | what it means | what to do | Python |", "|" + "---|" * 6]
    for code in sorted(ErrorCode):
        if code is not ErrorCode.NONE:
            rows.append(_row(code))
    return HEAD + "\n".join(rows) + "\n"


def _row(code: ErrorCode) -> str:
    kind = type(error_for(code))
    assert kind.__doc__ is not None
    means = kind.__doc__.partition("\n")[0].removesuffix(".")
    cells = (
        str(code.value),
        code.name,
        "yes" if policy_of(code).retriable else "no",
        means[0].lower() + means[1:],
        ADVICE[code],
        f"`{kind.__name__}`",
    )
    return f"| {' | '.join(cells)} |"
