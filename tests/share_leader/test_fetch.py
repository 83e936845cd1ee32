"""Fetch: records without a group (spec FET)."""

import asyncio

import pytest

from sharemesh import methods
from sharemesh.codec.decoded_records import encode_records
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.quota.names import QuotaName
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.ports.shard_log import FencedError
from sharemesh.v1 import record_log_pb2 as rl
from sharemesh.v1.common_pb2 import DecodedRecord
from tests.backends.kafka.record_log_world import batch, kafka_world
from tests.backends.kafka.record_log_world import transactional as transactional_of_kafka
from tests.decoding import decode_records
from tests.listed_quotas import ListedQuotas
from tests.share_leader.test_transactions import transactional
from tests.share_leader.world import FOO, LEADER, TopicPartition, world
from tests.turns import Turns, holds_no_turn

P0, P1 = TopicPartition(FOO, 0), TopicPartition(FOO, 1)
MIB = 1 << 20


def at(offset, partition=P0, **fields):
    fields = {"max_bytes": MIB, **fields}
    if "topic_name" not in fields:
        fields.setdefault("topic_id", partition.topic_id)
    return rl.FetchPartition(partition=partition.partition, fetch_offset=offset, **fields)


def fetch(w, *partitions, principal="User:ANONYMOUS", **fields):
    fields = {"max_bytes": 50 * MIB, "min_bytes": 1, **fields}
    request = rl.FetchRequest(partitions=partitions, **fields)
    return w.network.caller(principal).call(methods.FETCH, request, to=LEADER)


async def one(w, offset, **fields):
    (found,) = (await fetch(w, at(offset), **fields)).partitions
    return found


def offsets(found):
    """Return the offsets in the batches of a result."""
    if not found.records:
        return []
    records = decode_records(found.records, [(0, 10_000, 1)])
    return [each.offset for each in records]


async def settled():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_fet_1_batches_are_read_whole_by_id_and_by_name_and_no_group_is_concerned():
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 3, 2)
        found = await one(w, 0)
        assert offsets(found) == [0, 1, 2, 3, 4]
        assert (found.log_start_offset, found.high_watermark, found.last_stable_offset) == (0, 5, 5)
        assert (found.topic_id, found.error_code, found.leader_epoch) == (FOO, 0, w.epoch)
        assert offsets(await one(w, 4)) == [3, 4], "the batch that holds the offset"
        by_name = (await fetch(w, at(3, topic_name="foo"))).partitions[0]
        assert (offsets(by_name), by_name.topic_id) == ([3, 4], FOO)
        assert not w.service.partitions.get(P0).shares


async def test_fet_1_each_partition_is_refused_alone_and_needs_read():
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 1)
        answer = await fetch(
            w,
            at(0, P1),
            at(0),
            at(0, TopicPartition(FOO, 99)),
            at(0, topic_id=b"nothing"),
            at(0, topic_name="nope"),
            max_wait_ms=30_000,
        )
        assert [each.error_code for each in answer.partitions] == [6, 0, 3, 100, 3]
        assert offsets(answer.partitions[1]) == [0]
        assert [each.high_watermark for each in answer.partitions] == [-1, 1, -1, -1, -1]
        w.rules.denied.add(("read", "topic", "foo"))
        answer = await fetch(w, at(0), at(0, TopicPartition(FOO, 99)), at(0, topic_name="foo"))
        assert [each.error_code for each in answer.partitions] == [29, 29, 29]
        assert not any(each.records for each in answer.partitions)


async def test_fet_1_who_leads_the_partition_is_told_with_the_refusal():
    async with world() as w:
        await w.lead(P0)
        await w.claim("leader-2", P1, 7)
        answer = await fetch(w, at(0, P1))
        assert answer.partitions[0].current_leader.leader_id == "leader-2"
        assert answer.partitions[0].current_leader.leader_epoch == 7
        assert [each.node_id for each in answer.node_endpoints] == ["leader-2"]


@pytest.mark.parametrize(("offset", "code"), [(-1, 1), (0, 1), (1, 1), (2, 0), (5, 0), (6, 1)])
async def test_fet_2_offsets_outside_of_the_log_are_out_of_range(offset, code):
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 1, 1, 1, 1, 1)
        await w.service.partitions.get(P0).log.delete_records(2)
        assert (await one(w, offset)).error_code == code


