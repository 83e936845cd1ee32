"""Mesh: a cluster in memory, its clients, its time and its faults."""

import itertools
from collections.abc import Sequence
from random import Random
from types import TracebackType
from typing import Any, Self

from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.client import AsyncAdminClient, AsyncProducer, AsyncShareConsumer
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.errors import IllegalArgumentError
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.network import Caller
from sharemesh.testing.clock import MeshClock
from sharemesh.testing.memory_disk import MemoryDisk
from sharemesh.testing.mesh_node import Faults, MeshNode, Surroundings
from sharemesh.testing.network import LocalNetwork

LED_TIMEOUT_MS = 10_000
ANYBODY = "User:ANONYMOUS"


class Mesh:
    """A Sharemesh cluster in memory, on the running event loop.

    Every process has every role. Clients are those that applications use; all of them end with the
    mesh. Records live in ``disk``, which has faults of its own.

    Args:
        nodes: How many processes; with two or more, ``drop_leader`` lets another one take over.
        seed: What chance in the mesh begins with.
        super_users: Who may do everything while access rules say what others may; none:
            there are no access rules.

    Attributes:
        clock: The time of mesh, clients and event loop.
        disk: The volume of all processes.
        faults: Switches for what goes wrong.
    """

    def __init__(
        self,
        *,
        nodes: int = 1,
        seed: int = 0,
        super_users: Sequence[str] | None = None,
    ) -> None:
        if nodes < 1:
            raise IllegalArgumentError(f"a mesh has at least one process, not {nodes}")
        self.clock = MeshClock()
        rng = Random(seed)  # noqa: S311
        self.disk = MemoryDisk(rng)
        self.network = LocalNetwork()
        self.faults = Faults()
        self._rng = rng
        self._store = LocalStore(self.clock)
        allowed = None if super_users is None else tuple(super_users)
        self._shared = Surroundings(
            self.clock, rng, self._store, self.disk, self.network, allowed, self.faults
        )
        self.nodes = [MeshNode(f"node-{n}", self._shared) for n in range(1, nodes + 1)]
        self._clients: list[AsyncShareConsumer | AsyncProducer | AsyncAdminClient] = []
        self._numbers = itertools.count(1)

    @property
    def bootstrap(self) -> str:
        """The addresses of all processes; they mean something in this mesh only."""
        return ",".join(each.address for each in self.nodes)

    async def __aenter__(self) -> Self:
        try:
            for each in self.nodes:
                await each.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all clients, then all processes."""
        while self._clients:
            await self._clients.pop().close()
        for each in self.nodes:
            await each.stop()
        await self._store.close()

    # ---- clients --------------------------------------------------------------------------------

    def consumer(self, group_id: str, **config: Any) -> AsyncShareConsumer:  # noqa: ANN401
        """Return a consumer; ``config`` takes Kafka's names with underscores."""
        consumer = AsyncShareConsumer(
            self._config(config, {"group.id": group_id}), environment=self.environment()
        )
        self._clients.append(consumer)
        return consumer

    def producer(self, **config: Any) -> AsyncProducer:  # noqa: ANN401
        """Return a producer."""
        producer = AsyncProducer(self._config(config), environment=self.environment())
        self._clients.append(producer)
        return producer

    def admin(self, **config: Any) -> AsyncAdminClient:  # noqa: ANN401
        """Return an admin client."""
        admin = AsyncAdminClient(self._config(config), environment=self.environment())
        self._clients.append(admin)
        return admin

    def environment(self, principal: str = ANYBODY) -> ClientEnvironment:
        """Return what a client of one's own making needs to reach this mesh."""
        number = next(self._numbers)
        ids = itertools.count(1)

        def caller() -> Caller:
            return self.network.caller(principal)

        return ClientEnvironment(
            caller,
            self.clock,
            Random(self._rng.getrandbits(64)),  # noqa: S311
            lambda: f"client-{number}-{next(ids)}",
        )

    def _config(self, config: dict[str, Any], more: dict[str, str] | None = None) -> dict[str, Any]:
        given = {name.replace("_", "."): value for name, value in config.items()}
        return {"bootstrap.servers": self.bootstrap, **given, **(more or {})}

    # ---- faults ---------------------------------------------------------------------------------

    async def leader(self, topic: str, partition: int = 0) -> MeshNode:
        """Return the process that leads a topic-partition, once there is one.

        Raises:
            IllegalArgumentError: None leads it within ten seconds.
        """
        found: list[MeshNode] = []
        view = self.nodes[0].view

        def is_led() -> bool:
            info = view.topic_named(topic)
            led = info and view.leader(TopicPartition(info.topic_id, partition))
            found[:] = [each for each in self.nodes if led and each.name == led.node.node_id]
            return bool(found)

        if not await view.wait_for(is_led, timeout_ms=LED_TIMEOUT_MS):
            raise IllegalArgumentError(f"nobody leads {topic}/{partition}")
        return found[0]

    async def drop_leader(self, topic: str, partition: int = 0) -> None:
        """End the process that leads a topic-partition, and start it anew.

        Connections to it are lost and what it held in memory is gone: locks, sessions, members'
        waits. What was confirmed is on ``disk``.
        """
        lost = await self.leader(topic, partition)
        await lost.stop()
        again = MeshNode(lost.name, self._shared)
        self.nodes[self.nodes.index(lost)] = again
        await again.start()

    async def cut_connections(self) -> None:
        """Lose every open connection once; clients connect again by themselves."""
        for each in self.nodes:
            await self.network.disconnect(each.address)
