"""The table of RPCs: name, messages, kind, deadline, and whether a call may be repeated."""

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from google.protobuf.message import Message

from sharemesh.v1 import (
    admin_pb2,
    group_coordinator_pb2,
    record_log_pb2,
    share_coordinator_pb2,
    share_leader_pb2,
)

_MIB = 1024 * 1024

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class StreamingKind(Enum):
    """How requests and responses alternate."""

    UNARY = "unary"
    STREAM = "stream"  # bidirectional


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Response]):
    """One RPC of package ``sharemesh.v1``; ``name`` is ``Service/Method``.

    ``deadline_ms`` is the default of a unary call. ``idempotent`` calls may be repeated after a
    transport failure without asking whether the first one took effect. A request of more than
    ``request_bytes_max`` bytes, or of more than ``request_parts_max`` messages inside it, is
    refused before it is parsed: parsed, a message of many small parts takes fifty times its size.
    Small calls of a method that ``is_carried`` may travel together on one stream (spec CAR-1).
    """

    name: str
    request: type[Request]
    response: type[Response]
    deadline_ms: int
    idempotent: bool
    kind: StreamingKind = StreamingKind.UNARY
    request_bytes_max: int = _MIB
    request_parts_max: int = 150_000
    is_carried: bool = False


def _unary(
    request: type[Request],
    response: type[Response],
    *,
    idempotent: bool,
    deadline_ms: int = 10_000,
    request_bytes_max: int = _MIB,
    request_parts_max: int = 150_000,
    is_carried: bool = False,
) -> Method[Request, Response]:
    """Return a unary RPC, named by its file's one service and by its request."""
    descriptor = request.DESCRIPTOR
    (service,) = descriptor.file.services_by_name
    return Method(
        f"{service}/{descriptor.name.removesuffix('Request')}",
        request,
        response,
        deadline_ms=deadline_ms,
        idempotent=idempotent,
        request_bytes_max=request_bytes_max,
        request_parts_max=request_parts_max,
        is_carried=is_carried,
    )


def _stream(
    name: str,
    request: type[Request],
    response: type[Response],
    *,
    idempotent: bool,
    request_bytes_max: int = _MIB,
) -> Method[Request, Response]:
    """Return a stream: it has no deadline, and its request may belong to a unary RPC as well."""
    return Method(
        name,
        request,
        response,
        deadline_ms=0,
        idempotent=idempotent,
        kind=StreamingKind.STREAM,
        request_bytes_max=request_bytes_max,
    )


_G = group_coordinator_pb2
_L = share_leader_pb2
_C = share_coordinator_pb2
_R = record_log_pb2
_A = admin_pb2

SHARE_GROUP_HEARTBEAT = _unary(
    _G.ShareGroupHeartbeatRequest, _G.ShareGroupHeartbeatResponse, idempotent=True
)
SHARE_GROUP_HEARTBEAT_STREAM = _stream(
    "GroupCoordinator/ShareGroupHeartbeatStream",
    _G.ShareGroupHeartbeatRequest,
    _G.ShareGroupHeartbeatResponse,
    idempotent=True,
)
SHARE_GROUP_DESCRIBE = _unary(
    _G.ShareGroupDescribeRequest, _G.ShareGroupDescribeResponse, idempotent=True
)
LIST_GROUPS = _unary(_G.ListGroupsRequest, _G.ListGroupsResponse, idempotent=True)
DELETE_GROUPS = _unary(
    _G.DeleteGroupsRequest, _G.DeleteGroupsResponse, idempotent=False, deadline_ms=30_000
)
DESCRIBE_SHARE_GROUP_OFFSETS = _unary(
    _G.DescribeShareGroupOffsetsRequest,
    _G.DescribeShareGroupOffsetsResponse,
    idempotent=True,
    request_bytes_max=4 * _MIB,
)
ALTER_SHARE_GROUP_OFFSETS = _unary(
    _G.AlterShareGroupOffsetsRequest,
    _G.AlterShareGroupOffsetsResponse,
    idempotent=False,
    deadline_ms=30_000,
    request_bytes_max=4 * _MIB,
)
DELETE_SHARE_GROUP_OFFSETS = _unary(
    _G.DeleteShareGroupOffsetsRequest,
    _G.DeleteShareGroupOffsetsResponse,
    idempotent=False,
    deadline_ms=30_000,
    request_bytes_max=4 * _MIB,
)
DESCRIBE_GROUP_CONFIGS = _unary(
    _G.DescribeGroupConfigsRequest, _G.DescribeGroupConfigsResponse, idempotent=True
)
ALTER_GROUP_CONFIGS = _unary(
    _G.AlterGroupConfigsRequest, _G.AlterGroupConfigsResponse, idempotent=True
)