async def test_fet_2_a_client_of_another_leader_epoch_is_told_so():
    async with world() as w:
        await w.lead(P0, epoch=5)

        async def code(known):
            return (await fetch(w, at(0, current_leader_epoch=known))).partitions[0].error_code

        assert [await code(known) for known in (4, 5, 6)] == [
            ErrorCode.FENCED_LEADER_EPOCH,
            0,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
        ]


async def test_fet_2_read_committed_stops_at_open_transactions_and_tells_aborted_ones():
    async with world() as w:
        await w.lead(P0)
        log = w.service.partitions.get(P0).log
        records = [DecodedRecord(value=b"v")]
        await log.append(encode_records(records, default_timestamp_ms=1))
        await log.append(transactional(9, 1))
        assert offsets(await one(w, 0)) == [0, 1]
        found = await one(w, 0, read_committed=True)
        assert (offsets(found), found.last_stable_offset, found.high_watermark) == ([0], 1, 2)
        assert not (await one(w, 1, read_committed=True)).records
        await log.append_txn_marker(9, 0, commit=False)
        found = await one(w, 0, read_committed=True)
        told = [(each.producer_id, each.first_offset) for each in found.aborted_transactions]
        assert (told, found.last_stable_offset) == ([(9, 1)], 3)
        assert not (await one(w, 0)).aborted_transactions


async def test_fet_2_what_is_damaged_is_told_and_what_lies_before_it_is_read(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 1, 1)
        log = type(w.service.partitions.get(P0).log)
        monkeypatch.setattr(log, "damage", (2, "broken at 2"))
        assert offsets(await one(w, 0)) == [0, 1]
        for offset in (2, 3):
            found = await one(w, offset, max_wait_ms=30_000)
            assert (found.error_code, found.error_message) == (56, "broken at 2")


async def test_fet_2_ends_are_asked_for_again_before_an_offset_is_called_out_of_range(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        led = w.service.partitions.get(P0)

        async def refresh(log):
            assert log is led.log
            raise RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, "no broker answers")

        monkeypatch.setattr(type(led.log), "refresh", refresh)
        assert (await one(w, 3)).error_message == "no broker answers"
        assert (await one(w, 0)).error_code == 0


async def test_fet_3_bytes_are_bounded_over_all_partitions_and_of_each():
    async with world() as w:
        for partition in (P0, P1):
            await w.lead(partition)
            await w.produce(partition, *[1] * 6, padding=b"x" * 1_000)

        def counts(answer):
            return [len(offsets(each)) for each in answer.partitions]

        assert counts(await fetch(w, at(0), at(0, P1))) == [6, 6]
        assert counts(await fetch(w, at(0, max_bytes=2_500), at(0, P1))) == [2, 6]
        assert counts(await fetch(w, at(0), at(0, P1), max_bytes=8_700)) == [6, 2]
        assert counts(await fetch(w, at(0), at(0, P1), max_bytes=6_500)) == [6, 0]
        for least in (0, 1, -5):
            few = at(0, max_bytes=least)
            assert counts(await fetch(w, few, at(0, P1), max_bytes=least)) == [1, 0]


async def test_fet_3_of_a_partition_behind_the_first_its_own_bound_holds_for_its_first_batch_too():
    async with world() as w:
        for partition in (P0, P1):
            await w.lead(partition)
            await w.produce(partition, 1, padding=b"x" * 1_000)
        few = [at(0, P0, max_bytes=10), at(0, P1, max_bytes=10)]
        assert [len(offsets(each)) for each in (await fetch(w, *few)).partitions] == [1, 0]


async def test_fet_3_what_does_not_fit_is_not_read_again_and_again(monkeypatch):
    """Else a request of a few bytes makes a process read gigabytes that no quota counts."""
    async with world() as w:
        for partition in (P0, P1):
            await w.lead(partition)
            await w.produce(partition, 1, padding=b"x" * (10 if partition is P0 else 100_000))
        log = w.service.partitions.get(P1).log
        read, reads = log.read, []

        async def counted(*offset, **bounds):
            reads.append(offset)
            return await read(*offset, **bounds)

        monkeypatch.setattr(log, "read", counted)
        answer = await fetch(w, at(0), *[at(0, P1)] * 1_000, max_bytes=1_000)
        assert [len(offsets(each)) for each in answer.partitions] == [1] + [0] * 1_000
        assert len(reads) <= 8


