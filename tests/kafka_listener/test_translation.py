"""What translators say that no test through the door shows."""

import struct
import uuid

import pytest
from kio.index import load_response_schema

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId, TopicPartition
from sharemesh.kafka.messages import entity_of, error_code
from sharemesh.kafka.served_messages import response_frame
from sharemesh.kafka_listener import api_versions
from sharemesh.kafka_listener.api_versions import Greeting, judged, read_greeting
from sharemesh.kafka_listener.nodes import KafkaNodes
from sharemesh.kafka_listener.plain_requests import PLAIN_REQUESTS
from sharemesh.kafka_listener.served_requests import ServedRequest, offered
from sharemesh.kafka_listener.translation import (
    coordinators,
    metadata,
    produce,
    share_fetch,
    share_group,
)
from sharemesh.kafka_listener.translation.seen_request import SeenRequest
from sharemesh.ports.cluster import KafkaEndpoint, NodeInfo
from sharemesh.v1 import group_coordinator_pb2, record_log_pb2
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import CurrentLeader, Node
from tests.kafka_listener.world import read_answer

TOPIC = uuid.UUID(int=5)
GIVEN = TopicPartition(TopicId(TOPIC.bytes), 1)
NODES = KafkaNodes(
    [
        NodeInfo("here", "h", 1, (), kafka=KafkaEndpoint(3, "kafka-host", 9092), rack="r"),
        NodeInfo("there", "h", 1, (), kafka=KafkaEndpoint(2, "other", 9093)),
        NodeInfo("grpc-only", "h", 1, ()),
    ]
)


def everything():
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
    frame = b"".join(share_fetch.to_frame(77, everything(), {GIVEN: records}, NODES))
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
    frame = b"".join(share_fetch.to_frame(77, everything(), {GIVEN: b"records"}, NODES))
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
    frame = b"".join(share_fetch.to_frame(1, share_fetch.refused(122, "no session"), {}, NODES))
    told = read_answer(78, 2, frame[4:], 1)
    assert (told.error_code, told.error_message) == (error_code(122), "no session")
    assert not told.responses


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_a_heartbeat_that_may_be_repeated_ends_no_member(code, told):
    """KLS-16: members of Kafka end for good at these codes of a heartbeat."""
    refused = group_coordinator_pb2.ShareGroupHeartbeatResponse(error_code=code)
    assert share_group.to_answer(refused)["error_code"] == error_code(told)


@pytest.mark.parametrize(("code", "told"), [(7, 5), (89, 5), (29, 29)])
def test_topics_that_were_not_told_in_time_are_asked_for_again(code, told):
    """KLS-16: at other codes Java asks after five minutes, and librdkafka gives the topic up."""
    topics = [{"name": name, "topic_id": TOPIC} for name in "ab"]
    asked = type("Asked", (), {"topics": [type("Topic", (), each) for each in topics]})
    answer = metadata.refused(asked, code, NODES)
    assert [each["error_code"] for each in answer["topics"]] == [error_code(told)] * 2
    assert [each["name"] for each in answer["topics"]] == ["a", "b"]
    assert answer["error_code"] == error_code(code)
    assert [each["node_id"] for each in answer["brokers"]] == [2, 3], "franz-go keeps no others"


@pytest.mark.parametrize(("code", "told"), [(7, 15), (89, 14), (42, 42)])
def test_a_coordinator_that_was_not_found_in_time_is_asked_for_again(code, told):
    """KLS-16: Kafka's Admin raises at other codes of FindCoordinator."""
    asked = type("Asked", (), {"coordinator_keys": ["g"]})
    answer = coordinators.refused(6, asked, code, "why")
    [found] = answer["coordinators"]
    assert (found["error_code"], found["error_message"]) == (error_code(told), "why")


GROUP_NAMED = {"group_ids": ["g"], "groups_names": ["g"], "group_id": "g"}
GROUP_REFUSED = {"group_id": "g", "error_message": "why"}
TO_COORDINATORS = [
    (
        ServedRequest.SHARE_GROUP_DESCRIBE,
        lambda code: group_coordinator_pb2.ShareGroupDescribeResponse(
            groups=[{**GROUP_REFUSED, "error_code": code}]
        ),
    ),
    (
        ServedRequest.DELETE_GROUPS,
        lambda code: group_coordinator_pb2.DeleteGroupsResponse(
            results=[{**GROUP_REFUSED, "error_code": code}]
        ),
    ),
    (
        ServedRequest.DESCRIBE_SHARE_GROUP_OFFSETS,
        lambda code: group_coordinator_pb2.DescribeShareGroupOffsetsResponse(
            groups=[{**GROUP_REFUSED, "error_code": code}]
        ),
    ),
    (
        ServedRequest.ALTER_SHARE_GROUP_OFFSETS,
        lambda code: group_coordinator_pb2.AlterShareGroupOffsetsResponse(
            error_code=code, error_message="why"
        ),
    ),
    (
        ServedRequest.DELETE_SHARE_GROUP_OFFSETS,
        lambda code: group_coordinator_pb2.DeleteShareGroupOffsetsResponse(
            error_code=code, error_message="why"
        ),
    ),
]


