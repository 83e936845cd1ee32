"""The running clusters of the operator: of each a view, a placement controller, an admin client."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import sharemesh
from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.cluster.bootstrap import ClusterMismatchError, ensure_cluster
from sharemesh.cluster.membership import ClusterMember
from sharemesh.cluster.store.keys import CONTROLLER
from sharemesh.cluster.view.cluster_state import StateChanges
from sharemesh.cluster.view.watched_view import WatchedView
from sharemesh.controller.desired import PlacementLimits
from sharemesh.controller.placement_controller import ControllerSettings, PlacementController
from sharemesh.domain.ids import NodeId, TopicPartition
from sharemesh.domain.placement import PartitionShape
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import NodeInfo, Role
from sharemesh.ports.coordination import Coordination, CoordinationError
from sharemesh.serve.process.coordination import connect_etcd
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.tasks import to_its_end
from sharemesh.telemetry.instruments import Registry
from sharemesh.telemetry.spans import Spans
from sharemesh.telemetry.telemetry import Telemetry
from sharemesh_operator.cluster.connection_error import ClusterConnectionError
from sharemesh_operator.cluster.kafka_mirror import KafkaMirror, open_mirror
from sharemesh_operator.resources.cluster_spec import ClusterSpec
from sharemesh_operator.resources.cluster_status import PlacementSeen
from sharemesh_operator.resources.problems import Problem, problem
from sharemesh_operator.resources.rollout import NodeSeen

API_TIMEOUT_MS = 8_000
REQUEST_TIMEOUT_MS = 5_000
ROUNDS_PER_MINUTE = 6  # of the placement controller, that only serve the balance
EXAMPLES_MAX = 3
LOAD_SLACK_MAX = 1.0  # a node may be empty then: more would mean nothing for the lower bound

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterConnectionSettings:
    """What is the same for all clusters of one operator."""

    identity: str
    secrets_directory: Path
    token_file: Path | None
    """The token that is shown to clusters whose callers are known by tokens."""
    clock: Clock
    rng: Random
    guarded_etcd: frozenset[str]
    """Addresses of the etcd where the process's guard can revoke a lease."""
    on_lease: Callable[[int], None]
    """Told each lease there before it is used."""
    spans: Spans
    """Where spans of placement rounds go."""


