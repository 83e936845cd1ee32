"""A leader that drains hands locks over (docs/spec/hand-over.md, HND)."""

import asyncio

import pytest

from sharemesh.domain.delivery_state import DeliveryState
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_partition.events import Acknowledge, AcknowledgementBatch
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.drained import (
    ACQUIRED,
    DRAIN_MS,
    NOT_LEADER,
    STATE,
    draining,
    echoed,
    held,
    told,
)
from tests.share_leader.test_consume import P0, P1, P2, acknowledge, deliveries, results, state
from tests.share_leader.world import ack, acknowledged, acquired, parts, until, world


async def test_a_drain_waits_for_nobody_who_follows_and_its_locks_live_on_hnd_3_hnd_9():
    async with world() as w:
        epoch, _, stream = await held(w)
        stopping = draining(w)
        messages = await echoed(stream)
        assert [list(each.partitions) for each in messages[0].draining] == [[0]]
        assert await told(stream) == [(0, epoch)]
        await stopping
        later = await w.lead(P0)
        m2 = await w.client("m2").consume(P0)
        await stream.send(
            pb.ConsumeRequest(acknowledgements=[acknowledge(1, ack(P0, 0, 1, 1, epoch=epoch))])
        )
        assert await results(stream, 1) == {P0: 0}
        assert state(w, P0, 2) == (ACQUIRED, 1)
        await w.produce(P0, 3)
        assert await deliveries(m2, 3) == {P0: [(5, 7, 1)]}, "and nothing of what is held"
        wanted = ((0, epoch, STATE), (2, later, STATE), (2, epoch, 0))  # once, and of its epoch
        for number, (first, sent, error) in enumerate(wanted, 2):
            await stream.send(
                pb.ConsumeRequest(
                    acknowledgements=[acknowledge(number, ack(P0, first, first, 1, epoch=sent))]
                )
            )
            assert await results(stream, number) == {P0: error}


async def test_who_does_not_say_that_it_follows_is_waited_for_hnd_3():
    async with world() as w:
        epoch, _, stream = await held(w, follows=False)
        stopping = draining(w)
        await anext(stream)
        await w.clock.advance(DRAIN_MS - 1)
        assert not stopping.done()
        await stream.send(
            pb.ConsumeRequest(acknowledgements=[acknowledge(1, ack(P0, 0, 4, 1, epoch=epoch))])
        )
        assert await results(stream, 1) == {P0: 0}
        await stopping
        assert [write.hand_over for _, write in w.keeper.writes] == [()]


async def test_who_does_not_answer_is_waited_for_and_its_locks_lapse_hnd_4():
    async with world() as w:
        epoch, _, stream = await held(w)
        stopping = draining(w)
        await anext(stream)
        await w.clock.advance(DRAIN_MS - 1)
        assert not stopping.done()
        await w.clock.advance(1)
        await stopping
        assert w.keeper.writes == []
        await w.lead(P0)
        await stream.send(
            pb.ConsumeRequest(acknowledgements=[acknowledge(1, ack(P0, 0, 4, 1, epoch=epoch))])
        )
        assert await results(stream, 1) == {P0: STATE}


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("is_stored", [True, False])
async def test_who_has_no_session_any_more_is_not_waited_for_hnd_3(follows, is_stored):
    async with world() as w:
        epoch, client, stream = await held(w, follows=follows)
        if not is_stored:
            w.keeper.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        stopping = draining(w)
        await anext(stream)
        await w.clock.settle()
        assert not stopping.done()
        await client.caller.close()
        await stopping  # and no time passes
        assert [write.hand_over for _, write in w.keeper.writes] == [()]
        w.keeper.write_error = ErrorCode.NONE
        await w.lead(P0)
        m2 = await w.client("m2").consume(P0)
        assert await deliveries(m2, 5) == {P0: [(0, 4, 2 if is_stored else 1)]}, epoch


