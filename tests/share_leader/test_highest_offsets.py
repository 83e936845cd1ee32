"""The highest offsets that an import may bring (BND-13): sums with them still fit everything."""

import pytest

from sharemesh import methods
from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.ids import OFFSET_MAX, GroupId, SharePartitionKey
from sharemesh.domain.state_batch import StateBatch
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.world import FOO, LEADER, TopicPartition, ack, acquired, parts, world

P0 = TopicPartition(FOO, 0)
KEY = SharePartitionKey(GroupId("g"), FOO, 0)


async def explained(w, offset):
    request = pb.ExplainRequest(group_id="g", topic_name="foo", offset=offset)
    return await w.network.caller().call(methods.EXPLAIN, request, to=LEADER)


@pytest.mark.parametrize("offset", [0, OFFSET_MAX, 2**63 - 1])
async def test_records_up_to_the_highest_offset_are_fetched_acknowledged_and_explained(offset):
    async with world() as w:
        imported = (StateBatch(0, OFFSET_MAX, DeliveryState.AVAILABLE, 1),)
        w.keeper.initialize(KEY, start_offset=0, batches=imported)
        await w.lead(P0)
        await w.produce(P0, 3)
        m1 = w.client()
        await m1.join(P0)
        answer = await m1.fetch()
        assert parts(answer)[P0].error_code == 0
        assert acquired(answer, P0)[0][0] == 0
        assert (await explained(w, offset)).error_code == 0
        for last, code in ((2**63 - 1, 42), (OFFSET_MAX, 121), (2, 0)):
            answer = await m1.acknowledge(ack(P0, 0, last, 1))
            assert parts(answer)[P0].error_code == code


async def test_a_group_may_start_at_the_highest_offset():
    async with world() as w:
        w.keeper.initialize(KEY, start_offset=OFFSET_MAX)
        await w.lead(P0)
        await w.produce(P0, 3)
        m1 = w.client()
        await m1.join(P0)
        assert acquired(await m1.fetch(), P0) == []
        assert (await explained(w, OFFSET_MAX)).error_code == 0
