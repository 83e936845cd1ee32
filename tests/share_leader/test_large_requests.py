"""Requests of many parts: refused as a whole above the bound, answered in order below it."""

import pytest

from sharemesh import methods
from sharemesh.codec.decoded_records import encode_records
from sharemesh.domain.errors import ErrorCode
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.v1 import record_log_pb2 as rl
from sharemesh.v1.common_pb2 import DecodedRecord
from tests.share_leader.world import FOO, LEADER, TopicPartition, world

P0 = TopicPartition(FOO, 0)
ONE = encode_records([DecodedRecord(value=b"v")], default_timestamp_ms=1)
BOUND = 200


def requests(count):
    place = {"topic_id": P0.topic_id, "partition": P0.partition}
    return (
        (
            methods.PRODUCE,
            rl.ProduceRequest(partitions=[rl.ProducePartition(**place, records=ONE)] * count),
            "partitions",
        ),
        (
            methods.LIST_OFFSETS,
            rl.ListOffsetsRequest(partitions=[rl.ListOffsetsPartition(**place)] * count),
            "partitions",
        ),
        (
            methods.DELETE_RECORDS,
            rl.DeleteRecordsRequest(partitions=[rl.DeleteRecordsPartition(**place)] * count),
            "partitions",
        ),
        (
            methods.WRITE_TXN_MARKERS,
            rl.WriteTxnMarkersRequest(markers=[rl.TxnMarker(**place, producer_id=7)] * count),
            "results",
        ),
    )


async def test_more_parts_than_the_bound_are_one_error_and_change_nothing():
    async with world(max_partitions_per_request=BOUND) as w:
        await w.lead(P0)
        caller = w.network.caller()
        for method, request, _ in requests(BOUND + 1):
            with pytest.raises(CallFailedError, match=f"{BOUND + 1} .* at most {BOUND}") as refused:
                await caller.call(method, request, to=LEADER)
            assert refused.value.failure is Failure.RESOURCE_EXHAUSTED
        assert w.service.partitions.get(P0).log.high_watermark == 0


async def test_as_many_parts_as_the_bound_are_answered_each():
    async with world(max_partitions_per_request=BOUND, manual=False) as w:
        await w.lead(P0)
        caller = w.network.caller()
        for method, request, answers in requests(BOUND):
            answered = getattr(await caller.call(method, request, to=LEADER), answers)
            assert len(answered) == BOUND
            assert {each.error_code for each in answered} == {0}


async def test_results_and_records_keep_the_order_of_the_request():
    async with world(manual=False) as w:
        await w.lead(P0)
        listed = []
        for number in range(100):
            partition = -1 if number % 3 == 0 else 0
            listed.append(rl.ProducePartition(topic_id=FOO, partition=partition, records=ONE))
        caller = w.network.caller()
        request = rl.ProduceRequest(partitions=listed)
        answer = await caller.call(methods.PRODUCE, request, to=LEADER)
        landed = [each.base_offset for each in answer.partitions if not each.error_code]
        assert landed == list(range(66))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [each.error_code for each in answer.partitions] == [unknown, 0, 0] * 33 + [unknown]


def named(first, count):
    return [TopicPartition(FOO, number) for number in range(first, first + count)]


async def test_a_session_may_name_its_partitions_again_but_no_more_than_the_bound():
    async with world(max_partitions_per_request=BOUND) as w:
        await w.lead(P0)
        member = w.client()
        await member.join(*named(0, BOUND))
        assert (await member.fetch(*named(0, BOUND))).error_code == 0
        refused = await member.fetch(*named(0, BOUND + 1))
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert f"at most {BOUND}" in refused.error_message
        assert (await member.fetch()).error_code == 0, "the session goes on"


async def test_all_sessions_together_hold_no_more_partitions_than_the_bound():
    async with world(max_session_partitions=BOUND * 2) as w:
        await w.lead(P0)
        await w.client("m1").join(*named(0, BOUND))
        await w.client("m2").join(*named(0, BOUND))
        refused = await w.client("m3").fetch(*named(0, BOUND))
        assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        stream = await w.client("m4").consume(*named(0, BOUND))
        ended = await anext(stream)
        assert ended.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert "fetch from fewer" in ended.error_message
        assert (await w.client("m5").fetch(P0)).error_code == 0, "few come in nevertheless"
