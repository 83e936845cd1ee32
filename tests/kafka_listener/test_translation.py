"""What translators say that no test through the door shows."""

import struct
import uuid

import pytest
from kio.index import load_response_schema

from sharemesh.kafka.messages import entity_of, error_code
from sharemesh.kafka.served_messages import response_frame
from sharemesh.kafka_listener import api_versions
from sharemesh.kafka_listener.api_versions import Target, judged, read_target
from sharemesh.kafka_listener.nodes import KafkaNodes
from sharemesh.kafka_listener.served_requests import ServedRequest, offered
from sharemesh.kafka_listener.translation import share_fetch
from sharemesh.ports.cluster import KafkaEndpoint, NodeInfo
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import CurrentLeader, Node
from tests.kafka_listener.world import read_answer

TOPIC = uuid.UUID(int=5)
NODES = KafkaNodes(
    [
        NodeInfo("here", "h", 1, (), kafka=KafkaEndpoint(3, "kafka-host", 9092), rack="r"),
        NodeInfo("there", "h", 1, (), kafka=KafkaEndpoint(2, "other", 9093)),
        NodeInfo("grpc-only", "h", 1, ()),
    ]
)


def everything(records=b""):
    """Return an answer in which every field says something."""
    moved = pb.ShareFetchPartition(
        partition=2,
        error_code=6,
        error_message="gone",
        current_leader=CurrentLeader(leader_id="here", leader_epoch=9),
    )
    unknown = pb.ShareFetchPartition(
        partition=3, error_code=6, current_leader=CurrentLeader(leader_id="grpc-only")
    )
    given = pb.ShareFetchPartition(
        partition=1,
        records=records,
        acknowledge_error_code=121,
        acknowledge_error_message="not yours",
        acquired_records=[
            pb.AcquiredRecords(first_offset=2**40, last_offset=2**40 + 1, delivery_count=70_000),
            pb.AcquiredRecords(first_offset=2**40 + 2, last_offset=2**40 + 2, delivery_count=1),
        ],
    )
    return pb.ShareFetchResponse(
        throttle_time_ms=250,
        acquisition_lock_timeout_ms=30_000,
        responses=[pb.ShareFetchTopic(topic_id=TOPIC.bytes, partitions=[given, moved, unknown])],
        node_endpoints=[Node(node_id="here"), Node(node_id="there"), Node(node_id="grpc-only")],
    )


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 20_000, 3_000_000])
def test_an_answer_with_records_reads_as_kafkas_own(version, size):
    """KLS-14."""
    records = bytes(size)
    frame = b"".join(share_fetch.to_frame(77, everything(records), NODES))
    assert struct.unpack(">i", frame[:4]) == (len(frame) - 4,)
    told = read_answer(78, version, frame[4:], 77)
    given, moved, unknown = told.responses[0].partitions
    assert told.responses[0].topic_id == TOPIC
    assert bytes(given.records) == records
    assert given.acknowledge_error_code == 121
    assert [each.delivery_count for each in given.acquired_records] == [32_767, 1]
    assert given.acquired_records[1].first_offset == 2**40 + 2
    assert [
        (e.current_leader.leader_id, e.current_leader.leader_epoch) for e in (given, moved)
    ] == [
        (0, 0),
        (3, 9),
    ]
    assert unknown.current_leader.leader_id == -1
    assert moved.error_code == error_code(6)
    assert [(each.node_id, each.host, each.rack) for each in told.node_endpoints] == [
        (3, "kafka-host", "r"),
        (2, "other", None),
    ]


def test_the_packed_answer_is_that_of_the_library_byte_by_byte():
    """KLS-14: the one answer that is packed by hand."""
    frame = b"".join(share_fetch.to_frame(77, everything(b"records"), NODES))
    whole = read_answer(78, 2, frame[4:], 77)
    cls = load_response_schema(78, 2)
    content = {name: getattr(whole, name) for name in cls.__dataclass_fields__}
    assert response_frame(78, 2, 77, {k: _plain(v) for k, v in content.items()}) == frame


def _plain(value):
    """Return an entity as the mapping that it was made of."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def test_a_refused_fetch_has_no_responses():
    frame = b"".join(share_fetch.to_frame(1, share_fetch.refused(122, "no session"), NODES))
    told = read_answer(78, 2, frame[4:], 1)
    assert (told.error_code, told.error_message) == (error_code(122), "no session")
    assert not told.responses


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (Target(None, -1), 0),
        (Target("c", 3), 0),
        (Target(None, 3), 0),
        (Target("c", 4), 129),
        (Target("d", 3), 129),
        (Target("c", -1), 42),
        (Target("d", -1), 42),
    ],
)
def test_whom_a_client_means_to_reach_is_judged_as_kafka_does(target, error):
    """KLS-9: as measured at Apache Kafka 4.4."""
    assert judged(target, "c", 3) == error


def compact(text):
    return bytes([len(text) + 1]) + text


def test_version_five_says_whom_it_means():
    """KLS-9."""
    body = compact(b"x") + compact(b"1") + compact(b"c") + struct.pack(">i", 3) + b"\0"
    assert read_target(5, memoryview(body)) == Target("c", 3)
    nobody = compact(b"x") + compact(b"1") + b"\0" + struct.pack(">i", -1) + b"\0"
    assert read_target(5, memoryview(nobody)) == Target(None, -1)
    assert read_target(4, memoryview(b"")) == Target(None, -1)


@pytest.mark.parametrize("length", range(9))
def test_a_version_five_that_is_cut_off_is_refused(length):
    body = compact(b"x") + compact(b"1") + compact(b"c") + struct.pack(">i", 3)
    with pytest.raises(api_versions.MalformedMessageError):
        read_target(5, memoryview(body[:length]))


@pytest.mark.parametrize("version", range(5))
def test_api_versions_tells_what_is_answered(version):
    """KLS-9."""
    told = read_answer(18, version, api_versions.answer(version, 4)[4:], 4)
    assert told.error_code == error_code(0)
    assert {(e.api_key, e.min_version, e.max_version) for e in told.api_keys} == set(offered())
    if version >= 3:
        levels = {each.name: each.max_version_level for each in told.finalized_features}
        assert levels["share.version"] == 2


def test_every_kind_that_is_told_can_be_read_and_written_in_every_version():
    from sharemesh.kafka.served_messages import load_served

    load_served(
        (each.key, version)
        for each in ServedRequest
        if each is not ServedRequest.API_VERSIONS
        for version in range(each.lowest, each.highest + 1)
    )


def test_an_entity_within_an_entity_may_be_a_mapping():
    leader = entity_of(
        load_response_schema(0, 13),
        {"responses": [], "throttle_time": api_versions.milliseconds(0)},
    )
    assert leader.responses == ()
