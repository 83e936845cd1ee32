"""Section O: an offset reset under a share-partition leader, with a real leader and coordinator."""

import random

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, SharePartitionKey
from sharemesh.persister.persister import Persister
from sharemesh.ports.share_state import StateWrite
from tests.conformance.scenario import scenario
from tests.share_leader.test_with_share_coordinator import FOO, P0, mesh
from tests.share_leader.world import ack, acquired, parts

KEY = SharePartitionKey(GroupId("g"), FOO, 0)


@scenario("SC-S24")
async def test_an_offset_reset_fences_the_leader_that_holds_the_old_state():
    async with mesh() as w:
        group_coordinator = Persister(w.network.caller(), w.view, w.clock, random.Random(5))
        assert not (await group_coordinator.initialize_state(KEY, 2, 0)).error
        leader_epoch = await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 50, 50, 50)
        await m1.join(P0)
        assert acquired(await m1.fetch(max_records=50), P0) == [(0, 49, 1)]
        before = w.runner(P0)

        assert not (await group_coordinator.initialize_state(KEY, 3, 100)).error
        late = StateWrite(2, leader_epoch, 0, 50, ())
        refused = await group_coordinator.write_state(KEY, late)
        assert refused.error is ErrorCode.FENCED_STATE_EPOCH  # what the leader's write will get
        assert refused.error == 124

        answer = await m1.acknowledge(ack(P0, 0, 49, 1))
        assert parts(answer)[P0].error_code == 6
        assert w.runner(P0) is not before  # dropped
        response = await m1.fetch(P0, max_wait_ms=5_000)
        assert acquired(response, P0)[0][0] == 100
        await group_coordinator.close()