class ClusterConnection:
    """Owns the operator's connections to one cluster, from ``start`` to ``close``."""

    def __init__(
        self,
        spec: ClusterSpec,
        settings: ClusterConnectionSettings,
        changed: Callable[[StateChanges], None],
    ) -> None:
        self._spec = spec
        self._etcd = ", ".join(spec.etcd.endpoints)
        self._changed = changed
        self._settings = settings
        self._coordination: Coordination | None = None
        self._view: WatchedView | None = None
        self._member: ClusterMember | None = None
        self._controller: PlacementController | None = None
        self._kafka: KafkaMirror | None = None
        self._admin: AsyncAdminClient | None = None
        self._admin_addresses: frozenset[str] = frozenset()
        self.broken = ""

    @property
    def view(self) -> WatchedView:
        """The watched view; the mesh has started."""
        assert self._view is not None
        return self._view

    async def start(self) -> None:
        """Connect, create the cluster's record if need be, watch, and stand for election.

        Raises:
            ClusterConnectionError: etcd does not answer, or holds another cluster of this name.
        """
        try:
            await self._start()
        except ClusterMismatchError as error:
            raise ClusterConnectionError("ClusterMismatch", why=error) from error
        except CoordinationError as error:
            raise ClusterConnectionError("EtcdUnavailable", where=self._etcd, why=error) from error

    async def close(self) -> None:
        """Resign and end; repeating it is fine."""
        for part in (
            self._admin,
            self._controller,
            self._kafka,
            self._member,
            self._view,
            self._coordination,
        ):
            if part is not None:
                await part.close()

    @property
    def places(self) -> bool:
        """Whether this operator is the elected placement controller of the cluster."""
        return self._controller is not None and self._controller.elected

    @property
    def problem(self) -> Problem | None:
        """Why the operator cannot reach etcd now; what was seen before may be old."""
        if self._member is None or self._member.session is not None:
            return None
        why = self._member.last_error or "the lease was lost"
        return problem("EtcdUnavailable", where=self._etcd, why=why)

    @property
    def storage_problem(self) -> Problem | None:
        """Why the operator cannot reach the brokers of Kafka storage now."""
        return self._kafka.problem if self._kafka is not None and self.places else None

    async def admin(self) -> AsyncAdminClient:
        """Return the client of the cluster's admin service.

        Raises:
            ClusterConnectionError: No process of the cluster runs.
        """
        addresses = frozenset(node.address for node in self.view.nodes() if node.port)
        if not addresses:
            why = f"no pod of ShareCluster {self._spec.name!r} runs yet; see its conditions"
            raise ClusterConnectionError("ClusterNotReady", why=why)
        if self._admin is None or not addresses & self._admin_addresses:
            if self._admin is not None:
                await self._admin.close()
            self._admin = AsyncAdminClient(self._client_settings(sorted(addresses)))
            self._admin_addresses = addresses
        return self._admin

    def nodes(self) -> dict[str, NodeSeen]:
        """Return the processes of the cluster with what each of them serves."""
        serves: Counter[NodeId] = Counter(self._leaders())
        serves.update(shard.node.node_id for shard in self.view.shards() if shard.node)
        return {
            node.node_id: NodeSeen(
                node.node_id, node.draining, serves[node.node_id], listens=node.kafka is not None
            )
            for node in self.view.nodes()
            if node.port
        }

    def placement(self) -> PlacementSeen:
        """Return where topic-partitions are led, in numbers."""
        view = self.view
        tables = view.tables
        loads = Counter({node.node_id: 0 for node in view.nodes_with(Role.SHARE_LEADER)})
        loads.update(self._leaders())
        partitions = sum(topic.partitions for topic in view.topics())
        elected = tables.leader_of(CONTROLLER)
        gaps = view.unassigned()
        return PlacementSeen(
            controller=elected.value if elected else "",
            token=elected.create_revision if elected else 0,
            generation=max((each.mod_revision for each in tables.assignments.values()), default=0),
            partitions=partitions,
            led=partitions - len(gaps),
            unassigned=sum(
                TopicPartition(gap.topic.topic_id, gap.partition) not in tables.assignments
                for gap in gaps
            ),
            loads=tuple(loads.values()),
            unled_shards=sum(shard.node is None for shard in view.shards()),
            storage_problems=view.storage_problems(),
            losses=tuple(shard.loss for shard in view.shards() if shard.loss),
            damages=tuple(each.damage for each in view.shards() if each.damage and not each.node),
            users=len(tables.users),
            examples=tuple(
                f"{gap.topic.name}/{gap.partition}: {gap.reason}" for gap in gaps[:EXAMPLES_MAX]
            ),
        )

    def _leaders(self) -> list[NodeId]:
        view = self.view
        found = (
            view.leader(TopicPartition(topic.topic_id, number))
            for topic in view.topics()
            for number in range(topic.partitions)
        )
        return [leader.node.node_id for leader in found if leader is not None]

    async def _start(self) -> None:
        spec, clock = self._spec, self._settings.clock
        if spec.tls_secret:
            self._files(spec.tls_secret)  # needed later only, but told now
        coordination = self._coordination = connect_etcd(
            self._etcd_settings(), spec.etcd.addresses, clock=clock, rng=self._settings.rng
        )
        await ensure_cluster(
            coordination,
            spec.cluster_id,
            group_shards=spec.roles[Role.GROUP_COORDINATOR].shards,
            state_shards=spec.roles[Role.SHARE_COORDINATOR].shards,
        )
        view = self._view = WatchedView(coordination, spec.cluster_id, clock)
        await view.start()
        view.subscribe(self._changed)
        node = NodeInfo(
            node_id=NodeId(self._settings.identity),
            host="",  # nobody calls it: it speaks through etcd
            port=0,
            roles=(Role.CONTROLLER,),
            version=sharemesh.__version__,
        )
        member = self._member = ClusterMember(
            coordination, view, node, clock, ttl_ms=spec.etcd.session_ttl_s * 1_000
        )
        member.on_broken(self._broke)
        member.on_lost(self._lost)
        if self._settings.guarded_etcd.issuperset(spec.etcd.addresses):
            member.on_lease(self._settings.on_lease)
        kafka = self._kafka = await open_mirror(
            spec,
            coordination,
            view,
            clock,
            self._settings.rng,
            secrets=self._settings.secrets_directory,
        )
        controller = self._controller = PlacementController(
            coordination,
            member,
            view,
            clock,
            settings=ControllerSettings(
                settle_ms=spec.placement.settle_s * 1_000, limits=_limits(spec)
            ),
            telemetry=Telemetry(Registry(), self._settings.spans),
            mirror=None if kafka is None else kafka.topics,
        )
        await controller.start()
        await member.start()

    async def _lost(self) -> None:
        self._changed(StateChanges(everything=True))

    def _broke(self, why: str) -> None:
        _log.error("cluster %s: %s", self._spec.cluster_id, why)
        self.broken = self.broken or why

    def _etcd_settings(self) -> ServeSettings:
        etcd = self._spec.etcd
        files = self._files(etcd.secret) if etcd.secret else {}
        return ServeSettings(
            etcd_prefix=etcd.prefix,
            etcd_tls_authority=files.get("ca.crt"),
            etcd_tls_certificate=files.get("tls.crt"),
            etcd_tls_key=files.get("tls.key"),
        )

    def _client_settings(self, addresses: list[str]) -> dict[str, object]:
        found: dict[str, object] = {
            "bootstrap.servers": ",".join(addresses),
            "client.id": self._settings.identity,
            "default.api.timeout.ms": API_TIMEOUT_MS,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
        }
        if self._spec.tls_secret:
            files = self._files(self._spec.tls_secret)
            found |= {
                "security.protocol": "ssl",
                "ssl.ca.location": str(files["ca.crt"]),
                "ssl.certificate.location": str(files["tls.crt"]),
                "ssl.key.location": str(files["tls.key"]),
            }
        if self._spec.tokens is not None and self._settings.token_file is not None:
            found["sasl.token.location"] = str(self._settings.token_file)
        return found

    def _files(self, secret: str) -> dict[str, Path]:
        """Return the files of a Secret that the kubelet mounted into the operator's pod."""
        folder = self._settings.secrets_directory / secret
        files = {name: folder / name for name in ("ca.crt", "tls.crt", "tls.key")}
        missing = [name for name, path in files.items() if not path.is_file()]
        if missing:
            raise ClusterConnectionError(
                "SecretNotMounted", secret=secret, files=", ".join(missing)
            )
        return files


