"""Looks: whether a process still leads what it serves (STL-18, STL-19)."""

import asyncio
from dataclasses import replace

import pytest

from sharemesh.cluster.ownership import LOOK_TIMEOUT_MS, SharedReads, StoreOwnership
from sharemesh.cluster.store import records
from sharemesh.domain.ids import NodeId, TopicId, TopicPartition
from sharemesh.ports.cluster import ShardKind
from sharemesh.ports.coordination import CoordinationError, Put, RangeSnapshot
from sharemesh.ports.shard_log import FencedError
from sharemesh.tasks import OwnedTasks
from tests.clocks import ManualClock
from tests.cluster.mesh import Mesh

PARTITION = TopicPartition(TopicId(bytes(range(16))), 3)


@pytest.fixture
async def mesh():
    mesh = Mesh()
    await mesh.begin()
    yield mesh
    await mesh.close()


@pytest.fixture
async def node(mesh):
    return await mesh.add("a")


@pytest.fixture
async def ownership(mesh, node):
    ownership = StoreOwnership(node.coordination, node.member, node.view, mesh.clock)
    yield ownership
    await ownership.close()


class Reads:
    """Range reads of a coordination that wait until they are let go."""

    def __init__(self, coordination) -> None:
        self.begun: list[asyncio.Future[None]] = []
        self.list = coordination.list
        coordination.list = self._held

    async def _held(self, prefix):
        gate = asyncio.get_running_loop().create_future()
        self.begun.append(gate)
        await gate
        return await self.list(prefix)


async def set_epoch(mesh, name: str, epoch: int) -> None:
    await mesh.parent.commit(
        [], [Put(f"/sharemesh/test/epoch/{name}", records.encode_number(epoch))]
    )


async def test_a_shard_is_ours_until_its_epoch_is_raised(mesh, ownership):
    await set_epoch(mesh, "state-3", 7)
    await ownership.still(ShardKind.STATE, 3, 7)
    await set_epoch(mesh, "state-3", 8)
    with pytest.raises(FencedError, match="has epoch 8 in the coordination store, not 7") as fenced:
        await ownership.still(ShardKind.STATE, 3, 7)
    assert fenced.value.fence_epoch == 8


async def test_an_epoch_that_is_missing_or_went_back_counts_as_fenced(mesh, ownership):
    with pytest.raises(FencedError, match=r"has no key .*epoch/group-0"):
        await ownership.still(ShardKind.GROUP, 0, 1)
    await set_epoch(mesh, "group-0", 4)
    with pytest.raises(FencedError):
        await ownership.still(ShardKind.GROUP, 0, 5)


async def test_a_store_that_does_not_answer_counts_as_fenced(mesh, node, ownership):
    await set_epoch(mesh, "state-0", 1)
    node.coordination.cut_off = True
    with pytest.raises(FencedError, match=r"does not say whether .*: .*cut off"):
        await ownership.still(ShardKind.STATE, 0, 1)
    with pytest.raises(FencedError, match="cut off"):
        await ownership.leads(PARTITION, 1)
    node.coordination.cut_off = False
    await ownership.still(ShardKind.STATE, 0, 1)


async def test_a_store_whose_revision_went_back_counts_as_fenced_once(mesh, node, ownership):
    await set_epoch(mesh, "state-0", 1)
    await ownership.still(ShardKind.STATE, 0, 1)
    listed = node.coordination.list

    async def restored(prefix):
        return replace(await listed(prefix), revision=1)

    node.coordination.list = restored
    with pytest.raises(FencedError, match="went back from revision"):
        await ownership.still(ShardKind.STATE, 0, 1)
    await ownership.still(ShardKind.STATE, 0, 1)


async def test_a_partition_is_ours_while_our_lease_holds_the_registration(node, ownership):
    await ownership.leads(PARTITION, 3)
    session = node.member.session
    node.coordination.store.revoke(session.lease_id)
    with pytest.raises(FencedError, match=r"has no key .*members/a"):
        await ownership.leads(PARTITION, 3)


async def test_without_a_session_nothing_is_led(node, ownership):
    await node.member.session.close()
    with pytest.raises(FencedError, match="no session"):
        await ownership.leads(PARTITION, 3)


async def test_a_registration_under_another_lease_is_not_ours(mesh, node, ownership):
    other = await mesh.parent.open_session(ttl_ms=10_000)
    key = node.view.keys.member(NodeId("a"))
    stored = await mesh.parent.get(key)
    reads = Reads(node.coordination)
    look = asyncio.create_task(ownership.leads(PARTITION, 3))
    await mesh.settle()
    await mesh.parent.commit([], [Put(key, stored.value, leased=True)], session=other)
    reads.begun[0].set_result(None)
    with pytest.raises(FencedError, match="another lease"):
        await look


