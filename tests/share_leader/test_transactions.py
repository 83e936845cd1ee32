"""read_committed end to end: open transactions wait, aborted ones are never delivered."""

import asyncio
import logging

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from sharemesh import methods
from sharemesh.codec.decoded_records import encode_records
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.ports.record_log import OpenTransaction
from sharemesh.v1 import record_log_pb2 as rl
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import DecodedRecord
from tests.share_leader.world import FOO, LEADER, TopicPartition, ack, acquired, parts, world
from tests.turns import Turns

P0 = TopicPartition(FOO, 0)


def transactional(producer_id, count, sequence=0, time_ms=1_000):
    builder = DefaultRecordBatchBuilder(2, 0, 1, producer_id, 0, sequence, 1 << 20)
    for number in range(count):
        builder.append(number, time_ms, None, b"v", [])
    return bytes(builder.build())


def plain(count):
    return encode_records([DecodedRecord(value=b"v")] * count, default_timestamp_ms=1_000)


async def send(w, *parts, transactional_id="orders-1"):
    """Produce the parts, each to the next partition; return their results."""
    request = rl.ProduceRequest(
        partitions=[
            rl.ProducePartition(topic_id=FOO, partition=number, records=records)
            for number, records in enumerate(parts)
        ],
        transactional_id=transactional_id,
    )
    return (await w.network.caller().call(methods.PRODUCE, request, to=LEADER)).partitions


async def produce(w, records):
    [result] = await send(w, records)
    assert result.error_code == 0, result
    return result.base_offset


async def end(w, producer_id, *, commit):
    marker = rl.TxnMarker(producer_id=producer_id, producer_epoch=0, commit=commit, topic_id=FOO)
    response = await w.network.caller().call(
        methods.WRITE_TXN_MARKERS, rl.WriteTxnMarkersRequest(markers=[marker]), to=LEADER
    )
    assert response.results[0].error_code == 0, response


async def test_an_open_transaction_holds_back_what_follows_until_it_ends():
    async with world() as w:
        await w.configure("g", auto_offset_reset="earliest", isolation_level="read_committed")
        await w.lead(P0)
        m1 = w.client()
        await m1.join(P0)
        await produce(w, transactional(5, 3))  # 0-2
        await w.produce(P0, 2)  # 3-4
        assert acquired(await m1.fetch(), P0) == []
        request = pb.ExplainRequest(group_id="g", topic_name="foo", offset=3)
        explained = await w.network.caller().call(methods.EXPLAIN, request, to=LEADER)
        assert explained.reason == "OPEN_TRANSACTION"
        assert explained.explanation.endswith(": from offset 0")
        await end(w, 5, commit=True)  # 5
        assert acquired(await m1.fetch(), P0) == [(0, 5, 1)]


async def test_aborted_records_are_cut_out_and_the_group_goes_on_behind_them():
    async with world() as w:
        await w.configure("g", auto_offset_reset="earliest", isolation_level="read_committed")
        await w.lead(P0)
        m1 = w.client()
        await m1.join(P0)
        await w.produce(P0, 2)  # 0-1
        await produce(w, transactional(5, 3))  # 2-4
        await w.produce(P0, 2)  # 5-6
        await end(w, 5, commit=False)  # 7
        got = acquired(await m1.fetch(), P0)
        assert got == [(0, 1, 1), (5, 7, 1)]
        answer = await m1.acknowledge(ack(P0, 0, 1, 1), ack(P0, 5, 6, 1), ack(P0, 7, 7, 0))
        assert parts(answer)[P0].error_code == 0
        machine = w.runner(P0).machine
        assert (machine.start_offset, machine.in_flight_count) == (8, 0)


async def test_aborted_records_cost_a_stream_no_credit():
    async with world() as w:
        await w.configure("g", auto_offset_reset="earliest", isolation_level="read_committed")
        await w.lead(P0)
        await produce(w, transactional(5, 50))  # 0-49
        await end(w, 5, commit=False)  # 50
        await w.produce(P0, 5)  # 51-55
        stream = await w.client().consume(P0, records=6)
        got = []
        while sum(last - first + 1 for first, last, _ in got) < 6:
            got += acquired(await anext(stream), P0)
        assert got[-1][1] == 55


