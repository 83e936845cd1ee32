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
    """

    name: str
    request: type[Request]
    response: type[Response]
    deadline_ms: int
    idempotent: bool
    kind: StreamingKind = StreamingKind.UNARY
    request_bytes_max: int = _MIB
    request_parts_max: int = 150_000


_G = group_coordinator_pb2
_L = share_leader_pb2
_C = share_coordinator_pb2
_R = record_log_pb2
_A = admin_pb2

SHARE_GROUP_HEARTBEAT = Method(
    "GroupCoordinator/ShareGroupHeartbeat",
    _G.ShareGroupHeartbeatRequest,
    _G.ShareGroupHeartbeatResponse,
    deadline_ms=10_000,
    idempotent=True,
)
SHARE_GROUP_HEARTBEAT_STREAM = Method(
    "GroupCoordinator/ShareGroupHeartbeatStream",
    _G.ShareGroupHeartbeatRequest,
    _G.ShareGroupHeartbeatResponse,
    deadline_ms=0,
    idempotent=True,
    kind=StreamingKind.STREAM,
)
SHARE_GROUP_DESCRIBE = Method(
    "GroupCoordinator/ShareGroupDescribe",
    _G.ShareGroupDescribeRequest,
    _G.ShareGroupDescribeResponse,
    deadline_ms=10_000,
    idempotent=True,
)
LIST_GROUPS = Method(
    "GroupCoordinator/ListGroups",
    _G.ListGroupsRequest,
    _G.ListGroupsResponse,
    deadline_ms=10_000,
    idempotent=True,
)
DELETE_GROUPS = Method(
    "GroupCoordinator/DeleteGroups",
    _G.DeleteGroupsRequest,
    _G.DeleteGroupsResponse,
    deadline_ms=30_000,
    idempotent=False,
)
DESCRIBE_SHARE_GROUP_OFFSETS = Method(
    "GroupCoordinator/DescribeShareGroupOffsets",
    _G.DescribeShareGroupOffsetsRequest,
    _G.DescribeShareGroupOffsetsResponse,
    deadline_ms=10_000,
    idempotent=True,
    request_bytes_max=4 * _MIB,
)
ALTER_SHARE_GROUP_OFFSETS = Method(
    "GroupCoordinator/AlterShareGroupOffsets",
    _G.AlterShareGroupOffsetsRequest,
    _G.AlterShareGroupOffsetsResponse,
    deadline_ms=30_000,
    idempotent=False,
    request_bytes_max=4 * _MIB,
)
DELETE_SHARE_GROUP_OFFSETS = Method(
    "GroupCoordinator/DeleteShareGroupOffsets",
    _G.DeleteShareGroupOffsetsRequest,
    _G.DeleteShareGroupOffsetsResponse,
    deadline_ms=30_000,
    idempotent=False,
    request_bytes_max=4 * _MIB,
)
DESCRIBE_GROUP_CONFIGS = Method(
    "GroupCoordinator/DescribeGroupConfigs",
    _G.DescribeGroupConfigsRequest,
    _G.DescribeGroupConfigsResponse,
    deadline_ms=10_000,
    idempotent=True,
)
ALTER_GROUP_CONFIGS = Method(
    "GroupCoordinator/AlterGroupConfigs",
    _G.AlterGroupConfigsRequest,
    _G.AlterGroupConfigsResponse,
    deadline_ms=10_000,
    idempotent=True,
)

SHARE_FETCH = Method(
    "ShareLeader/ShareFetch",
    _L.ShareFetchRequest,
    _L.ShareFetchResponse,
    deadline_ms=40_000,
    idempotent=False,
    request_bytes_max=2 * _MIB,
)
SHARE_ACKNOWLEDGE = Method(
    "ShareLeader/ShareAcknowledge",
    _L.ShareAcknowledgeRequest,
    _L.ShareAcknowledgeResponse,
    deadline_ms=30_000,
    idempotent=False,
    request_bytes_max=2 * _MIB,
)
CONSUME = Method(
    "ShareLeader/Consume",
    _L.ConsumeRequest,
    _L.ConsumeResponse,
    deadline_ms=0,
    idempotent=False,
    kind=StreamingKind.STREAM,
    request_bytes_max=2 * _MIB,
)
HOLD_SESSION = Method(
    "ShareLeader/HoldSession",
    _L.HoldSessionRequest,
    _L.HoldSessionResponse,
    deadline_ms=0,
    idempotent=False,
    kind=StreamingKind.STREAM,
)
EXPLAIN = Method(
    "ShareLeader/Explain",
    _L.ExplainRequest,
    _L.ExplainResponse,
    deadline_ms=10_000,
    idempotent=True,
)

INITIALIZE_SHARE_GROUP_STATE = Method(
    "ShareCoordinator/InitializeShareGroupState",
    _C.InitializeShareGroupStateRequest,
    _C.InitializeShareGroupStateResponse,
    deadline_ms=10_000,
    idempotent=True,
    request_bytes_max=2 * _MIB,
)
READ_SHARE_GROUP_STATE = Method(
    "ShareCoordinator/ReadShareGroupState",
    _C.ReadShareGroupStateRequest,
    _C.ReadShareGroupStateResponse,
    deadline_ms=10_000,
    idempotent=True,
)
WRITE_SHARE_GROUP_STATE = Method(
    "ShareCoordinator/WriteShareGroupState",
    _C.WriteShareGroupStateRequest,
    _C.WriteShareGroupStateResponse,
    deadline_ms=10_000,
    idempotent=True,
    request_bytes_max=2 * _MIB,
)
DELETE_SHARE_GROUP_STATE = Method(
    "ShareCoordinator/DeleteShareGroupState",
    _C.DeleteShareGroupStateRequest,
    _C.DeleteShareGroupStateResponse,
    deadline_ms=10_000,
    idempotent=True,
)
READ_SHARE_GROUP_STATE_SUMMARY = Method(
    "ShareCoordinator/ReadShareGroupStateSummary",
    _C.ReadShareGroupStateSummaryRequest,
    _C.ReadShareGroupStateSummaryResponse,
    deadline_ms=10_000,
    idempotent=True,
)
READ_SHARE_RECORD_HISTORY = Method(
    "ShareCoordinator/ReadShareRecordHistory",
    _C.ReadShareRecordHistoryRequest,
    _C.ReadShareRecordHistoryResponse,
    deadline_ms=10_000,
    idempotent=True,
)
COMMIT_GENERATION = Method(
    "ShareCoordinator/CommitGeneration",
    _C.CommitGenerationRequest,
    _C.CommitGenerationResponse,
    deadline_ms=30_000,
    idempotent=True,
)

PRODUCE = Method(
    "RecordLog/Produce",
    _R.ProduceRequest,
    _R.ProduceResponse,
    deadline_ms=30_000,
    idempotent=False,
    request_bytes_max=20 * _MIB,
    request_parts_max=300_000,  # decoded records and their headers
)
INIT_PRODUCER_ID = Method(
    "RecordLog/InitProducerId",
    _R.InitProducerIdRequest,
    _R.InitProducerIdResponse,
    deadline_ms=10_000,
    idempotent=True,
)
LIST_OFFSETS = Method(
    "RecordLog/ListOffsets",
    _R.ListOffsetsRequest,
    _R.ListOffsetsResponse,
    deadline_ms=10_000,
    idempotent=True,
)
DELETE_RECORDS = Method(
    "RecordLog/DeleteRecords",
    _R.DeleteRecordsRequest,
    _R.DeleteRecordsResponse,
    deadline_ms=30_000,
    idempotent=True,
)
WRITE_TXN_MARKERS = Method(
    "RecordLog/WriteTxnMarkers",
    _R.WriteTxnMarkersRequest,
    _R.WriteTxnMarkersResponse,
    deadline_ms=10_000,
    idempotent=False,
)

API_VERSIONS = Method(
    "Admin/ApiVersions",
    _A.ApiVersionsRequest,
    _A.ApiVersionsResponse,
    deadline_ms=5_000,
    idempotent=True,
)
METADATA = Method(
    "Admin/Metadata", _A.MetadataRequest, _A.MetadataResponse, deadline_ms=5_000, idempotent=True
)
FIND_COORDINATOR = Method(
    "Admin/FindCoordinator",
    _A.FindCoordinatorRequest,
    _A.FindCoordinatorResponse,
    deadline_ms=5_000,
    idempotent=True,
)
CREATE_TOPICS = Method(
    "Admin/CreateTopics",
    _A.CreateTopicsRequest,
    _A.CreateTopicsResponse,
    deadline_ms=15_000,
    idempotent=False,
)
DELETE_TOPICS = Method(
    "Admin/DeleteTopics",
    _A.DeleteTopicsRequest,
    _A.DeleteTopicsResponse,
    deadline_ms=15_000,
    idempotent=False,
)
DESCRIBE_TOPICS = Method(
    "Admin/DescribeTopics",
    _A.DescribeTopicsRequest,
    _A.DescribeTopicsResponse,
    deadline_ms=10_000,
    idempotent=True,
)
CREATE_PARTITIONS = Method(
    "Admin/CreatePartitions",
    _A.CreatePartitionsRequest,
    _A.CreatePartitionsResponse,
    deadline_ms=15_000,
    idempotent=True,
)
DESCRIBE_CONFIGS = Method(
    "Admin/DescribeConfigs",
    _A.DescribeConfigsRequest,
    _A.DescribeConfigsResponse,
    deadline_ms=10_000,
    idempotent=True,
)
ALTER_CONFIGS = Method(
    "Admin/AlterConfigs",
    _A.AlterConfigsRequest,
    _A.AlterConfigsResponse,
    deadline_ms=10_000,
    idempotent=True,
)
DESCRIBE_CLUSTER = Method(
    "Admin/DescribeCluster",
    _A.DescribeClusterRequest,
    _A.DescribeClusterResponse,
    deadline_ms=10_000,
    idempotent=True,
)
CREATE_ACLS = Method(
    "Admin/CreateAcls",
    _A.CreateAclsRequest,
    _A.CreateAclsResponse,
    deadline_ms=15_000,
    idempotent=True,
)
DELETE_ACLS = Method(
    "Admin/DeleteAcls",
    _A.DeleteAclsRequest,
    _A.DeleteAclsResponse,
    deadline_ms=15_000,
    idempotent=True,
)
DESCRIBE_ACLS = Method(
    "Admin/DescribeAcls",
    _A.DescribeAclsRequest,
    _A.DescribeAclsResponse,
    deadline_ms=10_000,
    idempotent=True,
)
DRAIN_NODE = Method(
    "Admin/DrainNode",
    _A.DrainNodeRequest,
    _A.DrainNodeResponse,
    deadline_ms=10_000,
    idempotent=True,
)

METHODS: tuple[Method[Message, Message], ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Method)
)
"""Every method, in the order of this page."""