async def test_a_session_that_ends_in_the_hand_over_releases_nothing_hnd_4():
    async with world() as w:
        _, client, stream = await held(w)
        stopping = draining(w)
        messages = []
        while not messages or not messages[-1].echo_id:
            messages.append(await anext(stream))
        w.keeper.open.clear()
        await stream.send(pb.ConsumeRequest(echo_id=messages[-1].echo_id))
        await until(lambda: w.keeper.writes)
        await client.caller.close()
        await until(lambda: not len(w.service.session_cache.sessions))
        await w.clock.settle()
        w.keeper.open.set()
        await stopping
        assert len(w.keeper.writes) == 1, "the last write"


async def test_without_a_successor_holders_are_waited_for_hnd_3():
    async with world() as w:
        await w.lead(P0)
        stream = await w.client().consume(P0, follows_hand_over=True)
        await w.produce(P0, 5)
        await deliveries(stream, 5)
        stopping = draining(w, 1_000)
        await w.clock.advance(999)
        assert not stopping.done()
        await w.clock.advance(1)
        await stopping
        assert w.keeper.writes == []


async def test_acknowledgements_that_come_in_the_hand_over_wait_and_are_refused_after_the_notice():
    async with world() as w:
        epoch, _, stream = await held(w)
        stopping = draining(w)
        messages = []
        while not messages or not messages[-1].echo_id:
            messages.append(await anext(stream))
        w.keeper.open.clear()  # the last write is under way
        await stream.send(pb.ConsumeRequest(echo_id=messages[-1].echo_id))
        await until(lambda: w.keeper.writes)
        await stream.send(
            pb.ConsumeRequest(acknowledgements=[acknowledge(1, ack(P0, 0, 4, 1, epoch=epoch))])
        )
        await w.clock.settle()
        w.keeper.open.set()
        seen = []
        while not seen or 1 not in acknowledged(seen[-1]):
            seen.append(await anext(stream))
        assert any(each.handed_over for each in seen), "HND-9: before it is refused, or with it"
        assert acknowledged(seen[-1]) == {1: {P0: NOT_LEADER}}
        await stopping


async def test_a_write_that_is_out_settles_before_the_last_one_hnd_4():
    async with world() as w:
        epoch, _, stream = await held(w)
        w.keeper.open.clear()
        await stream.send(
            pb.ConsumeRequest(acknowledgements=[acknowledge(1, ack(P0, 0, 1, 1, epoch=epoch))])
        )
        await until(lambda: w.keeper.writes)
        stopping = draining(w)
        await echoed(stream)
        await w.clock.settle()
        assert len(w.keeper.writes) == 1
        w.keeper.open.set()
        await stopping
        last = w.keeper.writes[-1][1]
        assert [each[1:3] for each in last.hand_over] == [(2, 4)]
        assert last.start_offset == 2


async def test_locks_that_nobody_keeps_lapse_and_nobody_is_told_otherwise_hnd_12():
    async with world() as w:
        epoch, _, stream = await held(w)
        w.keeper.hand_overs.keep = lambda *_: False  # an older coordinator, or one without room
        stopping = draining(w)
        await echoed(stream)
        await stopping
        assert parts(await anext(stream))[P0].error_code == NOT_LEADER
        await w.lead(P0)
        m2 = await w.client("m2").consume(P0)
        assert await deliveries(m2, 5) == {P0: [(0, 4, 1)]}
        await stream.send(
            pb.ConsumeRequest(acknowledgements=[acknowledge(1, ack(P0, 0, 4, 1, epoch=epoch))])
        )
        assert await results(stream, 1) == {P0: STATE}


async def too_long(w, stream):
    """Hand over with a last write that takes too long; return the drain, which goes on."""
    stopping = draining(w)
    messages = []
    while not messages or not messages[-1].echo_id:
        messages.append(await anext(stream))
    w.keeper.open.clear()
    await stream.send(pb.ConsumeRequest(echo_id=messages[-1].echo_id))
    await until(lambda: w.service.partitions.get(P0) is None)
    assert w.keeper.writes
    return stopping