async def test_fet_3_an_answer_has_no_more_than_the_process_gives():
    async with world(max_response_bytes=2_500) as w:
        await w.lead(P0)
        await w.produce(P0, *[1] * 6, padding=b"x" * 1_000)
        assert len(offsets(await one(w, 0))) == 2


async def test_fet_3_who_reads_much_keeps_others_waiting_for_a_few_reads_only(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 1)
        log = w.service.partitions.get(P0).log
        read, may_go_on, reading = log.read, asyncio.Event(), []

        async def slow(offset, **fields):
            reading.append(offset)
            await may_go_on.wait()
            return await read(offset, **fields)

        monkeypatch.setattr(log, "read", slow)
        flood = [asyncio.ensure_future(fetch(w, at(0), principal="User:eve")) for _ in range(40)]
        await settled()
        assert len(reading) == 8
        alice = asyncio.ensure_future(fetch(w, at(0), principal="User:alice"))
        await settled()
        assert len(reading) == 9, "nobody waits behind 32 of another principal"
        may_go_on.set()
        for answer in await asyncio.gather(alice, *flood):
            assert offsets(answer.partitions[0]) == [0]
        assert len(reading) == 41


async def test_fet_4_a_fetch_waits_for_records_or_its_deadline():
    async with world() as w:
        await w.lead(P0)
        waiting = asyncio.ensure_future(one(w, 0, max_wait_ms=5_000))
        await settled()
        assert not waiting.done()
        await w.produce(P0, 1)
        assert offsets(await waiting) == [0]
        late = asyncio.ensure_future(one(w, 1, max_wait_ms=5_000))
        await settled()
        await w.clock.advance(4_999)
        assert not late.done()
        await w.clock.advance(1)
        found = await late
        assert (found.records, found.error_code, found.high_watermark) == (b"", 0, 1)
        assert not w.service.partitions.get(P0)._watching


async def test_fet_4_a_fetch_waits_for_as_many_bytes_as_it_wants_up_to_its_own_bound():
    async with world() as w:
        await w.lead(P0)
        waiting = asyncio.ensure_future(one(w, 0, max_wait_ms=5_000, min_bytes=1_500))
        await w.produce(P0, 1, padding=b"x" * 1_000)
        await settled()
        assert not waiting.done()
        await w.produce(P0, 1, padding=b"x" * 1_000)
        assert offsets(await waiting) == [0, 1]
        less = one(w, 1, max_wait_ms=5_000, min_bytes=2**31 - 1, max_bytes=1_000)
        assert offsets(await less) == [1]


async def test_fet_4_a_partition_that_is_named_a_thousand_times_is_watched_once():
    async with world() as w:
        await w.lead(P0)
        waiting = asyncio.ensure_future(fetch(w, *[at(0)] * 1_000, max_wait_ms=5_000))
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(w.service.partitions.get(P0)._watching) == 1
        await w.produce(P0, 1)
        assert {len(offsets(each)) for each in (await waiting).partitions} == {1}


async def test_fet_4_a_partition_that_is_named_a_thousand_times_is_looked_at_once_for_an_append(
    monkeypatch,
):
    async with world(manual=False) as w:
        await w.lead(P0)
        await w.produce(P0, 3)
        many = [at(number % 3) for number in range(1_000)]
        waiting = asyncio.ensure_future(fetch(w, *many, min_bytes=MIB, max_wait_ms=5_000))
        for _ in range(200):
            await asyncio.sleep(0)
        turns = Turns(w.clock, monkeypatch)
        turns.count(type(w.service.partitions.get(P0).log), "bytes_between")
        await w.produce(P0, 1)
        for _ in range(200):
            await asyncio.sleep(0)
        assert (turns.total, waiting.done()) == (1, False)
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_fet_4_a_partition_that_is_named_often_counts_once_with_its_lowest_offset():
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 1, padding=b"x" * 1_000)
        entries = [at(1), at(0, max_bytes=10), at(0), at(0)]
        waiting = asyncio.ensure_future(fetch(w, *entries, max_wait_ms=5_000, min_bytes=1_500))
        await settled()
        assert not waiting.done()
        await w.produce(P0, 1, padding=b"x" * 1_000)
        found = (await waiting).partitions
        assert [offsets(each) for each in found[:2]] == [[1], []], "in the order of the request"


