"""A leader looks at the invariants of its share partitions in turn, and says when one is broken."""

import logging

from sharemesh.share_leader.partition.maintenance import RUNS_MAX, SELF_CHECK_MS
from tests.share_leader.world import FOO, TopicPartition, acquired, world

P0, P1 = TopicPartition(FOO, 0), TopicPartition(FOO, 1)
LOGGER = "sharemesh.share_leader.partition.maintenance"


async def holding(w, *partitions):
    for partition in partitions:
        await w.lead(partition)
        await w.produce(partition, 10)
    member = w.client()
    await member.join(*partitions)
    response = await member.fetch(*partitions, max_records=500)
    assert all(acquired(response, partition) for partition in partitions)
    return member


async def test_every_share_partition_has_its_turn_and_a_sound_one_is_no_news(caplog):
    async with world() as w:
        await holding(w, P0, P1)
        counters = w.service.counters
        before = counters.invariants_checked
        await w.clock.advance(4 * SELF_CHECK_MS)
        assert counters.invariants_checked - before == 4
        assert counters.invariants_broken == 0
        assert not [r for r in caplog.records if r.name == LOGGER]
        w.runner(P1).machine._flight.delivery_complete_count += 1
        await w.clock.advance(4 * SELF_CHECK_MS)
        assert counters.invariants_broken == 2


async def test_a_broken_invariant_is_counted_and_named_with_what_to_do(caplog):
    async with world() as w:
        await holding(w, P0)
        w.runner(P0).machine._flight.delivery_complete_count += 1
        with caplog.at_level(logging.ERROR, logger=LOGGER):
            await w.clock.advance(SELF_CHECK_MS)
        assert w.service.counters.invariants_broken >= 1
        text = caplog.records[-1].getMessage()
        assert f"g:{FOO.hex()}-0" in text
        assert "delivery-complete count 1, found 0" in text
        assert "report this line" in text


async def test_a_share_partition_with_very_many_runs_is_passed_over():
    async with world() as w:
        await holding(w, P0)
        before = w.service.counters.invariants_checked
        w.runner(P0).machine._flight.run_count += RUNS_MAX
        await w.clock.advance(3 * SELF_CHECK_MS)
        assert w.service.counters.invariants_checked == before
        w.runner(P0).machine._flight.run_count -= RUNS_MAX


async def test_a_state_that_the_look_itself_stumbles_over_is_told_and_timers_go_on(caplog):
    async with world() as w:
        await holding(w, P0)
        flight = w.runner(P0).machine._flight
        batches, flight.batches = flight.batches, [None]
        with caplog.at_level(logging.ERROR, logger=LOGGER):
            await w.clock.advance(SELF_CHECK_MS)
        assert w.service.counters.invariants_broken == 1
        assert "AttributeError" in caplog.records[-1].getMessage()
        flight.batches = batches
        await w.clock.advance(SELF_CHECK_MS)
        assert w.service.counters.invariants_checked == 2
        assert w.service.counters.invariants_broken == 1
