"""Groups, members, settings and offsets: by the thousand, of others, with odd names and numbers."""

import asyncio
import os

from sharemesh import methods as m
from sharemesh.v1.group_coordinator_pb2 import (
    AlterGroupConfigsRequest,
    AlterShareGroupOffsetsRequest,
    DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeGroupConfigsRequest,
    DescribeShareGroupOffsetsRequest,
    ListGroupsRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from tests.faults.abuse.abused_cluster import (
    ALICES,
    MALLOR,
    MINE,
    NO_RIGHT,
    OTHER_RIGHT,
    REVOKED,
    ROOM,
    SAME_GROUP,
    SECRET,
    Stage,
)
from tests.faults.abuse.kinds import abuse, error_codes, flood

COORDINATOR = "group-coordinator"
OPENED_EVERY_S = 0.005
ODD = ("\x1b]0;pwned\x07", "\x1b[2J", "a\r\nb", "\0", "\u202etxt", "../../etc", "%s%n", "a:b", " ")
LONGS = (0, -1, -2, 2**62, 2**62 + 1, 2**63 - 1, -(2**63))


def heartbeat(
    group: str, member: str, *topics: str, epoch: int = 0, client: str = ""
) -> ShareGroupHeartbeatRequest:
    """Return a heartbeat that waits for nothing."""
    request = ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, client_id=client
    )
    if topics:
        request.subscribed_topic_names.names.extend(topics)
    return request


@abuse(OTHER_RIGHT, finding=10, once=True)
async def groups_by_the_thousand(stage: Stage, who: str) -> None:
    """A thousand groups with a member each, whose client id is as long as it may be."""
    requests = (
        heartbeat(f"{MALLOR}-g{number}", "m", MINE, client="c" * 255) for number in range(1_000)
    )
    await flood(stage, who, COORDINATOR, m.SHARE_GROUP_HEARTBEAT, requests, at_once=8)


@abuse(OTHER_RIGHT, finding=10, once=True)
async def settings_of_groups_by_the_hundred(stage: Stage, who: str) -> None:
    """Settings of five hundred groups that do not exist."""

    def settings(number: int) -> AlterGroupConfigsRequest:
        request = AlterGroupConfigsRequest(group_id=f"{MALLOR}-c{number}")
        request.configs.add(name="share.isolation.level", value="read_committed")
        return request

    requests = (settings(number) for number in range(500))
    await flood(stage, who, COORDINATOR, m.ALTER_GROUP_CONFIGS, requests, at_once=8)


@abuse(OTHER_RIGHT, once=True)
async def members_by_the_hundred_in_one_group(stage: Stage, who: str) -> None:
    """More members than a group may have."""
    requests = (heartbeat(MALLOR + "-full", f"m{number}", MINE) for number in range(400))
    await flood(stage, who, COORDINATOR, m.SHARE_GROUP_HEARTBEAT, requests, at_once=4)


@abuse(OTHER_RIGHT, finding=11)
async def control_characters_in_names(stage: Stage, who: str) -> None:
    """Escapes, line ends and reversed text as groups, members, clients and racks."""
    for odd in ODD:
        joined = await stage.ask(
            who, COORDINATOR, m.SHARE_GROUP_HEARTBEAT, heartbeat(MALLOR + odd, "m", MINE)
        )
        if any(ord(each) < 32 or each == "\u202e" for each in odd):
            assert joined.error_code == 24, f"a group called {odd!r}: {joined.error_code}"
        member = heartbeat(MALLOR + "y", "m" + odd, MINE, client=odd)
        member.rack_id = odd
        await stage.send(who, COORDINATOR, m.SHARE_GROUP_HEARTBEAT, member)


@abuse(NO_RIGHT, OTHER_RIGHT, REVOKED)
async def empty_and_endless_names(stage: Stage, who: str) -> None:
    """Names of nothing, and of a hundred thousand characters, wherever one is asked for."""
    for name in ("", "x" * 100_000):
        for method, request in (
            (m.SHARE_GROUP_HEARTBEAT, heartbeat(name, name, name)),
            (m.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest(group_ids=[name])),
            (m.DELETE_GROUPS, DeleteGroupsRequest(group_ids=[name])),
            (m.DESCRIBE_GROUP_CONFIGS, DescribeGroupConfigsRequest(group_ids=[name])),
            (m.DELETE_SHARE_GROUP_OFFSETS,
             DeleteShareGroupOffsetsRequest(group_id=name, topic_names=[name])),
        ):  # fmt: skip
            await stage.send(who, COORDINATOR, method, request)


@abuse(NO_RIGHT, OTHER_RIGHT, REVOKED)
async def groups_of_others_looked_at_and_deleted(stage: Stage, who: str) -> None:
    """List, describe, delete, reset: all of the quiet tenant's groups."""
    offsets = DescribeShareGroupOffsetsRequest()
    offsets.groups.add(group_id=ALICES)
    for method, request in (
        (m.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest(group_ids=[ALICES, ROOM])),
        (m.DELETE_GROUPS, DeleteGroupsRequest(group_ids=[ALICES, ROOM])),
        (m.DESCRIBE_SHARE_GROUP_OFFSETS, offsets),
        (m.DESCRIBE_GROUP_CONFIGS, DescribeGroupConfigsRequest(group_ids=[ALICES])),
    ):
        said = await stage.send(who, COORDINATOR, method, request)
        codes = error_codes(method.response.FromString(said.data))
        assert codes == {30}, f"{who}, {method.name}: {codes}"
    listed = await stage.ask(who, COORDINATOR, m.LIST_GROUPS, ListGroupsRequest())
    assert not {ALICES, ROOM} & {each.group_id for each in listed.groups}


