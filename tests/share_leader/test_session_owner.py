"""Share sessions belong to the principal that opened them (spec BND-26)."""

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicPartition
from sharemesh.v1 import share_leader_pb2 as pb
from tests.share_leader.drained import ACQUIRED, STATE, draining, echoed, held
from tests.share_leader.test_consume import acknowledge, results, state
from tests.share_leader.world import FOO, ack, acquired, parts, until, world

FOO0 = TopicPartition(FOO, 0)
BOB = "User:bob"


async def test_another_principal_neither_uses_nor_ends_a_session_bnd_26():
    async with world() as w:
        await w.lead(FOO0)
        alice, bob = w.client(), w.client(principal=BOB)
        await alice.join(FOO0)
        await w.produce(FOO0, 10)
        assert acquired(await alice.fetch(), FOO0) == [(0, 9, 1)]
        for epoch in (-1, alice.epoch):
            assert (await bob.fetch(epoch=epoch)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
            answer = await bob.acknowledge(ack(FOO0, 0, 9, 3), epoch=epoch)
            assert answer.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert (await bob.fetch(FOO0, epoch=0)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        stream = await bob.consume(FOO0)
        assert (await anext(aiter(stream))).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        answer = await alice.acknowledge(ack(FOO0, 0, 9, 1))
        assert [each.error_code for each in parts(answer).values()] == [0], answer


async def test_a_hold_of_another_principal_ends_no_session_bnd_26():
    async with world() as w:
        await w.lead(FOO0)
        alice, bob = w.client(), w.client(principal=BOB)
        held = await bob.hold()  # before the member has a session
        await alice.join(FOO0)
        await held.close()
        stream = await bob.caller.stream(methods.HOLD_SESSION, to=w.address)
        await stream.send(pb.HoldSessionRequest(group_id="g", member_id="m1"))
        assert (await anext(aiter(stream))).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        await stream.close()
        await until(lambda: not w.service.session_cache._holds)
        assert (await alice.fetch()).error_code == 0


async def test_another_principal_has_nothing_of_locks_that_were_handed_over_hnd_10_bnd_26():
    async with world() as w:
        epoch, _, stream = await held(w)
        stopping = draining(w)
        await echoed(stream)
        await stopping
        await stream.close()
        await until(lambda: not len(w.service.session_cache.sessions))
        await w.lead(FOO0)
        thief = w.client(principal=BOB)
        stolen = await thief.consume()
        for number, kind in enumerate((1, 2, 3, 4), 1):
            asked = acknowledge(number, ack(FOO0, 0, 4, kind, epoch=epoch), renew=kind == 4)
            await stolen.send(pb.ConsumeRequest(acknowledgements=[asked]))
            assert await results(stolen, number) == {FOO0: STATE}
        await stolen.close()
        await until(lambda: not len(w.service.session_cache.sessions))
        assert state(w, FOO0, 0) == (ACQUIRED, 1), "nor does the end of its session release them"
        holder = await w.client().consume()
        asked = acknowledge(1, ack(FOO0, 0, 4, 1, epoch=epoch))
        await holder.send(pb.ConsumeRequest(acknowledgements=[asked]))
        assert await results(holder, 1) == {FOO0: 0}


async def test_what_a_session_left_that_could_not_be_released_stays_its_principals_bnd_26():
    async with world() as w:
        epoch, holder, stream = await held(w, follows=False)
        w.keeper.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        await stream.close()
        await until(lambda: w.service.session_cache.sessions._left)
        w.keeper.write_error = ErrorCode.NONE
        thief = w.client(principal=BOB)
        assert (await thief.fetch(FOO0, epoch=0)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        stolen = await thief.consume()
        assert (await anext(aiter(stolen))).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        again = await holder.consume(FOO0)
        asked = acknowledge(1, ack(FOO0, 0, 4, 1, epoch=epoch))
        await again.send(pb.ConsumeRequest(acknowledgements=[asked]))
        assert await results(again, 1) == {FOO0: 0}
