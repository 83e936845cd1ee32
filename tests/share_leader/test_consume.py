"""The Consume stream and HoldSession over the in-process network."""

import asyncio

import pytest

from sharemesh import methods
from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_session import SessionKey
from sharemesh.ports.network import CallContext, CallFailedError
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import TopicPartitions
from tests.share_leader.world import (
    FOO,
    LEADER,
    TopicPartition,
    ack,
    acknowledged,
    acquired,
    parts,
    topics,
    until,
    world,
)

P0, P1, P2 = (TopicPartition(FOO, n) for n in range(3))


async def deliveries(stream, count):
    """Read messages until so many offsets were acquired; return {partition: ranges}."""
    got, total = {}, 0
    while total < count:
        message = await anext(stream)
        assert message.error_code == 0, message
        for partition in parts(message):
            for first, last, times in acquired(message, partition):
                got.setdefault(partition, []).append((first, last, times))
                total += last - first + 1
    return got


async def results(stream, acknowledge_id):
    while True:
        message = await anext(stream)
        found = acknowledged(message)
        if acknowledge_id in found:
            return found[acknowledge_id]


def acknowledge(number, *acks, renew=False):
    return pb.ConsumeAcknowledge(acknowledge_id=number, is_renew_ack=renew, topics=topics((), acks))


def state(w, partition, offset):
    view = w.runner(partition).machine.state_at(offset)
    return None if view is None else (view.state, view.delivery_count)


async def test_records_are_pushed_as_they_come_and_acknowledged_on_the_same_stream():
    async with world() as w:
        epoch = await w.lead(P0)
        stream = await w.client().consume(P0)
        await w.produce(P0, 10)
        assert await deliveries(stream, 10) == {P0: [(0, 9, 1)]}
        await stream.send(
            pb.ConsumeRequest(acknowledgements=[acknowledge(7, ack(P0, 0, 9, 1, epoch=epoch))])
        )
        assert await results(stream, 7) == {P0: 0}
        await w.produce(P0, 5)
        assert await deliveries(stream, 5) == {P0: [(10, 14, 1)]}


async def test_no_more_is_acquired_than_the_credit_allows():
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0, records=25)
        await w.produce(P0, *[10] * 10)
        await deliveries(stream, 30)  # whole log batches: the last one passes the credit
        await w.clock.settle()
        assert w.runner(P0).machine.end_offset == 29
        await stream.send(pb.ConsumeRequest(credit_records=6))
        assert await deliveries(stream, 10) == {P0: [(30, 39, 1)]}
        assert w.runner(P0).machine.end_offset == 39


async def test_credit_in_bytes_is_kept_too():
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0, bytes_=1)
        await w.produce(P0, *[10] * 10)
        assert await deliveries(stream, 10) == {P0: [(0, 9, 1)]}  # at least one batch
        await w.clock.settle()
        assert w.runner(P0).machine.end_offset == 9


async def test_a_slow_reader_makes_the_leader_stop_acquiring():
    async with world(max_stream_messages=2, stream_message_bytes=1) as w:
        await w.lead(P0)
        stream = await w.client().consume(P0, records=100_000)
        await w.produce(P0, *[1] * 200)
        await w.clock.settle(3_000)
        held = w.runner(P0).machine.end_offset + 1
        assert held < 40, "bounded by the outbox and the transport's queue"
        assert await deliveries(stream, 200) == {P0: [(n, n, 1) for n in range(200)]}


async def test_close_answers_acknowledgements_releases_the_rest_and_ends_in_good_order():
    async with world() as w:
        await w.lead(P0)
        await w.client("m0").join(P0)  # keeps the group
        stream = await w.client().consume(P0)
        await w.produce(P0, 5, 5)
        await deliveries(stream, 10)
        await stream.send(
            pb.ConsumeRequest(acknowledgements=[acknowledge(1, ack(P0, 0, 4, 1))], close=True)
        )
        assert await results(stream, 1) == {P0: 0}
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert state(w, P0, 5) == (DeliveryState.AVAILABLE, 1)


async def test_a_lost_connection_releases_what_the_member_held():
    async with world() as w:
        await w.lead(P0)
        await w.client("m0").join(P0)
        client = w.client()
        stream = await client.consume(P0)
        await w.produce(P0, 5)
        await deliveries(stream, 5)
        await client.caller.close()
        await until(lambda: state(w, P0, 0) == (DeliveryState.AVAILABLE, 1))
        assert w.service.counters.sessions_evicted == 1


