"""Records that no application has seen go back to the leader without counting (docs/spec HBK)."""

import pytest

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.test_consume import acknowledge, deliveries, results, state
from tests.share_leader.world import FOO, TopicPartition, ack, acquired, parts, world

P0 = TopicPartition(FOO, 0)
AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ACCEPT, RELEASE = 1, 2


async def test_an_uncounted_release_on_a_stream_is_answered_without_a_state_write():
    async with world() as w:
        epoch = await w.lead(P0)
        stream = await w.client().consume(P0, records=10)
        await w.produce(P0, 10)
        await deliveries(stream, 10)
        unseen = ack(P0, 4, 9, RELEASE, epoch=epoch, uncounted=True)
        await stream.send(pb.ConsumeRequest(acknowledgements=[acknowledge(1, unseen)]))
        assert await results(stream, 1) == {P0: 0}
        assert w.keeper.writes == []
        assert state(w, P0, 3) == (ACQUIRED, 1)
        assert state(w, P0, 4) == (AVAILABLE, 0)
        other = await w.client("m2").consume(P0)
        assert await deliveries(other, 6) == {P0: [(4, 9, 1)]}


async def test_unary_calls_can_hand_back_too():
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 10)
        await m1.join(P0)
        await m1.fetch()
        answer = await m1.acknowledge(ack(P0, 0, 9, RELEASE, uncounted=True))
        assert parts(answer)[P0].error_code == 0
        assert acquired(await m1.fetch(), P0) == [(0, 9, 1)]


@pytest.mark.parametrize("types", [(ACCEPT,), (RELEASE, RELEASE), (0,)])
async def test_uncounted_with_anything_but_one_release_is_an_invalid_request(types):
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 2)
        await m1.join(P0)
        await m1.fetch()
        answer = parts(await m1.acknowledge(ack(P0, 0, 1, *types, uncounted=True)))[P0]
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert "uncounted" in answer.error_message
        assert state(w, P0, 0) == (ACQUIRED, 1)
