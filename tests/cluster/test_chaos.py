"""Random kills, cut-offs, revokes, drains and lost claims: one leader each, everything heals."""

import random

import pytest

from sharemesh.cluster.store import records
from sharemesh.cluster.store.topics import create_topic, delete_topic
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.cluster import Role
from sharemesh.ports.coordination import Delete
from tests.cluster.mesh import SHARDS, Mesh

SL, C, GC = Role.SHARE_LEADER, Role.CONTROLLER, Role.GROUP_COORDINATOR
STEPS = 40
STEP_MS = 400
HEAL_MS = 60_000


class Chaos:
    def __init__(self, mesh: Mesh, rng: random.Random) -> None:
        self.mesh = mesh
        self.rng = rng
        self.topics = []
        self.names = 0
        self.log = []
        self.dead = []

    def live(self, role):
        return [
            node
            for name, node in sorted(self.mesh.nodes.items())
            if role in node.info.roles and node not in self.mesh.frozen
        ]

    def check(self) -> None:
        """Never two that serve one thing; the epochs of each only grow.

        Over a slow network a revoked or deleted lease is heard of late: then only the one with
        the highest epoch counts, the others are fenced.
        """
        for host in ("partitions", "shards"):
            served = {}
            for node in self.mesh.nodes.values():
                for what, epoch in getattr(node, host).serving.items():
                    if self.mesh.lag_ms and epoch < self.mesh.fences.epochs[what]:
                        continue
                    assert what not in served, (what, served[what], node.info.node_id, self.log)
                    served[what] = node.info.node_id
        last = {}
        for name, epoch, who in self.mesh.fences.history:
            assert epoch > last.get(name, 0), (name, epoch, who, self.log)
            last[name] = epoch

    async def add(self, role) -> None:
        self.names += 1
        await self.mesh.add(f"{role[:2]}{self.names}", role)

    async def kill(self) -> None:
        role = self.rng.choice((SL, C, GC))
        victims = self.live(role)
        if victims:
            victim = self.rng.choice(victims)
            self.log.append(("kill", victim.info.node_id))
            await victim.kill()
            # The process is gone: what its host remembers serves nobody.
            victim.partitions.serving.clear()
            victim.shards.serving.clear()
            del self.mesh.nodes[victim.info.node_id]
            self.dead.append(victim)
        await self.add(role)

    async def cut_off(self) -> None:
        node = self.rng.choice(self.live(self.rng.choice((SL, C, GC))))
        self.log.append(("cut", node.info.node_id))
        node.coordination.cut_off = True

    async def heal_one(self) -> None:
        for node in self.mesh.nodes.values():
            if node.coordination.cut_off:
                self.log.append(("heal", node.info.node_id))
                node.coordination.cut_off = False
                return

    async def revoke(self) -> None:
        node = self.rng.choice(self.live(self.rng.choice((SL, C, GC))))
        if node.member.session is not None and not node.coordination.cut_off:
            self.log.append(("revoke", node.info.node_id))
            await self.mesh.parent.revoke(node.member.session.lease_id)

    async def lose_claim(self) -> None:
        """A claim is deleted by hand; only fences would stop a holder that cannot hear of it."""
        cut = {n.info.node_id for n in self.mesh.nodes.values() if n.coordination.cut_off}
        claims = [
            entry.key
            for entry in (await self.mesh.parent.list("/sharemesh/test/lead/")).entries
            if records.decode_claim(entry.value).node_id not in cut
        ]
        if claims:
            key = self.rng.choice(claims)
            self.log.append(("lose", key))
            await self.mesh.parent.commit([], [Delete(key)])

    async def drain(self) -> None:
        node = self.rng.choice(self.live(SL))
        if not node.coordination.cut_off and node.member.session is not None:
            self.log.append(("drain", node.info.node_id))
            await self.mesh.run(node.member.draining(not node.member.node.draining))

    async def topic(self) -> None:
        view = self.any_view()
        self.names += 1
        name = f"t{self.names}"
        self.log.append(("topic", name))
        self.topics.append(
            await create_topic(
                self.mesh.parent, view, name, self.rng.randint(1, 6), {}, rng=self.rng
            )
        )

    async def delete(self) -> None:
        if len(self.topics) > 1:
            topic = self.topics.pop(self.rng.randrange(len(self.topics)))
            self.log.append(("delete", topic.name))
            await delete_topic(self.mesh.parent, self.any_view(), topic.name)

    def any_view(self):
        return next(n.view for n in self.mesh.nodes.values() if not n.coordination.cut_off)

    async def step(self) -> None:
        weights = {
            self.kill: 2,
            self.cut_off: 2,
            self.heal_one: 3,
            self.revoke: 2,
            self.lose_claim: 1,
            self.drain: 1,
            self.topic: 1,
            self.delete: 1,
        }
        cut = sum(n.coordination.cut_off for n in self.mesh.nodes.values())
        if cut >= len(self.mesh.nodes) - 3:
            weights = {self.heal_one: 1}
        action = self.rng.choices(list(weights), list(weights.values()))[0]
        await action()
        for _ in range(4):
            await self.mesh.settle(self.rng.randint(0, STEP_MS))
            self.check()


@pytest.mark.parametrize("seed", range(6))
async def test_one_leader_each_and_everything_heals(seed):
    print("seed", seed)
    mesh = Mesh(lag_ms=(0, 100, 400)[seed % 3])
    mesh.rng.seed(seed)
    await mesh.begin()
    chaos = Chaos(mesh, random.Random(seed))
    for role in (SL, SL, SL, C, C, GC, GC):
        await chaos.add(role)
    await chaos.topic()
    await mesh.settle(5_000)
    for _ in range(STEPS):
        await chaos.step()
    for node in mesh.nodes.values():
        node.coordination.cut_off = False
    await mesh.settle(2_000)
    for node in chaos.live(SL):
        if node.member.node.draining:
            await mesh.run(node.member.draining(False))
    for _ in range(HEAL_MS // 2_000):
        await mesh.settle(2_000)
        chaos.check()
    led = {p for node in mesh.nodes.values() for p in node.partitions.serving}
    wanted = {TopicPartition(t.topic_id, n) for t in chaos.topics for n in range(t.partitions)}
    assert led == wanted, chaos.log
    shards = {s for node in mesh.nodes.values() for s in node.shards.serving}
    assert shards == set(range(SHARDS)), chaos.log
    keys = [e.key for e in (await mesh.parent.list("/sharemesh/test/")).entries]
    assert not [key for key in keys if "/deleted/" in key], chaos.log
    assert len([key for key in keys if "/assign/" in key]) == len(wanted)
    for node in (*mesh.nodes.values(), *chaos.dead):
        node.coordination.cut_off = False
        await mesh.run(node.stop())
    await mesh.store.close()
