"""The services of one process over its filled ports: built, offered, started, drained, closed."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from sharemesh.admin.service import AdminService, BeginDrain
from sharemesh.admin.topic_stores import KafkaTopicStore, StoredTopics, TopicStore
from sharemesh.audit.listener import AuditedListener
from sharemesh.cluster.membership import ClusterMember
from sharemesh.domain.ids import TopicId
from sharemesh.ports.cluster import Role
from sharemesh.ports.network import Listener
from sharemesh.serve.process.measured_listener import MeasuredListener
from sharemesh.serve.process.quota_listener import QuotaListener
from sharemesh.serve.process_context import ProcessContext, RoleService

if TYPE_CHECKING:
    from sharemesh.controller.placement_controller import PlacementController
    from sharemesh.controller.topic_mirror import TopicMirror


class HostedRoles:
    """What a process of these roles runs, whatever fills its ports: the simulation's are these."""

    def __init__(
        self,
        roles: Sequence[Role],
        around: ProcessContext,
        begin_drain: Callable[[], Awaitable[None]],
    ) -> None:
        """Build; only what a role needs is imported. ``begin_drain`` starts a hand-over."""
        self._around = around
        self._quotas: QuotaListener | None = None
        self._services: list[RoleService] = [
            AdminRole(around, begin_drain),
            *(_build_role(role, around) for role in roles),
        ]
        if around.settings.has_kafka_listener and Role.SHARE_LEADER not in roles:
            from sharemesh.serve.roles.asked_producer_ids import ProducerIdRole

            self._services.append(ProducerIdRole(around))

    def offer(self, listener: Listener) -> None:
        """Offer all methods, as quotas allow, measured and audited; before the port is open."""
        around = self._around
        self._quotas = QuotaListener(listener, around.quotas, around.clock, around.telemetry)
        offered: Listener = MeasuredListener(self._quotas, around.telemetry)
        if around.audit is not None:
            offered = AuditedListener(offered, around.audit, self._topic_name)
        for service in self._services:
            service.offer(offered)

    def _topic_name(self, topic_id: bytes) -> str:
        """Return a topic's name, or its id where there is no such topic."""
        topic = self._around.view.topic(TopicId(topic_id))
        return topic.name if topic is not None else topic_id.hex()

    async def start(self, member: ClusterMember) -> None:
        """Begin work under the membership, then register it; call it once the port is open."""
        await self._around.storage.start(member)
        for service in self._services:
            await service.start(member)
        await member.start()

    async def drain(self) -> None:
        """Drain all roles, in reverse order of their start."""
        for service in reversed(self._services):
            await service.drain()

    async def close(self) -> None:
        """Close all roles at once."""
        for service in reversed(self._services):
            await service.close()
        if self._quotas is not None:
            await self._quotas.close()
        await self._around.storage.close()


def _build_role(role: Role, around: ProcessContext) -> RoleService:
    match role:
        case Role.SHARE_LEADER:
            from sharemesh.serve.roles.share_leader import ShareLeaderRole

            return ShareLeaderRole(around)
        case Role.GROUP_COORDINATOR:
            from sharemesh.serve.roles.group_coordinator import GroupCoordinatorRole

            return GroupCoordinatorRole(around)
        case Role.SHARE_COORDINATOR:
            from sharemesh.serve.roles.share_coordinator import ShareCoordinatorRole

            return ShareCoordinatorRole(around)
        case Role.CONTROLLER:
            return ControllerRole(around)


class AdminRole(RoleService):
    """What every process answers: the Admin service, from its watched view."""

    def __init__(self, around: ProcessContext, begin_drain: BeginDrain) -> None:
        self._admin = AdminService(
            around.coordination,
            around.view,
            around.authorizer,
            _topic_store(around),
            around.clock,
            acls_enabled=around.settings.authorizer == "acl",
            drain=(around.node_id, begin_drain),
        )

    def offer(self, listener: Listener) -> None:
        """Offer ``Admin``."""
        self._admin.offer(listener)


def _topic_store(around: ProcessContext) -> TopicStore:
    topics = around.storage.broker_topics
    if topics is None:
        return StoredTopics(around.coordination, around.view, around.rng)
    return KafkaTopicStore(around.coordination, around.view, topics)


class ControllerRole(RoleService):
    """The placement controller; it works through the coordination store only."""

    def __init__(self, around: ProcessContext) -> None:
        self._around = around
        self._controller: PlacementController | None = None

    async def start(self, member: ClusterMember) -> None:
        """Stand for election."""
        from sharemesh.controller.placement_controller import PlacementController

        self._controller = PlacementController(
            self._around.coordination,
            member,
            self._around.view,
            self._around.clock,
            telemetry=self._around.telemetry,
            mirror=self._mirror(),
        )
        await self._controller.start()

    def _mirror(self) -> "TopicMirror | None":
        topics = self._around.storage.broker_topics
        if topics is None:
            return None
        from sharemesh.controller.topic_mirror import TopicMirror

        around = self._around
        return TopicMirror(
            around.coordination,
            around.view,
            around.clock,
            around.rng,
            topics.brokers,
            topics.attachable,
        )

    async def drain(self) -> None:
        """Resign: another controller is elected."""
        await self.close()

    async def close(self) -> None:
        """Resign."""
        controller, self._controller = self._controller, None
        if controller is not None:
            await controller.close()