SHARE_FETCH = _unary(
    _L.ShareFetchRequest,
    _L.ShareFetchResponse,
    idempotent=False,
    deadline_ms=40_000,
    request_bytes_max=2 * _MIB,
)
SHARE_ACKNOWLEDGE = _unary(
    _L.ShareAcknowledgeRequest,
    _L.ShareAcknowledgeResponse,
    idempotent=False,
    deadline_ms=30_000,
    request_bytes_max=2 * _MIB,
    is_carried=True,
)
CONSUME = _stream(
    "ShareLeader/Consume",
    _L.ConsumeRequest,
    _L.ConsumeResponse,
    idempotent=False,
    request_bytes_max=2 * _MIB,
)
HOLD_SESSION = _stream(
    "ShareLeader/HoldSession", _L.HoldSessionRequest, _L.HoldSessionResponse, idempotent=False
)
EXPLAIN = _unary(_L.ExplainRequest, _L.ExplainResponse, idempotent=True)

INITIALIZE_SHARE_GROUP_STATE = _unary(
    _C.InitializeShareGroupStateRequest,
    _C.InitializeShareGroupStateResponse,
    idempotent=True,
    request_bytes_max=2 * _MIB,
)
READ_SHARE_GROUP_STATE = _unary(
    _C.ReadShareGroupStateRequest, _C.ReadShareGroupStateResponse, idempotent=True
)
WRITE_SHARE_GROUP_STATE = _unary(
    _C.WriteShareGroupStateRequest,
    _C.WriteShareGroupStateResponse,
    idempotent=True,
    request_bytes_max=2 * _MIB,
    is_carried=True,
)
DELETE_SHARE_GROUP_STATE = _unary(
    _C.DeleteShareGroupStateRequest, _C.DeleteShareGroupStateResponse, idempotent=True
)
READ_SHARE_GROUP_STATE_SUMMARY = _unary(
    _C.ReadShareGroupStateSummaryRequest, _C.ReadShareGroupStateSummaryResponse, idempotent=True
)
READ_SHARE_RECORD_HISTORY = _unary(
    _C.ReadShareRecordHistoryRequest, _C.ReadShareRecordHistoryResponse, idempotent=True
)
COMMIT_GENERATION = _unary(
    _C.CommitGenerationRequest, _C.CommitGenerationResponse, idempotent=True, deadline_ms=30_000
)

PRODUCE = _unary(
    _R.ProduceRequest,
    _R.ProduceResponse,
    idempotent=False,
    deadline_ms=30_000,
    request_bytes_max=20 * _MIB,
    request_parts_max=300_000,  # decoded records and their headers
    is_carried=True,
)
INIT_PRODUCER_ID = _unary(_R.InitProducerIdRequest, _R.InitProducerIdResponse, idempotent=True)
FETCH = _unary(
    _R.FetchRequest,
    _R.FetchResponse,
    idempotent=True,
    deadline_ms=40_000,
    request_bytes_max=2 * _MIB,
)
LIST_OFFSETS = _unary(_R.ListOffsetsRequest, _R.ListOffsetsResponse, idempotent=True)
DELETE_RECORDS = _unary(
    _R.DeleteRecordsRequest, _R.DeleteRecordsResponse, idempotent=True, deadline_ms=30_000
)
WRITE_TXN_MARKERS = _unary(_R.WriteTxnMarkersRequest, _R.WriteTxnMarkersResponse, idempotent=False)
DESCRIBE_PRODUCERS = _unary(
    _R.DescribeProducersRequest, _R.DescribeProducersResponse, idempotent=True
)

