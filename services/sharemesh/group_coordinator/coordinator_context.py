"""What the service knows of the cluster: topics, settings, time, and who may do what."""

from collections.abc import Callable, Sequence, Sized
from typing import Protocol

from sharemesh.authorization.access import Access
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.ids import GroupId, NodeId
from sharemesh.domain.share_group.context import GroupContext
from sharemesh.domain.share_group.topics_image import TopicImage, TopicsImage
from sharemesh.group_coordinator.settings import GroupSettings, ServiceLimits, settings_from
from sharemesh.ports.authorizer import Authorizer, Operation
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView, TopicInfo
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.v1.group_coordinator_pb2 import ShareGroupHeartbeatResponse


class _WithPartitions(Protocol):
    """A topic of a request on offsets."""

    @property
    def partitions(self) -> Sized: ...


class CoordinatorContext:
    """The watched view, as the group coordinator needs it.

    ``catalog`` is replaced when topics change, and only then.
    """

    def __init__(
        self,
        node_id: NodeId,
        clock: Clock,
        view: ClusterView,
        authorizer: Authorizer,
        limits: ServiceLimits,
    ) -> None:
        self.node_id = node_id
        self.clock = clock
        self.view = view
        self.limits = limits
        self.access = Access(authorizer)
        self._authorizer = authorizer
        self.settings: GroupSettings = settings_from(view.cluster_configs())
        self.catalog = TopicsImage()
        self._topics: tuple[TopicInfo, ...] = ()
        self._read_topics()
        self._on_topics: list[Callable[[TopicsImage, TopicsImage], None]] = []
        self._unsubscribe = view.on_change(self._changed)

    def close(self) -> None:
        """Stop following the view."""
        self._unsubscribe()

    def on_topics(self, callback: Callable[[TopicsImage, TopicsImage], None]) -> None:
        """Register what is called with the catalog before and after a change."""
        self._on_topics.append(callback)

    def situation(self, group_id: GroupId, epoch_floor: int) -> GroupContext:
        """Return what a decision on a group needs to know now."""
        config = self.config(group_id)
        return GroupContext(
            self.catalog,
            self.clock.now_ms(),
            assignment_interval_ms=config.assignment_interval_ms,
            max_size=self.settings.max_size,
            initialize_retry_interval_ms=self.settings.initialize_retry_interval_ms,
            mode=self.settings.mode,
            epoch_floor=epoch_floor,
        )

    def config(self, group_id: GroupId) -> GroupConfig:
        """Return the settings of a group in force now."""
        return self.view.group_config(group_id)

    # ---- authorization (spec ACL) ----------------------------------------------------------------

    def on_rights(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Register what is called when access rules changed; returns what unsubscribes."""
        return self._authorizer.on_change(callback)

    def check_feature(self) -> None:
        """Raise UNSUPPORTED_VERSION while share groups are off (spec GC-3)."""
        if self.view.share_version() < 1:
            raise RefusedError(
                ErrorCode.UNSUPPORTED_VERSION,
                "share groups are off in this cluster; raise the feature share.version to 1",
            )

    def check_told(
        self, principal: str, group_id: GroupId, answer: ShareGroupHeartbeatResponse
    ) -> None:
        """Refuse to tell a member what it may not hear any more, assignment and all (AUT-5).

        Raises:
            RefusedError: GROUP_AUTHORIZATION_FAILED or TOPIC_AUTHORIZATION_FAILED.
        """
        self.access.group(principal, Operation.READ, group_id)
        for topic in answer.assignment.topic_partitions:
            if topic.topic_name:
                self.access.topic(principal, Operation.DESCRIBE, topic.topic_name)

    def check_groups(self, count: int) -> None:
        """Refuse a request that lists too much, before any work and as a whole.

        Raises:
            CallFailedError: RESOURCE_EXHAUSTED; it names more groups, settings or filters than
                ``requested_groups``.
        """
        _check_listed(count, "groups or names", self.limits.requested_groups)

    def check_partitions(self, *lists: Sequence[_WithPartitions]) -> None:
        """Refuse a request on offsets that lists too many topics or partitions, as a whole.

        Raises:
            CallFailedError: RESOURCE_EXHAUSTED; more than ``requested_partitions``.
        """
        most = self.limits.requested_partitions
        _check_listed(sum(map(len, lists)), "topics", most)
        count = sum(len(topic.partitions) for topics in lists for topic in topics)
        _check_listed(count, "partitions", most)

    # ---- following the view ---------------------------------------------------------------------

    def _changed(self) -> None:
        self.settings = settings_from(self.view.cluster_configs())
        before = self.catalog
        if self._read_topics():
            for callback in self._on_topics:
                callback(before, self.catalog)

    def _read_topics(self) -> bool:
        topics = self.view.topics()
        if topics == self._topics:
            return False
        self._topics = topics
        catalog = TopicsImage(
            TopicImage(info.name, info.topic_id, info.partitions) for info in topics
        )
        if catalog.topics == self.catalog.topics:
            return False  # only settings of topics changed
        self.catalog = catalog
        return True


def _check_listed(count: int, what: str, most: int) -> None:
    if count > most:
        raise CallFailedError(
            Failure.RESOURCE_EXHAUSTED, f"{count} {what} in one request; ask for at most {most}"
        )
