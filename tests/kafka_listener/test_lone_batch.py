"""The short way of a Produce request for one partition is the general way."""

import struct
import uuid

from hypothesis import given
from hypothesis import strategies as st

from sharemesh.kafka.messages import milliseconds
from sharemesh.kafka.served_messages import read_request, response_frame
from sharemesh.kafka_listener.nodes import KafkaNodes
from sharemesh.kafka_listener.request_header import read_header
from sharemesh.kafka_listener.translation import lone_batch, produce
from sharemesh.v1 import record_log_pb2 as pb
from tests.kafka_listener.world import request_frame

PRODUCE = 0
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
RECORDS = st.one_of(st.binary(max_size=300), st.sampled_from([20_000, 2_100_000]).map(bytes))
TOPIC_ID = uuid.UUID(int=9)
TOPIC_IDS = st.one_of(st.uuids(), st.just(uuid.UUID(int=1)))
NAMES = st.one_of(st.text(max_size=20), st.just("n" * 249))
TOPICS = st.builds(dict, topic_id=TOPIC_IDS, name=NAMES)
VERSIONS = st.integers(9, 13)


def body_of(version=13, **changed):
    part = {"index": 3, "records": b"r" * 80}
    content = {
        "transactional_id": None,
        "acks": -1,
        "timeout": milliseconds(1_500),
        "topic_data": [{"topic_id": uuid.UUID(int=9), "name": "n", "partition_data": [part]}],
    }
    frame = request_frame(PRODUCE, version, 5, {**content, **changed})
    whole = memoryview(frame)[4:]
    return whole[read_header(whole, flexible=version >= 9).size :]


def topic(*parts, topic_id=TOPIC_ID, name="n"):
    listed = [{"index": index, "records": records} for index, records in parts]
    return {"topic_id": topic_id, "name": name, "partition_data": listed}


def seen(message):
    """Return all that is told of a request."""
    parts = [
        (
            getattr(each, "topic_id", None),
            getattr(each, "name", None),
            part.index,
            bytes(part.records),
        )
        for each in message.topic_data
        for part in each.partition_data
    ]
    return message.transactional_id, message.acks, message.timeout, parts


@given(
    *(VERSIONS, st.integers(-(2**15), 2**15 - 1), INT32),
    *(TOPICS, INT32, RECORDS, st.binary(max_size=9)),
)
def test_a_request_is_read_as_a_general_codec_reads_it(
    version, acks, wait_ms, named, index, data, more
):
    listed = [topic((index, data), **named)]
    body = body_of(version, acks=acks, timeout=milliseconds(wait_ms), topic_data=listed)
    message = lone_batch.read(version, memoryview(bytes(body) + more))
    assert message is not None
    general = read_request(PRODUCE, version, body)
    assert seen(message) == seen(general)
    assert produce.to_request(version, message) == produce.to_request(version, general)


def test_other_requests_go_the_general_way():
    part = (3, b"r" * 80)
    others = [
        {"transactional_id": "t"},
        {"topic_data": []},
        {"topic_data": [topic()]},
        {"topic_data": [topic(part, part)]},
        {"topic_data": [topic(part), topic(part)]},
        {"topic_data": [topic(part, topic_id=None)]},
        {"topic_data": [topic((3, None))]},
    ]
    for each in others:
        assert lone_batch.read(13, body_of(**each)) is None
        if each != {"topic_data": [topic(part, topic_id=None)]}:
            assert lone_batch.read(12, body_of(12, **each)) is None
    for version in range(3, 14):
        assert (lone_batch.read(version, body_of(version)) is None) == (version < 9)


@given(VERSIONS, st.integers(0, 200), st.binary(min_size=1, max_size=12))
def test_what_is_cut_off_or_has_unknown_fields_goes_the_general_way(version, at, instead):
    """Where it is taken all the same, it says what a general codec says."""
    body = bytes(body_of(version))
    assert lone_batch.read(version, memoryview(body[: min(at, len(body) - 1)])) is None
    changed = body[:at] + instead + body[at + len(instead) :]
    message = lone_batch.read(version, memoryview(changed))
    if message is not None:
        assert seen(message) == seen(read_request(PRODUCE, version, memoryview(changed)))


@given(VERSIONS, INT32, TOPICS, INT32, INT64, INT64, st.integers(0, 2**31 - 1))
def test_success_is_told_as_a_general_codec_tells_it(
    version, correlation, named, index, base_offset, log_start_offset, throttle_ms
):
    listed = [topic((index, b""), **named)]
    message = lone_batch.read(version, body_of(version, topic_data=listed))
    result = pb.ProducePartitionResult(base_offset=base_offset, log_start_offset=log_start_offset)
    response = pb.ProduceResponse(partitions=[result], throttle_time_ms=throttle_ms)
    content = produce.to_answer(version, message, response, KafkaNodes([]))
    general = response_frame(PRODUCE, version, correlation, content)
    assert lone_batch.to_frame(correlation, message, response) == general


def test_what_else_is_to_be_told_is_told_the_general_way():
    message = lone_batch.read(13, body_of())
    good = pb.ProducePartitionResult(base_offset=1)
    for response in (
        pb.ProduceResponse(partitions=[pb.ProducePartitionResult(error_code=3)]),
        pb.ProduceResponse(partitions=[pb.ProducePartitionResult(error_message="m")]),
        pb.ProduceResponse(partitions=[pb.ProducePartitionResult(current_leader={})]),
        pb.ProduceResponse(partitions=[good], node_endpoints=[{}]),
    ):
        assert lone_batch.to_frame(1, message, response) is None
    frame = lone_batch.to_frame(1, message, pb.ProduceResponse(partitions=[good]))
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