Changed = Callable[[str, StateChanges], None]


class ClusterConnections:
    """Opens and closes the connection to each cluster; ``changed`` is called on changes there."""

    def __init__(self, settings: ClusterConnectionSettings, changed: Changed) -> None:
        self._settings = settings
        self._changed = changed
        self._open: dict[str, tuple[object, ClusterConnection]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._over = False

    @property
    def joined(self) -> int:
        """How many clusters are connected."""
        return len(self._open)

    @property
    def placed(self) -> int:
        """How many of them have this operator as their elected placement controller."""
        return sum(mesh.places for _, mesh in self._open.values())

    async def get(self, spec: ClusterSpec) -> ClusterConnection:
        """Return the connected cluster; a new one if what it was made from changed.

        Raises:
            ClusterConnectionError: It cannot be connected; nothing is left open.
        """
        key = (
            *(spec.uid, spec.etcd, spec.tls_secret, spec.tokens, spec.placement, _shards(spec)),
            spec.storage,
        )
        async with self._locks.setdefault(spec.name, asyncio.Lock()):
            known = self._open.get(spec.name)
            if known is not None and known[0] == key and not known[1].broken:
                return known[1]
            await self._close(spec.name)
            if self._over:
                raise ClusterConnectionError("NotElected")
            mesh = ClusterConnection(spec, self._settings, partial(self._changed, spec.name))
            try:
                await mesh.start()
            except BaseException:
                await mesh.close()
                raise
            self._open[spec.name] = (key, mesh)
            return mesh

    async def close(self, name: str) -> None:
        """Leave a cluster that is gone."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            await self._close(name)

    async def close_all(self) -> None:
        """Leave all clusters, at the same time, and connect to none any more: the term is over."""
        self._over = True
        await asyncio.gather(*(self.close(name) for name in list(self._locks)))

    async def _close(self, name: str) -> None:
        known = self._open.pop(name, None)
        if known is not None:
            await to_its_end(known[1].close())  # nobody else knows of it any more
            _log.info("cluster %s: left", name)


def _limits(spec: ClusterSpec) -> PlacementLimits:
    wanted = spec.placement
    slack = (wanted.max_load_percent - 100) / 100
    return PlacementLimits(
        moves_per_round=-(-wanted.moves_per_minute // ROUNDS_PER_MINUTE),
        shape=PartitionShape(load_slack=min(slack, LOAD_SLACK_MAX), standbys=wanted.standbys),
    )


def _shards(spec: ClusterSpec) -> tuple[int, ...]:
    return tuple(role.shards for role in spec.roles.values())
