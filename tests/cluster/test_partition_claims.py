"""Topic-partitions are led by one process each; standbys, moves, deletions, failures."""

import asyncio

import pytest

from sharemesh.cluster.claims.claim_policy import ClaimSettings
from sharemesh.cluster.store.topics import create_topic
from sharemesh.ports.coordination import CoordinationError, Delete
from sharemesh.ports.shard_log import CorruptLogError, LogFailedError
from tests.cluster.led_topics import PARTITIONS, SL, C, all_partitions, led, make_topic, three
from tests.cluster.mesh import Mesh, Node

PACE_MS = ClaimSettings().departure_pace_ms
WITHIN_MS = ClaimSettings().departures_ms


@pytest.fixture
async def mesh():
    mesh = Mesh()
    await mesh.begin()
    yield mesh
    await mesh.close()


async def test_a_new_topic_is_led_within_milliseconds_and_spread(mesh):
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh)
    owners = led(topic, *nodes)
    assert set(owners) == all_partitions(topic)
    assert max(len(n.partitions.serving) for n in nodes) <= 5
    view = nodes[0].view
    for partition, owner in owners.items():
        leader = view.leader(partition)
        assert (leader.node.node_id, leader.leader_epoch) == (owner, 1)
        assert len(view.standbys(partition)) == 2
        assert owner not in view.standbys(partition)
    assert view.unassigned() == ()
    assert view.controller().node_id == "ctl"


async def test_a_killed_leaders_partitions_go_to_their_standbys_at_once(mesh):
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh)
    before = led(topic, *nodes)
    standbys = {p: nodes[0].view.standbys(p) for p in before}
    await nodes[0].kill()
    await mesh.settle(20)
    after = led(topic, *nodes[1:])
    assert set(after) == all_partitions(topic)
    for partition, owner in after.items():
        if before[partition] != "a":
            assert owner == before[partition], "only the lost node's partitions move"
        else:
            assert owner == standbys[partition][0]
            assert nodes[1].view.leader(partition).leader_epoch == 2


async def test_standbys_take_over_by_themselves_without_a_controller(mesh):
    nodes, controller = await three(mesh)
    topic = await make_topic(mesh)
    await controller.stop()
    standbys = {p: nodes[0].view.standbys(p) for p in nodes[0].partitions.serving}
    await nodes[0].kill()
    await mesh.settle(250)
    assert not set(standbys) & set(led(topic, *nodes[1:]))
    await mesh.settle(100)
    after = led(topic, *nodes[1:])
    assert set(after) == all_partitions(topic)
    assert all(after[p] == first for p, (first, _) in standbys.items())


async def test_a_cut_off_leader_stops_before_another_can_start(mesh):
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh)
    nodes[0].coordination.cut_off = True
    for _ in range(30):
        await mesh.settle(500)
        led(topic, *nodes)  # never two
    assert nodes[0].partitions.serving == {}
    assert set(led(topic, *nodes)) == all_partitions(topic)
    nodes[0].coordination.cut_off = False
    await mesh.settle(2_000)
    assert nodes[0].view.node("a") is not None
    assert set(led(topic, *nodes)) == all_partitions(topic)


async def test_without_the_store_leaders_go_on_until_the_margin_and_come_back(mesh):
    nodes, controller = await three(mesh)
    topic = await make_topic(mesh)
    for node in (*nodes, controller):
        node.coordination.cut_off = True
    await mesh.settle(4_000)
    assert set(led(topic, *nodes)) == all_partitions(topic)
    await mesh.settle(4_500)
    assert led(topic, *nodes) == {}
    for node in (*nodes, controller):
        node.coordination.cut_off = False
    await mesh.settle(15_000)
    assert set(led(topic, *nodes)) == all_partitions(topic)
    epochs = {p: e for n in nodes for p, e in n.partitions.serving.items()}
    assert set(epochs.values()) == {2}


async def test_a_draining_node_is_emptied_after_its_holders_may_acknowledge(mesh):
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh)
    count = len(nodes[0].partitions.serving)
    await nodes[0].member.draining(True)
    await mesh.settle(PACE_MS * count)
    assert nodes[0].partitions.serving == {}
    assert set(led(topic, *nodes[1:])) == all_partitions(topic)
    assert [drain_ms for _, drain_ms in nodes[0].partitions.drains] == [5_000] * count