async def test_a_new_stream_replaces_the_old_one_and_releases_nothing():
    async with world() as w:
        await w.lead(P0)
        old, new = w.client(), w.client()
        first = await old.consume(P0)
        await w.produce(P0, 5)
        await deliveries(first, 5)
        second = await new.consume(P0)
        message = await anext(first)
        assert message.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        with pytest.raises(StopAsyncIteration):
            await anext(first)
        assert state(w, P0, 0) == (DeliveryState.ACQUIRED, 1)
        await second.send(pb.ConsumeRequest(acknowledgements=[acknowledge(1, ack(P0, 0, 4, 1))]))
        assert await results(second, 1) == {P0: 0}


async def test_each_acknowledgement_is_answered_once_with_an_error_for_each_partition():
    async with world() as w:
        await w.lead(P0)
        await w.lead(P1)
        stream = await w.client().consume(P0, P1)
        await w.produce(P0, 5)
        await w.produce(P1, 5)
        await deliveries(stream, 10)
        await stream.send(
            pb.ConsumeRequest(
                acknowledgements=[
                    acknowledge(1, ack(P0, 0, 4, 1), ack(P1, 3, 2, 1)),
                    acknowledge(2, ack(P0, 0, 4, 1)),
                    acknowledge(3, ack(P1, 0, 4, 4), renew=True),
                    acknowledge(4, ack(P1, 0, 4, 4)),
                ]
            )
        )
        got = {}
        while len(got) < 4:
            for number, found in acknowledged(await anext(stream)).items():
                assert number not in got
                got[number] = found
        assert got == {1: {P0: 0, P1: 42}, 2: {P0: 121}, 3: {P1: 0}, 4: {P1: 42}}


async def test_a_message_holds_as_many_records_as_are_wanted_though_batches_are_large():
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 500, 500, 500, 500, padding=b"p" * 100)  # 54 KiB each
        stream = await w.client().consume(P0, records=700, max_records=700)
        message = await anext(stream)
        assert [part[:2] for part in acquired(message, P0)] == [(0, 499), (500, 999)]
        assert len(parts(message)[P0].records) > 100_000


async def test_partitions_take_turns():
    async with world() as w:
        for partition in (P0, P1):
            await w.lead(partition)
            await w.produce(partition, *[10] * 5)
        stream = await w.client().consume(P0, P1, records=40, max_records=10)
        got = await deliveries(stream, 40)
        assert {p: sum(last - first + 1 for first, last, _ in r) for p, r in got.items()} == {
            P0: 20,
            P1: 20,
        }


async def test_forgotten_partitions_are_not_fetched_and_can_still_be_acknowledged():
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0)
        await w.produce(P0, 5)
        await deliveries(stream, 5)
        await stream.send(pb.ConsumeRequest(forget=[TopicPartitions(topic_id=FOO, partitions=[0])]))
        await w.produce(P0, 5)
        await w.clock.settle()
        assert w.runner(P0).machine.end_offset == 4
        await stream.send(pb.ConsumeRequest(acknowledgements=[acknowledge(1, ack(P0, 0, 4, 1))]))
        assert await results(stream, 1) == {P0: 0}


async def test_a_partition_that_is_not_led_here_is_reported_once_with_its_leader():
    async with world() as w:
        await w.lead(P0)
        await w.claim("leader-2", P1, 4)
        stream = await w.client().consume(P0, P1)
        message = await anext(stream)
        assert parts(message)[P1].error_code == 6
        assert parts(message)[P1].current_leader.leader_id == "leader-2"
        assert [n.node_id for n in message.node_endpoints] == ["leader-2"]
        await w.produce(P0, 5)
        assert await deliveries(stream, 5) == {P0: [(0, 4, 1)]}


async def test_a_share_partition_that_cannot_be_read_is_reported_and_tried_again():
    async with world() as w:
        await w.lead(P0)
        w.keeper.read_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        stream = await w.client().consume(P0)
        await w.produce(P0, 5)
        assert parts(await anext(stream))[P0].error_code == 15
        w.keeper.read_error = ErrorCode.NONE
        await w.clock.settle()
        assert w.runner(P0) is None
        await w.clock.advance(1_000)
        assert await deliveries(stream, 5) == {P0: [(0, 4, 1)]}


