"""Quotas at a share leader: bytes produced and got, records of groups (QUO-6, QUO-9, QUO-10)."""

import asyncio
import logging

import pytest

from sharemesh import methods
from sharemesh.codec.decoded_records import encode_records
from sharemesh.domain.ids import TopicPartition
from sharemesh.domain.quota.names import QuotaName
from sharemesh.ports.authorizer import CLUSTER_NAME
from sharemesh.ports.network import UnmeasuredTime
from sharemesh.share_leader.requests.produce import Produce
from sharemesh.tasks import cancel_and_wait
from sharemesh.v1 import record_log_pb2, share_leader_pb2
from sharemesh.v1.common_pb2 import DecodedRecord
from tests.called_functions import calls_of
from tests.listed_quotas import ListedQuotas
from tests.share_leader.drained import draining, echoed, held
from tests.share_leader.test_consume import acknowledge, deliveries, results
from tests.share_leader.world import FOO, ack, acknowledged, acquired, parts, topics, until, world

P0 = TopicPartition(FOO, 0)
JANE, JOE, ANONYMOUS = "User:jane", "User:joe", "User:ANONYMOUS"
SECOND_MS = 1_000


def batch(size):
    return encode_records([DecodedRecord(value=bytes(size))], default_timestamp_ms=1)


BATCH = batch(932)
SIZE = len(BATCH)


def a_world(limits, **settings):
    return world(quotas=ListedQuotas(limits), **settings)


async def produce(w, principal=JANE, records=BATCH, caller=None):
    request = record_log_pb2.ProduceRequest(
        partitions=[
            record_log_pb2.ProducePartition(
                topic_id=P0.topic_id, partition=P0.partition, records=records
            )
        ]
    )
    caller = caller or w.caller(principal)
    return await caller.call(methods.PRODUCE, request, to=w.address)


def error(response):
    return response.partitions[0].error_code


