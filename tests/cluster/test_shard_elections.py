"""Shards are led by one process each, under epochs that only grow, spread over processes."""

import pytest

from sharemesh.cluster.elections.shard_elections import _Election
from sharemesh.cluster.store import records
from sharemesh.cluster.store.seen_records import encode_damage
from sharemesh.ports.cluster import Role
from sharemesh.ports.coordination import Delete, ElectedLeadership, Put
from sharemesh.ports.shard_log import CorruptLogError, LogFailedError, LossFoundError
from tests.cluster.mesh import SHARDS, Mesh

GC = Role.GROUP_COORDINATOR


@pytest.fixture
async def mesh():
    mesh = Mesh()
    await mesh.begin()
    yield mesh
    await mesh.close()


def serving(*nodes):
    return sorted(shard for node in nodes for shard in node.shards.serving)


async def test_all_shards_are_served_once_and_spread(mesh):
    a, b = await mesh.add("a", GC), await mesh.add("b", GC)
    await mesh.settle(2_000)
    assert serving(a, b) == list(range(SHARDS))
    assert max(len(a.shards.serving), len(b.shards.serving)) <= 5
    assert {s.node.node_id for s in a.view.shards()[:SHARDS]} == {"a", "b"}
    assert all(s.epoch == 1 for s in b.view.shards()[:SHARDS])


async def test_a_killed_owners_shards_move_at_once_with_higher_epochs(mesh):
    a, b = await mesh.add("a", GC), await mesh.add("b", GC)
    await mesh.settle(2_000)
    lost = dict(a.shards.serving)
    before = dict(b.shards.serving)
    await a.kill()
    await mesh.settle(10)
    assert serving(b) == list(range(SHARDS))
    assert all(b.shards.serving[shard] == epoch + 1 for shard, epoch in lost.items())
    assert all(b.shards.serving[shard] == epoch for shard, epoch in before.items())


async def test_a_cut_off_owner_stops_before_its_lease_ends_and_comes_back_by_itself(mesh):
    a = await mesh.add("a", GC)
    await mesh.settle(2_000)
    assert len(a.shards.serving) == SHARDS
    a.coordination.cut_off = True
    await mesh.settle(4_000)
    assert len(a.shards.serving) == SHARDS  # goes on until its margin ends
    await mesh.settle(4_500)
    assert a.shards.serving == {}
    a.coordination.cut_off = False
    await mesh.settle(15_000)
    assert sorted(a.shards.serving) == list(range(SHARDS))
    assert set(a.shards.serving.values()) == {2}


async def test_a_fence_above_raises_the_epoch_above_it(mesh):
    mesh.fences.epochs.update({0: 41, 1: 5})
    a = await mesh.add("a", GC)
    a.shards.tell_fence = False
    await mesh.settle(3_000)
    assert a.shards.serving[0] > 41
    assert a.shards.serving[1] > 5
    assert a.view.shard_epoch("group-0") == a.shards.serving[0]


async def test_a_start_that_fails_is_resigned_and_another_takes_over(mesh):
    a = await mesh.add("a", GC, fail_with=OSError("no space left on device"))
    b = await mesh.add("b", GC)
    await mesh.settle(5_000)
    assert serving(b) == list(range(SHARDS))
    assert "no space left" in next(iter(a.elections.errors.values()))


async def test_the_preferred_owner_gets_its_shards_back_when_it_is_stable(mesh):
    a, b = await mesh.add("a", GC), await mesh.add("b", GC)
    await mesh.settle(2_000)
    mine = set(a.shards.serving)
    assert mine
    await a.stop()
    await mesh.settle(100)
    assert serving(b) == list(range(SHARDS))
    a2 = await mesh.add("a", GC)
    await mesh.settle(20_000)
    assert a2.shards.serving == {}
    await mesh.settle(11_000)
    assert set(a2.shards.serving) == mine
    assert serving(a2, b) == list(range(SHARDS))


async def test_an_epoch_that_ended_by_itself_is_taken_again_with_a_higher_one(mesh):
    a = await mesh.add("a", GC)
    await mesh.settle(2_000)
    a.shards.ended(3)
    await mesh.settle(2_000)
    assert a.shards.serving[3] == 2


async def test_what_is_not_led_any_more_is_logged_with_a_reason_also_without_an_error(mesh, caplog):
    a = await mesh.add("a", GC)
    await mesh.settle(2_000)
    a.shards.ended(3)
    await mesh.settle(2_000)
    (said,) = [each.getMessage() for each in caplog.records if "not led" in each.getMessage()]
    assert said.startswith("shard group-3 epoch 1: not led: its epoch ended: it was fenced, or")


