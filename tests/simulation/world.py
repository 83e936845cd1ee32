"""The mesh in one thread: production roles and clients over simulated ports."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.client.environment import ClientEnvironment
from sharemesh.cluster.acl_table import AllowAll
from sharemesh.cluster.bootstrap import ensure_cluster
from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.quota_table import QuotaTable
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.ids import NodeId, SharePartitionKey
from sharemesh.ports.authorizer import Authorizer
from sharemesh.ports.cluster import NodeInfo, Role
from sharemesh.ports.coordination import CoordinationError
from sharemesh.serve.hosted_roles import HostedRoles
from sharemesh.serve.process_context import ProcessContext
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.telemetry.telemetry import Telemetry, without_export
from tests.simulation.engines.embedded import EmbeddedEngine
from tests.simulation.engines.engine import CLUSTER, GROUP_SHARDS, STATE_SHARDS
from tests.simulation.engines.kafka import KafkaEngine
from tests.simulation.engines.names import engine_of
from tests.simulation.event_log import EventLog
from tests.simulation.loop import Process, SimClock, SimLoop
from tests.simulation.network import SimNetwork

LOCK_DURATION_MS = 15_000
DELIVERY_COUNT_LIMIT = 5
REVOKE_S = (0.002, 0.05)
STOP_TIMEOUT_S = 20.0
RESTART_S = (0.3, 4.0)
CLOCK_RATE = 0.02
STORE_S = (0.0002, 0.003)
SLOW_STORE_S = (0.05, 0.8)


class SimStore(LocalStore):
    """The store of all processes: its lease timers are nobody's process."""

    def __init__(self, world: "World") -> None:
        super().__init__(SimClock(world.loop))
        self._world = world

    def grant(self, ttl_ms: int) -> int:
        return self._world.loop.world.context().run(super().grant, ttl_ms)

    def revoke(self, lease_id: int) -> None:
        if not self._world.store_is_down:
            super().revoke(lease_id)

    def loses_its_leader(self, duration_s: float) -> None:
        """No lease runs out meanwhile, and the next leader gives each its full time again."""
        for lease in self._leases.values():
            lease.expires_ms = self.clock.now_ms() + int(duration_s * 1_000) + lease.ttl_ms