@pytest.mark.parametrize(("code", "told"), [(7, 15), (56, 14), (89, 14), (69, 69)])
@pytest.mark.parametrize(("request_", "response"), TO_COORDINATORS)
def test_what_is_asked_of_a_coordinator_again_does_not_fail(request_, response, code, told):
    """KLS-16: Kafka's Admin asks again at codes of coordinators only; at others it raises."""
    plain = PLAIN_REQUESTS[request_]
    message = type("Asked", (), {**GROUP_NAMED, "groups": [type("Group", (), {"group_id": "g"})]})
    seen = SeenRequest(1, message, NODES, lambda _: None)
    for answer in plain.to_answer(seen, response(code)), plain.refused(seen, code, "why"):
        [found] = answer.get("groups") or answer.get("results") or [answer]
        assert (found["error_code"], found["error_message"]) == (error_code(told), "why")


def test_records_that_a_quota_refuses_are_sent_again():
    """KLS-11: librdkafka gives a message up at 89."""
    topic = type("Topic", (), {"partition_data": [type("Part", (), {"index": 0})]})
    asked = type("Asked", (), {"topic_data": [topic]})
    throttled = record_log_pb2.ProducePartitionResult(error_code=89, error_message="quota")
    response = record_log_pb2.ProduceResponse(partitions=[throttled])
    answers = produce.to_answer(13, asked, response, NODES), produce.refused(asked, 89, "quota")
    for answer in answers:
        [told] = answer["responses"][0]["partition_responses"]
        assert told["error_code"] == error_code(ErrorCode.KAFKA_STORAGE_ERROR)
        assert told["error_message"] == "quota"


@pytest.mark.parametrize(
    ("code", "told"), [(6, 6), (100, 100), (-1, -1), (1, 56), (7, 56), (15, 56), (69, 56)]
)
def test_a_partition_that_was_not_read_has_a_code_that_consumers_expect(code, told):
    """KLS-16: the poll of Kafka's consumers raises at others."""
    part = pb.ShareFetchPartition(partition=2, error_code=code, error_message="why")
    topic = pb.ShareFetchTopic(topic_id=TOPIC.bytes, partitions=[part])
    response = pb.ShareFetchResponse(responses=[topic])
    frame = b"".join(share_fetch.to_frame(1, response, {}, NODES))
    [found] = read_answer(78, 2, frame[4:], 1).responses[0].partitions
    assert (int(found.error_code), found.error_message) == (told, "why")


@pytest.mark.parametrize(
    ("greeting", "error"),
    [
        (Greeting(None, -1), 0),
        (Greeting("c", 3), 0),
        (Greeting(None, 3), 0),
        (Greeting("c", 4), 129),
        (Greeting("d", 3), 129),
        (Greeting("c", -1), 42),
        (Greeting("d", -1), 42),
        (Greeting(None, -1, is_named_well=False), 42),
        (Greeting("d", 4, is_named_well=False), 42),
    ],
)
def test_whom_a_client_means_to_reach_is_judged_as_kafka_does(greeting, error):
    """KLS-9: as measured at Apache Kafka 4.4."""
    assert judged(greeting, "c", 3) == error


def compact(text):
    return bytes([len(text) + 1]) + text


def test_version_five_says_whom_it_means():
    """KLS-9."""
    body = compact(b"x") + compact(b"1") + compact(b"c") + struct.pack(">i", 3) + b"\0"
    assert read_greeting(5, memoryview(body)) == Greeting("c", 3)
    nobody = compact(b"x") + compact(b"1") + b"\0" + struct.pack(">i", -1) + b"\0"
    assert read_greeting(5, memoryview(nobody)) == Greeting(None, -1)
    assert read_greeting(4, memoryview(body)) == Greeting(None, -1)
    assert read_greeting(2, memoryview(b"")) == Greeting(None, -1)
    with pytest.raises(api_versions.MalformedMessageError):
        read_greeting(3, memoryview(b"\0\0\0"))


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (b"apache-kafka-java", True),
        (b"4.4.0", True),
        (b"a--b..c", True),
        (b"x" * 100, True),
        *(
            (each, False)
            for each in (b"", b"-a", b"a.", b"a b", b"a_b", b"4 (x)", b"a\n", b"\xc3\xbc")
        ),
    ],
)
def test_a_clients_software_has_a_name_that_kafka_takes(text, is_one):
    """KLS-9: as measured at Apache Kafka 4.4."""
    for first, second in ((text, b"1"), (b"x", text)):
        for version in (3, 4, 5):
            body = compact(first) + compact(second) + b"\0" + struct.pack(">i", -1) + b"\0"
            assert read_greeting(version, memoryview(body)).is_named_well is is_one


@pytest.mark.parametrize("length", range(9))
def test_a_version_five_that_is_cut_off_is_refused(length):
    body = compact(b"x") + compact(b"1") + compact(b"c") + struct.pack(">i", 3)
    with pytest.raises(api_versions.MalformedMessageError):
        read_greeting(5, memoryview(body[:length]))


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
        (each.key, each.shape(version))
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
