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


def topic(*parts, topic_id=TOPIC_ID):
    listed = [{"index": index, "records": records} for index, records in parts]
    return {"topic_id": topic_id, "name": "n", "partition_data": listed}


def seen(message):
    """Return all that is told of a request."""
    parts = [
        (each.topic_id, part.index, bytes(part.records))
        for each in message.topic_data
        for part in each.partition_data
    ]
    return message.transactional_id, message.acks, message.timeout, parts


@given(st.integers(-(2**15), 2**15 - 1), INT32, TOPIC_IDS, INT32, RECORDS, st.binary(max_size=9))
def test_a_request_is_read_as_a_general_codec_reads_it(acks, wait_ms, topic_id, index, data, more):
    listed = [topic((index, data), topic_id=topic_id)]
    body = body_of(acks=acks, timeout=milliseconds(wait_ms), topic_data=listed)
    message = lone_batch.read(13, memoryview(bytes(body) + more))
    assert message is not None
    general = read_request(PRODUCE, 13, body)
    assert seen(message) == seen(general)
    assert produce.to_request(13, message) == produce.to_request(13, general)


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
    assert lone_batch.read(13, body_of()) is not None
    for version in range(3, 13):
        assert lone_batch.read(version, body_of(version)) is None


@given(st.integers(0, 200), st.binary(min_size=1, max_size=12))
def test_what_is_cut_off_or_has_unknown_fields_goes_the_general_way(at, instead):
    """Where it is taken all the same, it says what a general codec says."""
    body = bytes(body_of())
    assert lone_batch.read(13, memoryview(body[: min(at, len(body) - 1)])) is None
    changed = body[:at] + instead + body[at + len(instead) :]
    message = lone_batch.read(13, memoryview(changed))
    if message is not None:
        assert seen(message) == seen(read_request(PRODUCE, 13, memoryview(changed)))


@given(INT32, TOPIC_IDS, INT32, INT64, INT64, st.integers(0, 2**31 - 1))
def test_success_is_told_as_a_general_codec_tells_it(
    correlation, topic_id, index, base_offset, log_start_offset, throttle_ms
):
    message = lone_batch.read(13, body_of(topic_data=[topic((index, b""), topic_id=topic_id)]))
    result = pb.ProducePartitionResult(base_offset=base_offset, log_start_offset=log_start_offset)
    response = pb.ProduceResponse(partitions=[result], throttle_time_ms=throttle_ms)
    content = produce.to_answer(13, message, response, KafkaNodes([]))
    general = response_frame(PRODUCE, 13, correlation, content)
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
