"""Produce, InitProducerId, ListOffsets, DeleteRecords, WriteTxnMarkers and Explain."""

import asyncio

import pytest

from sharemesh import methods
from sharemesh.codec.decoded_records import encode_records
from sharemesh.domain.errors import ErrorCode
from sharemesh.share_leader.partition.read_barrier import ReadBarrier
from sharemesh.v1 import record_log_pb2 as rl
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import DecodedRecord, Header
from tests.decoding import decode_records
from tests.share_leader.world import BAZ, FOO, LEADER, TopicPartition, ack, acquired, parts, world
from tests.turns import holds_no_turn

P0, P1 = TopicPartition(FOO, 0), TopicPartition(FOO, 1)
ONE = encode_records([DecodedRecord(value=b"v")], default_timestamp_ms=1_000)


async def produce(w, *partitions, principal="User:ANONYMOUS"):
    return await w.network.caller(principal).call(
        methods.PRODUCE, rl.ProduceRequest(partitions=partitions), to=LEADER
    )


def to(partition, records=ONE, **fields):
    return rl.ProducePartition(
        topic_id=partition.topic_id, partition=partition.partition, records=records, **fields
    )


async def test_produce_answers_where_each_partition_s_records_landed():
    async with world() as w:
        await w.lead(P0)
        await w.lead(P1)
        await produce(w, to(P0))
        response = await produce(w, to(P0), to(P1), to(TopicPartition(FOO, 2)))
        assert [(r.partition, r.error_code, r.base_offset) for r in response.partitions] == [
            (0, 0, 1),
            (1, 0, 0),
            (2, 6, -1),
        ]


async def test_a_hundred_thousand_decoded_records_hold_no_turn_of_the_loop_bnd_27():
    async with world() as w:
        await w.lead(P0)
        caller = w.network.caller("User:ANONYMOUS")
        request = rl.ProduceRequest(
            partitions=[to(P0, b"", decoded_records=[DecodedRecord(value=b"")] * 100_000)]
        )
        results = []

        async def produced():
            response = await caller.call(methods.PRODUCE, request, to=LEADER)
            results.extend(response.partitions)

        await holds_no_turn(produced)
        assert (results[0].error_message, results[0].last_offset) == ("", 99_999)


async def test_rights_and_leadership_are_those_after_the_last_slice_bnd_27():
    async with world() as w:
        await w.lead(P0)
        listed = to(P0, b"", decoded_records=[DecodedRecord(value=b"v")] * 2_000)
        producing = asyncio.create_task(produce(w, listed))
        await asyncio.sleep(0)
        await w.service.stop_partition(P0)
        (result,) = (await producing).partitions
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_produce_by_name_takes_decoded_records_and_null_keys():
    async with world() as w:
        await w.lead(P0)
        response = await produce(
            w,
            rl.ProducePartition(
                topic_name="foo",
                decoded_records=[
                    DecodedRecord(value=b"a", headers=[Header(key="h", value=b"1")]),
                    DecodedRecord(key=b"k", timestamp=77),
                ],
            ),
        )
        assert [(r.error_code, r.base_offset, r.last_offset) for r in response.partitions] == [
            (0, 0, 1)
        ]
        member = w.client()
        await member.join(P0)
        fetched = parts(await member.fetch())[P0]
        first, second = decode_records(fetched.records, [(0, 1, 1)])
        assert (first.HasField("key"), first.value, first.timestamp) == (
            False,
            b"a",
            w.clock.wall_ms(),
        )
        assert (second.key, second.HasField("value"), second.timestamp) == (b"k", False, 77)


