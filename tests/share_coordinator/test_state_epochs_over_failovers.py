"""A group that is deleted and comes back, over failovers of its leader and of its coordinator."""

import random

import pytest

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, SharePartitionKey
from sharemesh.domain.state_batch import StateBatch
from sharemesh.persister.persister import Persister
from sharemesh.ports.share_state import StateWrite
from tests.share_leader.test_with_share_coordinator import FOO, P0, mesh
from tests.share_leader.world import ack, acquired, parts

KEY = SharePartitionKey(GroupId("g"), FOO, 0)
OLD_LEADER, NEW_LEADER, LAST_LEADER = 1, 2, 3


async def late(persister):
    """Send what the old life's leader and group coordinator may have had on their way."""
    done = StateBatch(0, 14, DeliveryState.ACKNOWLEDGED, 9)
    for leader_epoch, error in (
        (OLD_LEADER, ErrorCode.FENCED_LEADER_EPOCH),
        (LAST_LEADER, ErrorCode.FENCED_STATE_EPOCH),
    ):
        write = StateWrite(1, leader_epoch, 15, 0, (done,))
        assert (await persister.write_state(KEY, write)).error is error
    deleted = await persister.delete_state(KEY, 1)
    assert (deleted.error, deleted.known_state_epoch) == (ErrorCode.FENCED_STATE_EPOCH, 2)
    begun = await persister.initialize_state(KEY, 1, 15)
    assert begun.error is ErrorCode.FENCED_STATE_EPOCH
    refused = await persister.read_state(KEY, OLD_LEADER)
    assert refused.error is ErrorCode.FENCED_LEADER_EPOCH
    assert refused.known_leader_epoch > OLD_LEADER


@pytest.mark.parametrize("coordinator_first", [True, False])
async def test_nothing_of_the_new_life_is_lost(coordinator_first):
    async with mesh() as w:
        persister = Persister(w.network.caller(), w.view, w.clock, random.Random(5))
        await w.lead(P0, epoch=OLD_LEADER)
        m1 = w.client()
        await w.produce(P0, 5, 5, 5)
        await m1.join(P0)
        assert acquired(await m1.fetch(), P0) == [(0, 14, 1)]
        assert parts(await m1.acknowledge(ack(P0, 0, 4, 1)))[P0].error_code == 0

        assert not (await persister.delete_state(KEY, 1)).error
        if coordinator_first:
            await w.state_shards.start_shard(0, 2)
        assert (await persister.initialize_state(KEY, 1, 0)).error is ErrorCode.FENCED_STATE_EPOCH
        assert not (await persister.initialize_state(KEY, 2, 0)).error
        # the old leader still holds what the old life left; it can confirm nothing of it
        assert parts(await m1.acknowledge(ack(P0, 5, 9, 1)))[P0].error_code == 6

        await w.service.stop_partition(P0)
        await w.lead(P0, epoch=NEW_LEADER)
        m2 = w.client("m2")
        await m2.join(P0)
        assert acquired(await m2.fetch(), P0) == [(0, 14, 1)]
        assert parts(await m2.acknowledge(ack(P0, 10, 14, 1)))[P0].error_code == 0
        await late(persister)
        await w.state_shards.start_shard(0, 3)
        await late(persister)

        await w.service.stop_partition(P0)
        await w.lead(P0, epoch=LAST_LEADER)
        await late(persister)
        m3 = w.client("m3")
        await m3.join(P0)
        assert acquired(await m3.fetch(), P0) == [(0, 9, 1)]
        assert parts(await m3.acknowledge(ack(P0, 0, 9, 1)))[P0].error_code == 0
        await w.state_shards.start_shard(0, 4)
        state = await persister.read_state(KEY, LAST_LEADER)
        assert (state.state_epoch, state.start_offset) in ((2, 0), (2, 15))
        await persister.close()
