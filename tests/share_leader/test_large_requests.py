"""Requests of many parts: refused as a whole above the bound, answered in order below it."""

import asyncio

import pytest

from sharemesh import methods
from sharemesh.codec.decoded_records import encode_records
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.share_leader.requests import access, produce
from sharemesh.share_leader.requests.access import LeaderAccess
from sharemesh.v1 import record_log_pb2 as rl
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import DecodedRecord, TopicPartitions
from tests.share_leader.test_consume import deliveries
from tests.share_leader.world import FOO, LEADER, TopicPartition, world
from tests.turns import Turns, holds_no_turn

P0, P1 = TopicPartition(FOO, 0), TopicPartition(FOO, 1)
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
            methods.FETCH,
            rl.FetchRequest(partitions=[rl.FetchPartition(**place)] * count),
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
        for number in range(300):
            partition = -1 if number % 3 == 0 else 0
            listed.append(rl.ProducePartition(topic_id=FOO, partition=partition, records=ONE))
        caller = w.network.caller()
        request = rl.ProduceRequest(partitions=listed)
        answer = await caller.call(methods.PRODUCE, request, to=LEADER)
        landed = [each.base_offset for each in answer.partitions if not each.error_code]
        assert landed == list(range(200))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [each.error_code for each in answer.partitions] == [unknown, 0, 0] * 100


async def test_thousands_of_partitions_are_produced_to_in_slices_bnd_20(monkeypatch):
    async with world(manual=False) as w:
        turns = Turns(w.clock, monkeypatch)
        turns.count(LeaderAccess, "partition")
        listed = [rl.ProducePartition(topic_name=f"absent-{n}", records=ONE) for n in range(1_000)]
        caller = w.network.caller()
        request = rl.ProduceRequest(partitions=listed)
        answer = await caller.call(methods.PRODUCE, request, to=LEADER)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert {each.error_code for each in answer.partitions} == {unknown}
        assert (turns.total, turns.most) == (1_000, produce.PARTITIONS_OF_A_SLICE)


async def test_a_share_session_of_thousands_of_partitions_is_looked_through_in_slices_bnd_20(
    monkeypatch,
):
    async with world(manual=False) as w:
        member = w.client()
        absent = [TopicPartition(TopicId(b"?" * 16), number) for number in range(1_000)]
        await member.join(*absent)
        turns = Turns(w.clock, monkeypatch)
        turns.count(LeaderAccess, "topic")
        answer = await member.fetch()
        [topic] = answer.responses
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
        assert [each.error_code for each in topic.partitions] == [unknown] * 1_000
        assert (turns.total, turns.most) == (1_000, access.PARTITIONS_OF_A_SLICE)


async def test_a_stream_of_thousands_of_partitions_is_looked_through_in_slices_bnd_20(monkeypatch):
    async with world(manual=False) as w:
        turns = Turns(w.clock, monkeypatch)
        turns.count(LeaderAccess, "topic")
        absent = [TopicPartition(TopicId(b"?" * 16), number) for number in range(1_000)]
        stream = await w.client().consume(*absent)
        [topic] = (await anext(stream)).responses
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
        assert [each.error_code for each in topic.partitions] == [unknown] * 1_000
        assert (turns.total, turns.most) == (1_000, access.PARTITIONS_OF_A_SLICE)


class Between:
    """Stops what is worked out in slices of one partition after the first of them."""

    def __init__(self, w, patch):
        self._go_on, self.stopped = asyncio.Event(), asyncio.Event()
        self._real = w.clock.sleep_ms
        patch.setattr(access, "PARTITIONS_OF_A_SLICE", 1)
        patch.setattr(w.clock, "sleep_ms", self._sleep)

    async def _sleep(self, duration_ms):
        if duration_ms:
            await self._real(duration_ms)
            return
        self.stopped.set()
        await self._go_on.wait()

    async def say(self, w, stream, word):
        """Send a message of the stream between two slices, which go on then."""
        await self.stopped.wait()
        await stream.send(word)
        for _ in range(20):
            await asyncio.sleep(0)
        self._go_on.set()


