"""Acknowledgements that are refused, as a request or in a partition: nothing of them counts."""

import pytest

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.world import (
    FOO,
    TopicPartition,
    ack,
    acquired,
    parts,
    topics,
    world,
)

P0 = TopicPartition(FOO, 0)
ACCEPT = 1


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