class SimCoordination(LocalCoordination):
    """One process's connection: slow by chance; it can be cut off, and answers can be lost."""

    def __init__(self, world: "World", clock: SimClock) -> None:
        self._world = world
        super().__init__(world.store)
        self.clock = clock

    @property
    def cut_off(self) -> bool:
        """Whether the store cannot be reached from here, or by anybody."""
        return self._is_cut_off or self._world.store_is_down

    @cut_off.setter
    def cut_off(self, is_cut_off: bool) -> None:
        self._is_cut_off = is_cut_off

    async def commit(self, guards, operations, *, session=None):
        await asyncio.sleep(self._world.store_delay_s())
        revision = await super().commit(guards, operations, session=session)
        await asyncio.sleep(self._world.store_delay_s())
        if self._world.answer_is_lost():
            raise CoordinationError("the store's answer was lost (in virtual time)")
        return revision

    async def get(self, key):
        await asyncio.sleep(self._world.store_delay_s())
        return await super().get(key)

    async def watch(self, prefix):
        stream = super().watch(prefix)
        try:
            async for item in stream:
                await asyncio.sleep(self._world.store_delay_s())
                yield item
        finally:
            await stream.aclose()


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is made of, beside its seed."""

    workload: str = "mixed"
    engine: str = "embedded"
    leaders: int = 3
    share_coordinators: int = 2
    group_coordinators: int = 2
    controllers: int = 1


class Node:
    """One role process and its supervisor: started again after each death."""

    def __init__(self, world: "World", role: Role, index: int) -> None:
        self.world = world
        self.role = role
        self.name = f"{role}-{index}"
        self.address = f"{self.name}:9400"
        self.process = Process(world.loop, self.name)
        self.process.alive = False
        self.coordination: SimCoordination | None = None
        self.member: ClusterMember | None = None
        self.roles: HostedRoles | None = None
        self.ready = False
        self.lives = 0

    def start(self) -> None:
        """Begin a new life."""
        world = self.world
        if self.process.alive or world.machine_down:
            return
        self.lives += 1
        self.ready = False
        self.process = Process(world.loop, self.name)
        task = self.process.start(self._live(self.process), f"{self.name} start")
        task.add_done_callback(self._started, context=self.process.context())

    def _started(self, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.world.tell(f"{self.name} failed to start: {error!r}", count="failed starts")
            self.crash()

    async def _live(self, process: Process) -> None:
        world = self.world
        rng = random.Random(world.rng.getrandbits(64))
        rate = 1 + rng.uniform(-CLOCK_RATE, CLOCK_RATE)
        clock = SimClock(world.loop, start_ms=rng.randrange(1, 10**9), rate=rate)
        self.coordination = SimCoordination(world, clock)
        settings = ServeSettings(
            role=str(self.role),
            cluster_id=CLUSTER,
            node_id=self.name,
            group_shards=GROUP_SHARDS,
            state_shards=STATE_SHARDS,
            drain_timeout_ms=3_000,
            **world.engine.settings(),
        )
        open_storage = await world.engine.claim(process, settings, self.coordination, clock, rng)
        view = WatchedView(self.coordination, CLUSTER, clock)
        await view.start()
        telemetry = without_export(lambda: clock.wall_ms() * 1_000_000)
        around = ProcessContext(
            settings=settings,
            node_id=NodeId(self.name),
            clock=clock,
            rng=rng,
            coordination=self.coordination,
            view=view,
            storage=open_storage(view, telemetry),
            caller=world.network.caller(process),
            authorizer=world.authorizer(view),
            quotas=QuotaTable(view, super_users=world.super_users),
            telemetry=telemetry,
        )
        world.telemetries.append(around.telemetry)
        roles = self.roles = HostedRoles((self.role,), around, self._begin_drain)
        roles.offer(world.network.listener(process, self.address))
        host, _, port = self.address.partition(":")
        info = NodeInfo(NodeId(self.name), host, int(port), (self.role,))
        member = self.member = ClusterMember(self.coordination, view, info, clock)
        member.on_broken(lambda why: self._broken(process, why))
        await roles.start(member)
        self.ready = True
        world.tell(f"{self.name} is ready, life {self.lives}")

    def crash(self, *, noticed: bool = True, restart: bool = True) -> None:
        """kill -9; if ``noticed`` the parent revokes the lease, else its time runs out."""
        world = self.world
        if not self.process.alive:
            return
        session = self.member.session if self.member is not None else None
        self.process.kill()
        self.ready = False
        if self.coordination is not None:
            self.coordination.cut_off = True
        world.network.killed(self.process)
        if noticed and session is not None:
            world.later(world.chance(REVOKE_S), lambda: world.store.revoke(session.lease_id))
        if restart:
            world.later(world.chance(RESTART_S), self.start)

    async def _begin_drain(self) -> None:
        assert self.member is not None
        await self.member.draining(draining=True)

    def _broken(self, process: Process, why: str) -> None:
        if self.process is process:
            self.world.event_log.violation(self.world.now_s, f"{self.name} is broken: {why}")
            self.world.later(0, self.crash)

    async def drain(self) -> None:
        """Stop in good order, as SIGTERM, then begin again; the supervisor waits so long."""
        process = self.process
        done = process.start(self._drain(process), f"{self.name} drain")
        await asyncio.wait([done], timeout=STOP_TIMEOUT_S)
        if self.process is process and process.alive:
            self.world.tell(f"{self.name} did not stop in time, and is killed")
            self.crash()

    async def _drain(self, process: Process) -> None:
        if self.member is None or self.roles is None or not self.ready:
            return
        self.ready = False
        grants = self.world.event_log.counters["grants"]
        with contextlib.suppress(CoordinationError):
            await self.member.draining(draining=True)
        await self.roles.drain()
        await self.roles.close()
        await self.member.close()
        loaded = self.world.event_log.counters["grants"] > grants
        self.world.loop.world.context().run(self._drained, process, loaded=loaded)

    def _drained(self, process: Process, *, loaded: bool) -> None:
        if self.process is process:
            count = "drains under load" if loaded else "drains"
            self.world.tell(f"{self.name} drained", count=count)
            self.crash()


class World:
    """Everything of one run; ``event_log`` keeps what happened."""

    def __init__(self, seed: int, options: Options, event_log: EventLog) -> None:
        self.seed = seed
        self.options = options
        self.event_log = event_log
        self.rng = random.Random(f"{seed} {options.workload}")
        self.loop = SimLoop(random.Random(self.rng.getrandbits(64)))
        self.loop.set_exception_handler(self._unhandled)
        self.network = SimNetwork(self.loop, random.Random(self.rng.getrandbits(64)), self._sent)
        self.engine = engine_of(options.engine, self, random.Random(self.rng.getrandbits(64)))
        self.store = SimStore(self)
        self.store_slow_permille = 0
        self.store_is_down = False
        self.lost_answers_permille = 0
        self.machine_down = False
        self.nodes: dict[str, Node] = {}
        for role, count in (
            (Role.CONTROLLER, options.controllers),
            (Role.SHARE_COORDINATOR, options.share_coordinators),
            (Role.GROUP_COORDINATOR, options.group_coordinators),
            (Role.SHARE_LEADER, options.leaders),
        ):
            for index in range(count):
                node = Node(self, role, index)
                self.nodes[node.name] = node
        self.lock_duration_ms = LOCK_DURATION_MS
        self.authorizer: Callable[[WatchedView], Authorizer] = lambda _: AllowAll()
        self.super_users: tuple[str, ...] = ()
        self.was_refused: Callable[[str, str, float], bool] = lambda *_: False
        self.is_expected: Callable[[str], bool] = lambda _: False
        """Whether a run makes it so that a process logs this error."""
        self.topic_names: dict[bytes, str] = {}
        self.telemetries: list[Telemetry] = []
        self.hurried_groups: set[str] = set()
        """Groups whose assignment interval was 0 at some time."""
        self._clients = 0
        self._living_clients: dict[str, Process] = {}

    @property
    def embedded(self) -> EmbeddedEngine:
        """The engine, for what has a meaning on the embedded one only."""
        assert isinstance(self.engine, EmbeddedEngine)
        return self.engine

    @property
    def kafka(self) -> KafkaEngine:
        """The engine, for what has a meaning on Kafka only."""
        assert isinstance(self.engine, KafkaEngine)
        return self.engine

    # ---- time and chance ------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Seconds since the run began."""
        return self.loop.time()

    def chance(self, bounds: tuple[float, float]) -> float:
        """Return a number between two."""
        return self.rng.uniform(*bounds)

    def later(self, delay_s: float, action: Callable[[], Any]) -> None:
        """Do something as nobody's process."""
        self.loop.call_later(delay_s, action, context=self.loop.world.context())

    def store_delay_s(self) -> float:
        """Return how long a step of the coordination store takes."""
        chance = self.rng.random
        low, high = SLOW_STORE_S if chance() * 1_000 < self.store_slow_permille else STORE_S
        return low + (high - low) * chance()

    def answer_is_lost(self) -> bool:
        """Return whether the answer to a transaction that was carried out is lost."""
        permille = self.lost_answers_permille
        if not permille or self.rng.random() * 1_000 >= permille:
            return False
        self.event_log.counters["answers of the store that were lost"] += 1
        return True

    def tell(self, text: str, *, count: str = "") -> None:
        """Add to the event log."""
        self.event_log.tell(self.now_s, text, count=count)

    def place(self, key: SharePartitionKey, offset: int | None = None) -> str:
        """Return the words for a share partition, or for a record of it."""
        topic = self.topic_names.get(key.topic_id, key.topic_id.hex()[:6])
        record = "" if offset is None else f"@{offset}"
        return f"{key.group_id} {topic}/{key.partition}{record}"

    # ---- the cluster ----------------------------------------------------------------------------

    async def begin(self) -> None:
        """Create the cluster and start every process."""
        coordination = LocalCoordination(self.store)
        await ensure_cluster(
            coordination, CLUSTER, group_shards=GROUP_SHARDS, state_shards=STATE_SHARDS
        )
        self.engine.begin()
        for node in self.nodes.values():
            node.start()
        await self.until(lambda: all(node.ready for node in self.nodes.values()), 30)

    async def until(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Wait for something in virtual time; return whether it came to hold."""
        end_s = self.now_s + limit_s
        while not condition():
            if self.now_s >= end_s:
                return False
            await asyncio.sleep(0.05)
        return True

    def role_nodes(self, role: Role) -> list[Node]:
        """Return the nodes of a role."""
        return [node for node in self.nodes.values() if node.role is role]

    @property
    def bootstrap(self) -> str:
        """Addresses for clients."""
        return ",".join(node.address for node in self.nodes.values())

    def new_client(self, name: str) -> tuple[Process, ClientEnvironment]:
        """Return a process for a client, and its ports."""
        process = Process(self.loop, name)
        rng = random.Random(self.rng.getrandbits(64))
        numbers = iter(range(1, 1 << 30))
        self._clients += 1
        prefix = f"{name}.{self._clients}"
        self._living_clients[name] = process
        return process, ClientEnvironment(
            lambda: self.network.caller(process),
            SimClock(self.loop, start_ms=rng.randrange(1, 10**9)),
            rng,
            lambda: f"{prefix}.{next(numbers)}",
        )

    def known_names(self) -> list[str]:
        """Return the names of all processes, clients included."""
        clients = [name for name, process in self._living_clients.items() if process.alive]
        return [*self.nodes, *clients]

    def processes(self) -> list[Process]:
        """Return the last process of each node and client."""
        return [node.process for node in self.nodes.values()] + [*self._living_clients.values()]

    def kill_client(self, process: Process) -> None:
        """kill -9 of a client."""
        process.kill()
        self.network.killed(process)

    def power_cut(self) -> None:
        """The machine with all role processes loses its power."""
        self.lose_power()
        self.later(self.chance((0.5, 5.0)), self._power_back)

    def lose_power(self) -> None:
        """Stop everything at once: only what was made durable is found later."""
        self.machine_down = True
        for node in self.nodes.values():
            node.crash(noticed=False, restart=False)
        self.engine.lose_power()

    def _power_back(self) -> None:
        self.machine_down = False
        self.tell("the power is back")
        for node in self.nodes.values():
            self.later(self.chance((0.0, 3.0)), node.start)

    def killed_in_job(self, process: Process) -> None:
        """A process dies in the middle of a disk job."""
        node = self.nodes.get(process.name)
        if node is not None and node.process is process:
            text = f"{node.name} is killed between two operations of a disk job"
            self.tell(text, count="fault kill_in_job")
            node.crash()

    def _sent(self, time_s: float, source: str, target: str, method: str, data: bytes) -> None:
        self.event_log.event(time_s, "sent", source, target, method, data=data)

    def _unhandled(self, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        text = f"{context.get('message')}: {error!r}"
        if "was destroyed but it is pending" in text:
            return
        logging.getLogger("simulation").debug(text, exc_info=error)
        self.event_log.violation(self.now_s, f"unhandled: {text}")
