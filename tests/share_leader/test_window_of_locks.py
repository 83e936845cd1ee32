"""A group whose limit counts locks: what explain and the metric say of its bounds (WIN-10)."""

from dataclasses import replace

from sharemesh.domain.share_partition.events import Configure
from sharemesh.telemetry import names
from tests.share_leader.test_hand_back import explain, metric
from tests.share_leader.world import FOO, TopicPartition, ack, acquired, parts, world

P0 = TopicPartition(FOO, 0)
ACCEPT, REJECT = 1, 3
SEEN_MS = 1_000


async def test_explain_tells_the_limit_of_locks_from_the_bound_of_runs():
    """WIN-1, WIN-7, WIN-10."""
    async with world() as w:
        await w.lead(P0)
        await w.configure("g", auto_offset_reset="earliest")
        await w.clock.advance(SEEN_MS)
        m1 = w.client()
        await m1.join(P0)
        await m1.fetch(max_wait_ms=0)
        machine = w.runner(P0).machine
        limits = replace(machine.config, partition_max_record_locks=10, partition_max_runs=11)
        machine.step(Configure(limits), now_ms=0)
        await w.produce(P0, *[1] * 40)
        assert acquired(await m1.fetch(), P0) == [(0, 9, 1)]
        assert await explain(w, 35) == "IN_FLIGHT_LIMIT"
        for offset in range(1, 10):
            answer = await m1.acknowledge(ack(P0, offset, offset, (ACCEPT, REJECT)[offset % 2]))
            assert parts(answer)[P0].error_code == 0
        assert await explain(w, 35) == "RUNS_LIMIT"
        assert metric(w, names.RUNS_USED.name) == 1
        await m1.acknowledge(ack(P0, 0, 0, ACCEPT))
        assert acquired(await m1.fetch(), P0) == [(10, 19, 1)]
        assert await explain(w, 35) == "IN_FLIGHT_LIMIT"