async def test_quo_5_a_raised_quota_pays_a_debt_from_its_moment_though_nobody_waits():
    quotas = ListedQuotas({(QuotaName.PRODUCER_BYTE_RATE, JANE): SIZE})
    async with world(quotas=quotas) as w:
        await w.lead(P0)
        await produce(w)
        assert (await produce(w)).throttle_time_ms == SECOND_MS
        quotas.set(QuotaName.PRODUCER_BYTE_RATE, JANE, 2 * SIZE)
        await w.clock.advance(SECOND_MS // 2)  # the debt is paid
        assert (await produce(w)).throttle_time_ms == SECOND_MS // 2


async def test_quo_6_an_answer_says_how_long_to_wait_and_waiting_is_enough():
    async with a_world({(QuotaName.PRODUCER_BYTE_RATE, JANE): SIZE}) as w:
        await w.lead(P0)
        assert (await produce(w)).throttle_time_ms == 0  # the second that an idle one has
        told = await produce(w)
        assert (error(told), told.throttle_time_ms) == (0, SECOND_MS)
        await w.clock.advance(told.throttle_time_ms)
        again = await produce(w)
        assert (error(again), again.throttle_time_ms) == (0, SECOND_MS)


async def test_quo_6_an_answer_tells_a_debt_by_a_quota_that_was_set_meanwhile(monkeypatch):
    quotas, real = ListedQuotas({}), Produce._append_all
    async with world(quotas=quotas) as w:
        await w.lead(P0)

        async def meanwhile(produces, request, records, context):
            monkeypatch.setattr(Produce, "_append_all", real)
            response = await real(produces, request, records, context)
            quotas.set(QuotaName.PRODUCER_BYTE_RATE, JANE, SIZE)
            assert [(await produce(w)).throttle_time_ms for _ in range(2)] == [0, SECOND_MS]
            return response

        monkeypatch.setattr(Produce, "_append_all", meanwhile)
        assert (await produce(w)).throttle_time_ms == SECOND_MS


async def test_quo_6_the_debt_of_one_large_batch_is_told_in_parts():
    async with a_world({(QuotaName.PRODUCER_BYTE_RATE, JANE): SIZE / 60}) as w:
        await w.lead(P0)
        assert (await produce(w)).throttle_time_ms == 30_000


async def test_quo_6_who_does_not_wait_is_held_and_then_refused_with_nothing_appended():
    async with a_world({(QuotaName.PRODUCER_BYTE_RATE, JANE): SIZE / 10}) as w:
        await w.lead(P0)
        await produce(w)
        end = w.service.partitions.get(P0).log.high_watermark
        sent = asyncio.create_task(produce(w))
        await w.clock.advance(SECOND_MS - 1)
        assert not sent.done()
        await w.clock.advance(1)
        refused = await sent
        assert error(refused) == 89
        assert 7_000 <= refused.throttle_time_ms <= 9_000
        words = refused.partitions[0].error_message
        assert "quota producer_byte_rate of User:jane is" in words
        assert "sharemesh quotas alter" in words
        assert w.service.partitions.get(P0).log.high_watermark == end


async def test_quo_6_those_who_wait_go_on_in_turn():
    async with a_world({(QuotaName.PRODUCER_BYTE_RATE, JANE): SIZE * 4}) as w:
        await w.lead(P0)
        for _ in range(5):
            await produce(w)
        order = []

        async def one(number):
            answer = await produce(w)
            order.append((number, error(answer)))

        waiting = [asyncio.create_task(one(number)) for number in range(3)]
        await w.clock.advance(SECOND_MS)
        await asyncio.gather(*waiting)
        assert order == [(0, 0), (1, 0), (2, 0)]


async def test_quo_6_what_waits_here_is_bounded_and_others_are_not_slowed_down():
    limits = {(QuotaName.PRODUCER_BYTE_RATE, JANE): SIZE / 100}
    async with a_world(limits, max_held_produce_bytes=4 * 3 * SIZE) as w:
        await w.lead(P0)
        await produce(w)
        sent = [asyncio.create_task(produce(w)) for _ in range(5)]
        await w.clock.settle(300)
        assert sum(each.done() for each in sent) == 2
        assert error(await produce(w, JOE)) == 0
        await w.clock.advance(SECOND_MS)
        assert [error(await each) for each in sent] == [89] * 5


async def test_quo_6_a_minute_of_impatient_requests_is_within_the_quota():
    rate = SIZE * 10
    async with a_world({(QuotaName.PRODUCER_BYTE_RATE, JANE): rate}) as w:
        await w.lead(P0)
        landed = 0

        async def impatient(until_ms):
            nonlocal landed
            caller = w.caller(JANE)
            while w.clock.now_ms() < until_ms:
                answer = await produce(w, caller=caller)
                landed += SIZE * (error(answer) == 0)
                if not w.clock.now_ms() < until_ms:
                    break
                if error(answer):
                    await w.clock.sleep_ms(1)

        end_ms = w.clock.now_ms() + 60_000
        tasks = [asyncio.create_task(impatient(end_ms)) for _ in range(3)]
        for _ in range(60):
            await w.clock.advance(SECOND_MS)
        await w.clock.advance(2 * SECOND_MS)
        await asyncio.gather(*tasks)
        assert 0.95 * 60 * rate <= landed <= 1.05 * 60 * rate


async def test_quo_9_a_fetch_gets_nothing_while_the_quota_is_used_up_and_says_how_long():
    async with a_world({(QuotaName.CONSUMER_BYTE_RATE, JANE): SIZE}) as w:
        await w.lead(P0)
        for _ in range(4):
            await produce(w)
        m1 = w.client("m1", "g", JANE)
        await m1.join(P0)
        first = await m1.fetch()
        assert acquired(first, P0) == [(0, 0, 1)]
        second = await m1.fetch()
        assert acquired(second, P0) == [(1, 1, 1)]
        assert second.throttle_time_ms == SECOND_MS
        waits = asyncio.create_task(m1.fetch(max_wait_ms=500))
        await w.clock.advance(SECOND_MS - 1)
        assert not waits.done()
        assert w.runner(P0).machine.state_at(2) is None  # no lock runs meanwhile
        await w.clock.advance(1)
        assert acquired(await waits, P0) == [(2, 2, 1)]


async def test_quo_10_acknowledgements_are_never_delayed_nor_with_a_fetch():
    async with a_world({(QuotaName.CONSUMER_BYTE_RATE, JANE): SIZE / 100}) as w:
        await w.lead(P0)
        await produce(w)
        await produce(w)
        m1 = w.client("m1", "g", JANE)
        await m1.join(P0)
        answer = await m1.fetch()
        assert acquired(answer, P0)
        assert answer.throttle_time_ms == 30_000
        other = await m1.fetch(acks=[ack(P0, 0, 0, 1)], max_wait_ms=5_000)
        assert parts(other)[P0].acknowledge_error_code == 0
        assert not acquired(other, P0)
        assert w.runner(P0).machine.start_offset == 1


async def test_quo_9_a_group_gets_records_at_its_rate_whoever_its_members_are():
    async with a_world({(QuotaName.RECORD_RATE, "g"): 10.0}) as w:
        await w.lead(P0)
        await w.produce(P0, *[1] * 40)
        m1, m2 = w.client("m1", "g", JANE), w.client("m2", "g", JOE)
        await m1.join(P0)
        await m2.join(P0)
        got = 0
        for _ in range(3):
            for member in (m1, m2):
                waits = asyncio.create_task(member.fetch(max_records=5, share_acquire_mode=1))
                await w.clock.advance(SECOND_MS)
                got += len(acquired(await waits, P0))
        assert 0 < got <= 10 + 6 * 10


def accepting(*ranges, number=1):
    return share_leader_pb2.ConsumeRequest(
        acknowledgements=[
            share_leader_pb2.ConsumeAcknowledge(
                acknowledge_id=number,
                topics=topics((), [ack(P0, first, last, 1) for first, last in ranges]),
            )
        ]
    )


async def accept_all(stream, ranges, sizes):
    """Accept what comes at once; note the offsets, and the bytes of records."""
    async for message in stream:
        for entry in parts(message).values():
            got = [(each.first_offset, each.last_offset) for each in entry.acquired_records]
            if got:
                ranges.extend(got)
                sizes.append(len(entry.records))
                await stream.send(accepting(*got, number=len(sizes)))


async def test_quo_9_streams_of_a_principal_share_its_rate_over_a_minute_and_lose_nothing():
    rate = SIZE * 8
    async with a_world({(QuotaName.CONSUMER_BYTE_RATE, JANE): rate}) as w:
        await w.lead(P0)
        for _ in range(600):
            await produce(w)
        ranges, sizes, readers = [], [], []
        for number in range(3):
            client = w.client(f"m{number}", "g", JANE)
            stream = await client.consume(P0, max_records=20, max_wait_ms=0)
            readers.append(asyncio.create_task(accept_all(stream, ranges, sizes)))
        for _ in range(60):
            await w.clock.advance(SECOND_MS)
        assert 0.95 * 60 * rate <= sum(sizes) <= 1.05 * 60 * rate
        offsets = [offset for first, last in ranges for offset in range(first, last + 1)]
        assert sorted(offsets) == list(range(len(offsets)))  # none twice, none left out
        assert w.runner(P0).machine.start_offset == len(offsets)
        await cancel_and_wait(*readers)


async def test_quo_10_a_throttled_stream_takes_acknowledgements_and_tells_of_the_wait():
    async with a_world({(QuotaName.CONSUMER_BYTE_RATE, JANE): SIZE / 100}) as w:
        await w.lead(P0)
        await produce(w)
        await produce(w)
        client = w.client("m1", "g", JANE)
        stream = await client.consume(P0)
        messages = aiter(stream)
        first = await anext(messages)
        assert acquired(first, P0)
        assert first.throttle_time_ms == 30_000
        await stream.send(accepting((0, 0), number=7))
        assert acknowledged(await anext(messages))[7] == {P0: 0}
        assert w.runner(P0).machine.state_at(1) is None


async def test_quo_9_a_quota_that_is_raised_lets_those_who_wait_go_on_at_once():
    quotas = ListedQuotas({(QuotaName.CONSUMER_BYTE_RATE, JANE): SIZE / 100})
    async with world(quotas=quotas) as w:
        await w.lead(P0)
        await produce(w)
        await produce(w)
        stream = await w.client("m1", "g", JANE).consume(P0)
        messages = aiter(stream)
        assert acquired(await anext(messages), P0) == [(0, 0, 1)]
        await w.clock.settle()
        quotas.set(QuotaName.CONSUMER_BYTE_RATE, JANE, None)
        await w.clock.advance(10)
        assert acquired(await anext(messages), P0) == [(1, 1, 1)]


async def test_quo_9_a_stream_that_ends_while_it_waits_leaves_nothing_behind():
    async with a_world({(QuotaName.CONSUMER_BYTE_RATE, JANE): SIZE / 100}) as w:
        await w.lead(P0)
        await produce(w)
        client = w.client("m1", "g", JANE)
        stream = await client.consume(P0)
        assert acquired(await anext(aiter(stream)), P0)
        await w.clock.settle()
        consuming = w.service.pacing._consuming
        assert consuming._waiting
        await client.caller.close()
        await until(lambda: not consuming._waiting and not consuming._due)


async def test_quo_15_a_spell_is_said_once_and_counted_each_time(caplog):
    caplog.set_level(logging.WARNING)
    async with a_world({(QuotaName.PRODUCER_BYTE_RATE, JANE): SIZE}) as w:
        await w.lead(P0)
        await produce(w)
        for _ in range(20):
            told = await produce(w)
            assert told.throttle_time_ms
            await w.clock.advance(told.throttle_time_ms)
        said = [each for each in caplog.messages if "throttled" in each]
        assert len(said) == 1
        assert "quota producer_byte_rate of User:jane" in said[0]
        readings = {each.metric.name: each for each in w.service.telemetry.registry.collect()}
        histograms = readings["share.quota.throttle.time"].histograms
        counted = {labels: each.count for labels, each in histograms if each.count}
        assert counted == {("producer_byte_rate",): 20}


@pytest.mark.parametrize(
    ("name", "entity", "words"),
    [
        (QuotaName.CONSUMER_BYTE_RATE, JANE, "quota consumer_byte_rate of User:jane is 10 bytes/s"),
        (QuotaName.RECORD_RATE, "g", "quota record_rate of group 'g' is 0.1 records/s"),
    ],
)
async def test_quo_15_explain_says_that_a_record_waits_for_a_quota(name, entity, words):
    async with a_world({(name, entity): 10 if entity is JANE else 0.1}) as w:
        await w.lead(P0)
        await produce(w)
        await produce(w)
        stream = await w.client("m1", "g", JANE).consume(P0, share_acquire_mode=1, max_records=1)
        assert acquired(await anext(aiter(stream)), P0) == [(0, 0, 1)]
        await w.clock.settle()
        request = share_leader_pb2.ExplainRequest(
            group_id="g", topic_name="foo", partition=0, offset=1
        )
        answer = await w.caller(JANE).call(methods.EXPLAIN, request, to=w.address)
        assert answer.reason == "THROTTLED"
        assert words in answer.explanation


async def test_quo_15_explain_says_that_a_record_waits_for_processor_time(monkeypatch):
    words = "quota request_percentage of User:jane is 1% of a core"

    def holding_back(time, principal):
        return words if principal == JANE else ""

    monkeypatch.setattr(UnmeasuredTime, "holding_back", holding_back)
    async with a_world({}) as w:
        await w.lead(P0)
        await produce(w)
        stream = await w.client("m1", "g", JANE).consume(P0, share_acquire_mode=1, max_records=1)
        assert acquired(await anext(aiter(stream)), P0) == [(0, 0, 1)]
        monkeypatch.setattr(UnmeasuredTime, "may_go_on", lambda time, call: False)
        await produce(w)
        await produce(w)
        await w.clock.settle()
        request = share_leader_pb2.ExplainRequest(
            group_id="g", topic_name="foo", partition=0, offset=2
        )
        answer = await w.caller(JANE).call(methods.EXPLAIN, request, to=w.address)
        assert answer.reason == "THROTTLED"
        assert words in answer.explanation
        w.rules.denied.add(("describe_configs", "cluster", CLUSTER_NAME))
        answer = await w.caller(JOE).call(methods.EXPLAIN, request, to=w.address)
        assert answer.reason == "THROTTLED"
        assert "request_percentage" not in answer.explanation


@pytest.mark.parametrize(
    ("caller", "right", "told"),
    [(JANE, False, True), (JOE, False, False), (JOE, True, True)],
    ids=["its own", "another's", "who may describe configs"],
)
async def test_quo_15_explain_tells_the_quota_of_a_principal_to_few(caller, right, told):
    async with a_world({(QuotaName.CONSUMER_BYTE_RATE, JANE): 10}) as w:
        if not right:
            w.rules.denied.add(("describe_configs", "cluster", CLUSTER_NAME))
        await w.lead(P0)
        await produce(w)
        await produce(w)
        stream = await w.client("m1", "g", JANE).consume(P0, share_acquire_mode=1, max_records=1)
        assert acquired(await anext(aiter(stream)), P0) == [(0, 0, 1)]
        await w.clock.settle()
        request = share_leader_pb2.ExplainRequest(
            group_id="g", topic_name="foo", partition=0, offset=1
        )
        answer = await w.caller(caller).call(methods.EXPLAIN, request, to=w.address)
        assert answer.reason == "THROTTLED"
        assert ("User:jane" in answer.explanation) is told
        assert ("bytes/s" in answer.explanation) is told


async def test_quo_5_one_who_fails_when_it_is_called_stops_nobody_behind_it():
    limits = {(QuotaName.RECORD_RATE, "g"): 1.0, (QuotaName.RECORDS_IN_FLIGHT, JANE): 1}
    async with a_world(limits) as w:
        called = []

        def broken():
            raise ValueError("broken")

        rate, held = w.service.pacing._delivering, w.service.pacing._in_flight
        rate.taken("g", rate.account("g"), 0, 2)
        rate.when_open("g", broken)
        rate.when_open("g", lambda: called.append("rate"))
        reserved = held.begin(JANE, 1)
        held.when_room(JANE, broken)
        held.when_room(JANE, lambda: called.append("held"))
        held.end(reserved, 1)
        await w.clock.advance(2 * SECOND_MS)
        assert sorted(called) == ["held", "rate"]
        assert not rate._waiting
        assert not rate._due


@pytest.mark.parametrize("limits", [{}, {(QuotaName.PRODUCER_BYTE_RATE, JOE): 1.0}])
async def test_quo_6_without_a_quota_of_ones_own_nothing_waits(limits):
    async with a_world(limits) as w:
        await w.lead(P0)
        for _ in range(5):
            answer = await produce(w)
            assert (error(answer), answer.throttle_time_ms) == (0, 0)


async def test_quo_12_one_share_session_too_many_is_refused_in_words():
    async with a_world({(QuotaName.SHARE_SESSIONS, JANE): 2}) as w:
        await w.lead(P0)
        for number in range(2):
            await w.client(f"m{number}", "g", JANE).join(P0)
        refused = await w.client("m2", "g", JANE).fetch(P0)
        assert refused.error_code == 133
        assert "quota share_sessions of User:jane is 2: use fewer" in refused.error_message
        await w.client("m3", "g", JOE).join(P0)
        again = w.client("m1", "g", JANE)  # one that is replaced is not one more
        await again.join(P0)


def offsets_of(response):
    return [
        offset for first, last, _ in acquired(response, P0) for offset in range(first, last + 1)
    ]


def in_flight(w, principal=JANE):
    return w.service.pacing._in_flight.held(principal)


@pytest.mark.parametrize("end", ["accept", "release", "expire", "close", "fence"])
async def test_quo_12_records_in_flight_are_bounded_until_their_locks_end(end):
    async with a_world({(QuotaName.RECORDS_IN_FLIGHT, JANE): 3}) as w:
        await w.lead(P0)
        await w.produce(P0, *[1] * 10)
        m1 = w.client("m1", "g", JANE)
        await m1.join(P0)
        assert offsets_of(await m1.fetch(share_acquire_mode=1)) == [0, 1, 2]
        assert in_flight(w) == 3
        waits = asyncio.create_task(m1.fetch(max_wait_ms=100))
        await w.clock.advance(SECOND_MS)
        assert not acquired(await waits, P0)
        if end in ("accept", "release"):
            kind = 1 if end == "accept" else 2
            await m1.acknowledge(ack(P0, 0, 1, kind))
            assert in_flight(w) == 1
            assert len(offsets_of(await m1.fetch(share_acquire_mode=1))) == 2
            return
        if end == "expire":
            await w.clock.advance(31_000)
        elif end == "close":
            await m1.fetch(epoch=-1, max_records=0)
            await w.clock.settle()
        else:
            await w.service.stop_partition(P0)
        assert in_flight(w) == 0


async def test_quo_12_records_count_on_at_the_leader_to_which_their_locks_are_handed_over():
    async with a_world({(QuotaName.RECORDS_IN_FLIGHT, ANONYMOUS): 5}) as w:
        epoch, _, stream = await held(w)
        assert in_flight(w, ANONYMOUS) == 5
        stopping = draining(w)
        await echoed(stream)
        await stopping
        assert in_flight(w, ANONYMOUS) == 0
        await w.lead(P0)
        await w.produce(P0, 3)
        m2 = await w.client("m2").consume(P0)
        await until(lambda: in_flight(w, ANONYMOUS) == 5)
        await w.clock.advance(SECOND_MS)
        assert w.runner(P0).machine.state_at(5) is None, "there is no room"
        asked = acknowledge(1, ack(P0, 0, 4, 1, epoch=epoch))
        await stream.send(share_leader_pb2.ConsumeRequest(acknowledgements=[asked]))
        assert await results(stream, 1) == {P0: 0}
        assert await deliveries(m2, 3) == {P0: [(5, 7, 1)]}
        assert in_flight(w, ANONYMOUS) == 3


async def test_quo_12_a_stream_goes_on_as_soon_as_there_is_room():
    async with a_world({(QuotaName.RECORDS_IN_FLIGHT, JANE): 2}) as w:
        await w.lead(P0)
        await w.produce(P0, *[1] * 6)
        stream = await w.client("m1", "g", JANE).consume(P0, share_acquire_mode=1)
        messages = aiter(stream)
        seen = []
        for number in range(3):
            seen += offsets_of(await anext(messages))
            await w.clock.advance(100)
            assert in_flight(w) == 2
            await stream.send(accepting((seen[-2], seen[-1]), number=number + 1))
            assert acknowledged(await anext(messages))
            await w.clock.advance(10)
        assert seen == list(range(6))
        assert in_flight(w) == 0


async def test_quo_12_what_a_fetch_costs_does_not_grow_with_what_is_open():
    limits = {
        (QuotaName.RECORDS_IN_FLIGHT, JANE): 1e6,
        (QuotaName.SHARE_SESSIONS, JANE): 1e6,
        (QuotaName.CONSUMER_BYTE_RATE, JANE): 1e9,
    }
    async with a_world(limits) as w:
        await w.lead(P0)
        await w.produce(P0, *[1] * 200)
        pacing, costs = w.service.pacing, []

        def one_fetch():
            allowed = pacing.begin(JANE, "g", 1, 1)
            pacing.settle(allowed, JANE, "g", 0, 0)
            w.service.session_cache.sessions._check_room("g", JANE)

        for number in range(200):
            member = w.client(f"m{number}", "g", JANE)
            await member.join(P0)
            await member.fetch(max_records=1, share_acquire_mode=1)
            if number in (1, 199):
                costs.append(calls_of(one_fetch))
        assert in_flight(w) == 200
        assert costs[0] == costs[1] < 60


async def test_quo_14_a_stream_without_processor_time_gets_nothing_and_goes_on_when_called(
    monkeypatch,
):
    """Its acknowledgements are read all the same, and all of its work is measured."""
    waiting, measured = [], []

    def may_go_on(time, call):
        waiting.append(call)
        return open_again

    def measure(time, work):
        measured.append(work.__qualname__.rpartition(".")[2])
        return work

    monkeypatch.setattr(UnmeasuredTime, "may_go_on", may_go_on)
    monkeypatch.setattr(UnmeasuredTime, "measured", measure)
    monkeypatch.setattr(UnmeasuredTime, "throttle_ms", 7)
    open_again = False
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0)
        await w.produce(P0, 3)
        await w.clock.settle(100)
        assert w.runner(P0) is None or not w.runner(P0).machine.in_flight_count
        assert waiting
        open_again = True
        waiting[0]()
        message = await anext(aiter(stream))
        assert message.throttle_time_ms == 7
        assert {"_handle", "_feed_once", "send"} <= {*measured}


