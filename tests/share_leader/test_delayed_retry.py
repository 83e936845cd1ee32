"""Delayed retry at a leader: requests, take-overs, explain, metrics (docs/spec/delivery.md)."""

import pytest

from sharemesh import methods
from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.test_consume import deliveries, state
from tests.share_leader.world import FOO, TopicPartition, ack, acquired, parts, world

P0 = TopicPartition(FOO, 0)
ACCEPT, RELEASE = 1, 2
AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED


async def held(w, **settings):
    """A member that holds ten records."""
    if settings:
        await w.configure("g", auto_offset_reset="earliest", **settings)
    await w.lead(P0)
    m1 = w.client()
    await w.produce(P0, 10)
    await m1.join(P0)
    await m1.fetch()
    return m1


async def explain(w, offset):
    request = pb.ExplainRequest(group_id="g", topic_name="foo", partition=0, offset=offset)
    return await w.caller().call(methods.EXPLAIN, request, to=w.address)


async def test_rty_2_a_release_with_a_delay_comes_back_to_a_waiting_stream_when_it_is_due():
    async with world() as w:
        m1 = await held(w)
        answer = await m1.acknowledge(ack(P0, 3, 4, RELEASE, delay_ms=1_000))
        assert parts(answer)[P0].error_code == 0
        other = await w.client("m2").consume(P0)
        await w.clock.advance(999)
        assert state(w, P0, 3) == (AVAILABLE, 1)
        await w.clock.advance(1)
        assert await deliveries(other, 2) == {P0: [(3, 4, 2)]}


@pytest.mark.parametrize(
    ("types", "delay_ms"), [((ACCEPT,), 5), ((RELEASE, RELEASE), 5), ((RELEASE,), -1)]
)
async def test_rty_1_a_delay_that_is_none_is_an_invalid_request(types, delay_ms):
    async with world() as w:
        m1 = await held(w)
        answer = parts(await m1.acknowledge(ack(P0, 0, 1, *types, delay_ms=delay_ms)))[P0]
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert "delay" in answer.error_message
        assert state(w, P0, 0) == (ACQUIRED, 1)


async def test_rty_7_a_delay_survives_its_leader():
    async with world() as w:
        m1 = await held(w)
        await m1.acknowledge(ack(P0, 0, 9, RELEASE, delay_ms=1_000))
        (write,) = w.keeper.writes[-1:]
        assert [each.not_before_ms for each in write[1].batches] == [w.clock.wall_ms() + 1_000]
        await w.clock.advance(400)
        await w.lead(P0, epoch=9)
        m2 = w.client("m2")
        await m2.join(P0)
        assert acquired(await m2.fetch(), P0) == []
        assert w.runner(P0).machine.delayed_count == 10
        await w.clock.advance(600)
        assert acquired(await m2.fetch(), P0) == [(0, 9, 2)]


async def test_rty_12_explain_and_the_metric_say_that_a_record_is_delayed_and_for_how_long():
    async with world() as w:
        m1 = await held(w)
        await m1.acknowledge(ack(P0, 0, 4, RELEASE, delay_ms=1_000))
        await w.clock.advance(300)
        found = await explain(w, 2)
        assert (found.reason, found.delay_remaining_ms) == ("DELAYED", 700)
        assert "700 ms" in found.explanation
        assert not (await explain(w, 5)).HasField("delay_remaining_ms")
        readings = w.service.telemetry.registry.collect()
        ((_, value),) = next(
            each.values for each in readings if each.metric.name == "share.records.delayed"
        )
        assert value == 5


async def test_rty_4_the_groups_back_off_holds_for_releases_without_a_delay():
    async with world() as w:
        settings = {"retry_backoff_ms": "200", "retry_backoff_jitter": "0"}
        m1 = await held(w, **settings)
        await m1.acknowledge(ack(P0, 0, 9, RELEASE))
        assert acquired(await m1.fetch(), P0) == []
        await w.clock.advance(200)
        assert acquired(await m1.fetch(), P0) == [(0, 9, 2)]
