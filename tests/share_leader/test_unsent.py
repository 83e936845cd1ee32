"""One bound for what waits to be sent: slow readers cost a fixed amount together (BND-3)."""

import pytest

from sharemesh.serve.roles.share_leader import leader_settings
from sharemesh.share_leader.unsent import BEYOND_BYTES, UnsentBudget, UnsentOfStream
from tests.share_leader.test_consume import P0, deliveries, until
from tests.share_leader.world import world

SLOW, OTHER = "User:slow", "User:other"
RECORDS = 60
MESSAGE = 200
"""More than a message with one record takes here."""


def a_world(**settings):
    bounds = {"max_unsent_bytes": 4_000, "max_principal_unsent_bytes": 1_000} | settings
    return world(max_stream_messages=5, stream_message_bytes=1, **bounds)


async def slow_readers(w, count, principal=SLOW):
    """Open streams of one principal that nobody reads, each of a group of its own."""
    await w.lead(P0)
    streams = [
        await w.client("m1", f"g{number}", principal).consume(P0, records=100_000)
        for number in range(count)
    ]
    await w.clock.settle(1_000)  # a new group begins at the end of the log
    await w.produce(P0, *[1] * RECORDS)
    await w.clock.settle(5_000)
    return streams


async def test_bnd_3_slow_readers_of_one_principal_have_one_bound_together():
    async with a_world() as w:
        await slow_readers(w, 20)
        assert 0 < w.service.unsent.total <= 1_000 + 20 * MESSAGE  # those being acquired last


async def test_bnd_3_without_the_bound_each_stream_would_have_its_own():
    async with a_world(max_unsent_bytes=1 << 30, max_principal_unsent_bytes=1 << 30) as w:
        await slow_readers(w, 20)
        assert w.service.unsent.total > 20 * 3 * 70


async def test_bnd_3_another_principal_is_served_while_slow_ones_fill_the_bound():
    async with a_world(max_unsent_bytes=1_000) as w:
        await slow_readers(w, 20)
        stream = await w.client("m1", "fast", OTHER).consume(P0, records=100_000)
        await w.clock.settle(1_000)
        await w.produce(P0, *[1] * RECORDS)
        expected = range(RECORDS, 2 * RECORDS)
        assert await deliveries(stream, RECORDS) == {P0: [(n, n, 1) for n in expected]}


async def test_bnd_3_a_reader_that_reads_again_gets_all_in_order():
    async with a_world() as w:
        streams = await slow_readers(w, 12)
        for stream in streams:
            assert await deliveries(stream, RECORDS) == {P0: [(n, n, 1) for n in range(RECORDS)]}
        await until(lambda: w.service.unsent.total == 0)


async def test_bnd_3_a_stream_that_ends_gives_its_bytes_back():
    async with a_world() as w:
        await w.lead(P0)
        clients = [w.client("m1", f"g{number}", SLOW) for number in range(12)]
        streams = [await each.consume(P0, records=100_000) for each in clients]
        await w.clock.settle(1_000)
        await w.produce(P0, *[1] * RECORDS)
        await w.clock.settle(5_000)
        assert w.service.unsent.total
        for client in clients[1:]:
            await client.caller.close()
        assert await deliveries(streams[0], RECORDS) == {P0: [(n, n, 1) for n in range(RECORDS)]}
        await until(lambda: w.service.unsent.total == 0)


@pytest.mark.parametrize(
    ("held", "principal", "wanted", "room"),
    [
        ({"a": 50}, "a", 50, True),
        ({"a": 51}, "a", 50, False),
        ({"a": 100, "b": 90}, "c", 10, True),
        ({"a": 100, "b": 90}, "c", 11, False),
        ({"a": 100, "b": 90, "c": 10}, "c", 1, False),
    ],
)
def test_bnd_3_room_is_of_the_process_and_of_the_principal(held, principal, wanted, room):
    budget = UnsentBudget(200, 100)
    for who, size in held.items():
        budget.changed(who, size)
    assert budget.has_room(principal, wanted) is room


def test_bnd_3_those_that_wait_are_called_in_turn_as_far_as_there_is_room():
    budget = UnsentBudget(100, 100)
    called = []
    streams = [
        UnsentOfStream(budget, "a", lambda number=number: called.append(number))
        for number in range(4)
    ]
    streams[0].hold(100)
    for each in streams[1:]:
        each.hold(1)
    assert [each.allowed(40) for each in streams[1:]] == [0, 0, 0]
    streams[0].hold(20)  # 23 wait: room for one of 40
    assert called == [1]
    streams[3].close()
    streams[0].close()
    assert called == [1, 2]


def test_bnd_3_who_has_sent_all_may_have_a_little_beyond_the_bound():
    budget = UnsentBudget(100, 100)
    called = []
    full = UnsentOfStream(budget, "a", lambda: None)
    reader = UnsentOfStream(budget, "a", lambda: called.append("reader"))
    full.hold(100)
    assert reader.allowed(1 << 20) == BEYOND_BYTES
    reader.hold(10)
    assert reader.allowed(1 << 20) == 0
    reader.hold(0)
    assert called == ["reader"]
    assert reader.allowed(7) == 7


def test_bnd_3_a_stream_that_ended_holds_nothing_any_more():
    budget = UnsentBudget(100, 100)
    stream = UnsentOfStream(budget, "a", lambda: None)
    stream.hold(70)
    stream.close()
    stream.hold(30)
    assert budget.total == 0


@pytest.mark.parametrize(("named", "share"), [(True, 4), (False, 1)])
def test_bnd_3_where_callers_have_no_names_one_principal_may_have_all(named, share):
    settings = leader_settings(100, callers_have_names=named)
    assert settings.max_principal_unsent_bytes == settings.max_unsent_bytes // share
