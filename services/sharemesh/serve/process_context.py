"""A role of a process, and what it is built from: filled ports, settings, the process's name."""

from dataclasses import dataclass
from random import Random

from sharemesh.audit.trail import AuditTrail
from sharemesh.cluster.elections.candidate_ranking import TermSettings
from sharemesh.cluster.elections.shard_elections import ShardElections
from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.domain.ids import NodeId
from sharemesh.ports.authorizer import Authorizer
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ShardHost, ShardKind
from sharemesh.ports.coordination import Coordination
from sharemesh.ports.network import Caller, Listener
from sharemesh.ports.quotas import Quotas
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.storage.process_storage import ProcessStorage
from sharemesh.telemetry.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """The ports of one process, filled; every role of the process shares them."""

    settings: ServeSettings
    node_id: NodeId
    clock: Clock
    rng: Random
    coordination: Coordination
    view: WatchedView
    storage: ProcessStorage
    caller: Caller
    authorizer: Authorizer
    quotas: Quotas
    telemetry: Telemetry
    audit: AuditTrail | None = None


class RoleService:
    """One role of a process, from its building to its end; a role fills what it needs of it."""

    def offer(self, listener: Listener) -> None:
        """Offer the role's methods; called before the port is open."""

    async def start(self, member: ClusterMember) -> None:
        """Begin work under this membership; called after the port is open, before registering."""

    async def drain(self) -> None:
        """Hand everything over; bounded by the settings."""

    async def close(self) -> None:
        """End at once what is left; called after ``drain``, or instead of it."""


class ShardRole(RoleService):
    """A coordinator, whose shards are elected one by one."""

    def __init__(self, around: ProcessContext, kind: ShardKind) -> None:
        self._around = around
        self._kind = kind
        self._elections: ShardElections | None = None

    async def stand(self, member: ClusterMember, host: ShardHost) -> None:
        """Stand for election of every shard."""
        self._elections = ShardElections(
            self._around.coordination,
            member,
            self._around.view,
            self._around.clock,
            kind=self._kind,
            host=host,
            settings=TermSettings(unanswered_max_ms=self._around.storage.unanswered_max_ms),
        )
        await self._elections.start()

    async def drain(self) -> None:
        """Give every shard away."""
        if self._elections is not None:
            await self._elections.drain()

    async def close(self) -> None:
        """Leave the elections and relinquish what is left."""
        if self._elections is not None:
            await self._elections.close()
