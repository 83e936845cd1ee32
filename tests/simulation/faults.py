"""What goes wrong: each kind is on or off by the seed, and comes at moments of the seed."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random

from sharemesh.ports.cluster import Role
from tests.simulation.access import AccessRules
from tests.simulation.loop import Process
from tests.simulation.world import Node, World

GAP_S = (4.0, 45.0)
Fault = Callable[["Faults"], Coroutine[None, None, None]]


class Faults:
    """Injects one fault after the other, several at a time."""

    def __init__(
        self,
        world: World,
        *,
        kinds: tuple[str, ...] = (),
        gap_s: tuple[float, float] = GAP_S,
    ) -> None:
        """``kinds``: these only, of ``FAULTS`` and ``SPECIAL``; else the seed chooses."""
        self.world = world
        self._gap_s = gap_s
        self.rng = Random(world.rng.getrandbits(64))
        names = world.engine.faults
        chosen = [name for name in names if self.rng.random() < 0.6]
        self.kinds = [own for kind in kinds for own in world.engine.faults_like(kind)]
        self.kinds = self.kinds or chosen or names
        self.healing = False
        self.access: AccessRules | None = None
        self.kill_client: Callable[[Random], str] | None = None
        self.stall_client: Callable[[Random], str] | None = None
        self.client: Callable[[Random], Process | None] = lambda _: None

    async def run(self) -> None:
        """Go on until ``heal``."""
        while True:
            await asyncio.sleep(self.rng.uniform(*self._gap_s))
            if self.healing:
                return
            kind = self.rng.choice(self.kinds)
            self.world.tell(f"fault: {kind}")
            fault = FAULTS.get(kind) or SPECIAL.get(kind)
            carried_out = self.world.engine.begin_fault(kind) if fault is None else fault(self)
            self.world.loop.create_task(carried_out, context=self.world.loop.world.context())

    async def heal(self) -> None:
        """End all faults; what is down comes up again."""
        self.healing = True
        world = self.world
        world.network.heal()
        world.network.slow_permille = 0
        world.engine.heal()
        world.store_slow_permille = 0
        world.store_is_down = False
        world.lost_answers_permille = 0
        for process in world.processes():
            if process.alive and process.frozen:
                process.thaw()
        for node in world.nodes.values():
            if node.process.alive and node.coordination is not None:
                node.coordination.cut_off = False
        if self.access is not None:
            await self.access.give()
        world.tell("all faults are healed")

    def node(self) -> Node | None:
        """Return some node that lives."""
        living = [node for node in self.world.nodes.values() if node.process.alive and node.ready]
        return self.rng.choice(living) if living else None

    def happens(self, fault: Fault) -> None:
        """Count a fault: only now something goes wrong, not when chance had chosen it."""
        self.world.event_log.counters[f"fault {fault.__name__}"] += 1

    async def pause(self, shortest_s: float, longest_s: float) -> None:
        """Wait for as long as a fault lasts."""
        await asyncio.sleep(self.rng.uniform(shortest_s, longest_s))


async def kill(faults: Faults) -> None:
    """kill -9, and the parent sees it."""
    node = faults.node()
    if node is not None:
        faults.world.tell(f"{node.name} is killed")
        faults.happens(kill)
        node.crash()


async def vanish(faults: Faults) -> None:
    """A machine vanishes: only the lease's time tells."""
    node = faults.node()
    if node is not None:
        faults.world.tell(f"{node.name} vanishes")
        faults.happens(vanish)
        node.crash(noticed=False)


async def kill_in_job(faults: Faults) -> None:
    """kill -9 between two operations of a disk job."""
    node = faults.node()
    if node is not None:
        faults.world.embedded.volume.deadly[node.process] = faults.rng.randrange(60)


async def freeze(faults: Faults) -> None:
    """SIGSTOP, shorter or longer than the lease, then SIGCONT."""
    node = faults.node()
    if node is None or node.process.frozen:
        return
    process = node.process
    process.freeze()
    faults.happens(freeze)
    faults.world.tell(f"{node.name} is frozen")
    await asyncio.sleep(faults.rng.choice((0.05, 1.0, 8.0, 11.0, 15.0, 30.0)))
    if process.alive and process.frozen:
        process.thaw()
        faults.world.tell(f"{node.name} is thawed")


async def partition(faults: Faults) -> None:
    """Nothing passes between one node and some others, in one way or in both."""
    world, node = faults.world, faults.node()
    if node is None:
        return
    others = [name for name in sorted(world.known_names()) if name != node.name]
    chosen = [name for name in others if faults.rng.random() < 0.5] or others[:1]
    ways = faults.rng.choice(("to", "from", "both"))
    world.tell(f"{node.name} is cut off ({ways}) from {len(chosen)} processes")
    faults.happens(partition)
    for name in chosen:
        if ways in ("to", "both"):
            world.network.block(name, node.name)
        if ways in ("from", "both"):
            world.network.block(node.name, name)
    await faults.pause(0.5, 25)
    world.network.heal()


