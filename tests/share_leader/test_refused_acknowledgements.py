"""Acknowledgements that are refused, as a request or in a partition: nothing of them counts."""

import pytest

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.world import (
    FOO,
    TopicPartition,
    ack,
    acknowledged,
    acquired,
    parts,
    topics,
    world,
)

P0, P1 = TopicPartition(FOO, 0), TopicPartition(FOO, 1)
ACCEPT, REJECT = 1, 3


async def holding(w, *partitions):
    """Return a member that has acquired offsets 0 to 9 of each partition."""
    member = w.client()
    for partition in partitions:
        await w.lead(partition)
        await w.produce(partition, 10)
    await member.join(*partitions)
    response = await member.fetch()
    assert all(acquired(response, partition) == [(0, 9, 1)] for partition in partitions)
    return member


def malformed():
    return [pb.AcknowledgeTopic(topic_id=b"short")]


def too_much():
    return topics((), [ack(P0, 0, 1, ACCEPT), ack(P0, 2, 3, ACCEPT)])


@pytest.mark.parametrize("refused", [malformed, too_much])
async def test_the_session_epoch_does_not_advance_when_the_whole_request_is_refused(refused):
    async with world(max_acknowledge_batches=1) as w:
        m1 = await holding(w, P0)
        request = pb.ShareAcknowledgeRequest(
            group_id="g", member_id="m1", share_session_epoch=m1.epoch, topics=refused()
        )
        answer = await m1.call(methods.SHARE_ACKNOWLEDGE, request)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        answer = await m1.acknowledge(ack(P0, 0, 9, ACCEPT))  # with the same epoch (SES-10)
        assert (answer.error_code, parts(answer)[P0].error_code) == (0, 0)


def twice(first, second):
    """Return topics that list the partition of both in two entries, and P1 once."""
    one = topics((), [first])
    one[0].partitions.extend(topics((), [second, ack(P1, 0, 9, ACCEPT)])[0].partitions)
    return one


BOTH_GOOD = twice(ack(P0, 0, 4, ACCEPT), ack(P0, 5, 9, REJECT))
FIRST_BAD = twice(ack(P0, 3, 2, ACCEPT), ack(P0, 5, 9, REJECT))
IN_TWO_TOPICS = [
    *topics((), [ack(P0, 0, 4, ACCEPT), ack(P1, 0, 9, ACCEPT)]),
    *topics((), [ack(P0, 5, 9, REJECT)]),
]
TWICE = pytest.mark.parametrize("listed", [BOTH_GOOD, FIRST_BAD, IN_TWO_TOPICS])


def check_entry(entry, code, message):
    assert code == ErrorCode.INVALID_REQUEST, entry
    assert "listed twice" in message


@TWICE
async def test_of_a_partition_that_is_listed_twice_nothing_is_acknowledged(listed):
    async with world() as w:
        m1 = await holding(w, P0, P1)
        request = pb.ShareAcknowledgeRequest(
            group_id="g", member_id="m1", share_session_epoch=m1.epoch, topics=listed
        )
        answer = await m1.call(methods.SHARE_ACKNOWLEDGE, request)
        m1.advance()
        assert answer.error_code == 0
        [entry] = [p for t in answer.responses for p in t.partitions if p.partition == 0]
        check_entry(entry, entry.error_code, entry.error_message)
        assert parts(answer)[P1].error_code == 0
        # Every offset is still held, so it can be acknowledged now (REQ-23).
        assert parts(await m1.acknowledge(ack(P0, 0, 9, ACCEPT)))[P0].error_code == 0


@TWICE
async def test_acknowledgements_that_come_with_a_fetch_list_a_partition_once(listed):
    async with world() as w:
        m1 = await holding(w, P0, P1)
        request = pb.ShareFetchRequest(
            group_id="g", member_id="m1", share_session_epoch=m1.epoch, topics=listed
        )
        answer = await m1.call(methods.SHARE_FETCH, request)
        m1.advance()
        [entry] = [p for t in answer.responses for p in t.partitions if p.partition == 0]
        check_entry(entry, entry.acknowledge_error_code, entry.acknowledge_error_message)
        assert parts(answer)[P1].acknowledge_error_code == 0
        assert parts(await m1.acknowledge(ack(P0, 0, 9, ACCEPT)))[P0].error_code == 0


@TWICE
async def test_acknowledgements_on_a_stream_list_a_partition_once(listed):
    async with world() as w:
        await w.lead(P0)
        await w.lead(P1)
        stream = await w.client().consume(P0, P1)
        await w.produce(P0, 10)
        await w.produce(P1, 10)
        got = 0
        while got < 20:
            entries = parts(await anext(stream)).values()
            got += sum(
                a.last_offset - a.first_offset + 1 for p in entries for a in p.acquired_records
            )
        results = {}
        for number, asked in ((1, listed), (2, topics((), [ack(P0, 0, 9, ACCEPT)]))):
            message = pb.ConsumeAcknowledge(acknowledge_id=number, topics=asked)
            await stream.send(pb.ConsumeRequest(acknowledgements=[message]))
        while len(results) < 2:
            results |= acknowledged(await anext(stream))
        assert results == {1: {P0: ErrorCode.INVALID_REQUEST, P1: 0}, 2: {P0: 0}}


async def test_a_partition_that_is_listed_again_without_acknowledgements_is_no_second_entry():
    async with world() as w:
        m1 = await holding(w, P0)
        request = pb.ShareAcknowledgeRequest(
            group_id="g",
            member_id="m1",
            share_session_epoch=m1.epoch,
            topics=[*topics((), [ack(P0, 0, 9, ACCEPT)]), *topics([P0], ())],
        )
        answer = await m1.call(methods.SHARE_ACKNOWLEDGE, request)
        assert parts(answer)[P0].error_code == 0


async def test_a_missing_right_is_told_before_what_is_wrong_with_the_entries():
    async with world() as w:
        m1 = await holding(w, P0, P1)
        w.rules.denied.add(("read", "topic", "foo"))
        request = pb.ShareAcknowledgeRequest(
            group_id="g", member_id="m1", share_session_epoch=m1.epoch, topics=BOTH_GOOD
        )
        answer = await m1.call(methods.SHARE_ACKNOWLEDGE, request)
        assert parts(answer)[P0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
