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
    ("held", "principal", "room"),
    [
        ({}, "a", 100),
        ({"a": 50}, "a", 50),
        ({"a": 100, "b": 90}, "c", 10),
        ({"a": 100, "b": 90, "c": 10}, "c", 0),
    ],
)
def test_bnd_3_room_is_of_the_process_and_of_the_principal(held, principal, room):
    budget = UnsentBudget(200, 100)
    for who, size in held.items():
        budget.changed(who, size)
    assert budget.room(principal) == room


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


def waiting(budget, called, *names):
    """Make streams of the principals that these names begin with, each with a byte to send."""
    found = [
        UnsentOfStream(budget, name[0], lambda name=name: called.append(name)) for name in names
    ]
    for each in found:
        each.hold(1)
    return found


def test_bnd_3_the_order_is_that_of_all_principals_together():
    budget, called = UnsentBudget(100, 90), []
    full = UnsentOfStream(budget, "z", lambda: None)
    streams = waiting(budget, called, "a1", "b1", "a2", "c1")
    full.hold(90)
    assert [each.allowed(10) for each in streams] == [0, 0, 0, 0]
    full.hold(65)  # 69 wait: room for three of 10
    assert called == ["a1", "b1", "a2"], "not each principal's first, and not more than fit"


def test_bnd_3_who_comes_later_waits_behind_those_that_wait_however_little_it_wants():
    budget, called = UnsentBudget(100, 90), []
    full = UnsentOfStream(budget, "z", lambda: None)
    first, second = waiting(budget, called, "a1", "b1")
    full.hold(70)
    assert first.allowed(40) == 0
    assert second.allowed(5) == 0, "there is room for 5, but a1 was before"
    full.hold(50)
    assert called == ["a1", "b1"]


def test_bnd_3_who_is_called_and_finds_the_room_taken_keeps_its_place():
    budget, called = UnsentBudget(100, 90), []
    full = UnsentOfStream(budget, "z", lambda: None)
    first, second, third = waiting(budget, called, "a1", "b1", "c1")
    full.hold(90)
    assert [first.allowed(20), second.allowed(20)] == [0, 0]
    full.hold(70)
    assert called == ["a1"]
    full.hold(90)
    assert first.allowed(20) == 0
    assert third.allowed(20) == 0
    full.hold(30)
    assert called == ["a1", "a1", "b1", "c1"]


def test_bnd_3_one_whose_principal_is_full_keeps_nobody_else_waiting():
    budget, called = UnsentBudget(1_000, 100), []
    full = UnsentOfStream(budget, "a", lambda: None)
    slow, other = waiting(budget, called, "a1", "b1")
    full.hold(99)
    assert slow.allowed(50) == 0
    assert other.allowed(50) == 50


def test_bnd_3_who_wants_more_than_there_is_gets_what_there_is():
    budget, called = UnsentBudget(4 * BEYOND_BYTES, 3 * BEYOND_BYTES), []
    full = UnsentOfStream(budget, "z", lambda: None)
    greedy, modest = waiting(budget, called, "a1", "b1")
    full.hold(2 * BEYOND_BYTES)
    assert greedy.allowed(1 << 30) == 2 * BEYOND_BYTES - 2
    greedy.hold(BEYOND_BYTES + BEYOND_BYTES // 2)
    assert modest.allowed(1 << 30) == 0, "less than 64 KiB are left"
    greedy.hold(BEYOND_BYTES - 1)
    assert called == ["b1"]


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
