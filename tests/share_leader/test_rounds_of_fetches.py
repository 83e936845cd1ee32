"""Members that fetch and acknowledge in turn, a few records at a time (spec DF, REQ)."""

import asyncio

from tests.share_leader.world import FOO, TopicPartition, ack, acquired, parts, until, world

P0 = TopicPartition(FOO, 0)
ACCEPT, RELEASE = 1, 2
WAIT_MS = 500


async def test_a_fetch_takes_records_while_its_own_acknowledgements_are_being_written():
    """DF-11, REQ-6: the answer waits for the write, the fetch does not."""
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 5)
        await m1.join(P0)
        assert acquired(await m1.fetch(), P0) == [(0, 4, 1)]
        await w.produce(P0, 5)
        w.keeper.open.clear()
        told = asyncio.create_task(m1.fetch(acks=[ack(P0, 0, 4, ACCEPT)], max_wait_ms=WAIT_MS))
        await until(lambda: w.service.counters.records_acquired == 10)
        assert not told.done()
        w.keeper.open.set()
        await until(told.done)  # no time has passed
        response = await told
        assert acquired(response, P0) == [(5, 9, 1)]
        assert parts(response)[P0].acknowledge_error_code == 0


async def test_acknowledgements_of_a_fetch_that_waits_are_stored_long_before_its_answer():
    """REQ-6: Kafka's answer has both, so a client hears of them once the fetch ends."""
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 5)
        await m1.join(P0)
        await m1.fetch()
        told = asyncio.create_task(m1.fetch(acks=[ack(P0, 0, 4, ACCEPT)], max_wait_ms=WAIT_MS))
        await w.clock.advance(WAIT_MS - 1)
        ((_, write),) = w.keeper.writes
        assert [(b.first_offset, b.last_offset) for b in write.batches] == [(0, 4)]
        assert not told.done()
        await w.clock.advance(1)
        assert parts(await told)[P0].acknowledge_error_code == 0


async def test_fetches_at_the_same_time_all_get_records_at_once():
    """DF-1, DF-7: one has the fetch lock, and passes it on; the clock never moves."""
    async with world() as w:
        await w.lead(P0)
        members = [w.client(f"m{number}") for number in range(4)]
        await w.produce(P0, *[20] * 3)
        for each in members:
            await each.join(P0)
        order = {"max_records": 15, "share_acquire_mode": 1, "max_wait_ms": WAIT_MS}
        told = [asyncio.create_task(each.fetch(**order)) for each in members]
        await until(lambda: all(each.done() for each in told))
        got = [
            [o for a, b, _ in acquired(each.result(), P0) for o in range(a, b + 1)] for each in told
        ]
        assert [len(each) for each in got] == [15] * 4
        assert sorted(offset for each in got for offset in each) == list(range(60))


async def test_no_round_of_several_members_waits_while_there_are_records():
    """DF-5, DF-7: fifteen records at a time, some released; the clock never moves."""
    async with world() as w:
        await w.lead(P0)
        members = [w.client(f"m{number}") for number in range(3)]
        await w.produce(P0, *[20] * 30)
        for each in members:
            await each.join(P0)
        done: dict[int, None] = {}

        async def take_part(member):
            acks = ()
            while len(done) < 600:
                response = await member.fetch(
                    acks=acks, max_records=15, share_acquire_mode=1, max_wait_ms=WAIT_MS
                )
                acks = []
                for first, last, count in acquired(response, P0):
                    for offset in range(first, last + 1):
                        released = count == 1 and offset % 5 == 0
                        acks.append(ack(P0, offset, offset, RELEASE if released else ACCEPT))
                        if not released:
                            done[offset] = None
                if len(done) % 2:  # by a request of its own, as clients do that still hold some
                    await member.acknowledge(*acks)
                    acks = ()

        began_ms = w.clock.now_ms()
        rounds = [asyncio.create_task(take_part(each)) for each in members]
        await until(lambda: len(done) == 600)
        assert w.clock.now_ms() == began_ms
        await w.clock.advance(WAIT_MS)  # the others find nothing more
        await asyncio.gather(*rounds)
        assert sorted(done) == list(range(600))