@pytest.mark.parametrize(
    ("partition", "error"),
    [
        (to(P0, records=b""), ErrorCode.INVALID_RECORD),
        (to(P0, records=b"junk" * 30), None),
        (to(P0, records=ONE[:-1] + b"\1"), ErrorCode.CORRUPT_MESSAGE),
        (to(P0, decoded_records=[DecodedRecord()]), ErrorCode.INVALID_REQUEST),
        (to(TopicPartition(BAZ, 0)), ErrorCode.UNKNOWN_TOPIC_ID),
        (to(TopicPartition(FOO, 99)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (to(TopicPartition(FOO, -1)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (rl.ProducePartition(topic_name="nope", records=ONE), 3),
        (rl.ProducePartition(topic_id=b"x", records=ONE), ErrorCode.UNKNOWN_TOPIC_ID),
        (to(P0, records=b"v" * 17 * 1024 * 1024), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
async def test_produce_refuses_what_cannot_be_stored_and_stores_nothing(partition, error):
    async with world() as w:
        await w.lead(P0)
        (result,) = (await produce(w, partition)).partitions
        assert result.error_code == error if error else result.error_code
        assert result.error_message
        assert w.service.partitions.get(P0).log.high_watermark == 0


async def test_produce_needs_write_on_the_topic():
    async with world() as w:
        await w.lead(P0)
        w.rules.denied.add(("write", "topic", "foo"))
        (result,) = (await produce(w, to(P0))).partitions
        assert result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_init_producer_id_gives_a_new_id_or_the_next_epoch():
    async with world() as w:
        caller = w.network.caller()

        async def ask(producer_id, epoch):
            request = rl.InitProducerIdRequest(producer_id=producer_id, producer_epoch=epoch)
            answer = await caller.call(methods.INIT_PRODUCER_ID, request, to=LEADER)
            return answer.producer_id, answer.producer_epoch

        assert await ask(-1, -1) == (1001, 0)
        assert await ask(1001, 0) == (1001, 1)
        assert await ask(1001, 32_766) == (1002, 0)


async def test_who_may_write_no_topic_gets_no_producer_id():
    async with world() as w:
        w.rules.denied.add(("cluster_action", "cluster", "kafka-cluster"))
        for topic in w.view.topics():
            w.rules.denied.add(("write", "topic", topic.name))
        for producer_id in (-1, 1001):
            request = rl.InitProducerIdRequest(producer_id=producer_id, producer_epoch=0)
            answer = await w.network.caller().call(methods.INIT_PRODUCER_ID, request, to=LEADER)
            assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert answer.producer_id == -1
            assert "not authorized for WRITE on any topic" in answer.error_message
        w.rules.denied.discard(("write", "topic", "foo"))
        request = rl.InitProducerIdRequest(producer_id=-1, producer_epoch=-1)
        answer = await w.network.caller().call(methods.INIT_PRODUCER_ID, request, to=LEADER)
        assert answer.producer_id == 1001


async def test_list_offsets_by_time_and_by_name():
    async with world() as w:
        await w.lead(P0)
        for timestamp in (1_000, 2_000):
            records = encode_records([DecodedRecord(value=b"v")], default_timestamp_ms=timestamp)
            await produce(w, to(P0, records=records))

        async def at(timestamp, partition=P0):
            asked = rl.ListOffsetsPartition(
                topic_id=partition.topic_id, partition=partition.partition, timestamp=timestamp
            )
            response = await w.network.caller().call(
                methods.LIST_OFFSETS, rl.ListOffsetsRequest(partitions=[asked]), to=LEADER
            )
            (result,) = response.partitions
            return result.error_code, result.offset

        assert [await at(t) for t in (-1, -2, -4, 0, 1_001, 5_000)] == [
            (0, 2),
            (0, 0),
            (0, 2),
            (0, 0),
            (0, 1),
            (0, -1),
        ]
        assert await at(-9) == (ErrorCode.INVALID_REQUEST, -1)
        assert await at(-1, P1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_delete_records_moves_the_log_start_and_groups_go_on_from_there():
    async with world() as w:
        await w.lead(P0)
        for _ in range(4):
            await produce(w, to(P0))
        member = w.client()
        await member.join(P0)

        async def delete(offset):
            asked = rl.DeleteRecordsPartition(topic_id=FOO, partition=0, offset=offset)
            response = await w.network.caller().call(
                methods.DELETE_RECORDS, rl.DeleteRecordsRequest(partitions=[asked]), to=LEADER
            )
            (result,) = response.partitions
            return result.error_code, result.low_watermark

        assert await delete(2) == (0, 2)
        assert await delete(9) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert acquired(await member.fetch(max_wait_ms=1_000), P0) == [(2, 3, 1)]
        assert await delete(-1) == (0, 4)


async def test_a_group_goes_on_when_records_held_before_a_leader_change_are_deleted():
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 1, 1, 1, 1, 1, 1)
        member = w.client("m1")
        await member.join(P0)
        await member.fetch(max_wait_ms=1_000)
        await member.acknowledge(*(ack(P0, offset, offset, 1) for offset in (1, 3)))
        await w.service.stop_partition(P0)
        await w.lead(P0)
        asked = rl.DeleteRecordsPartition(topic_id=FOO, partition=0, offset=1)
        await w.network.caller().call(
            methods.DELETE_RECORDS, rl.DeleteRecordsRequest(partitions=[asked]), to=LEADER
        )
        other = w.client("m2")
        await other.join(P0)
        got = await other.fetch(max_wait_ms=1_000)
        assert [each[:2] for each in acquired(got, P0)] == [(2, 2), (4, 5)]


async def explain(w, offset, group="g", topic="foo", partition=0):
    request = pb.ExplainRequest(
        group_id=group, topic_name=topic, partition=partition, offset=offset
    )
    return await w.network.caller().call(methods.EXPLAIN, request, to=LEADER)


async def test_explain_of_a_leader_that_ends_meanwhile_is_refused(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        led, real = w.service.partitions.get(P0), ReadBarrier.look

        async def look(barrier):
            await real(barrier)
            led.end_hand_over()

        monkeypatch.setattr(ReadBarrier, "look", look)
        refused = await explain(w, 0)
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not refused.reason


async def test_explain_says_of_each_record_why_it_is_not_delivered():
    async with world() as w:
        await w.configure("g", auto_offset_reset="earliest", delivery_count_limit=2)
        await w.lead(P0)
        await w.produce(P0, 1, 1, 1, 1, 1, 1)
        member = w.client()
        unseen = await explain(w, 0)
        assert unseen.reason == "GROUP_NOT_SEEN"
        known = {field.name for field, _ in unseen.ListFields()}
        assert known == {"reason", "explanation", "high_watermark", "leader_epoch"}, "EXP-7"
        await member.join(P0)
        assert (await explain(w, 0)).reason == "NO_MEMBER_ASKS"
        await member.fetch(max_records=4)
        locked = await explain(w, 3)
        assert (locked.reason, locked.member_id, locked.lock_remaining_ms) == (
            "LOCKED",
            "m1",
            30_000,
        )
        await member.acknowledge(ack(P0, 1, 1, 1), ack(P0, 2, 2, 3), ack(P0, 3, 3, 2))
        await member.fetch(max_records=1)
        await member.acknowledge(ack(P0, 3, 3, 2))
        reasons = [(await explain(w, n)).reason for n in (0, 1, 2, 3, 5, 9)]
        assert reasons == [
            "LOCKED",
            "ACKNOWLEDGED",
            "REJECTED",
            "ARCHIVED_BY_LIMIT",
            "BEHIND_OTHERS",
            "NOT_PRODUCED",
        ]
        w.keeper.open.clear()
        waiting = asyncio.create_task(member.acknowledge(ack(P0, 0, 0, 1)))
        await w.clock.settle()
        assert (await explain(w, 0)).reason == "BEING_WRITTEN"
        w.keeper.open.set()
        await waiting
        assert (await explain(w, 0)).reason == "ACKNOWLEDGED"
        w.keeper.read_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        told = await explain(w, 0)
        assert (told.reason, told.start_offset) == ("BELOW_START_OFFSET", 4), "memory alone, EXP-1"
        assert "told to fail" in told.events_note
        assert (await explain(w, 0, topic="nope")).error_code == 3
        assert (await explain(w, 0, partition=1)).error_code == 6
        assert (await explain(w, -5)).error_code == ErrorCode.INVALID_REQUEST


async def test_write_txn_markers_ends_a_transaction_and_needs_the_cluster_action():
    async with world() as w:
        await w.lead(P0)
        marker = rl.TxnMarker(producer_id=5, producer_epoch=0, commit=True, topic_id=FOO)
        w.rules.denied |= {
            (each, "cluster", "kafka-cluster") for each in ("cluster_action", "alter")
        }
        request = rl.WriteTxnMarkersRequest(markers=[marker])
        response = await w.network.caller().call(methods.WRITE_TXN_MARKERS, request, to=LEADER)
        assert response.results[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