async def test_fet_4_the_lowest_of_many_offsets_that_leaves_the_log_ends_the_wait():
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 1, 1)
        entries = [at(2), at(1), at(2)]
        waiting = asyncio.ensure_future(fetch(w, *entries, max_wait_ms=5_000, min_bytes=MIB))
        await settled()
        assert not waiting.done()
        await w.service.partitions.get(P0).log.delete_records(2)
        await w.produce(P0, 1)
        answer = await waiting
        out_of_range = ErrorCode.OFFSET_OUT_OF_RANGE
        assert [each.error_code for each in answer.partitions] == [0, out_of_range, 0]


async def test_fet_4_it_does_not_wait_for_nothing_nor_beside_a_refusal_nor_when_too_many_do():
    async with world(max_waiting_fetches=1) as w:
        await w.lead(P0)
        assert not (await one(w, 0, max_wait_ms=5_000, min_bytes=0)).records
        assert not (await fetch(w, max_wait_ms=5_000)).partitions
        answer = await fetch(w, at(0), at(0, P1), max_wait_ms=5_000)
        assert [each.error_code for each in answer.partitions] == [0, 6]
        waiting = asyncio.ensure_future(one(w, 0, max_wait_ms=5_000))
        await settled()
        assert not (await one(w, 0, max_wait_ms=5_000)).records
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not w.service.partitions.get(P0)._watching


async def test_fet_4_nor_when_those_that_wait_name_too_many_partitions():
    async with world(max_waiting_partitions=5) as w:
        await w.lead(P0)
        waiting = asyncio.ensure_future(fetch(w, at(0), at(0), at(0), max_wait_ms=5_000))
        await settled()
        at_once = await fetch(w, at(0), at(0), at(0), max_wait_ms=5_000)
        assert [each.error_code for each in at_once.partitions] == [0, 0, 0]
        assert not waiting.done()
        await w.produce(P0, 1)
        await waiting
        late = asyncio.ensure_future(fetch(w, *[at(1)] * 5, max_wait_ms=5_000))
        await settled()
        assert not late.done(), "who is answered leaves room"
        await w.produce(P0, 1)
        await late


async def test_fet_4_a_partition_that_goes_ends_the_wait():
    async with world() as w:
        await w.lead(P0)
        waiting = asyncio.ensure_future(one(w, 0, max_wait_ms=5_000))
        await settled()
        await w.service.stop_partition(P0)
        assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await w.lead(P0)
        waiting = asyncio.ensure_future(one(w, 0, max_wait_ms=5_000))
        await settled()
        w.service.partitions.epoch_ended(w.service.partitions.get(P0), FencedError("higher"))
        await w.lead(P0)
        found = await waiting
        assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_fet_5_a_deposed_leader_gives_nothing(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 1)
        led = w.service.partitions.get(P0)

        async def look():
            raise FencedError("a higher fence")

        monkeypatch.setattr(led.log, "look", look)
        monkeypatch.setattr(led.log, "has_looked_since", lambda _: False)
        found = await one(w, 0)
        assert (found.error_code, found.records) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")
        assert w.service.partitions.get(P0) is None


async def test_fet_5_who_loses_the_right_while_waiting_gets_the_refusal():
    async with world() as w:
        await w.lead(P0)
        waiting = asyncio.ensure_future(fetch(w, at(0), at(0), max_wait_ms=5_000))
        await settled()
        w.rules.denied.add(("read", "topic", "foo"))
        await w.produce(P0, 1)
        for found in (await waiting).partitions:
            assert (found.error_code, found.records) == (29, b"")
            assert (found.high_watermark, found.topic_id) == (-1, FOO)