async def test_a_hand_over_without_an_answer_is_told_to_nobody_hnd_5(caplog):
    async with world(hand_over_ms=20, drain_write_ms=20) as w:
        _, _, stream = await held(w)
        await (await too_long(w, stream))
        name = f"{P0.topic_id.hex()}/0"
        assert f"locks of {name} may lapse: they could not be handed over in time" in caplog.text
        assert f"state writes of {name} did not end within the drain" in caplog.text
        assert parts(await anext(stream))[P0].error_code == NOT_LEADER
        w.keeper.open.set()


async def test_a_late_answer_to_the_last_write_is_told_hnd_5_hnd_9():
    async with world(hand_over_ms=20) as w:
        epoch, _, stream = await held(w)
        stopping = await too_long(w, stream)
        asked = acknowledge(1, ack(P0, 0, 0, 1, epoch=epoch))
        await stream.send(pb.ConsumeRequest(acknowledgements=[asked]))
        assert await results(stream, 1) == {P0: NOT_LEADER}, "it is not known yet"
        w.keeper.open.set()
        assert await told(stream) == [(0, epoch)]
        await stopping
        assert parts(await anext(stream))[P0].error_code == NOT_LEADER
        await w.lead(P0)
        asked = acknowledge(2, ack(P0, 0, 4, 1, epoch=epoch))
        await stream.send(pb.ConsumeRequest(acknowledgements=[asked]))
        assert await results(stream, 2) == {P0: 0}


async def test_each_hand_over_is_told_once_hnd_9():
    async with world() as w:
        epoch, _, stream = await held(w)
        stopping = draining(w)
        await echoed(stream)
        await stopping
        messages = [await anext(stream)]
        while P0 not in parts(messages[-1]):
            messages.append(await anext(stream))
        assert sum(len(each.handed_over) for each in messages) == 1
        await w.lead(P0)
        asked = acknowledge(1, ack(P0, 0, 4, 1, epoch=epoch))
        await stream.send(pb.ConsumeRequest(acknowledgements=[asked]))
        message = await anext(stream)
        assert acknowledged(message) == {1: {P0: 0}}
        assert not message.handed_over


async def test_an_acknowledgement_of_before_waits_until_the_state_is_read_hnd_10():
    async with world(hand_over_ms=30) as w:
        epoch, _, stream = await held(w)
        stopping = draining(w)
        await echoed(stream)
        await stopping
        w.keeper.open.clear()
        await w.lead(P0)
        for number in (1, 2):
            await stream.send(
                pb.ConsumeRequest(
                    acknowledgements=[acknowledge(number, ack(P0, 0, 4, 1, epoch=epoch))]
                )
            )
            if number == 1:
                not_yet = int(ErrorCode.LEADER_NOT_AVAILABLE)
                assert await results(stream, number) == {P0: not_yet}
                w.keeper.open.set()
        assert await results(stream, 2) == {P0: 0}


async def test_a_stream_is_read_on_while_acknowledgements_of_before_wait_hnd_10():
    async with world(hand_over_ms=60_000) as w:
        before = {each: await w.lead(each) for each in (P0, P1)}
        stream = await w.client().consume(P0, P1, follows_hand_over=True)
        for each in (P0, P1):
            await w.produce(each, 5)
            await deliveries(stream, 5)
            await w.assign("leader-2", each)
        stopping = draining(w)
        await echoed(stream)
        await stopping
        w.keeper.open.clear()  # the state of one partition is not read yet
        await w.lead(P0)
        for number in (1, 2):
            asked = acknowledge(number, ack(P0, 0, 4, 1, epoch=before[P0]))
            await stream.send(pb.ConsumeRequest(acknowledgements=[asked]))
        stopping = asyncio.create_task(w.service.stop_partition(P1, drain_ms=DRAIN_MS))
        await echoed(stream)
        await until(lambda: w.service.partitions.get(P1).is_handing_over)
        asked = acknowledge(3, ack(P1, 0, 4, 1, epoch=before[P1]))
        await stream.send(pb.ConsumeRequest(acknowledgements=[asked], credit_records=7))
        (served,) = w.service._streams._open
        await until(lambda: served._credit_records >= 10_000 - 10 + 7)
        w.keeper.open.set()
        answers = {}
        while len(answers) < 3:
            answers |= acknowledged(await anext(stream))
        assert answers == {1: {P0: 0}, 2: {P0: STATE}, 3: {P1: NOT_LEADER}}, "in order"
        await stopping


