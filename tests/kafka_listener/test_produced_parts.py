"""How many parts a Produce has is counted as a general codec would (KLS-28)."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharemesh.kafka.messages import milliseconds
from sharemesh.kafka_listener.request_header import read_header
from sharemesh.kafka_listener.translation.produced_parts import has_more_parts
from tests.kafka_listener.world import request_frame

PRODUCE = 0
VERSIONS = st.integers(3, 13)
PARTS = st.lists(st.one_of(st.none(), st.binary(max_size=200)), max_size=4)


def body_of(version, transactional_id, topics):
    """Return a request behind its header; each topic is the records of its partitions."""
    content = {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout": milliseconds(1_500),
        "topic_data": [
            {
                "name": "n" * (number + 1),
                "topic_id": uuid.UUID(int=number + 1),
                "partition_data": [
                    {"index": index, "records": records} for index, records in enumerate(parts)
                ],
            }
            for number, parts in enumerate(topics)
        ],
    }
    whole = memoryview(request_frame(PRODUCE, version, 5, content))[4:]
    return whole[read_header(whole, flexible=version >= 9).size :]


@given(VERSIONS, st.one_of(st.none(), st.text(max_size=9)), st.lists(PARTS, max_size=5))
def test_kls_28_topics_and_partitions_are_counted(version, transactional_id, topics):
    body = body_of(version, transactional_id, topics)
    count = len(topics) + sum(map(len, topics))
    assert not has_more_parts(version, body, count)
    if count:
        assert has_more_parts(version, body, count - 1)


@given(VERSIONS, st.binary(max_size=80), st.integers(0, 80))
def test_what_is_no_produce_has_an_answer_too(version, instead, at):
    body = bytes(body_of(version, None, [[b"r" * 20], [None, b""]]))
    assert has_more_parts(version, memoryview(body[:at] + instead), 3) in {True, False}


@pytest.mark.parametrize("version", [3, 9, 13])
def test_no_more_parts_are_looked_at_than_asked_about(version):
    body = bytes(body_of(version, None, [[b"" for _ in range(20)]]))
    assert has_more_parts(version, memoryview(body[: len(body) // 2]), 5)