@abuse(SAME_GROUP, NO_RIGHT, REVOKED, finding=16, may_see=("group", "topic name", "topic id"))
async def members_of_others_made_to_leave(stage: Stage, who: str) -> None:
    """Another principal's member, by its id: it stays."""
    member = f"alices-{os.urandom(4).hex()}"
    joined = await stage.ask(
        "alice", COORDINATOR, m.SHARE_GROUP_HEARTBEAT, heartbeat(ROOM, member, SECRET)
    )
    for epoch in (-1, 0, joined.member_epoch):
        topics = () if epoch else (SECRET,)
        speaking = heartbeat(ROOM, member, *topics, epoch=epoch)
        answer = await stage.ask(who, COORDINATOR, m.SHARE_GROUP_HEARTBEAT, speaking)
        assert answer.error_code in {25, 30}, f"{who}: {answer.error_code}"
    stays = heartbeat(ROOM, member, epoch=joined.member_epoch)
    answer = await stage.ask("alice", COORDINATOR, m.SHARE_GROUP_HEARTBEAT, stays)
    assert answer.error_code == 0, f"alice's member is gone: {answer.error_code}"
    leave = heartbeat(ROOM, member, epoch=-1)
    await stage.send("alice", COORDINATOR, m.SHARE_GROUP_HEARTBEAT, leave)


@abuse(OTHER_RIGHT)
async def subscriptions_to_ten_thousand_names(stage: Stage, who: str) -> None:
    """A member that wants all names there could be."""
    names = [f"n{number}" for number in range(10_000)]
    request = heartbeat(MALLOR + "-names", "m", *names)
    await stage.send(who, COORDINATOR, m.SHARE_GROUP_HEARTBEAT, request)


@abuse(OTHER_RIGHT)
async def heartbeats_without_pause(stage: Stage, who: str) -> None:
    """Heartbeats with epochs of all kinds, four at a time."""
    requests = [
        heartbeat(MALLOR + "-fast", "m", MINE, epoch=epoch)
        for epoch in (0, 1, -1, 2, -2, 2**31 - 1, -(2**31))
        for _ in range(20)
    ]
    await flood(stage, who, COORDINATOR, m.SHARE_GROUP_HEARTBEAT, requests, at_once=4)


@abuse(OTHER_RIGHT)
async def joining_and_leaving_in_turn(stage: Stage, who: str) -> None:
    """A new member that leaves at once, again and again: each is a new assignment."""
    for number in range(40):
        for epoch in (0, -1):
            request = heartbeat(MALLOR + "-turn", f"m{number}", MINE, epoch=epoch)
            await stage.send(who, COORDINATOR, m.SHARE_GROUP_HEARTBEAT, request)


@abuse(OTHER_RIGHT, once=True)
async def heartbeat_streams_by_the_hundred(stage: Stage, who: str) -> None:
    """Members on three hundred streams, which stay for a while."""

    async def one(number: int) -> None:
        await asyncio.sleep(number * OPENED_EVERY_S)
        request = heartbeat(MALLOR + f"-h{number % 5}", f"s{number}", MINE)
        method = m.SHARE_GROUP_HEARTBEAT_STREAM
        await stage.heard(who, COORDINATOR, method, request, for_s=2.0)

    await asyncio.gather(*(one(number) for number in range(300)))


@abuse(OTHER_RIGHT, finding=13)
async def start_offsets_near_the_end_of_numbers(stage: Stage, who: str) -> None:
    """Start offsets and delivery states up to 2^63 - 1."""
    for number in LONGS:
        request = AlterShareGroupOffsetsRequest(group_id=MALLOR + "-far")
        part = request.topics.add(topic_name=MINE).partitions.add(partition=0, start_offset=number)
        part.state_batches.add(first_offset=0, last_offset=number, delivery_state=0)
        answer = await stage.ask(who, COORDINATOR, m.ALTER_SHARE_GROUP_OFFSETS, request)
        if number > 2**62:
            assert 42 in error_codes(answer), f"start offset {number}: {answer}"


@abuse(NO_RIGHT, OTHER_RIGHT)
async def offsets_of_ten_thousand_partitions(stage: Stage, who: str) -> None:
    """One question about ten thousand partitions of one's own topic."""
    request = DescribeShareGroupOffsetsRequest()
    topics = request.groups.add(group_id=MALLOR + "y").topics.topics
    topics.add(topic_name=MINE, partitions=range(10_000))
    await stage.send(who, COORDINATOR, m.DESCRIBE_SHARE_GROUP_OFFSETS, request)


@abuse(OTHER_RIGHT, NO_RIGHT)
async def settings_that_do_not_exist(stage: Stage, who: str) -> None:
    """Names and values that no setting has, a thousand in one request."""
    request = AlterGroupConfigsRequest(group_id=MALLOR + "y")
    for number in range(1_000):
        request.configs.add(name=f"no.such.{number}", value="\x1b" * 50)
    answer = await stage.ask(who, COORDINATOR, m.ALTER_GROUP_CONFIGS, request)
    assert answer.error_code, "a setting that does not exist was taken"