@pytest.mark.parametrize("comes_back", [False, True])
async def test_who_leaves_before_the_state_is_read_is_remembered_hnd_11(comes_back):
    async with world() as w:
        epoch, client, stream = await held(w)
        stopping = draining(w)
        await echoed(stream)
        await stopping
        w.keeper.open.clear()
        await w.lead(P0)
        m2 = await w.client("m2").consume(P0)
        await until(lambda: w.runner(P0) is not None)
        await stream.close()
        await until(lambda: len(w.service.session_cache.sessions) == 1)
        await w.clock.settle()
        again = await client.consume(P0) if comes_back else None
        await until(lambda: len(w.service.session_cache.sessions) == 1 + comes_back)
        w.keeper.open.set()
        if again is None:
            assert await deliveries(m2, 5) == {P0: [(0, 4, 2)]}
        else:
            asked = acknowledge(1, ack(P0, 0, 4, 1, epoch=epoch))
            await again.send(pb.ConsumeRequest(acknowledgements=[asked]))
            assert await results(again, 1) == {P0: 0}
        assert not w.service.session_cache._left_early


async def test_who_leaves_a_share_partition_that_does_not_begin_is_forgotten():
    async with world() as w:
        await w.lead(P0)
        w.keeper.open.clear()
        stream = await w.client().consume(P0)
        await until(lambda: w.runner(P0) is not None)
        await stream.close()
        await until(lambda: w.service.session_cache._left_early)
        await w.service.stop_partition(P0)
        await until(lambda: not w.service.session_cache._left_early)
        w.keeper.open.set()


async def test_all_partitions_of_a_request_wait_together_hnd_10():
    async with world(hand_over_ms=1_000) as w:
        partitions = [P0, P1, P2]
        epochs = [await w.lead(each) for each in partitions]
        client = w.client()
        stream = await client.consume(*partitions, follows_hand_over=True)
        w.keeper.open.clear()
        for each in partitions:
            await w.service.stop_partition(each)
            await w.lead(each)
        asked = [
            ack(each, 0, 0, 1, epoch=epoch) for each, epoch in zip(partitions, epochs, strict=True)
        ]
        began_s = asyncio.get_running_loop().time()
        await stream.send(pb.ConsumeRequest(acknowledgements=[acknowledge(1, *asked)]))
        not_yet = int(ErrorCode.LEADER_NOT_AVAILABLE)
        assert await results(stream, 1) == dict.fromkeys(partitions, not_yet)
        assert asyncio.get_running_loop().time() - began_s < 2.9, "not 1 s for each"
        w.keeper.open.set()


async def test_who_loses_its_right_while_it_waits_is_refused_hnd_10_aut_6():
    async with world(hand_over_ms=5_000) as w:
        epoch, _, stream = await held(w)
        stopping = draining(w)
        await echoed(stream)
        await stopping
        w.keeper.open.clear()
        await w.lead(P0)
        access = w.service._access
        real = access.group
        asked = acknowledge(1, ack(P0, 0, 4, 1, epoch=epoch))
        await stream.send(pb.ConsumeRequest(acknowledgements=[asked]))
        await until(lambda: len(w.keeper.reads) > 1)

        def refuse(*_):
            raise RefusedError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "told to")

        access.group = refuse
        w.keeper.open.set()
        refused = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        try:
            assert await results(stream, 1) == {P0: refused}
        finally:
            access.group = real
        assert state(w, P0, 0) == (ACQUIRED, 1)