async def test_partitions_leave_a_draining_node_in_turn(mesh):
    nodes, _ = await three(mesh)
    few = await make_topic(mesh)
    a = nodes[0]
    count = len(led(few, a))
    await a.member.draining(draining=True)
    await mesh.settle(20)
    assert len(led(few, a)) == count - 1
    await mesh.settle(PACE_MS)
    assert len(led(few, a)) == count - 2
    await mesh.settle(PACE_MS * count)
    assert not led(few, a)
    assert set(led(few, *nodes[1:])) == all_partitions(few)


async def test_many_partitions_leave_a_draining_node_within_the_time_for_all(mesh):
    nodes, _ = await three(mesh)
    many = await make_topic(mesh, partitions=300)
    a = nodes[0]
    count = len(led(many, a))
    assert count > 60
    await a.member.draining(draining=True)
    await mesh.settle(WITHIN_MS // 2)
    assert count * 0.3 < len(led(many, a)) < count * 0.7
    await mesh.settle(WITHIN_MS // 2 + 50)
    assert not led(many, a)
    assert set(led(many, *nodes[1:])) == all_partitions(many)


async def test_the_last_node_of_a_cluster_that_ends_lets_everything_go_at_once(mesh):
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh)
    for node in nodes:
        await node.member.draining(draining=True)
    draining = [asyncio.create_task(node.claims.drain()) for node in nodes]
    await mesh.settle(20)
    assert not led(topic, *nodes)
    await asyncio.gather(*draining)


async def test_a_closing_node_lets_everything_go_at_once(mesh):
    nodes, _ = await three(mesh)
    await make_topic(mesh)
    closing = asyncio.create_task(nodes[0].claims.close())
    await mesh.settle(5)
    assert not nodes[0].partitions.serving
    await closing


async def test_a_drain_keeps_serving_until_each_partition_has_a_named_successor(mesh):
    nodes, controller = await three(mesh)
    topic = await make_topic(mesh)
    a, others = nodes[0], nodes[1:]
    mine = set(led(topic, a))
    controller.coordination.cut_off = True  # it is there, and names nobody
    await mesh.run(a.member.draining(draining=True))
    draining = asyncio.create_task(a.claims.drain())
    await mesh.settle(900)
    assert set(led(topic, a)) == mine
    await mesh.settle(200 + len(mine) * PACE_MS)  # long enough: standbys it is
    await draining
    assert not a.partitions.serving
    await mesh.settle(1_000)
    assert set(led(topic, *others)) == all_partitions(topic)
    controller.coordination.cut_off = False


async def test_after_a_drain_all_claims_are_free(mesh):
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh)
    a = nodes[0]
    await mesh.run(a.member.draining(draining=True))
    await mesh.run(a.claims.drain())
    stored = await mesh.parent.list(a.view.keys.claims)
    assert all(each.lease_id != a.member.session.lease_id for each in stored.entries)
    await mesh.settle(20)
    assert set(led(topic, *nodes[1:])) == all_partitions(topic)


async def test_drain_without_a_controller_hands_over_to_standbys(mesh):
    nodes, controller = await three(mesh)
    topic = await make_topic(mesh)
    await controller.stop()
    await nodes[0].member.draining(True)
    await mesh.run(nodes[0].claims.drain())
    await mesh.settle(700)
    assert nodes[0].partitions.serving == {}
    assert set(led(topic, *nodes[1:])) == all_partitions(topic)


async def test_a_fence_above_raises_the_leader_epoch_above_it(mesh):
    nodes, _ = await three(mesh)
    view = nodes[0].view
    topic = await create_topic(mesh.parent, view, "old", 4, {}, rng=mesh.rng)
    for partition in all_partitions(topic):
        mesh.fences.epochs[partition] = 77
    await mesh.settle(50)
    assert set(led(topic, *nodes)) == all_partitions(topic)
    assert {view.leader(p).leader_epoch for p in all_partitions(topic)} == {78}


async def test_a_leader_that_cannot_start_says_why_and_a_standby_takes_over(mesh):
    nodes, _ = await three(mesh)
    nodes[0].partitions.fail_with = OSError("no space left on device")
    topic = await make_topic(mesh)
    missing = all_partitions(topic) - set(led(topic, *nodes))
    assert missing
    reasons = {(u.partition, u.reason) for u in nodes[1].view.unassigned()}
    assert {p.partition for p in missing} == {number for number, _ in reasons}
    assert all("no space left" in reason for _, reason in reasons)
    await mesh.settle(60_000)
    assert set(led(topic, *nodes[1:])) == all_partitions(topic)


