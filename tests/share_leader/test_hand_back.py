"""Records that no application has seen go back to the leader without counting (docs/spec HBK)."""

import asyncio
import logging

import pytest

from sharemesh import methods
from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.share_partition.events import AcquireMode
from sharemesh.share_leader.requests.access import Reader
from sharemesh.share_leader.requests.acquisition import FetchAcquisition, FetchOrder
from sharemesh.share_leader.requests.reasons import Reason, why
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.test_consume import acknowledge, deliveries, results, state
from tests.share_leader.world import FOO, TopicPartition, ack, acquired, parts, until, world

P0, P1 = TopicPartition(FOO, 0), TopicPartition(FOO, 1)
AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ACCEPT, RELEASE = 1, 2


async def test_an_uncounted_release_on_a_stream_is_answered_without_a_state_write():
    async with world() as w:
        epoch = await w.lead(P0)
        stream = await w.client().consume(P0, records=10)
        await w.produce(P0, 10)
        await deliveries(stream, 10)
        unseen = ack(P0, 4, 9, RELEASE, epoch=epoch, uncounted=True)
        await stream.send(pb.ConsumeRequest(acknowledgements=[acknowledge(1, unseen)]))
        assert await results(stream, 1) == {P0: 0}
        assert w.keeper.writes == []
        assert state(w, P0, 3) == (ACQUIRED, 1)
        assert state(w, P0, 4) == (AVAILABLE, 0)
        other = await w.client("m2").consume(P0)
        assert await deliveries(other, 6) == {P0: [(4, 9, 1)]}


async def test_unary_calls_can_hand_back_too():
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 10)
        await m1.join(P0)
        await m1.fetch()
        answer = await m1.acknowledge(ack(P0, 0, 9, RELEASE, uncounted=True))
        assert parts(answer)[P0].error_code == 0
        assert acquired(await m1.fetch(), P0) == [(0, 9, 1)]


@pytest.mark.parametrize("types", [(ACCEPT,), (RELEASE, RELEASE), (0,)])
async def test_uncounted_with_anything_but_one_release_is_an_invalid_request(types):
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 2)
        await m1.join(P0)
        await m1.fetch()
        answer = parts(await m1.acknowledge(ack(P0, 0, 1, *types, uncounted=True)))[P0]
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert "uncounted" in answer.error_message
        assert state(w, P0, 0) == (ACQUIRED, 1)


LOCK_MS = 30_000


async def stalled(w, **start):
    """A member that got five records by its stream, and let their locks end without a word."""
    await w.lead(P0)
    stream = await w.client().consume(P0, **start)
    await w.produce(P0, 5)
    await deliveries(stream, 5)
    await w.clock.advance(LOCK_MS)
    return stream


async def explain(w, offset):
    request = pb.ExplainRequest(group_id="g", topic_name="foo", partition=0, offset=offset)
    return (await w.caller().call(methods.EXPLAIN, request, to=w.address)).reason


def metric(w, name):
    readings = w.service.telemetry.registry.collect()
    ((_, value),) = next(each.values for each in readings if each.metric.name == name)
    return value


async def test_a_stalled_member_gets_nothing_more_whatever_its_credit():
    async with world() as w:
        await stalled(w)
        await w.produce(P0, 5)
        await w.clock.advance(10 * LOCK_MS)
        assert state(w, P0, 0) == (AVAILABLE, 1), "one delivery, and no more"
        assert state(w, P0, 5) is None


async def test_other_members_get_what_a_stalled_one_had():
    async with world() as w:
        await stalled(w)
        other = await w.client("m2").consume(P0)
        assert await deliveries(other, 5) == {P0: [(0, 4, 2)]}


@pytest.mark.parametrize(
    "word",
    [
        pb.ConsumeRequest(credit_records=1),
        pb.ConsumeRequest(),
        pb.ConsumeRequest(acknowledgements=[acknowledge(1, ack(P0, 0, 4, ACCEPT))]),
    ],
)
async def test_a_stalled_member_gets_records_again_with_its_first_word(word):
    """HBK-12."""
    async with world() as w:
        stream = await stalled(w)
        await stream.send(word)
        assert await deliveries(stream, 5) == {P0: [(0, 4, 2)]}


