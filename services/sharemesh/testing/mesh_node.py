"""One process of a mesh in memory: every role, over ports in memory."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from sharemesh import methods
from sharemesh.backends.embedded.data_directory import open_data_directory
from sharemesh.backends.local.coordination import LocalCoordination
from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.acl_table import NODE_PRINCIPAL, AclTable, AllowAll
from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.quota_table import QuotaTable
from sharemesh.domain.ids import NodeId
from sharemesh.methods import Method, Request, Response
from sharemesh.ports.authorizer import Authorizer
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import NodeInfo, Role
from sharemesh.ports.network import Caller, CallFailedError, Failure, Stream
from sharemesh.serve.hosted_roles import HostedRoles
from sharemesh.serve.process_context import ProcessContext
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.storage.embedded import EmbeddedStorage
from sharemesh.telemetry.telemetry import without_export
from sharemesh.testing.cluster_records import ClusterRecords
from sharemesh.testing.memory_disk import MemoryDisk
from sharemesh.testing.network import LocalListener, LocalNetwork

CLUSTER_ID = "memory"
PORT = 1
GROUP_SHARDS = 1
STATE_SHARDS = 1


@dataclass(slots=True)
class Faults:
    """What goes wrong in a mesh until a test says otherwise.

    Attributes:
        state_writes_fail: Delivery states cannot be written: acknowledgements stay unconfirmed.
        before_call: Awaited with the method before each call from process to process.
    """

    state_writes_fail: bool = False
    before_call: Callable[[Method[Any, Any]], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the processes of a mesh share."""

    clock: Clock
    rng: Random
    store: LocalStore
    disk: MemoryDisk
    network: LocalNetwork
    super_users: tuple[str, ...] | None
    faults: Faults = field(default_factory=Faults)


class _FaultyCaller:
    """The calls of one process to all, as the faults let them through (port Caller)."""

    def __init__(self, caller: Caller, faults: Faults) -> None:
        self._caller = caller
        self._faults = faults

    async def call(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        to: str,
        timeout_ms: int | None = None,
    ) -> Response:
        if self._faults.before_call is not None:
            await self._faults.before_call(method)
        if self._faults.state_writes_fail and method is methods.WRITE_SHARE_GROUP_STATE:
            raise CallFailedError(Failure.UNAVAILABLE, f"{method.name}: fails in this test")
        return await self._caller.call(method, request, to=to, timeout_ms=timeout_ms)

    async def stream(
        self, method: Method[Request, Response], *, to: str
    ) -> Stream[Request, Response]:
        return await self._caller.stream(method, to=to)

    async def close(self) -> None:
        await self._caller.close()


class MeshNode:
    """One life of a process: ``start``, then ``stop``."""

    def __init__(self, name: str, shared: Surroundings) -> None:
        self.name = name
        self.address = f"{name}:{PORT}"
        self.records = ClusterRecords(
            shared.clock, coordination=LocalCoordination(shared.store), cluster_id=CLUSTER_ID
        )
        self.coordination = self.records.coordination
        self.view = self.records.view
        self._shared = shared
        self._listener: LocalListener | None = None
        self._caller: Caller | None = None
        self.authorizer: Authorizer = AllowAll()
        self.roles: HostedRoles | None = None
        self._member: ClusterMember | None = None

    async def start(self) -> None:
        """Read the cluster, offer every role, register."""
        shared = self._shared
        await self.records.open(group_shards=GROUP_SHARDS, state_shards=STATE_SHARDS)
        await open_data_directory(
            shared.disk, cluster_id=CLUSTER_ID, group_shards=GROUP_SHARDS, state_shards=STATE_SHARDS
        )
        if shared.super_users is not None:
            self.authorizer = AclTable(self.view, super_users=shared.super_users)
        node_id = NodeId(self.name)
        self._caller = _FaultyCaller(shared.network.caller(NODE_PRINCIPAL), shared.faults)
        settings = ServeSettings(
            cluster_id=CLUSTER_ID,
            data_directory=Path("memory"),
            drain_timeout_ms=1,
            authorizer="allow-all" if shared.super_users is None else "acl",
            group_shards=GROUP_SHARDS,
            state_shards=STATE_SHARDS,
        )
        around = ProcessContext(
            settings=settings,
            node_id=node_id,
            clock=shared.clock,
            rng=Random(shared.rng.getrandbits(64)),  # noqa: S311
            coordination=self.coordination,
            view=self.view,
            storage=EmbeddedStorage(
                shared.disk, shared.clock, settings, self.coordination, self.view
            ),
            caller=self._caller,
            authorizer=self.authorizer,
            quotas=QuotaTable(self.view, super_users=shared.super_users or ()),
            telemetry=without_export(lambda: shared.clock.wall_ms() * 1_000_000),
        )
        self.roles = HostedRoles(tuple(Role), around, self._begin_drain)
        self._listener = shared.network.listener(self.address)
        self.roles.offer(self._listener)
        info = NodeInfo(node_id, self.name, PORT, tuple(Role))
        self._member = ClusterMember(self.coordination, self.view, info, shared.clock)
        await self.roles.start(self._member)

    async def _begin_drain(self) -> None:
        if self._member is not None:
            await self._member.draining(draining=True)

    async def stop(self) -> None:
        """End without a hand-over: connections are lost, then leases go."""
        if self._listener is not None:
            await self._listener.stop()
        if self.roles is not None:
            await self.roles.close()
        if self._member is not None:
            await self._member.close()
        if self._caller is not None:
            await self._caller.close()
        await self.records.close()