API_VERSIONS = _unary(
    _A.ApiVersionsRequest, _A.ApiVersionsResponse, idempotent=True, deadline_ms=5_000
)
METADATA = _unary(_A.MetadataRequest, _A.MetadataResponse, idempotent=True, deadline_ms=5_000)
FIND_COORDINATOR = _unary(
    _A.FindCoordinatorRequest, _A.FindCoordinatorResponse, idempotent=True, deadline_ms=5_000
)
CREATE_TOPICS = _unary(
    _A.CreateTopicsRequest, _A.CreateTopicsResponse, idempotent=False, deadline_ms=15_000
)
DELETE_TOPICS = _unary(
    _A.DeleteTopicsRequest, _A.DeleteTopicsResponse, idempotent=False, deadline_ms=15_000
)
DESCRIBE_TOPICS = _unary(_A.DescribeTopicsRequest, _A.DescribeTopicsResponse, idempotent=True)
CREATE_PARTITIONS = _unary(
    _A.CreatePartitionsRequest, _A.CreatePartitionsResponse, idempotent=True, deadline_ms=15_000
)
ATTACH_TOPICS = _unary(
    _A.AttachTopicsRequest, _A.AttachTopicsResponse, idempotent=True, deadline_ms=15_000
)
DETACH_TOPICS = _unary(
    _A.DetachTopicsRequest, _A.DetachTopicsResponse, idempotent=False, deadline_ms=15_000
)
DESCRIBE_CONFIGS = _unary(_A.DescribeConfigsRequest, _A.DescribeConfigsResponse, idempotent=True)
ALTER_CONFIGS = _unary(_A.AlterConfigsRequest, _A.AlterConfigsResponse, idempotent=True)
DESCRIBE_CLUSTER = _unary(_A.DescribeClusterRequest, _A.DescribeClusterResponse, idempotent=True)
CREATE_ACLS = _unary(
    _A.CreateAclsRequest, _A.CreateAclsResponse, idempotent=True, deadline_ms=15_000
)
DELETE_ACLS = _unary(
    _A.DeleteAclsRequest, _A.DeleteAclsResponse, idempotent=True, deadline_ms=15_000
)
DESCRIBE_ACLS = _unary(_A.DescribeAclsRequest, _A.DescribeAclsResponse, idempotent=True)
ALTER_CLIENT_QUOTAS = _unary(
    _A.AlterClientQuotasRequest, _A.AlterClientQuotasResponse, idempotent=True, deadline_ms=15_000
)
DESCRIBE_CLIENT_QUOTAS = _unary(
    _A.DescribeClientQuotasRequest, _A.DescribeClientQuotasResponse, idempotent=True
)
ALTER_USER_SCRAM_CREDENTIALS = _unary(
    _A.AlterUserScramCredentialsRequest,
    _A.AlterUserScramCredentialsResponse,
    idempotent=True,
    deadline_ms=15_000,
)
DESCRIBE_USER_SCRAM_CREDENTIALS = _unary(
    _A.DescribeUserScramCredentialsRequest,
    _A.DescribeUserScramCredentialsResponse,
    idempotent=True,
)
ACCEPT_LOSS = _unary(
    _A.AcceptLossRequest, _A.AcceptLossResponse, idempotent=False, deadline_ms=15_000
)
DRAIN_NODE = _unary(_A.DrainNodeRequest, _A.DrainNodeResponse, idempotent=True)

METHODS: tuple[Method[Message, Message], ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Method)
)
"""Every method, in the order of this page."""

READS = frozenset(
    each.name
    for each in (
        SHARE_GROUP_DESCRIBE,
        LIST_GROUPS,
        DESCRIBE_SHARE_GROUP_OFFSETS,
        DESCRIBE_GROUP_CONFIGS,
        EXPLAIN,
        READ_SHARE_GROUP_STATE_SUMMARY,
        READ_SHARE_RECORD_HISTORY,
        FETCH,
        LIST_OFFSETS,
        DESCRIBE_PRODUCERS,
        API_VERSIONS,
        METADATA,
        FIND_COORDINATOR,
        DESCRIBE_TOPICS,
        DESCRIBE_CONFIGS,
        DESCRIBE_CLUSTER,
        DESCRIBE_ACLS,
        DESCRIBE_CLIENT_QUOTAS,
        DESCRIBE_USER_SCRAM_CREDENTIALS,
    )
)
"""Methods by which nothing changes, whether they are answered or not."""
