"""Heartbeats of a stream that say what the last one said: answered without being read anew."""

from contextlib import asynccontextmanager

import pytest

from sharemesh.domain.errors import ErrorCode
from sharemesh.group_coordinator import heartbeats
from sharemesh.ports.authorizer import Operation, ResourceType
from tests.group_coordinator.world import assigned, heartbeat_request, world


@pytest.fixture
def read_anew(monkeypatch):
    """Member epochs of the heartbeats that were read and checked."""
    found = []
    real = heartbeats.check_fields

    def check_fields(request):
        found.append(request.member_epoch)
        real(request)

    monkeypatch.setattr(heartbeats, "check_fields", check_fields)
    return found


@asynccontextmanager
async def settled_member(made):
    """Yield what sends a heartbeat on the stream of a member with its partitions."""
    stream = await made.stream()
    messages = aiter(stream)
    await stream.send(heartbeat_request("m1", 0, ["foo"]))
    while not (answer := await anext(messages)).assignment.topic_partitions:
        pass
    group = made.service.served[0].decisions.group("g")

    async def beat(epoch=None, **more):
        epoch = answer.member_epoch if epoch is None else epoch
        await stream.send(heartbeat_request("m1", epoch, **more))
        return await anext(messages)

    while group.stale:
        await beat()
    yield beat
    await stream.close()


async def test_gc_22_a_heartbeat_that_is_repeated_is_answered_alike_and_read_once(read_anew):
    async with world(foo=2) as made, settled_member(made) as beat:
        first = await beat()
        read_anew.clear()
        again = [await beat() for _ in range(3)]
        assert again == [first] * 3
        assert (first.member_id, first.error_code, assigned(first)) == ("m1", 0, None)
        assert read_anew == []
        await beat(client_id="another")
        assert read_anew == [first.member_epoch]


async def test_gc_21_each_repeated_heartbeat_restarts_the_session():
    async with world(foo=2) as made, settled_member(made) as beat:
        group = made.service.served[0].decisions.group("g")
        for _ in range(4):
            await made.clock.advance(44_999)
            assert (await beat()).error_code == 0
        await made.clock.advance(44_999)
        assert "m1" in group.members
        await made.clock.advance(1)
        await made.until(lambda: "m1" not in group.members)
        assert (await beat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_repeated_heartbeat_hears_of_a_new_interval():
    async with world(foo=2) as made, settled_member(made) as beat:
        assert (await beat()).heartbeat_interval_ms == 5_000
        await made.group_configs("g", share_heartbeat_interval_ms="7000")
        assert (await beat()).heartbeat_interval_ms == 7_000


async def test_a_repeated_heartbeat_whose_right_is_gone_is_refused():
    async with world(foo=2) as made, settled_member(made) as beat:
        assert (await beat()).error_code == 0
        made.rules.denied.add((Operation.READ.value, ResourceType.GROUP.value, "g"))
        assert (await beat()).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_a_repeated_heartbeat_while_share_groups_are_off_is_refused():
    async with world(foo=2) as made, settled_member(made) as beat:
        assert (await beat()).error_code == 0
        await made.share_version(0)
        assert (await beat()).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_repeated_heartbeat_waits_until_the_log_was_looked_at():
    async with world(foo=2) as made, settled_member(made) as beat:
        assert (await beat()).error_code == 0
        taker = await made.logs.open("group", 0, made.epoch + 1)
        with pytest.raises(StopAsyncIteration):  # not one word more than the end of the stream
            await beat()
        await taker.close()


async def test_a_heartbeat_with_an_epoch_that_is_over_is_not_taken_for_a_repeated_one():
    async with world(foo=2) as made, settled_member(made) as beat:
        epoch = (await beat()).member_epoch
        await made.clock.advance(1_000)
        await made.joined("m2", ["foo"])
        pushed = await beat()  # what comes first is the assignment that was pushed
        assert pushed.member_epoch == epoch + 1
        assert assigned(pushed) is not None