async def test_an_epoch_that_ended_by_itself_is_claimed_again_with_a_higher_one(mesh):
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh)
    partition, epoch = next(iter(nodes[1].partitions.serving.items()))
    nodes[1].partitions.ended(partition)
    await mesh.settle(2_000)
    assert nodes[1].partitions.serving[partition] == epoch + 1
    assert set(led(topic, *nodes)) == all_partitions(topic)


async def test_an_epoch_that_ended_is_not_started_again_while_the_store_is_away(mesh):
    """Its fence may be gone with a deleted topic: files would be made that nobody frees."""
    nodes, _ = await three(mesh)
    await make_topic(mesh)
    a = nodes[0]
    partition, epoch = next(iter(a.partitions.serving.items()))
    a.coordination.cut_off = True
    del mesh.fences.epochs[partition]
    a.partitions.ended(partition)
    await mesh.settle(3_000)
    assert partition not in a.partitions.serving
    assert [e for at, e, _ in mesh.fences.history if at == partition] == [epoch]


async def test_a_claim_that_vanished_stops_its_holder_and_is_taken_again(mesh):
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh)
    partition, epoch = next(iter(nodes[2].partitions.serving.items()))
    await mesh.parent.commit([], [Delete(nodes[2].view.keys.claim(partition))])
    await mesh.settle(5_000)
    assert nodes[2].partitions.serving[partition] == epoch + 1
    assert set(led(topic, *nodes)) == all_partitions(topic)


async def test_a_revoked_lease_under_a_live_leader_is_noticed_at_once(mesh):
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh)
    await mesh.parent.revoke(nodes[0].member.session.lease_id)
    await mesh.settle(1_500)
    assert set(led(topic, *nodes)) == all_partitions(topic)
    assert nodes[0].member.session is not None
    assert nodes[1].view.node("a") is not None


async def test_unassigned_partitions_are_explained(mesh):
    ctl = await mesh.add("ctl", C)
    topic = await make_topic(mesh, partitions=2)
    await mesh.settle(10)
    reasons = [u.reason for u in ctl.view.unassigned()]
    assert reasons == ["no share-leader process is registered; start one"] * 2
    await ctl.stop()
    del mesh.nodes["ctl"]
    a = await mesh.add("a", SL)
    await mesh.settle(10)
    assert "no controller is elected" in a.view.unassigned()[0].reason
    assert topic.partitions == 2


async def test_a_second_process_with_the_same_id_is_refused(mesh):
    await mesh.add("a", SL)
    twin = Node(mesh, "a", (SL,))
    starting = asyncio.create_task(twin.start())
    await mesh.settle(20_000)
    with pytest.raises(CoordinationError, match=r"node id 'a' is taken by 127\.0\.0\.1:1"):
        await starting
    await twin.view.close()


async def test_over_a_slow_network_each_partition_is_claimed_once(mesh):
    slow = Mesh(lag_ms=800)
    await slow.begin()
    for name in ("a", "b", "c"):
        await slow.add(name, SL)
    await slow.add("ctl", C)
    await slow.settle(5_000)
    view = slow.nodes["a"].view
    topic = await create_topic(slow.parent, view, "orders", PARTITIONS, {}, rng=slow.rng)
    await slow.settle(20_000)
    nodes = [slow.nodes[name] for name in ("a", "b", "c")]
    assert set(led(topic, *nodes)) == all_partitions(topic)
    assert [epoch for _, epoch, _ in slow.fences.history] == [1] * PARTITIONS
    await slow.close()


async def leaving(mesh):
    """Return (topic, a draining node, its first partition, that one's successor, the third)."""
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh)
    a = nodes[0]
    partition = min(led(topic, a), key=lambda each: each.partition)
    a.partitions.acknowledged.clear()
    await a.member.draining(draining=True)
    await mesh.settle(PACE_MS * PARTITIONS)
    named = a.view.next_leader(partition).node_id
    heir, third = sorted(nodes[1:], key=lambda node: node.info.node_id != named)
    return topic, a, partition, heir, third


async def test_a_claim_goes_to_its_named_successor_in_one_change(mesh):
    topic, a, partition, heir, third = await leaving(mesh)
    queue, _ = mesh.store.subscribe(a.view.keys.claim(partition))
    a.partitions.acknowledged.set()
    await mesh.settle(5)
    assert set(led(topic, heir, third)) == all_partitions(topic)
    change = queue.get_nowait()
    assert change.current is not None, "the claim was given up, not handed over"
    assert change.current.lease_id == heir.member.session.lease_id
    assert queue.empty()
    assert heir.partitions.serving[partition] == heir.view.leader(partition).leader_epoch == 2