async def test_drain_gives_all_away_and_takes_nothing_back(mesh):
    a, b = await mesh.add("a", GC), await mesh.add("b", GC)
    await mesh.settle(2_000)
    await a.member.draining(True)
    await mesh.settle(10)
    assert serving(b) == list(range(SHARDS))
    await a.elections.drain()
    assert a.shards.serving == {}


async def test_epochs_never_restart_when_the_store_is_older_than_the_data(mesh):
    a = await mesh.add("a", GC)
    await mesh.settle(2_000)
    await a.stop()
    for shard in range(SHARDS):
        mesh.fences.epochs[shard] = 9
        key = a.view.keys.epoch(f"group-{shard}")
        await mesh.parent.commit([], [Put(key, records.encode_number(2))])
    b = await mesh.add("b", GC)
    await mesh.settle(3_000)
    assert set(b.shards.serving.values()) == {10}


async def test_a_leader_that_a_restored_store_does_not_know_stands_again(mesh):
    """Its lease may live on in the backup though it was elected after it."""
    node = await mesh.add("a", GC)
    await mesh.settle(1_100)
    before = dict(node.elections.led)
    assert len(before) == SHARDS
    for candidate in (await mesh.parent.list(node.view.keys.elections)).entries:
        await mesh.parent.commit([], [Delete(candidate.key)])
    await mesh.settle(100)
    assert node.elections.led == {shard: epoch + 1 for shard, epoch in before.items()}
    assert all(each.node is not None for each in node.view.shards() if each.kind == "group")


@pytest.mark.parametrize(
    ("error", "is_back"),
    [(LogFailedError("no broker answers"), True), (CorruptLogError("records are missing"), False)],
)
async def test_ktp_18_a_shard_that_could_not_be_opened_is_opened_again_within_the_bound(
    mesh, error, is_back
):
    a = await mesh.add("a", GC, fail_with=error, unanswered_max_ms=2_000)
    await mesh.settle(30_000)
    assert serving(a) == []
    a.shards.fail_with = None
    await mesh.settle(2_100)
    assert serving(a) == (list(range(SHARDS)) if is_back else [])
    await mesh.settle(30_000)
    assert serving(a) == list(range(SHARDS))


def damages(node):
    return {each.damage for each in node.view.shards() if each.kind == "group"}


async def test_stl_30_damage_of_a_log_is_told_until_somebody_leads_the_shard(mesh):
    a = await mesh.add("a", GC, fail_with=CorruptLogError("offset 7 is gone; restore it"))
    await mesh.settle(5_000)
    assert damages(a) == {"offset 7 is gone; restore it"}
    await a.kill()  # the note stays while no process of the role runs
    b = await mesh.add("b", GC, fail_with=CorruptLogError("offset 9 is gone; restore it"))
    await mesh.settle(20_000)
    assert damages(b) == {"offset 9 is gone; restore it"}
    b.shards.fail_with = None
    await mesh.settle(40_000)
    assert serving(b) == list(range(SHARDS))
    assert damages(b) == {""}


@pytest.mark.parametrize("error", [LossFoundError("lost"), LogFailedError("no broker answers")])
async def test_stl_30_a_loss_and_a_log_that_does_not_answer_are_no_damage(mesh, error):
    a = await mesh.add("a", GC, fail_with=error)
    await mesh.settle(5_000)
    assert damages(a) == {""}


async def test_stl_30_a_note_that_comes_late_is_forgotten_by_who_leads(mesh):
    a = await mesh.add("a", GC)
    await mesh.settle(2_000)
    key = a.view.keys.damaged_log("group-0")
    await a.coordination.commit([], [Put(key, encode_damage("offset 7 is gone; restore it"))])
    await mesh.settle(100)
    assert await a.coordination.get(key) is None
    assert serving(a) == list(range(SHARDS))


async def test_stl_30_a_process_that_lost_its_leadership_notes_nothing(mesh):
    a = await mesh.add("a", GC)
    await mesh.settle(2_000)
    held = _Election(
        ElectedLeadership(f"{a.view.keys.election('group-0')}/gone", 1), a.member.session
    )
    await a.elections._lives[0]._note_damage(held, "offset 7 is gone; restore it")
    assert await a.coordination.get(a.view.keys.damaged_log("group-0")) is None