async def test_read_uncommitted_groups_see_everything():
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await m1.join(P0)
        await produce(w, transactional(5, 3))
        assert acquired(await m1.fetch(), P0) == [(0, 2, 1)]


@pytest.mark.parametrize("commit", [True, False])
async def test_the_end_of_a_transaction_wakes_who_waits_for_what_it_held_back(commit):
    async with world() as w:
        await w.configure("g", auto_offset_reset="earliest", isolation_level="read_committed")
        await w.lead(P0)
        m1 = w.client()
        await m1.join(P0)
        await produce(w, transactional(5, 3))  # 0-2
        await w.produce(P0, 2)  # 3-4
        waiting = asyncio.create_task(m1.fetch(max_wait_ms=10_000))
        await w.clock.settle()
        assert not waiting.done()
        await end(w, 5, commit=commit)  # 5
        await w.clock.settle()
        assert waiting.done()  # no time has passed
        first = 0 if commit else 3
        assert acquired(await waiting, P0)[0][0] == first


async def test_transactional_batches_need_a_transactional_id_and_the_right_to_write_it():
    """BND-10."""
    async with world() as w:
        await w.lead(P0)
        await w.lead(TopicPartition(FOO, 1))
        w.rules.denied.add(("write", "transactional_id", "theirs"))
        for transactional_id, code, words in (
            ("", 53, "send it in transactional_id"),
            ("theirs", 53, "--operation write --transactional-id theirs"),
            ("x" * 1_001, 42, "1001 characters"),
        ):
            results = await send(
                w, plain(2), transactional(5, 3), transactional_id=transactional_id
            )
            assert [each.error_code for each in results] == [0, code]
            assert words in results[1].error_message
            [hidden] = await send(w, plain(2) + transactional(5, 3), transactional_id="theirs")
            assert hidden.error_code == 53  # behind others too
        assert w.service.partitions.get(TopicPartition(FOO, 1)).log.high_watermark == 0
        results = await send(w, transactional(5, 3), transactional(5, 3), transactional_id="mine")
        assert [each.error_code for each in results] == [0, 0]


async def test_who_may_not_write_the_topic_is_told_that_first():
    async with world() as w:
        await w.lead(P0)
        w.rules.denied |= {("write", "transactional_id", "t"), ("write", "topic", "foo")}
        [result] = await send(w, transactional(5, 3), transactional_id="t")
        assert result.error_code == 29


async def test_a_transaction_that_nobody_ends_is_aborted_and_the_group_goes_on(caplog):
    """BND-11."""
    async with world() as w:
        await w.configure("g", auto_offset_reset="earliest", isolation_level="read_committed")
        await w.lead(P0)
        m1 = w.client()
        await m1.join(P0)
        await produce(w, transactional(5, 3, time_ms=w.clock.wall_ms()))  # 0-2
        await w.produce(P0, 2)  # 3-4
        await w.clock.advance(899_000)
        assert w.service.partitions.get(P0).log.last_stable_offset == 0
        with caplog.at_level(logging.WARNING):
            await w.clock.advance(20_000)
        [told] = [each.message for each in caplog.records if "without an end" in each.message]
        assert "1 transactions were open for 900000 ms" in told
        await m1.join(P0, epoch=0)
        got = acquired(await m1.fetch(), P0)
        assert got == [(3, 5, 1)]
        [late] = await send(w, transactional(5, 3, sequence=3))
        assert late.error_code == 47


async def test_an_abort_that_the_disk_refuses_is_repeated_and_told_once(caplog, monkeypatch):
    async with world() as w:
        await w.lead(P0)
        await produce(w, transactional(5, 3))
        log = w.service.partitions.get(P0).log
        real = log.abort_transactions
        refused = RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, "no space")

        async def full(open_ms):
            raise refused

        monkeypatch.setattr(log, "abort_transactions", full)
        with caplog.at_level(logging.WARNING):
            await w.clock.advance(950_000)
        assert [each.message for each in caplog.records].count(
            f"old transactions of {P0} are not aborted yet, which is tried again: {refused}"
        ) == 1
        monkeypatch.setattr(log, "abort_transactions", real)
        await w.clock.advance(10_000)
        assert log.last_stable_offset == log.high_watermark