@pytest.mark.parametrize(
    "first",
    [
        pb.ConsumeRequest(credit_records=1),
        pb.ConsumeRequest(start=pb.ConsumeStart(member_id="m")),
        pb.ConsumeRequest(start=pb.ConsumeStart(group_id="g")),
        pb.ConsumeRequest(start=pb.ConsumeStart(group_id="g", member_id="m" * 37)),
        pb.ConsumeRequest(start=pb.ConsumeStart(group_id="g", member_id="m", share_acquire_mode=9)),
        pb.ConsumeRequest(start=pb.ConsumeStart(group_id="g", member_id="m"), credit_records=-1),
        pb.ConsumeRequest(
            start=pb.ConsumeStart(group_id="g", member_id="m"),
            add=[TopicPartitions(topic_id=b"short", partitions=[0])],
        ),
    ],
)
async def test_a_malformed_first_message_is_answered_with_invalid_request(first):
    async with world() as w:
        stream = await w.client().caller.stream(methods.CONSUME, to=LEADER)
        await stream.send(first)
        message = await anext(stream)
        assert message.error_code == ErrorCode.INVALID_REQUEST
        assert message.error_message
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        await w.clock.settle()
        assert len(w.service.session_cache.sessions) == 0


async def test_min_bytes_are_awaited_up_to_max_wait():
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0, min_bytes=100_000, max_wait_ms=400)
        await w.produce(P0, 5)
        waiting = asyncio.create_task(deliveries(stream, 5))
        await w.clock.advance(300)
        assert not waiting.done()
        await w.clock.advance(200)
        assert await waiting == {P0: [(0, 4, 1)]}


async def test_hold_session_binds_the_session_of_unary_calls_to_its_stream():
    async with world() as w:
        await w.lead(P0)
        await w.client("m0").join(P0)
        member, holder = w.client(), w.client()
        held = await holder.caller.stream(methods.HOLD_SESSION, to=LEADER)
        await held.send(pb.HoldSessionRequest(group_id="g", member_id="m1"))
        assert (await anext(held)).error_code == 0
        await w.produce(P0, 5)
        await member.join(P0)
        assert acquired(await member.fetch(), P0) == [(0, 4, 1)]
        await w.clock.advance(20_000)
        assert (await member.acknowledge(ack(P0, 0, 4, 4), is_renew_ack=True)).error_code == 0
        await w.clock.advance(29_000)
        assert state(w, P0, 0) == (DeliveryState.ACQUIRED, 1)
        await w.client("m0").join(P0)
        await holder.caller.close()
        await until(lambda: state(w, P0, 0) == (DeliveryState.AVAILABLE, 1))
        assert (await member.fetch()).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


class EndedAndCancelled:
    """A stream whose connection is lost: it ends, and some turns later its handler is cancelled."""

    def __init__(self, first):
        self.first, self.lost = first, asyncio.Event()

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.first is not None:
            first, self.first = self.first, None
            return first
        await self.lost.wait()
        raise StopAsyncIteration

    async def send(self, message):
        pass


@pytest.mark.parametrize("turns", range(8))
async def test_a_hold_that_is_cancelled_while_it_ends_ends_its_session_all_the_same(turns):
    async with world() as w:
        await w.lead(P0)
        hold = w.network.host("HoldSession", LEADER).streams[methods.HOLD_SESSION.name]
        stream = EndedAndCancelled(pb.HoldSessionRequest(group_id="g", member_id="m1"))
        holding = asyncio.create_task(hold(stream, CallContext("peer", "User:ANONYMOUS")))
        await asyncio.sleep(0)
        await w.client().join(P0)
        stream.lost.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        holding.cancel()
        await asyncio.wait([holding])
        await until(lambda: w.service.counters.sessions_evicted == 1)
        assert w.service.session_cache.session_of(SessionKey("g", "m1")) is None


async def test_a_drain_lets_holders_acknowledge_then_moves_and_redelivers_nothing():
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0)
        await w.produce(P0, 5)
        await deliveries(stream, 5)
        stopping = asyncio.create_task(w.service.stop_partition(P0, drain_ms=5_000))
        message = await anext(stream)
        assert [list(t.partitions) for t in message.draining] == [[0]]
        await w.produce(P0, 5)  # still confirmed, delivered by the next leader
        await stream.send(pb.ConsumeRequest(acknowledgements=[acknowledge(1, ack(P0, 0, 4, 1))]))
        assert await results(stream, 1) == {P0: 0}
        await w.clock.advance(100)
        await stopping
        assert parts(await anext(stream))[P0].error_code == 6
        await stream.send(pb.ConsumeRequest(acknowledgements=[acknowledge(2, ack(P0, 5, 9, 1))]))
        assert await results(stream, 2) == {P0: 6}
        await w.lead(P0)
        m2 = w.client("m2")
        await m2.join(P0)
        assert acquired(await m2.fetch(), P0) == [(5, 9, 1)]