@pytest.mark.parametrize("forgotten", [0, 1])
async def test_what_a_stream_forgets_between_two_slices_is_not_fetched_from(monkeypatch, forgotten):
    async with world() as w:
        await w.lead(P0)
        await w.lead(P1)
        await w.produce(P0, 5)
        await w.produce(P1, 5)
        between = Between(w, monkeypatch)
        stream = await w.client().consume(P0, P1)
        forget = TopicPartitions(topic_id=FOO, partitions=[forgotten])
        await between.say(w, stream, pb.ConsumeRequest(forget=[forget]))
        left, gone = (P1, P0) if forgotten == 0 else (P0, P1)
        assert await deliveries(stream, 5) == {left: [(0, 4, 1)]}
        await w.clock.settle()
        assert w.runner(gone).machine.state_at(0) is None


async def test_a_stream_that_closes_between_two_slices_acquires_nothing(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        await w.lead(P1)
        await w.client("m0").join(P0)
        await w.produce(P0, 5)
        between = Between(w, monkeypatch)
        stream = await w.client().consume(P0, P1)
        await between.say(w, stream, pb.ConsumeRequest(close=True))
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert w.runner(P0).machine.state_at(0) is None


async def test_a_stalled_member_that_is_heard_between_two_slices_gets_records_again(monkeypatch):
    async with world() as w:
        await w.lead(P0)
        await w.lead(P1)
        stream = await w.client().consume(P0, P1)
        await w.produce(P0, 5)
        await deliveries(stream, 5)
        between = Between(w, monkeypatch)
        await w.clock.advance(30_000)
        await between.say(w, stream, pb.ConsumeRequest(credit_records=1))
        assert await deliveries(stream, 5) == {P0: [(0, 4, 2)]}


async def test_who_goes_away_between_two_slices_leaves_no_append_behind(monkeypatch):
    async with world(manual=False) as w:
        await w.lead(P0)
        slept = asyncio.Event()

        async def never(_):
            slept.set()
            await asyncio.Event().wait()

        with monkeypatch.context() as patch:
            patch.setattr(w.clock, "sleep_ms", never)
            request = requests(BOUND)[0][1]
            asking = asyncio.ensure_future(
                w.network.caller().call(methods.PRODUCE, request, to=LEADER)
            )
            await slept.wait()
            asking.cancel()
            await asyncio.wait([asking])
        for _ in range(10):
            await asyncio.sleep(0)
        left = [str(each.get_coro()) for each in asyncio.all_tasks()]
        assert not [each for each in left if "Produce._append" in each]


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


async def test_a_request_of_very_many_topics_holds_no_turn_bnd_20():
    async with world(manual=False) as w:
        caller = w.network.caller("User:ANONYMOUS")
        request = pb.ShareFetchRequest(
            group_id="g",
            member_id="m",
            max_records=1,
            max_bytes=1,
            topics=[pb.AcknowledgeTopic()] * 140_000,
        )
        answers = []

        async def fetched():
            answers.append(await caller.call(methods.SHARE_FETCH, request, to=LEADER))

        await holds_no_turn(fetched)
        assert "140000 topics; send at most 10000" in answers[0].error_message


TOO_MANY = {
    "partitions": [TopicPartitions(topic_id=FOO, partitions=[0] * (BOUND + 1))],
    "topics": [TopicPartitions(topic_id=FOO)] * (BOUND + 1),
}


@pytest.mark.parametrize("what", TOO_MANY)
async def test_a_request_forgets_no_more_than_the_bound_bnd_20(what):
    async with world(max_partitions_per_request=BOUND) as w:
        await w.lead(P0)
        member = w.client()
        await member.join(P0)
        request = pb.ShareFetchRequest(
            group_id=member.group,
            member_id=member.member,
            share_session_epoch=member.epoch,
            forgotten_topics_data=TOO_MANY[what],
        )
        refused = await member.call(methods.SHARE_FETCH, request)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert f"{BOUND + 1} {what}; send at most {BOUND}" in refused.error_message
        assert (await member.fetch()).error_code == 0, "the session goes on"


@pytest.mark.parametrize("does", ["add", "forget"])
@pytest.mark.parametrize("what", TOO_MANY)
async def test_a_message_of_a_stream_names_no_more_than_the_bound_bnd_20(does, what):
    async with world(max_partitions_per_request=BOUND) as w:
        await w.lead(P0)
        stream = await w.client().consume(P0)
        await stream.send(pb.ConsumeRequest(**{does: TOO_MANY[what]}))
        ended = await anext(stream)
        assert ended.error_code == ErrorCode.INVALID_REQUEST
        assert f"{BOUND + 1} {what}; send at most {BOUND}" in ended.error_message


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
