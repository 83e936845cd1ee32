"""Section K: share sessions and rotation, over real gRPC against a running leader."""

import asyncio

from sharemesh.cluster.store import records
from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicPartition
from sharemesh.domain.share_partition.effects import Answered
from sharemesh.domain.share_session import MAX_EPOCH, SessionKey, rotated
from sharemesh.ports.coordination import Put
from tests.conformance.scenario import scenario
from tests.share_leader.world import BAR, FOO, ack, acquired, parts, until, world

FOO0, FOO1, FOO2 = (TopicPartition(FOO, n) for n in range(3))
BAR0, BAR1 = (TopicPartition(BAR, n) for n in range(2))


async def leading(w, *partitions):
    for partition in partitions:
        await w.lead(partition)


def session_set(w, member, group="g"):
    session = w.service.session_cache.sessions.get(SessionKey(group, member))
    return None if session is None else list(session.partitions)


def states(w, partition, group="g"):
    views = w.runner(partition, group).machine.record_states()
    return [(v.first_offset, v.last_offset, v.state, v.delivery_count) for v in views]


@scenario("SES-S01")
async def test_acknowledgements_on_the_initial_epoch_are_refused():
    async with world(grpc=True) as w:
        await leading(w, FOO0)
        response = await w.client().fetch(FOO0, acks=[ack(FOO0, 0, 9, 1)], epoch=0)
        assert response.error_code == 42
        assert response.acquisition_lock_timeout_ms == 0
        assert parts(response) == {}


@scenario("SES-S02")
async def test_a_full_session_cache_refuses_and_keeps_what_it_has():
    async with world(grpc=True, max_share_sessions=1) as w:
        await leading(w, FOO0)
        m1, m2 = w.client("m1"), w.client("m2")
        await m1.fetch(FOO0)
        assert (await m2.fetch(FOO0)).error_code == 133
        assert len(w.service.session_cache.sessions) == 1
        assert (await m1.fetch(epoch=1)).error_code == 0


@scenario("SES-S05")
async def test_the_final_epoch_of_an_unknown_member_is_not_found():
    async with world(grpc=True) as w:
        assert (await w.client().fetch(epoch=-1)).error_code == 122


@scenario("SES-S06")
async def test_the_final_epoch_ignores_partitions_and_answers_acknowledgements():
    async with world(grpc=True) as w:
        await leading(w, FOO0)
        await w.produce(FOO0, 5)
        m1 = w.client()
        for partitions, acks in (((FOO0,), ()), ((), [ack(FOO0, 0, 4, 1)]), ((), ())):
            m1.epoch = 0
            await m1.join(FOO0)
            await m1.fetch(max_wait_ms=0)
            response = await m1.fetch(*partitions, acks=acks, epoch=-1)
            assert response.error_code == 0
            assert set(parts(response)) == {a[0] for a in acks}
            assert all(not e.acquired_records for e in parts(response).values())
            await until(lambda: session_set(w, "m1") is None and w.runner(FOO0) is None)


@scenario("SES-S07")
async def test_the_epoch_of_an_acknowledgement_is_checked():
    async with world(grpc=True) as w:
        await leading(w, FOO0)
        m1 = w.client()
        await m1.fetch(FOO0)
        assert (await m1.acknowledge(epoch=0)).error_code == 123
        assert (await w.client("unknown").acknowledge(epoch=1)).error_code == 122
        assert [(await m1.acknowledge(epoch=e)).error_code for e in (2, 1, -1)] == [123, 0, 0]


@scenario("SES-S08")
async def test_fetches_and_acknowledgements_use_one_epoch_sequence():
    async with world(grpc=True) as w:
        await leading(w, FOO0)
        m1 = w.client()
        assert (await m1.fetch(FOO0, epoch=0)).error_code == 0
        assert (await m1.acknowledge(epoch=1)).error_code == 0
        assert (await m1.fetch(epoch=1)).error_code == 123
        assert (await m1.fetch(epoch=2)).error_code == 0


@scenario("SES-S09")
async def test_the_epoch_wraps_to_1():
    async with world(grpc=True) as w:
        await leading(w, FOO0)
        m1 = w.client()
        await m1.fetch(FOO0)
        w.service.session_cache.sessions.get(SessionKey("g", "m1")).expected_epoch = MAX_EPOCH
        assert (await m1.fetch(epoch=MAX_EPOCH)).error_code == 0
        assert (await m1.fetch(epoch=1)).error_code == 0


@scenario("SES-S10")
async def test_a_later_response_holds_only_new_partitions_when_nothing_happened():
    async with world(grpc=True) as w:
        await leading(w, FOO0, FOO1, BAR0)
        m1 = w.client()
        await m1.fetch(FOO0, FOO1)
        response = await m1.fetch(BAR0, forget=[FOO0])
        assert set(session_set(w, "m1")) == {FOO1, BAR0}
        assert set(parts(response)) == {BAR0}