async def test_a_drain_notice_names_the_next_leader_and_where_it_is():
    async with world() as w:
        await w.lead(P0)
        await w.lead(P1)
        stream = await w.client().consume(P0, P1)
        await w.produce(P0, 1)
        await deliveries(stream, 1)
        await w.assign("leader-2", P0)
        stopping = [
            asyncio.create_task(w.service.stop_partition(each, drain_ms=100)) for each in (P0, P1)
        ]
        message = await anext(stream)
        assert [(n.partition, n.node_id) for n in message.next_leaders] == [(0, "leader-2")]
        assert [(n.node_id, n.host, n.port) for n in message.node_endpoints] == [
            ("leader-2", "leader-2", 9000)
        ]
        await w.clock.advance(200)
        await asyncio.gather(*stopping)


@pytest.mark.parametrize("how", ["named", "claimed", "vacant"])
async def test_a_partition_that_is_added_before_it_is_led_here_is_served_once_it_is(how):
    async with world() as w:
        await w.lead(P1)
        await w.produce(P1, 1)
        if how == "named":  # another one still drains it, in favour of this node
            await w.claim("leader-2", P0, 7)
            await w.assign("leader-1", P0)
        elif how == "claimed":  # this node has the claim, and still takes the log over
            await w.claim("leader-1", P0, 7)
        stream = await w.client().consume(P0, P1)
        await deliveries(stream, 1)  # and no refusal of the other one
        await w.clock.advance(900)
        await w.lead(P0, 8)
        await w.produce(P0, 3)
        assert await deliveries(stream, 3) == {P0: [(0, 2, 1)]}


async def test_state_that_members_wait_for_is_read_while_the_log_is_taken_over():
    async with world() as w:
        await w.lead(P1)
        await w.claim("leader-2", P0, 7)
        await w.assign("leader-1", P0)
        stream = await w.client().consume(P0, P1)
        await w.clock.settle()
        await w.lead(P0, 8)
        assert [epoch for key, epoch in w.keeper.reads if key.partition == 0] == [8]
        await w.produce(P0, 3)
        assert await deliveries(stream, 3) == {P0: [(0, 2, 1)]}
        assert [epoch for key, epoch in w.keeper.reads if key.partition == 0] == [8]


@pytest.mark.parametrize(("how", "kept_ms"), [("named", 10_000), ("vacant", 1_000)])
async def test_a_partition_that_never_comes_is_refused_in_the_end(how, kept_ms):
    async with world() as w:
        await w.lead(P1)
        if how == "named":
            await w.claim("leader-2", P0, 7)
            await w.assign("leader-1", P0)
        stream = await w.client().consume(P0, P1)
        await w.clock.settle()
        await w.clock.advance(kept_ms - 1)
        refusal = asyncio.create_task(anext(stream))
        await w.clock.settle()
        assert not refusal.done()
        await w.clock.advance(2)
        assert parts(await refusal)[P0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_partition_that_is_led_elsewhere_is_refused_at_once():
    async with world() as w:
        await w.lead(P1)
        await w.claim("leader-2", P0, 7)
        stream = await w.client().consume(P0, P1)
        refused = parts(await anext(stream))[P0]
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert refused.current_leader.leader_id == "leader-2"


async def test_after_a_drain_notice_the_end_of_a_stream_releases_and_ends_the_drain_ses_12():
    async with world() as w:
        await w.lead(P0)
        client = w.client()
        stream = await client.consume(P0)
        await w.produce(P0, 5)
        await deliveries(stream, 5)
        stopping = asyncio.create_task(w.service.stop_partition(P0, drain_ms=1_000))
        await anext(stream)
        await client.caller.close()
        await stopping
        await w.lead(P0)
        m2 = await w.client("m2").consume(P0)
        assert await deliveries(m2, 5) == {P0: [(0, 4, 2)]}


async def test_closing_the_service_ends_streams_and_background_work():
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0)
        await w.produce(P0, 5)
        await deliveries(stream, 5)
        await w.service.close()
        await w.network.disconnect(LEADER)
        with pytest.raises((CallFailedError, StopAsyncIteration)):
            await deliveries(stream, 1)
