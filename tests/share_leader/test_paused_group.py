"""A paused group is delivered nothing; what its members hold goes on (docs/spec PAU)."""

import pytest

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_partition.events import AcquireMode
from sharemesh.share_leader.requests.access import Reader
from sharemesh.share_leader.requests.acquisition import FetchAcquisition, FetchOrder
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.test_consume import acknowledge, deliveries, results, state
from tests.share_leader.test_hand_back import LOCK_MS, explain
from tests.share_leader.world import FOO, TopicPartition, ack, acquired, parts, until, world

P0 = TopicPartition(FOO, 0)
ACCEPT, RELEASE, RENEW = 1, 2, 4
SEEN_MS = 1_000
"""After this time leaders have applied settings that changed."""


async def pause(w, *, on=True):
    await w.configure("g", auto_offset_reset="earliest", paused="true" if on else "false")
    await w.clock.advance(SEEN_MS)


async def test_a_stream_gets_nothing_while_its_group_is_paused_and_all_after():
    """PAU-1, PAU-3."""
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0)
        await pause(w)
        await w.produce(P0, 5)
        await w.clock.advance(60_000)
        assert state(w, P0, 0) is None
        await pause(w, on=False)
        assert await deliveries(stream, 5) == {P0: [(0, 4, 1)]}


async def test_a_unary_fetch_of_a_paused_group_waits_and_is_empty():
    async with world() as w:
        await w.lead(P0)
        await pause(w)
        await w.produce(P0, 5)
        m1 = w.client()
        await m1.join(P0)
        answer = await m1.fetch(max_wait_ms=0)
        assert answer.error_code == ErrorCode.NONE
        assert not parts(answer)
        await pause(w, on=False)
        assert acquired(await m1.fetch(), P0) == [(0, 4, 1)]


async def test_what_was_read_before_the_pause_is_not_acquired_in_it():
    """PAU-1."""
    async with world() as w:
        await w.lead(P0)
        await w.client().join(P0)
        await w.produce(P0, 5)
        runner = w.runner(P0)
        fetching = FetchAcquisition(w.service._environment, w.service.partitions, w.service.pacing)
        assert runner.try_lock(w)
        await pause(w)
        order = FetchOrder("m1", AcquireMode.BATCH_OPTIMIZED, 500, 500, 1 << 20)
        reader = Reader(w.service._access, "User:ANONYMOUS", "g")
        assert await fetching.take([runner], w, order, reader) == []
        assert state(w, P0, 0) is None


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, RENEW])
async def test_what_members_hold_they_acknowledge_in_a_pause(kind):
    """PAU-2."""
    async with world() as w:
        epoch = await w.lead(P0)
        stream = await w.client().consume(P0)
        await w.produce(P0, 5)
        await deliveries(stream, 5)
        await pause(w)
        said = acknowledge(1, ack(P0, 0, 4, kind, epoch=epoch))
        said.is_renew_ack = kind == RENEW
        await stream.send(pb.ConsumeRequest(acknowledgements=[said]))
        assert await results(stream, 1) == {P0: 0}
        found = state(w, P0, 0)
        expected = {
            ACCEPT: None,
            RELEASE: (DeliveryState.AVAILABLE, 1),
            RENEW: (DeliveryState.ACQUIRED, 1),
        }
        assert found == expected[kind]


async def test_locks_end_in_a_pause_and_their_records_wait_for_its_end():
    """PAU-2."""
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0)
        await w.produce(P0, 5)
        await deliveries(stream, 5)
        await pause(w)
        await w.clock.advance(LOCK_MS)
        await until(lambda: state(w, P0, 0) == (DeliveryState.AVAILABLE, 1))
        assert await explain(w, 0) == "PAUSED"
        await pause(w, on=False)
        other = await w.client("m2").consume(P0)
        assert await deliveries(other, 5) == {P0: [(0, 4, 2)]}


async def test_a_pause_is_told():
    """PAU-4."""
    async with world() as w:
        await w.lead(P0)
        await pause(w)
        await w.client().consume(P0)
        await w.produce(P0, 5)
        assert await explain(w, 3) == "PAUSED"
        assert values(w, "share.group.paused") == [1]
        assert values(w, "share.backlog.records") == [5]
        await pause(w, on=False)
        assert values(w, "share.group.paused") == [0]


def values(w, name):
    readings = w.service.telemetry.registry.collect()
    found = next(each.values for each in readings if each.metric.name == name)
    return [value for _, value in found]


async def test_the_next_leader_keeps_a_group_paused():
    """PAU-3."""
    async with world() as w:
        await w.lead(P0)
        await pause(w)
        await w.produce(P0, 5)
        await w.service.stop_partition(P0)
        await w.lead(P0)
        m1 = w.client()
        await m1.join(P0)
        assert not parts(await m1.fetch(max_wait_ms=0))
        assert await explain(w, 0) == "PAUSED"
