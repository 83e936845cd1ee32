"""The same bookkeeping on a real etcd: a smoke over everything, and etcd's own failures."""

import asyncio
import random
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from sharemesh.backends.etcd.coordination import EtcdCoordination
from sharemesh.backends.local.clock import SystemClock
from sharemesh.cluster.store.topics import create_topic, delete_topic
from sharemesh.ports.cluster import Role
from tests.cluster.mesh import Mesh
from tests.etcd_server import EtcdServer

SL, C, GC = Role.SHARE_LEADER, Role.CONTROLLER, Role.GROUP_COORDINATOR
DEADLINE_S = 20


class EtcdMesh(Mesh):
    """The mesh in real time on a real etcd."""

    def __init__(self, server: EtcdServer) -> None:
        super().__init__(clock=SystemClock())
        self.server = server
        self.seeds = random.Random(11)
        self.parent = self.connect()

    def connect(self) -> EtcdCoordination:
        rng = random.Random(self.seeds.getrandbits(64))
        return EtcdCoordination([self.server.endpoint], clock=self.clock, rng=rng)

    async def run(self, work: Coroutine[Any, Any, Any]) -> None:
        await work

    async def close(self) -> None:
        await super().close()
        await self.parent.close()


@pytest.fixture
async def mesh(tmp_path: Path):
    server = EtcdServer(tmp_path / "etcd")
    await server.start()
    mesh = EtcdMesh(server)
    await mesh.begin()
    yield mesh
    await mesh.close()
    server.stop()


async def until(condition: Callable[[], object]) -> float:
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.005)
    return loop.time() - started


async def test_elections_claims_and_controller_on_etcd(mesh):
    leaders = [await mesh.add(name, SL) for name in ("a", "b", "c")]
    coordinators = [await mesh.add(name, GC) for name in ("g1", "g2")]
    ctl = await mesh.add("ctl", C)
    await until(lambda: sum(len(n.shards.serving) for n in coordinators) == 8)
    topic = await create_topic(mesh.parent, ctl.view, "orders", 64, {}, rng=mesh.rng)
    took = await until(lambda: sum(len(n.partitions.serving) for n in leaders) == 64)
    print(f"64 partitions led {took * 1000:.0f} ms after creation")
    await until(lambda: not ctl.view.unassigned())

    lost = set(leaders[0].partitions.serving)
    await mesh.parent.revoke(leaders[0].member.session.lease_id)  # what a parent does
    took = await until(
        lambda: (
            lost <= {p for n in leaders[1:] for p in n.partitions.serving}
            or lost
            <= {p for n in leaders for p in n.partitions.serving if n.partitions.serving[p] > 1}
        )
    )
    print(f"{len(lost)} partitions led again {took * 1000:.0f} ms after the lease was revoked")

    await mesh.parent.revoke(coordinators[0].member.session.lease_id)
    await until(
        lambda: (
            {s for n in coordinators for s in n.shards.serving} == set(range(8))
            and sum(len(n.shards.serving) for n in coordinators) == 8
        )
    )
    await delete_topic(mesh.parent, ctl.view, "orders")
    await until(lambda: not ctl.view.tables.assignments and not ctl.view.tables.deletions)
    assert len({p for n in leaders for p in n.partitions.deleted}) == 64
    assert topic.name == "orders"


async def test_leaders_stop_before_a_frozen_etcd_could_end_their_leases(mesh):
    a, ctl = await mesh.add("a", SL), await mesh.add("ctl", C)
    await create_topic(mesh.parent, ctl.view, "orders", 4, {}, rng=mesh.rng)
    await until(lambda: len(a.partitions.serving) == 4)
    mesh.server.send_signal(signal.SIGSTOP)
    loop = asyncio.get_running_loop()
    frozen = loop.time()
    await until(lambda: not a.partitions.serving)
    stopped_after = loop.time() - frozen
    mesh.server.send_signal(signal.SIGCONT)
    print(f"stopped {stopped_after:.1f} s after the freeze (TTL 10 s, margin 2 s)")
    assert 4.0 < stopped_after < 8.5
    await until(lambda: len(a.partitions.serving) == 4)
    assert set(a.partitions.serving.values()) == {2}


async def test_a_restart_of_etcd_changes_nobodys_leadership(mesh):
    a, ctl = await mesh.add("a", SL), await mesh.add("ctl", C)
    await create_topic(mesh.parent, ctl.view, "orders", 4, {}, rng=mesh.rng)
    await until(lambda: len(a.partitions.serving) == 4)
    mesh.server.stop()
    mesh.server.launch()
    await mesh.server.ready()
    await create_topic(mesh.parent, ctl.view, "more", 3, {}, rng=mesh.rng)
    await until(lambda: len(a.partitions.serving) == 7)
    assert set(a.partitions.serving.values()) == {1}
    assert [epoch for _, epoch, _ in mesh.fences.history] == [1] * 7