async def test_locks_are_taken_once_in_an_epoch_hnd_7():
    async with world() as w:
        epoch, _, stream = await held(w)
        stopping = draining(w)
        await echoed(stream)
        await stopping
        await w.lead(P0)
        m2 = w.client("m2")
        await m2.join(P0)
        runner = w.runner(P0)
        assert runner.took_from(epoch)
        runner.fence(ErrorCode.UNKNOWN_SERVER_ERROR, "told to")
        await m2.fetch()
        await until(lambda: w.runner(P0) is not None and w.runner(P0).was_active)
        assert not w.runner(P0).took_from(epoch)
        assert acquired(await m2.fetch(), P0) == [(0, 4, 1)]


async def test_what_waits_to_be_sent_is_given_back_hnd_4():
    async with world(max_stream_messages=5) as w:
        await w.lead(P0)
        stream = await w.client().consume(P0, follows_hand_over=True)
        await w.produce(P0, 5)
        await until(lambda: state(w, P0, 0) == (ACQUIRED, 1))
        (open_stream,) = w.service._streams._open
        await w.clock.settle()
        waiting = open_stream._outbox._messages
        message = pb.ConsumeResponse()
        topic = message.responses.add(topic_id=P0.topic_id)
        topic.partitions.add(partition=0).acquired_records.add(first_offset=0, last_offset=4)
        open_stream._outbox.put(message)
        assert waiting
        open_stream.take_back(P0)
        assert state(w, P0, 0) == (DeliveryState.AVAILABLE, 0)
        open_stream.take_back(P0)
        await stream.close()


async def test_locks_that_cannot_be_lapse_with_a_word_hnd_7(caplog):
    async with world() as w:
        epoch, _, stream = await held(w)
        stopping = draining(w)
        await echoed(stream)
        await stopping
        (kept,) = w.keeper.hand_overs._kept.values()
        kept.locks = (kept.locks[0]._replace(member_id=MemberId("")),)
        await w.lead(P0)
        m2 = w.client("m2")
        await m2.join(P0)
        assert "that was handed over is nobody's" in caplog.text
        assert acquired(await m2.fetch(), P0) == [(0, 4, 1)]
        assert not w.runner(P0).took_from(epoch)


@pytest.mark.parametrize("how", ["stream", "unary"])
async def test_members_hear_before_their_streams_end_hnd_9(how):
    async with world(hand_over_ms=50) as w:
        if how == "unary":
            await w.lead(P0)
            client = w.client()
            await client.join(P0)
            await client.hold()
            await w.service.until_told()
            return
        _, _, stream = await held(w)
        stopping = draining(w)
        await echoed(stream)
        await stopping
        telling = asyncio.create_task(w.service.until_told())
        await w.clock.settle()
        assert not telling.done()
        await echoed(stream)
        await telling
        await w.service.until_told()  # once


async def test_a_member_that_never_hears_is_not_waited_for_for_long_hnd_9(caplog):
    async with world(hand_over_ms=20) as w:
        _, _, stream = await held(w)
        stopping = draining(w)
        await echoed(stream)
        await stopping
        await w.service.until_told()
        assert "have not heard yet" in caplog.text


async def test_a_machine_that_ended_answers_what_was_asked_of_it():
    async with world() as w:
        epoch, _, stream = await held(w)
        runner = w.runner(P0)
        stopping = draining(w)
        await echoed(stream)
        await stopping
        batch = AcknowledgementBatch(0, 4, (1,))
        (answer,) = runner.machine.step(Acknowledge(1, MemberId("m1"), (batch,)), now_ms=1 << 40)
        assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert epoch
