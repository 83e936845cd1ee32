"""How many groups a principal may make, over every change of coordinator (QUO-12)."""

from sharemesh import methods
from sharemesh.domain.ids import GroupId
from sharemesh.domain.quota.names import QuotaName
from sharemesh.domain.share_group.records import GroupMetadata, GroupTombstone, RecordKind
from sharemesh.domain.share_group.shard import GroupShard
from sharemesh.v1 import group_coordinator_pb2 as pb
from tests.group_coordinator.world import heartbeat_request, world
from tests.listed_quotas import ListedQuotas

ALICE, BOB = "User:alice", "User:bob"


async def join(made, group, principal, member="m1"):
    request = heartbeat_request(member, 0, ["foo"])
    request.group_id = group
    return await made.call(methods.SHARE_GROUP_HEARTBEAT, request, principal)


async def bounded(made, limit=2):
    made.quotas = ListedQuotas({(QuotaName.GROUPS, ALICE): limit})
    await made.start()


async def test_quo_12_one_group_too_many_is_refused_and_others_may_make_theirs():
    async with world(foo=1) as made:
        await bounded(made)
        for number in range(2):
            assert (await join(made, f"g{number}", ALICE)).error_code == 0
        refused = await join(made, "g2", ALICE)
        assert refused.error_code == 42
        assert "quota groups of User:alice is 2: use fewer" in refused.error_message
        assert (await join(made, "g2", BOB)).error_code == 0
        assert (await join(made, "g2", ALICE, "m2")).error_code == 0  # it exists


async def test_quo_12_the_next_coordinator_and_a_compaction_know_who_made_a_group():
    async with world(foo=1) as made:
        await bounded(made)
        for number in range(2):
            await join(made, f"g{number}", ALICE)
        [served] = made.service.served
        await served._write_again(GroupId("g0"))
        await made.start()
        assert (await join(made, "g2", ALICE)).error_code == 42


async def test_quo_12_a_group_that_is_deleted_makes_room():
    async with world(foo=1) as made:
        await bounded(made, 1)
        await join(made, "g0", ALICE)
        leave = heartbeat_request("m1", -1)
        leave.group_id = "g0"
        await made.call(methods.SHARE_GROUP_HEARTBEAT, leave, ALICE)
        assert (await join(made, "g1", ALICE)).error_code == 42
        request = pb.DeleteGroupsRequest(group_ids=["g0"])
        await made.call(methods.DELETE_GROUPS, request, ALICE)
        assert (await join(made, "g1", ALICE)).error_code == 0


def test_quo_12_groups_are_counted_as_they_come_and_go():
    shard, group = GroupShard(), GroupId("g")
    for epoch in (1, 2):
        shard.apply(GroupMetadata(group, epoch, made_by=ALICE), 0)
    shard.apply(GroupMetadata(GroupId("old"), 1), 0)
    shard.validate()
    assert shard.made.of(ALICE) == 1
    for _ in range(2):
        shard.apply(GroupTombstone(group, RecordKind.GROUP_METADATA), 0)
    assert shard.made.of(ALICE) == 0