async def giving_on(mesh):
    """As ``leaving``, but claims are given on while the old leader still writes (HND-13)."""
    nodes, _ = await three(mesh)
    topic = await make_topic(mesh)
    a = nodes[0]
    partition = min(led(topic, a), key=lambda each: each.partition)
    a.partitions.gives_on = True
    a.partitions.acknowledged.clear()
    return topic, a, partition


async def test_a_claim_is_given_on_once_while_its_leader_still_writes_hnd_13(mesh):
    topic, a, partition = await giving_on(mesh)
    queue, _ = mesh.store.subscribe(a.view.keys.claim(partition))
    await a.member.draining(draining=True)
    await mesh.settle(PACE_MS * PARTITIONS)
    heir = mesh.nodes[a.view.leader(partition).node.node_id]
    assert heir is not a
    assert heir.partitions.serving[partition] == 2
    assert heir.partitions.handing_over[partition] == 1, "whose last writes it awaits"
    assert not a.claims.errors
    a.partitions.acknowledged.set()
    await mesh.settle(1_000)
    assert queue.get_nowait().current is not None
    assert queue.empty(), "and it is left to its successor"
    others = [node for node in mesh.nodes.values() if node is not a]
    assert set(led(topic, *others)) == all_partitions(topic)


async def test_a_claim_that_cannot_be_given_on_yet_follows_later_hnd_13(mesh):
    _, a, partition = await giving_on(mesh)
    real = a.claims._turns.writer.commit

    async def fails(*_, **__):
        raise CoordinationError("the store does not answer")

    a.claims._turns.writer.commit = fails
    await a.member.draining(draining=True)
    await mesh.settle(PACE_MS * PARTITIONS)
    assert a.view.leader(partition).node.node_id == a.info.node_id
    a.claims._turns.writer.commit = real
    a.partitions.acknowledged.set()
    await mesh.settle(1_000)
    heir = mesh.nodes[a.view.leader(partition).node.node_id]
    assert heir is not a
    assert heir.partitions.handing_over[partition] == 0


async def test_a_successor_that_drains_by_now_is_handed_nothing(mesh):
    topic, a, partition, heir, third = await leaving(mesh)
    await a.view.close()  # it hears of nothing any more
    await heir.member.draining(draining=True)
    await mesh.settle(20)
    a.partitions.acknowledged.set()
    await mesh.settle(1_000)
    assert partition in led(topic, third)
    assert third.partitions.serving[partition] == 2, "nobody else may have led it in between"


async def test_a_successor_that_dies_with_the_claim_is_followed_by_a_standby(mesh):
    topic, a, partition, heir, third = await leaving(mesh)
    heir.coordination.cut_off = True  # it does not even see that the claim is its own
    a.partitions.acknowledged.set()
    await mesh.settle(20)
    assert third.view.leader(partition).node.node_id == heir.info.node_id
    await heir.kill()
    await mesh.settle(1_000)
    assert set(led(topic, third)) == all_partitions(topic)
    assert third.partitions.serving[partition] == 3


async def test_a_successor_that_cannot_lead_gives_the_claim_up(mesh):
    topic, a, partition, heir, third = await leaving(mesh)
    heir.partitions.fail_with = OSError("disk")
    a.partitions.acknowledged.set()
    await mesh.settle(5_000)
    assert partition in led(topic, third)
    assert "disk" in third.view.tables.troubles[partition].value.why


@pytest.mark.parametrize(
    ("error", "is_back"),
    [(LogFailedError("no broker answers"), True), (CorruptLogError("records are missing"), False)],
)
async def test_ktp_18_a_partition_that_could_not_be_opened_is_opened_again_within_the_bound(
    mesh, error, is_back
):
    a = await mesh.add("a", SL, fail_with=error, unanswered_max_ms=2_000)
    await mesh.add("ctl", C)
    await mesh.settle(3_100)
    topic = await make_topic(mesh)
    await mesh.settle(30_000)
    assert not led(topic, a)
    a.partitions.fail_with = None
    await mesh.settle(2_100)
    assert set(led(topic, a)) == (all_partitions(topic) if is_back else set())
    await mesh.settle(30_000)
    assert set(led(topic, a)) == all_partitions(topic)