async def test_quo_5_what_binds_whom_is_remembered_until_it_changes_and_for_not_too_many(
    monkeypatch,
):
    monkeypatch.setattr("sharemesh.throttling.paced_rate.ACCOUNTS_MAX", 3)
    async with a_world({(QuotaName.PRODUCER_BYTE_RATE, JANE): SIZE}) as w:
        rate, quotas = w.service.pacing._producing, w.service.pacing._producing._quotas
        assert [rate.limit(JANE) for _ in range(2)] == [SIZE, SIZE]
        for number in range(10):
            assert rate.limit(f"User:{number}") is None
            assert len(rate._limits) <= 3
        quotas.set(QuotaName.PRODUCER_BYTE_RATE, JANE, 2 * SIZE)
        assert rate.limit(JANE) == 2 * SIZE


async def test_quo_5_an_account_that_was_forgotten_is_not_remembered_by_name():
    limits = {(QuotaName.PRODUCER_BYTE_RATE, each): SIZE for each in (JANE, JOE)}
    async with a_world(limits) as w:
        rate = w.service.pacing._producing
        rate._accounts._accounts_max = 1
        janes = rate.account(JANE)
        rate.taken(JANE, janes, 0, 2 * SIZE)
        shared = rate.account(JOE)  # there is no room while jane owes
        assert shared is not janes
        assert rate.account("User:joe") is shared
        assert [rate.account(JANE) is janes, *rate._known] == [True, JANE]
        await w.clock.advance(2 * SECOND_MS)  # jane's is full again
        assert rate.account(JOE) is not shared
        assert [*rate._known] == [JOE]
        rate._accounts._accounts_max = 2
        assert rate.account(JANE) is not janes


async def test_quo_12_who_holds_nothing_is_not_remembered(monkeypatch):
    monkeypatch.setattr("sharemesh.throttling.held_quota.ACCOUNTS_MAX", 3)
    async with a_world({(QuotaName.RECORDS_IN_FLIGHT, JANE): 9}) as w:
        held = w.service.pacing._in_flight
        begun = held.begin(JANE, 4)
        for number in range(20):
            held.end(held.begin(f"User:{number}", 1), 1)
            assert held.room(f"User:{number}") is None
        assert len(held._held) <= 3
        assert len(held._limits) <= 3
        assert (held.room(JANE), held.held(JANE)) == (5, 0)
        held.end(begun, 4)
        held._quotas.set(QuotaName.RECORDS_IN_FLIGHT, JANE, 2)
        assert held.room(JANE) == 2
