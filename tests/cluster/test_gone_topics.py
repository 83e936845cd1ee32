"""What stays of topics that are deleted or detached: files to free, leader epochs (KTP-19)."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from sharemesh.cluster.store import records
from sharemesh.cluster.store.keys import CONTROLLER
from sharemesh.cluster.store.records import Claim
from sharemesh.cluster.store.topics import delete_topic, detach_topic
from sharemesh.cluster.view import watched_view
from sharemesh.controller.desired import DesiredPlacement, PlacementLimits
from sharemesh.controller.placement_controller import AssignmentWriter
from sharemesh.ports.broker_topics import BrokerTopics
from sharemesh.ports.coordination import Delete, Put
from tests.cluster.led_topics import SL, C, all_partitions, led, make_topic, three
from tests.cluster.mesh import Mesh


@pytest.fixture
async def mesh():
    mesh = Mesh()
    await mesh.begin()
    yield mesh
    await mesh.close()


def read_again(coordination, restored):
    """Have a watch begin anew with all that is stored, as it does once etcd was restored."""
    watch = coordination.watch

    async def watched(prefix):
        told = False
        async with aclosing(watch(prefix)) as items:
            async for item in items:
                begins = restored.is_set() and not told
                told = told or begins
                yield await coordination.list(prefix) if begins else item

    coordination.watch = watched
    return coordination


async def test_krl_17_leader_epochs_stay_above_those_that_a_restored_store_forgot(mesh):
    """No fence tells a leader where the log is a topic; clients believe no lower epoch."""
    restored = asyncio.Event()
    connect = mesh.connect
    mesh.connect = lambda: read_again(connect(), restored)
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh)
    view = nodes[0].view
    stored = view.tables.assignments
    partition, other = sorted(all_partitions(topic))[:2]
    now = stored[partition].value
    before = replace(now, leader=now.standbys[0], standbys=(now.leader,))
    for _ in range(4):
        await mesh.parent.commit([], [Delete(view.keys.claim(partition))])
        await mesh.settle(5_000)
    epochs = {each: view.leader(each).leader_epoch for each in (partition, other)}
    assert epochs == {partition: 5, other: 1}
    restored.set()
    backup = Put(view.keys.assignment(partition), records.encode_assignment(before))
    mesh.fences.epochs.clear()
    lost = [Delete(view.keys.claim(each)) for each in (partition, other)]
    await mesh.parent.commit([], [*lost, backup])
    await mesh.settle(5_000)
    epochs = {each: view.leader(each).leader_epoch for each in (partition, other)}
    assert epochs == {partition: 6, other: 2}
    assert set(led(topic, *nodes)) == all_partitions(topic)


async def test_ktp_19_a_topic_that_is_attached_again_goes_on_above_its_leader_epochs(mesh):
    """It has the same id: whoever saw an epoch of it before must not meet it a second time."""
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh, partitions=2)
    keys, view = nodes[0].view.keys, nodes[0].view
    partition, other = sorted(all_partitions(topic))
    for _ in range(4):
        await mesh.parent.commit([], [Delete(keys.claim(partition))])
        await mesh.settle(5_000)
    assert view.leader(partition).leader_epoch == 5
    await detach_topic(mesh.parent, view, topic.name, kept=True)
    await mesh.settle(5_000)
    assert not view.tables.claims
    assert led(topic, *nodes) == {}
    epochs = {each: view.tables.assignments[each].value.leader_epoch for each in (partition, other)}
    assert epochs == {partition: 5, other: 1}
    mesh.fences.epochs.clear()
    for node in nodes:
        node.view._fallen.clear()
    stored = Put(keys.topic(topic.name), records.encode_topic(topic))
    await mesh.parent.commit([], [stored, Delete(keys.deletion(topic.topic_id))])
    await mesh.settle(5_000)
    epochs = {each: view.leader(each).leader_epoch for each in (partition, other)}
    assert epochs == {partition: 6, other: 2}
    assert set(led(topic, *nodes)) == all_partitions(topic)


async def test_ktp_19_a_leader_that_dies_while_its_topic_is_detached_leaves_its_epoch(mesh):
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh, partitions=1)
    (partition,) = all_partitions(topic)
    keys, view = nodes[0].view.keys, nodes[0].view
    await mesh.parent.commit([], [Delete(keys.claim(partition))])
    await detach_topic(mesh.parent, view, topic.name, kept=True)
    await mesh.settle(60_000)
    assert not view.tables.claims
    epoch = view.tables.assignments[partition].value.leader_epoch
    stored = Put(keys.topic(topic.name), records.encode_topic(topic))
    await mesh.parent.commit([], [stored, Delete(keys.deletion(topic.topic_id))])
    await mesh.settle(10_000)
    assert view.leader(partition).leader_epoch > epoch


async def test_ktp_19_a_topic_that_stays_away_is_forgotten_in_time(mesh):
    nodes, controller = await three(mesh)
    desired = controller.controller._desired
    desired._limits = replace(desired._limits, kept_ms=600_000)
    topic = await make_topic(mesh)
    other = await make_topic(mesh, "other", 3)
    keys, view = nodes[0].view.keys, nodes[0].view
    (partition,) = [each for each in all_partitions(topic) if each.partition == 0]
    await mesh.parent.commit([], [Put(keys.seen_partition(partition), b"how far it was seen")])
    await detach_topic(mesh.parent, view, topic.name, kept=True)
    await mesh.settle(540_000)
    assert partition in view.tables.assignments
    assert await mesh.parent.get(keys.seen_partition(partition)) is not None
    await mesh.settle(120_000)
    assert {each.topic_id for each in view.tables.assignments} == {other.topic_id}
    assert not view.tables.deletions
    assert await mesh.parent.get(keys.seen_partition(partition)) is None


async def test_ktp_19_a_claim_that_comes_after_its_topic_was_detached_is_given_up(mesh):
    """As one does whose outcome was not known, or that was handed over in the same moment."""
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh, partitions=1)
    (partition,) = all_partitions(topic)
    view = nodes[0].view
    await detach_topic(mesh.parent, view, topic.name, kept=True)
    await mesh.settle(5_000)
    epoch = view.tables.assignments[partition].value.leader_epoch
    claim = records.encode_claim(Claim(nodes[0].info.node_id, epoch))
    put = Put(view.keys.claim(partition), claim, leased=True)
    await mesh.parent.commit([], [put], session=nodes[0].member.session)
    await mesh.settle(5_000)
    assert not view.tables.claims
    assert led(topic, *nodes) == {}
    assert view.tables.assignments[partition].value.leader_epoch == epoch


async def test_ktp_19_a_topic_that_is_attached_while_it_is_to_be_forgotten_keeps_its_epochs(mesh):
    nodes, controller = await three(mesh)
    topic = await make_topic(mesh, partitions=2)
    keys, view = nodes[0].view.keys, nodes[0].view
    await detach_topic(mesh.parent, view, topic.name, kept=True)
    await mesh.settle(5_000)
    desired = DesiredPlacement(view, mesh.clock, PlacementLimits(kept_ms=0))
    plan = await desired.plan(mesh.clock.now_ms(), 30_000)
    assert plan.forgotten == (topic.topic_id,)
    await mesh.run(controller.stop())
    session = await mesh.parent.open_session(ttl_ms=60_000)
    leadership = await mesh.parent.campaign(keys.election(CONTROLLER), b"{}", session)
    stored = Put(keys.topic(topic.name), records.encode_topic(topic))
    await mesh.parent.commit([], [stored, Delete(keys.deletion(topic.topic_id))])
    assert not await AssignmentWriter(mesh.parent, view).write(leadership, plan)
    await mesh.settle(5_000)
    epochs = {each: view.leader(each).leader_epoch for each in all_partitions(topic)}
    assert set(epochs.values()) == {2}


def test_ktp_10_states_outlive_what_groups_know_of_a_topic_unless_nothing_is_kept():
    def kept_ms(grace_ms):
        return BrokerTopics(None, None, False, grace_ms).states_kept_ms

    assert kept_ms(0) == 0
    assert kept_ms(600_000) > 2 * 600_000 + 24 * 3_600_000


async def test_krl_18_what_a_leader_writes_of_a_topic_that_is_gone_goes_with_its_claim(mesh):
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh, partitions=1)
    (partition,) = all_partitions(topic)
    key = nodes[0].view.keys.seen_partition(partition)
    await delete_topic(mesh.parent, nodes[0].view, topic.name)
    await mesh.parent.commit([], [Put(key, b"what it saw, as it closes its log")])
    await mesh.settle(5_000)
    assert not nodes[0].view.tables.assignments
    assert await mesh.parent.get(key) is None


async def test_leader_epochs_that_are_forgotten_are_remembered_of_so_many_partitions(
    mesh, monkeypatch
):
    """KRL-17."""
    monkeypatch.setattr(watched_view, "FALLEN_MAX", 3)
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh, partitions=5)
    await delete_topic(mesh.parent, nodes[0].view, topic.name)
    await mesh.settle(5_000)
    kept = [each for each in all_partitions(topic) if nodes[0].view.lead_above(each)]
    assert len(kept) == 3


async def test_a_deleted_topics_directories_are_freed_and_its_keys_go(mesh):
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh)
    other = await make_topic(mesh, "other", 3)
    await delete_topic(mesh.parent, nodes[0].view, "orders")
    await mesh.settle(500)
    freed = {p for n in nodes for p in n.partitions.deleted}
    assert freed == all_partitions(topic)
    assert led(topic, *nodes) == {}
    assert set(led(other, *nodes)) == all_partitions(other)
    keys = [e.key for e in (await mesh.parent.list(nodes[0].view.keys.prefix)).entries]
    assert not [k for k in keys if "/deleted/" in k]
    assert len([k for k in keys if "/assign/" in k]) == 3


async def test_directories_of_a_topic_deleted_while_its_leader_was_down_are_freed(mesh):
    nodes, controller = await three(mesh)
    topic = await make_topic(mesh)
    for node in (*nodes, controller):
        await node.kill()
    await mesh.settle(100)
    d = await mesh.add("d", SL)
    await delete_topic(mesh.parent, d.view, "orders")
    await mesh.add("ctl2", C)
    await mesh.settle(5_000)
    assert set(d.partitions.deleted) == all_partitions(topic)
    keys = [e.key for e in (await mesh.parent.list(d.view.keys.prefix)).entries]
    assert not [k for k in keys if "/deleted/" in k or "/assign/" in k]