async def store_cut(faults: Faults) -> None:
    """One node cannot reach the coordination store."""
    node = faults.node()
    if node is None or node.coordination is None:
        return
    coordination = node.coordination
    coordination.cut_off = True
    faults.world.tell(f"{node.name} is cut off from the store")
    faults.happens(store_cut)
    await faults.pause(0.5, 25)
    if node.coordination is coordination and node.process.alive:
        coordination.cut_off = False


async def store_slow(faults: Faults) -> None:
    """The store answers late."""
    faults.world.store_slow_permille = faults.rng.choice((50, 500))
    faults.happens(store_slow)
    await faults.pause(1, 20)
    faults.world.store_slow_permille = 0


async def lease_lost(faults: Faults) -> None:
    """A lease is revoked by mistake: that costs time, not data."""
    node = faults.node()
    session = node.member.session if node is not None and node.member is not None else None
    if node is not None and session is not None and not faults.world.store_is_down:
        faults.world.tell(f"the lease of {node.name} is revoked by mistake")
        faults.happens(lease_lost)
        faults.world.store.revoke(session.lease_id)


async def usurp(faults: Faults) -> None:
    """A node loses its lease, hears nothing of it, and goes on while others take its logs over."""
    node, world = faults.node(), faults.world
    session = node.member.session if node is not None and node.member is not None else None
    if node is None or session is None or node.coordination is None:
        return
    coordination = node.coordination
    world.tell(f"{node.name} is taken for dead, while it goes on with a slow disk")
    faults.happens(usurp)
    coordination.cut_off = True
    world.engine.slow(1_000)
    world.store.revoke(session.lease_id)
    await faults.pause(3, 12)
    world.engine.slow(0)
    if node.coordination is coordination and node.process.alive:
        coordination.cut_off = False


async def resets(faults: Faults) -> None:
    """Connections are reset; what was under way may have been carried out."""
    faults.happens(resets)
    faults.world.network.reset_some(faults.rng.choice((0.1, 0.5, 1.0)))


async def network_slow(faults: Faults) -> None:
    """Messages are late, and connections overtake each other."""
    faults.world.network.slow_permille = faults.rng.choice((20, 200, 1_000))
    faults.happens(network_slow)
    await faults.pause(1, 20)
    faults.world.network.slow_permille = 0


async def disk_slow(faults: Faults) -> None:
    """Syncs take up to half a second."""
    faults.world.embedded.volume.slow_permille = faults.rng.choice((20, 200, 1_000))
    faults.happens(disk_slow)
    await faults.pause(1, 20)
    faults.world.embedded.volume.slow_permille = 0


async def sync_fails(faults: Faults) -> None:
    """A sync fails, and the pages are clean nevertheless."""
    faults.happens(sync_fails)
    faults.world.embedded.volume.disk.failing_syncs.append(
        faults.rng.choice(("records/", "state/", "group/"))
    )


async def disk_full(faults: Faults) -> None:
    """The volume is full for a while."""
    disk = faults.world.embedded.volume.disk
    used = disk.capacity_bytes - disk.free_bytes()
    disk.capacity_bytes = used + faults.rng.choice((0, 5 << 20, 20 << 20))
    faults.happens(disk_full)
    await faults.pause(1, 15)
    disk.capacity_bytes = 1 << 40


async def power_cut(faults: Faults) -> None:
    """The machine loses its power: what was not synced may be gone."""
    faults.happens(power_cut)
    faults.world.power_cut()


async def drain(faults: Faults) -> None:
    """SIGTERM under load."""
    node = faults.node()
    if node is not None:
        faults.happens(drain)
        await node.drain()


async def client_killed(faults: Faults) -> None:
    """kill -9 of a producer or consumer."""
    if faults.kill_client is not None:
        faults.happens(client_killed)
        faults.world.tell(f"client {faults.kill_client(faults.rng)} is killed")


async def application_stalls(faults: Faults) -> None:
    """An application does not come back from a record for some time, or ever."""
    if faults.stall_client is not None and (what := faults.stall_client(faults.rng)):
        faults.happens(application_stalls)
        faults.world.tell(what)


async def client_frozen(faults: Faults) -> None:
    """SIGSTOP of a consumer, longer than locks and sessions too, then SIGCONT."""
    process = faults.client(faults.rng)
    if process is None or process.frozen:
        return
    process.freeze()
    faults.happens(client_frozen)
    faults.world.tell(f"client {process} is frozen")
    await asyncio.sleep(faults.rng.choice((0.5, 4.0, 12.0, 20.0, 60.0)))
    if process.alive and process.frozen:
        process.thaw()
        faults.world.tell(f"client {process} is thawed")


FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        kill,
        vanish,
        kill_in_job,
        freeze,
        partition,
        store_cut,
        store_slow,
        lease_lost,
        usurp,
        resets,
        network_slow,
        disk_slow,
        sync_fails,
        disk_full,
        power_cut,
        drain,
        client_killed,
        application_stalls,
        client_frozen,
    )
}


async def state_cut(faults: Faults) -> None:
    """Share leaders and share coordinators cannot reach each other, past the end of locks."""
    world = faults.world
    leaders, coordinators = (
        [node.name for node in world.role_nodes(role)]
        for role in (Role.SHARE_LEADER, Role.SHARE_COORDINATOR)
    )
    world.tell("share leaders are cut off from share coordinators")
    faults.happens(state_cut)
    for leader in leaders:
        for coordinator in coordinators:
            world.network.block(leader, coordinator)
            world.network.block(coordinator, leader)
    await faults.pause(2, 20)
    world.network.heal()


async def state_refused(faults: Faults) -> None:
    """Writes of states that wait for their coordinator are refused when they reach it."""
    engine = faults.world.engine
    faults.happens(state_refused)
    engine.refuse_writes()
    await state_cut(faults)
    await faults.pause(1, 4)
    engine.take_writes()


async def state_full(faults: Faults) -> None:
    """Writes of states fail until nobody tries again (spec PER-6: five times, some 15 s)."""
    engine = faults.world.engine
    faults.happens(state_full)
    engine.refuse_writes()
    await faults.pause(16, 24)
    engine.take_writes()


async def store_down(faults: Faults) -> None:
    """The coordination store has no leader: nobody can reach it, and no lease runs out."""
    world = faults.world
    if world.store_is_down:
        return
    duration_s = faults.rng.uniform(0.5, 15.0)
    world.tell(f"the store has no leader for {duration_s:.1f} s")
    faults.happens(store_down)
    world.store.loses_its_leader(duration_s)
    world.store_is_down = True
    await asyncio.sleep(duration_s)
    world.store_is_down = False


async def answers_lost(faults: Faults) -> None:
    """Transactions are carried out, and who asked for them never hears of it."""
    faults.world.lost_answers_permille = faults.rng.choice((100, 500))
    faults.happens(answers_lost)
    await faults.pause(1, 10)
    faults.world.lost_answers_permille = 0


async def reads_fail(faults: Faults) -> None:
    """A share leader has too many open files: it cannot read its logs for a moment."""
    world = faults.world
    living = [node for node in world.role_nodes(Role.SHARE_LEADER) if node.process.alive]
    if not living:
        return
    node = faults.rng.choice(living)
    world.tell(f"{node.name} cannot read record logs")
    faults.happens(reads_fail)
    process = node.process
    world.engine.cut_reads(process, cut=True)
    await faults.pause(0.2, 3)
    world.engine.cut_reads(process, cut=False)


async def rights_revoked(faults: Faults) -> None:
    """A reader may read its group, or some topics, no more; later it may again."""
    access = faults.access
    if access is None:
        return
    reader = faults.rng.choice(sorted({rule.principal for rule in access.rules}))
    theirs = [rule for rule in access.rules if rule.principal == reader]
    taken = [rule for rule in theirs if faults.rng.random() < 0.4] or theirs[:1]
    words = ", ".join(f"{rule.resource.value} {rule.name}" for rule in taken)
    faults.world.tell(f"READ of {reader} on {words} is revoked")
    faults.happens(rights_revoked)
    await access.take(taken)
    await faults.pause(0.2, 12)
    await access.give(taken)
    faults.world.tell(f"{reader} may read {words} again")


async def leader_drained(faults: Faults) -> None:
    """SIGTERM of a share leader; now and then it is killed half-way, or another one is."""
    world = faults.world
    ready = [node for node in world.role_nodes(Role.SHARE_LEADER) if node.ready]
    if not ready:
        return
    node = faults.rng.choice(ready)
    world.tell(f"{node.name} drains")
    faults.happens(leader_drained)
    drained = world.loop.create_task(node.drain(), context=world.loop.world.context())
    if faults.rng.random() < 0.3:
        await faults.pause(0.01, 1.2)
        victim = faults.rng.choice([node, *(each for each in ready if each is not node)])
        world.tell(f"{victim.name} is killed in the drain of {node.name}")
        victim.crash()
    await drained


SPECIAL: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        leader_drained,
        state_cut,
        state_refused,
        state_full,
        store_down,
        answers_lost,
        reads_fail,
        rights_revoked,
    )
}
"""Faults of special workloads: ``mixed`` does not choose among them."""