async def test_open_transactions_are_told_to_who_may_read_and_ended_by_who_may_alter_the_cluster():
    """BND-12."""
    async with world() as w:
        await w.lead(P0)
        await produce(w, transactional(5, 3))
        await w.clock.advance(7_000)
        asked = [rl.DescribeProducersPartition(topic_id=FOO, partition=each) for each in (0, 1)]
        request = rl.DescribeProducersRequest(partitions=asked)
        caller = w.network.caller()
        told, elsewhere = (
            await caller.call(methods.DESCRIBE_PRODUCERS, request, to=LEADER)
        ).partitions
        [producer] = told.active_producers
        assert (producer.producer_id, producer.producer_epoch) == (5, 0)
        assert (producer.current_txn_start_offset, producer.open_ms) == (0, 7_000)
        assert elsewhere.error_code == 6
        w.rules.denied.add(("read", "topic", "foo"))
        refused, _ = (await caller.call(methods.DESCRIBE_PRODUCERS, request, to=LEADER)).partitions
        assert (refused.error_code, list(refused.active_producers)) == (29, [])
        w.rules.denied.add(("cluster_action", "cluster", "kafka-cluster"))
        await end(w, 5, commit=False)  # who may alter the cluster
        w.rules.denied.add(("alter", "cluster", "kafka-cluster"))
        marker = rl.TxnMarker(producer_id=5, topic_id=FOO)
        request = rl.WriteTxnMarkersRequest(markers=[marker])
        answer = await caller.call(methods.WRITE_TXN_MARKERS, request, to=LEADER)
        assert answer.results[0].error_code == 31


def open_transactions(count):
    return [OpenTransaction(number, 0, number, 0) for number in range(count)]


async def describe_producers(w, *numbers):
    asked = [rl.DescribeProducersPartition(topic_id=FOO, partition=each) for each in numbers]
    request = rl.DescribeProducersRequest(partitions=asked)
    return (
        await w.network.caller().call(methods.DESCRIBE_PRODUCERS, request, to=LEADER)
    ).partitions


async def test_a_partition_that_is_named_again_is_refused_and_not_looked_at_bnd_12(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        log = w.service.partitions.get(P0).log
        turns = Turns(w.clock, monkeypatch)
        monkeypatch.setattr(log, "open_transactions", lambda: open_transactions(1_000))
        turns.count(log, "open_transactions")
        first, *others = await describe_producers(w, *[0] * 10_000)
        assert (first.error_code, len(first.active_producers)) == (0, 1_000)
        assert {(each.error_code, len(each.active_producers)) for each in others} == {(42, 0)}
        assert "named twice in the request; name each partition once" in others[0].error_message
        assert turns.total == 1


async def test_an_answer_has_so_many_transactions_in_slices_and_names_what_it_leaves_out_bnd_12(
    monkeypatch,
):
    monkeypatch.setattr("sharemesh.share_leader.requests.record_log.PRODUCERS_MAX", 2_500)
    async with world() as w:
        turns = Turns(w.clock, monkeypatch)
        for number in range(4):
            await w.lead(TopicPartition(FOO, number))
            log = w.service.partitions.get(TopicPartition(FOO, number)).log
            monkeypatch.setattr(log, "open_transactions", lambda: open_transactions(1_000))
            turns.count(log, "open_transactions")
        told = await describe_producers(w, 0, 1, 2, 3)
        assert [each.error_code for each in told] == [0, 0, 18, 18]
        assert [len(each.active_producers) for each in told] == [1_000, 1_000, 0, 0]
        assert "ask for this partition alone" in told[2].error_message
        assert (turns.total, turns.most) == (3, 1)  # a turn of the loop for 1,000 transactions
        [alone] = await describe_producers(w, 2)
        assert (alone.error_code, len(alone.active_producers)) == (0, 1_000)