@scenario("SES-S11")
async def test_a_session_without_partitions_stays():
    async with world(grpc=True) as w:
        await leading(w, FOO0, FOO1)
        m1 = w.client()
        await m1.fetch(FOO0, FOO1)
        assert parts(await m1.fetch(forget=[FOO0, FOO1])) == {}
        assert len(w.service.session_cache.sessions) == 1
        assert (await m1.fetch(FOO1, epoch=2)).error_code == 0


@scenario("SES-S12")
async def test_partitions_are_forgotten_one_by_one():
    async with world(grpc=True) as w:
        await leading(w, FOO0, BAR0)
        m1 = w.client()
        await m1.fetch(FOO0, BAR0)
        await m1.fetch(forget=[FOO0])
        assert session_set(w, "m1") == [BAR0]
        await m1.fetch(forget=[BAR0])
        assert session_set(w, "m1") == []


@scenario("SES-S13")
async def test_the_sets_of_two_members():
    async with world(grpc=True) as w:
        await leading(w, FOO0, FOO1, BAR0, BAR1)
        m1, m2 = w.client("m1"), w.client("m2")
        await m1.fetch(FOO0, FOO1)
        assert set(session_set(w, "m1")) == {FOO0, FOO1}
        await m2.fetch(BAR0)
        assert set(session_set(w, "m2")) == {BAR0}
        await m1.fetch(BAR0)
        assert set(session_set(w, "m1")) == {FOO0, FOO1, BAR0}
        await m2.fetch(BAR1, forget=[BAR0])
        assert set(session_set(w, "m2")) == {BAR1}
        await m1.fetch(epoch=-1)
        await until(lambda: session_set(w, "m1") is None)
        await m2.fetch(forget=[BAR1], epoch=2)
        assert session_set(w, "m2") == []


@scenario("SES-S16")
async def test_partitions_with_records_move_to_the_end_of_the_session():
    async with world(grpc=True) as w:
        await leading(w, FOO0, FOO1, FOO2)
        m1 = w.client()
        await m1.join(FOO0, FOO1, FOO2)
        assert session_set(w, "m1") == [FOO0, FOO1, FOO2]
        await w.produce(FOO0, 3)
        assert set(parts(await m1.fetch())) == {FOO0}
        assert session_set(w, "m1") == [FOO1, FOO2, FOO0]


@scenario("SES-S18")
async def test_a_lost_connection_frees_its_slot_and_releases_its_records():
    async with world(grpc=True, max_share_sessions=2) as w:
        await leading(w, FOO0)
        m1, m2, m3 = (w.client(f"m{n}") for n in (1, 2, 3))
        await m1.hold()
        await m2.hold()
        await w.produce(FOO0, 10)
        await m1.join(FOO0)
        await m2.join(FOO0)
        assert acquired(await m1.fetch(), FOO0) == [(0, 9, 1)]
        assert (await m3.fetch(FOO0)).error_code == 133
        await m1.caller.close()
        await until(lambda: w.service.counters.sessions_evicted == 1)
        await until(lambda: states(w, FOO0) == [(0, 9, DeliveryState.AVAILABLE, 1)])
        assert (await m3.fetch(FOO0, max_records=0)).error_code == 0
        again = w.client("m1")
        again.epoch = 1
        assert (await again.fetch()).error_code == 122


@scenario("SES-S19")
async def test_losing_connections_is_leaving_and_the_last_one_empties_the_group():
    """A member leaves: it is evicted and its records released. Group empty: nothing is cached."""
    async with world(grpc=True) as w:
        for group in ("g1", "g2"):
            await w.configure(group, auto_offset_reset="earliest")
        await leading(w, FOO0)
        await w.produce(FOO0, 1, 1)
        m1, m2 = w.client("m1", "g1"), w.client("m2", "g1")
        m3 = w.client("m3", "g2")
        for member in (m1, m2, m3):
            await member.hold()
            await member.join(FOO0)
            assert len(acquired(await member.fetch(max_records=1), FOO0)) == 1

        def left():
            session_cache = w.service.session_cache
            return w.service.counters.sessions_evicted, [
                session_cache.sessions.get(SessionKey(m.group, m.member)) is None
                for m in (m1, m2, m3)
            ]

        await m1.caller.close()
        await until(lambda: left() == (1, [True, False, False]))
        await until(lambda: states(w, FOO0, "g1")[0][2] is DeliveryState.AVAILABLE)
        assert w.runner(FOO0, "g1") is not None
        await m2.caller.close()
        await until(lambda: left() == (2, [True, True, False]) and not w.runner(FOO0, "g1"))
        assert w.runner(FOO0, "g2") is not None
        await m3.caller.close()
        await until(lambda: left() == (3, [True, True, True]) and not w.runner(FOO0, "g2"))

        # Variant: the session was closed before its connection is lost.
        m4, m5 = w.client("m4", "g1"), w.client("m5", "g1")
        for member in (m4, m5):
            await member.hold()
            await member.join(FOO0)
        await m4.fetch(epoch=-1)
        await m5.caller.close()
        await until(lambda: w.service.counters.sessions_evicted == 4)
        await m4.caller.close()
        await until(lambda: w.runner(FOO0, "g1") is None)
        assert w.service.counters.sessions_evicted == 4, "no member left with m4's connection"


