"""Section R, what the server answers: lag from the states that are stored."""

import random
from contextlib import asynccontextmanager

from sharemesh.admin.service import AdminService
from sharemesh.admin.topic_stores import StoredTopics
from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.environment import ClientEnvironment
from sharemesh.cluster.acl_table import AllowAll
from sharemesh.domain.ids import TopicPartition
from tests.clocks import LoopClock
from tests.conformance.scenario import scenario
from tests.group_coordinator.with_states import mesh
from tests.group_coordinator.world import ADDRESS, topic_id
from tests.share_leader.world import World as LeaderWorld
from tests.share_leader.world import ack, acquired, parts

FOO = TopicPartition(topic_id("foo"), 0)
ACKNOWLEDGED = 2
ACCEPT, RELEASE, REJECT = 1, 2, 3


@asynccontextmanager
async def led():
    """Both coordinators, and a real leader of foo-0: yields (mesh, leader's world)."""
    async with mesh(foo=1) as both:
        made = both.made
        await made.cluster_configs(group_share_assignment_interval_ms="0")
        leader = LeaderWorld(made.clock, made.disk)
        leader.coordination, leader.view = made.coordination, made.view
        leader.network = made.network
        leader.start(persister=both.persister)
        try:
            await leader.lead(FOO)
            yield both, leader
        finally:
            await leader.service.close()


async def member(both, leader, name):
    """A member of the group with a share session on foo-0."""
    await both.made.joined(name, ["foo"])
    client = leader.client(name)
    await client.join(FOO)
    return client


async def lag(both):
    return (await both.offsets())["foo", 0][1]


async def fetched(client, *ranges):
    """Fetch one record; the acquired ranges must be these (first, last, delivery count)."""
    response = await client.fetch(FOO, max_records=1, batch_size=1)
    assert acquired(response, FOO) == list(ranges)


async def acknowledged(client, offset, kind):
    response = await client.acknowledge(ack(FOO, offset, offset, kind))
    assert [each.error_code for each in parts(response).values()] == [0]


@scenario("ADM-S01")
async def test_lag_of_one_consumer():
    async with led() as (both, leader):
        client = await member(both, leader, "m1")
        await leader.produce(FOO, 1)
        await fetched(client, (0, 0, 1))
        await acknowledged(client, 0, ACCEPT)
        assert await lag(both) == 0
        await leader.produce(FOO, 1)
        assert await lag(both) == 1


@scenario("ADM-S02")
async def test_lag_after_release_and_reject():
    async with led() as (both, leader):
        client = await member(both, leader, "m1")
        await leader.produce(FOO, 1)
        await fetched(client, (0, 0, 1))
        await acknowledged(client, 0, RELEASE)
        assert await lag(both) == 1
        await fetched(client, (0, 0, 2))
        await acknowledged(client, 0, ACCEPT)
        assert await lag(both) == 0
        await leader.produce(FOO, 1)
        await fetched(client, (1, 1, 1))
        await acknowledged(client, 1, REJECT)
        assert await lag(both) == 0


@scenario("ADM-S03")
async def test_lag_of_two_consumers_counts_what_is_in_flight():
    async with led() as (both, leader):
        first = await member(both, leader, "m1")
        second = await member(both, leader, "m2")
        await leader.produce(FOO, 1, 1, 1)
        await fetched(first, (0, 0, 1))
        await fetched(second, (1, 1, 1))
        await acknowledged(first, 0, ACCEPT)
        await acknowledged(second, 1, ACCEPT)
        await fetched(first, (2, 2, 1))
        assert await lag(both) == 1


@scenario("ADM-S07")
async def test_a_partition_that_never_started_is_absent_from_the_admin_result():
    async with mesh(foo=2) as both:
        made = both.made
        await made.joined("m1", ["foo"])
        await made.hb("m1", -1)
        assert await both.alter("foo", 1, 7) == 0
        assert (await both.offsets())["foo", 0] == (-1, -1)
        await made.elect("coordinator")
        service = AdminService(
            made.coordination,
            made.view,
            AllowAll(),
            StoredTopics(made.coordination, made.view, random.Random(1)),
            LoopClock(),
        )
        service.offer(made.network.listener(ADDRESS))
        environment = ClientEnvironment(made.network.caller, LoopClock(), random.Random(2), str)
        config = {"bootstrap.servers": ADDRESS}
        async with AsyncAdminClient(config, environment=environment) as admin:
            found = await admin.list_share_group_offsets("g")
        assert {(str(key.topic), key.partition) for key in found} == {("foo", 1)}


async def finished(both, count):
    """A group without members that has finished all ``count`` records of foo-0."""
    made = both.made
    await made.lead(("foo", 0))
    made.log_ends[FOO] = count
    await made.joined("m1", ["foo"])
    state = await both.read("foo", 0)
    assert await both.write("foo", 0, start=count, complete=0, epoch=state.state_epoch) == 0
    await made.hb("m1", -1)


@scenario("ADM-S04")
async def test_lag_after_altered_offsets():
    async with mesh(foo=1) as both:
        await finished(both, 105)
        assert await both.offsets() == {("foo", 0): (105, 0)}
        assert await both.alter("foo", 0, 40) == 0
        assert await both.offsets() == {("foo", 0): (40, 65)}


@scenario("ADM-S06")
async def test_lag_is_the_same_after_either_coordinator_moves():
    async with mesh(foo=1) as both:
        await finished(both, 105)
        both.made.log_ends[FOO] = 112
        assert await both.offsets() == {("foo", 0): (105, 7)}
        await both.made.start()
        assert await both.offsets() == {("foo", 0): (105, 7)}
        await both.start_states()
        assert await both.offsets() == {("foo", 0): (105, 7)}


@scenario("ADM-S08")
async def test_lag_counts_what_is_not_acknowledged():
    async with mesh(foo=1) as both:
        made = both.made
        await made.lead(("foo", 0))
        made.log_ends[FOO] = 30
        assert await both.alter("foo", 0, 10) == 0
        epoch = (await both.read("foo", 0)).state_epoch
        batches = [(15, 19, ACKNOWLEDGED, 1)]
        assert await both.write("foo", 0, start=10, complete=5, batches=batches, epoch=epoch) == 0
        assert await both.offsets() == {("foo", 0): (10, 15)}