@pytest.mark.parametrize(
    ("leader", "epoch", "ours"),
    [("a", 3, True), ("b", 2, True), ("b", 3, False), ("b", 4, False), ("a", 4, False)],
)
async def test_the_claim_that_the_view_shows_is_compared(
    mesh, node, ownership, leader, epoch, ours
):
    value = records.encode_claim(records.Claim(NodeId(leader), epoch))
    await mesh.parent.commit([], [Put(node.view.keys.claim(PARTITION), value)])
    await mesh.settle()
    if ours:
        await ownership.leads(PARTITION, 3)
        return
    with pytest.raises(FencedError, match=f"led by {leader} under epoch {epoch}"):
        await ownership.leads(PARTITION, 3)


async def test_all_who_came_before_a_read_began_share_it_and_nobody_else(mesh, node, ownership):
    """STL-18: at most two reads are under way; who comes during them goes with the next."""
    await set_epoch(mesh, "state-0", 1)
    reads = Reads(node.coordination)

    def looks(count: int) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(ownership.still(ShardKind.STATE, 0, 1)) for _ in range(count)]

    first = looks(5)
    await mesh.settle()
    second = looks(5)
    await mesh.settle()
    third = looks(5)
    await mesh.settle()
    assert len(reads.begun) == 2
    await set_epoch(mesh, "state-0", 2)  # after the third have come: all may hear of it
    reads.begun[1].set_result(None)
    await mesh.settle()
    assert all(task.done() for task in second)
    assert not any(task.done() for task in first + third)
    assert len(reads.begun) == 3
    for gate in (reads.begun[0], reads.begun[2]):
        gate.set_result(None)
    found = await asyncio.gather(*first, *second, *third, return_exceptions=True)
    assert all(isinstance(each, FencedError) for each in found)
    assert len(reads.begun) == 3


async def test_a_failure_of_any_kind_is_heard_by_all_who_wait(mesh, node, ownership):
    async def broken(prefix):
        raise RuntimeError("odd")

    node.coordination.list = broken
    looks = [ownership.still(ShardKind.STATE, shard, 1) for shard in range(3)]
    found = await asyncio.gather(*looks, return_exceptions=True)
    assert all("RuntimeError: odd" in str(each) for each in found)


async def test_looks_under_way_end_when_the_process_stops(mesh, node, ownership):
    Reads(node.coordination)
    looks = []
    for _ in range(3):
        looks.append(asyncio.create_task(ownership.still(ShardKind.STATE, 0, 1)))
        await mesh.settle()
    await ownership.close()
    found = await asyncio.gather(*looks, return_exceptions=True)
    assert all(isinstance(each, FencedError) for each in found)
    assert isinstance(found[0].__cause__, CoordinationError)


@pytest.mark.parametrize("turns", range(12))
async def test_who_comes_after_the_last_answer_and_before_the_end_of_its_task_is_answered(turns):
    """STL-18: both answers come in one turn of the loop, and a caller a few turns later."""
    gates: list[asyncio.Future[RangeSnapshot]] = []
    found = RangeSnapshot((), 1)

    async def read():
        gates.append(asyncio.get_running_loop().create_future())
        return await gates[-1]

    clock, tasks = ManualClock(), OwnedTasks("looks")
    reads = SharedReads(read, tasks, clock)
    looks = []
    for _ in range(2):
        looks.append(asyncio.create_task(reads.after_now()))
        await clock.settle()
    for gate in gates:
        gate.set_result(found)
    for _ in range(turns):
        await asyncio.sleep(0)
    looks.append(asyncio.create_task(reads.after_now()))
    await clock.settle()
    assert len(gates) == 3
    gates[2].set_result(found)
    await asyncio.gather(*looks)
    await tasks.close()


async def test_a_look_that_is_not_answered_in_time_counts_as_fenced(mesh, node, ownership):
    """STL-18: the deadline is for each read; those that come later are read anew."""
    await set_epoch(mesh, "state-0", 1)
    reads = Reads(node.coordination)
    look = asyncio.create_task(ownership.still(ShardKind.STATE, 0, 1))
    await mesh.settle()
    await mesh.clock.advance(LOOK_TIMEOUT_MS - 1)
    assert not look.done()
    await mesh.clock.advance(1)
    with pytest.raises(FencedError, match=f"no answer for {LOOK_TIMEOUT_MS} ms"):
        await look
    later = asyncio.create_task(ownership.still(ShardKind.STATE, 0, 1))
    await mesh.settle()
    reads.begun[1].set_result(None)
    await later