@scenario("SES-S20")
async def test_share_partitions_go_with_the_last_member_of_the_group():
    async with world(grpc=True) as w:
        await leading(w, FOO0, FOO1)
        m1, m2 = w.client("m1"), w.client("m2")
        for member in (m1, m2):
            await member.hold()
            await member.join(FOO0, FOO1)
        before = [w.runner(FOO0), w.runner(FOO1)]
        await m1.caller.close()
        await until(lambda: w.service.counters.sessions_evicted == 1)
        assert [w.runner(FOO0), w.runner(FOO1)] == before
        await m2.caller.close()
        await until(lambda: w.runner(FOO0) is None and w.runner(FOO1) is None)
        assert {runner.machine.state.name for runner in before} == {"FENCED"}


@scenario("SES-S21")
async def test_switching_the_feature_off_clears_everything():
    async with world(grpc=True) as w:
        await leading(w, FOO0, FOO1, BAR0, BAR1)
        m1 = w.client()
        await m1.join(FOO0, FOO1, BAR0, BAR1)
        runners = [w.runner(p) for p in (FOO0, FOO1, BAR0, BAR1)]
        await w.write(
            Put(w.view.keys.share_version, records.encode_number(0)),
            until=lambda: w.view.share_version() == 0,
        )
        await w.clock.advance(50)
        await until(lambda: len(w.service.session_cache.sessions) == 0)
        assert {runner.machine.state.name for runner in runners} == {"FENCED"}
        assert [w.runner(p) for p in (FOO0, FOO1, BAR0, BAR1)] == [None] * 4
        assert (await m1.fetch()).error_code == 35


@scenario("SES-S22")
async def test_releasing_a_session_answers_for_each_of_its_partitions():
    foo0, bar2, baz4 = FOO0, TopicPartition(BAR, 2), TopicPartition(BAR, 4)
    async with world(grpc=True) as w:
        await leading(w, foo0, bar2)
        m1 = w.client()
        await m1.join(foo0, bar2, baz4)
        failed = asyncio.get_running_loop().create_future()
        failed.set_result(Answered(0, ErrorCode.INVALID_RECORD_STATE, "told to fail"))
        w.runner(bar2).release = lambda member_id, principal: failed
        counters = w.service.counters
        fetches = counters.fetch_requests.copy()
        session_cache, key = w.service.session_cache, SessionKey("g", "m1")
        outcomes = await session_cache.close(session_cache.session_of(key))
        assert {p: int(error) for p, (error, _) in outcomes.items()} == {
            foo0: 0,
            bar2: 121,
            baz4: 3,
        }
        for group, member in (("other", "m1"), ("g", "other")):
            answer = await w.client(member, group=group).acknowledge(epoch=-1)
            assert answer.error_code == 122
        m1.epoch = 0
        await m1.fetch()
        assert await session_cache.close(session_cache.session_of(key)) == {}
        assert counters.fetch_requests == fetches
        assert not counters.acknowledge_requests
        assert not counters.acknowledged


@scenario("SES-S23")
async def test_a_full_cache_answers_only_after_max_wait():
    async with world(grpc=True, max_share_sessions=1) as w:
        await leading(w, FOO0)
        await w.client("m1").fetch(FOO0)
        m2 = w.client("m2")
        before = w.clock.now_ms()
        waiting = asyncio.create_task(m2.fetch(FOO0, max_wait_ms=1_000))
        while not waiting.done():
            await asyncio.sleep(0.001)
            assert not waiting.done() or w.clock.now_ms() - before >= 1_000
            await w.clock.advance(10)
        assert (await waiting).error_code == 133
        assert w.clock.now_ms() - before >= 1_000


@scenario("ROT-S01")
def test_partitions_rotate_by_epoch():
    seven, three = list("abcdefg"), list("abc")

    def shift(items, epoch):
        return items.index(rotated(items, epoch)[0])

    assert [shift(seven, e) for e in (0, 1, 3, 12, MAX_EPOCH)] == [0, 1, 3, 5, 1]
    assert [shift(three, e) for e in (1, 3, 5, MAX_EPOCH)] == [1, 0, 2, 1]
    assert [shift(three, e) for e in (0, -1)] == [0, 0]
    assert rotated([], 5) == []


@scenario("ROT-S02")
async def test_the_record_budget_goes_to_the_partitions_in_rotated_order():
    async with world(grpc=True) as w:
        await leading(w, FOO0, FOO1)
        for partition in (FOO0, FOO1):
            await w.produce(partition, *[1] * 100)
        await w.client("m0").join(FOO0, FOO1)  # both are initialized
        m1 = w.client("m1")
        for partition, other in ((FOO0, FOO1), (FOO1, FOO0)):
            response = await m1.fetch(
                *((FOO0, FOO1) if m1.epoch == 0 else ()), max_records=10, max_wait_ms=1_000
            )
            got = acquired(response, partition)
            assert (got[0][0], got[-1][1]) == (0, 9)
            assert acquired(response, other) == []