async def test_who_was_heard_since_it_got_a_record_is_slow_and_not_stalled():
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0)
        await w.produce(P0, 5)
        await deliveries(stream, 5)
        await w.clock.advance(1_000)
        await stream.send(pb.ConsumeRequest(credit_records=1))
        await w.clock.settle()
        await w.clock.advance(LOCK_MS)
        assert await deliveries(stream, 5) == {P0: [(0, 4, 2)]}


async def test_a_stalled_member_gets_nothing_of_another_partition_either():
    async with world() as w:
        await w.lead(P1)
        await w.lead(P0)
        stream = await w.client().consume(P0, P1)
        await w.produce(P0, 5)
        await deliveries(stream, 5)
        await w.clock.advance(LOCK_MS)
        await w.produce(P1, 5)
        await w.clock.settle()
        assert state(w, P1, 0) is None


async def test_locks_that_end_while_a_fetch_reads_hold_its_records_back():
    async with world() as w:
        await stalled(w)
        (session,) = w.service.session_cache.sessions.all()
        assert session.is_stalled
        order = FetchOrder("m1", AcquireMode.BATCH_OPTIMIZED, 500, 500, 1 << 20, session)
        runner, wait = w.runner(P0), object()
        assert runner.try_lock(wait)
        acquisition = FetchAcquisition(
            w.service._environment, w.service.partitions, w.service.pacing
        )
        reader = Reader(w.service._access, "User:ANONYMOUS", "g")
        assert await acquisition.take([runner], wait, order, reader) == []
        assert state(w, P0, 0) == (AVAILABLE, 1)


async def test_a_unary_fetch_is_itself_a_word():
    """HBK-12."""
    async with world() as w:
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 5)
        await m1.join(P0)
        held = await m1.hold()
        assert acquired(await m1.fetch(), P0) == [(0, 4, 1)]
        await w.clock.advance(LOCK_MS)
        assert acquired(await m1.fetch(), P0) == [(0, 4, 2)]
        await held.close()


async def test_explain_and_a_metric_tell_of_a_stalled_member():
    async with world() as w:
        stream = await stalled(w)
        assert await explain(w, 0) == "MEMBER_STALLED"
        assert metric(w, "share.members.stalled") == 1
        other = await w.client("m2").consume(P0)
        await deliveries(other, 5)
        await w.produce(P0, 1)
        await deliveries(other, 1)
        await stream.send(pb.ConsumeRequest())
        await until(lambda: metric(w, "share.members.stalled") == 0)


async def test_explain_knows_what_the_limit_archived_before_that_is_written():
    async with world() as w:
        await w.configure("g", auto_offset_reset="earliest", delivery_count_limit=2)
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 1)
        await m1.join(P0)
        await m1.fetch()
        await m1.acknowledge(ack(P0, 0, 0, RELEASE))
        await m1.fetch()
        w.keeper.open.clear()
        held = await m1.hold()
        await w.clock.advance(LOCK_MS)
        record = w.runner(P0).machine.state_at(0)
        assert record.state is DeliveryState.ARCHIVED
        led = w.service.partitions.get(P0)
        assert why(led, w.runner(P0), record, 0) is Reason.ARCHIVED_BY_LIMIT
        w.keeper.open.set()
        await held.close()


