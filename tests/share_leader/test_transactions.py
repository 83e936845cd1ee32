"""read_committed end to end: open transactions wait, aborted ones are never delivered."""

import asyncio

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from sharemesh import methods
from sharemesh.v1 import record_log_pb2 as rl
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.world import FOO, LEADER, TopicPartition, ack, acquired, parts, world

P0 = TopicPartition(FOO, 0)


def transactional(producer_id, count, sequence=0):
    builder = DefaultRecordBatchBuilder(2, 0, 1, producer_id, 0, sequence, 1 << 20)
    for number in range(count):
        builder.append(number, 1_000, None, b"v", [])
    return bytes(builder.build())


async def produce(w, records):
    request = rl.ProduceRequest(
        partitions=[rl.ProducePartition(topic_id=FOO, partition=0, records=records)]
    )
    response = await w.network.caller().call(methods.PRODUCE, request, to=LEADER)
    assert response.partitions[0].error_code == 0, response
    return response.partitions[0].base_offset


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
        machine = w.shell(P0).machine
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