async def test_fet_5_so_does_who_would_have_got_no_records():
    async with world() as w:
        await w.lead(P0)
        waiting = asyncio.ensure_future(one(w, 0, max_wait_ms=5_000, min_bytes=100_000))
        await settled()
        w.rules.denied.add(("read", "topic", "foo"))
        await w.clock.advance(5_000)
        found = await waiting
        assert (found.error_code, found.high_watermark) == (29, -1)


async def test_fet_5_an_error_nobody_thought_of_concerns_its_partition_only(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 1)
        log = w.service.partitions.get(P0).log

        async def read(*_, **__):
            raise OSError("I/O error")

        monkeypatch.setattr(log, "read", read)
        found = await one(w, 0)
        assert found.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert "I/O error" in found.error_message


async def test_fet_6_bytes_count_for_the_rate_of_the_principal():
    quotas = ListedQuotas()
    async with world(started=False) as w:
        w.start(quotas=quotas)
        await w.lead(P0)
        await w.produce(P0, *[1] * 6, padding=b"x" * 1_000)
        quotas.set(QuotaName.CONSUMER_BYTE_RATE, "User:ANONYMOUS", 4_000)
        first = await fetch(w, at(0))
        assert len(offsets(first.partitions[0])) == 1, "what 250 ms bring"
        while not first.throttle_time_ms:
            first = await fetch(w, at(0))
        began_ms = w.clock.now_ms()
        waiting = asyncio.ensure_future(fetch(w, at(0)))
        await settled()
        assert not waiting.done()
        while not waiting.done():
            await w.clock.advance(10)
        assert len(offsets((await waiting).partitions[0])) == 1
        assert 0 < w.clock.now_ms() - began_ms <= 1_000


async def test_fet_6_who_waits_in_vain_is_answered_without_records():
    quotas = ListedQuotas()
    async with world(started=False) as w:
        w.start(quotas=quotas)
        await w.lead(P0)
        await w.produce(P0, 1, padding=b"x" * 1_000)
        quotas.set(QuotaName.CONSUMER_BYTE_RATE, "User:ANONYMOUS", 10)
        assert offsets(await one(w, 0)) == [0]
        waiting = asyncio.ensure_future(fetch(w, at(0)))
        await settled()
        await w.clock.advance(1_000)
        answer = await waiting
        assert (answer.partitions[0].records, answer.partitions[0].high_watermark) == (b"", 1)
        assert answer.throttle_time_ms > 1_000


async def test_fet_1_fet_4_topics_of_a_kafka_cluster_are_read_as_they_are_stored_there():
    async with kafka_world() as kafka, world(manual=False, record_logs=kafka.logs) as w:
        await w.create_topic(kafka.topic_id, "orders", 2)
        await w.lead(kafka.partition)
        await kafka.write(batch(3))

        async def read(offset, **fields):
            where = at(offset, kafka.partition)
            (found,) = (await fetch(w, where, max_wait_ms=20_000, **fields)).partitions
            return found

        found = await read(1)
        assert (offsets(found), found.high_watermark) == ([0, 1, 2], 3)
        waiting = asyncio.ensure_future(read(3))
        await kafka.write(transactional_of_kafka(7))
        assert offsets(await waiting) == [3, 4]
        waiting = asyncio.ensure_future(read(3, read_committed=True))
        await kafka.end(7, commit=False)
        found = await waiting
        assert [each.first_offset for each in found.aborted_transactions] == [3]
        await kafka.write(batch(2))
        assert offsets(await read(6)) == [6, 7], "the ends are asked for before it is refused"
        assert (await read(99)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_fetch_of_thousands_of_partitions_holds_no_turn_of_the_loop_bnd_27():
    async with world(manual=False) as w:
        await w.lead(P0)
        await w.produce(P0, 1)
        request = rl.FetchRequest(
            partitions=[at(0)] * 10_000, max_bytes=MIB, min_bytes=1, max_wait_ms=100
        )
        caller = w.network.caller("User:ANONYMOUS")
        await holds_no_turn(lambda: caller.call(methods.FETCH, request, to=LEADER))
        with pytest.raises(CallFailedError) as refused:
            await fetch(w, *[at(0)] * 10_001)
        assert refused.value.failure is Failure.RESOURCE_EXHAUSTED
