"""A member belongs to the principal that joined it, over every change of coordinator (BND-26)."""

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, MemberId
from sharemesh.domain.share_group.records import GroupMetadata, MemberMetadata
from sharemesh.runtime.shard_kind import Decision
from tests.group_coordinator.world import heartbeat_request, world

ALICE, BOB = "User:alice", "User:bob"


async def said(made, principal, epoch, topics=None):
    request = heartbeat_request("m1", epoch, topics, max_wait_ms=5_000 if epoch == 0 else 0)
    return await made.call(methods.SHARE_GROUP_HEARTBEAT, request, principal)


async def test_nobody_else_speaks_for_a_member_bnd_26():
    async with world(foo=1) as made:
        joined = await said(made, ALICE, 0, ["foo"])
        assert joined.member_epoch > 0
        for epoch in (joined.member_epoch, 0, -1, 1):
            answer = await said(made, BOB, epoch, ["foo"])
            assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID, epoch
            assert not answer.HasField("assignment")
        again = await said(made, ALICE, joined.member_epoch)
        assert (again.error_code, again.member_epoch) == (0, joined.member_epoch)


async def test_a_stream_of_another_principal_replaces_none_bnd_26():
    async with world(foo=1) as made:
        joined = await said(made, ALICE, 0, ["foo"])
        caller = made.network.caller(BOB)
        stream = await caller.stream(methods.SHARE_GROUP_HEARTBEAT_STREAM, to="coordinator:1")
        await stream.send(heartbeat_request("m1", joined.member_epoch))
        answer = await anext(aiter(stream))
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        [served] = made.service.served
        assert len(served.streams) == 0
        await stream.close()
        await caller.close()


async def test_the_next_coordinator_and_a_compaction_know_the_owner_bnd_26():
    async with world(foo=1) as made:
        joined = await said(made, ALICE, 0, ["foo"])
        [served] = made.service.served
        await served._write_again(GroupId("g"))
        await made.start()
        refused = await said(made, BOB, -1)
        assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await said(made, ALICE, joined.member_epoch)).error_code == 0


async def test_a_member_of_an_older_version_is_of_who_speaks_first_bnd_26():
    async with world(foo=1) as made:
        old = MemberMetadata(GroupId("g"), MemberId("m1"), subscribed_topic_names=("foo",))
        [served] = made.service.served
        await served.shard.write(lambda _: Decision((GroupMetadata(GroupId("g"), 2), old), None))
        assert (await said(made, ALICE, 0, ["foo"])).error_code == 0
        await made.start()
        assert (await said(made, BOB, -1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await said(made, ALICE, -1)).error_code == 0