async def test_explain_knows_what_the_limit_archived_while_an_acknowledgement_failed():
    async with world() as w:
        await w.configure("g", auto_offset_reset="earliest", delivery_count_limit=2)
        await w.lead(P0)
        m1 = w.client()
        await w.produce(P0, 2)
        await m1.join(P0)
        await m1.fetch()
        await m1.acknowledge(ack(P0, 1, 1, RELEASE))
        await m1.fetch()
        runner, led = w.runner(P0), w.service.partitions.get(P0)

        def reason():
            return why(led, runner, runner.machine.state_at(1), 1)

        w.keeper.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        w.keeper.open.clear()
        accepting = asyncio.ensure_future(m1.acknowledge(ack(P0, 1, 1, ACCEPT)))
        await until(lambda: runner.machine.state_at(1).in_transition)
        await w.clock.advance(LOCK_MS)
        w.keeper.open.set()
        await accepting
        await until(lambda: runner.machine.is_behind)
        assert reason() is Reason.ARCHIVED_BY_LIMIT
        w.keeper.open.clear()
        await w.clock.advance(runner._environment.settings.write_again_ms)
        await until(lambda: not runner.machine.is_behind)
        assert reason() is Reason.ARCHIVED_BY_LIMIT
        w.keeper.write_error = ErrorCode.NONE
        w.keeper.open.set()


async def test_a_spell_is_said_once(caplog):
    caplog.set_level(logging.INFO, logger="sharemesh.share_leader.streaming.consume_stream")
    async with world() as w:
        stream = await stalled(w)
        await w.clock.advance(3 * LOCK_MS)
        await stream.send(pb.ConsumeRequest())
        await deliveries(stream, 5)
        await w.clock.advance(LOCK_MS)
        said = [record.message.split(":")[0] for record in caplog.records]
        assert said == [
            "member 'm1' of group 'g' is stalled",
            "member 'm1' of group 'g' is heard of again, and gets records",
            "member 'm1' of group 'g' is stalled",
        ]


async def test_a_new_stream_of_the_member_is_a_new_beginning():
    async with world() as w:
        await stalled(w)
        stream = await w.client().consume(P0)
        assert await deliveries(stream, 5) == {P0: [(0, 4, 2)]}


async def test_a_stream_may_change_its_acquire_mode_while_it_runs():
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0, records=5)
        await w.produce(P0, *[10] * 3)
        assert await deliveries(stream, 10) == {P0: [(0, 9, 1)]}  # a whole log batch
        await stream.send(pb.ConsumeRequest(credit_records=9, share_acquire_mode=1))
        assert await deliveries(stream, 4) == {P0: [(10, 13, 1)]}
        await stream.send(pb.ConsumeRequest(credit_records=4))
        assert await deliveries(stream, 4) == {P0: [(14, 17, 1)]}
        await stream.send(pb.ConsumeRequest(credit_records=3, share_acquire_mode=0))
        assert await deliveries(stream, 12) == {P0: [(18, 19, 1), (20, 29, 1)]}


async def test_an_acquire_mode_that_does_not_exist_ends_the_stream():
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0)
        await stream.send(pb.ConsumeRequest(share_acquire_mode=9))
        message = await anext(stream)
        assert message.error_code == ErrorCode.INVALID_REQUEST
        assert "share_acquire_mode 9" in message.error_message


async def test_what_nobody_saw_goes_back_uncounted_beside_records_whose_locks_have_ended():
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0, max_records=1)
        await w.produce(P0, *[1] * 40)
        runner = w.runner(P0)
        await w.clock.settle()
        early = runner.machine.next_fetch_offset()
        await w.clock.advance(LOCK_MS // 2)
        await deliveries(stream, 1)
        await w.clock.settle()
        late = runner.machine.next_fetch_offset() - 1
        assert late == early, "granted half of a lock later, and waiting to be sent"
        await w.clock.advance(LOCK_MS // 2)
        assert state(w, P0, early - 1) == (AVAILABLE, 1)
        w.rules.denied.add(("read", "topic", "foo"))
        w.rules.changed()
        await w.clock.settle()
        assert state(w, P0, late) == (AVAILABLE, 0)


async def test_explain_tells_nothing_when_the_right_went_while_it_waited():
    async with world() as w:
        await w.lead(P0)
        await w.produce(P0, 5)
        real = w.keeper.read_history

        async def read_history(*asked):
            w.rules.denied.add(("describe", "group", "g"))
            return await real(*asked)

        w.keeper.read_history = read_history
        request = pb.ExplainRequest(group_id="g", topic_name="foo", partition=0, offset=0)
        answer = await w.caller().call(methods.EXPLAIN, request, to=w.address)
        assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert not answer.reason
