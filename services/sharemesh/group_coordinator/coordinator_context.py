"""What the service knows of the cluster: topics, settings, bounds, time, and permissions."""

import logging
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Protocol

from sharemesh.authorization.access import Access
from sharemesh.domain.errors import BoundReachedError, ErrorCode, RefusedError
from sharemesh.domain.group_config import GroupConfig
from sharemesh.domain.group_config.cluster_definitions import (
    INITIALIZE_RETRY_INTERVAL,
    JOIN_WAIT_LIMIT,
    MAX_GROUPS,
    MAX_SIZE,
    STREAM_LINGER,
)
from sharemesh.domain.group_config.evaluate import cluster_int, cluster_value
from sharemesh.domain.ids import GroupId, NodeId
from sharemesh.domain.share_group.assignor import AssignorMode
from sharemesh.domain.share_group.context import GroupContext, TopicImage, TopicsImage
from sharemesh.ports.authorizer import Authorizer, Operation
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView, TopicInfo
from sharemesh.ports.network import CallFailedError, Failure
from sharemesh.v1.group_coordinator_pb2 import ShareGroupHeartbeatResponse

_log = logging.getLogger("sharemesh.group_coordinator")


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of the cluster in force now; times in ms."""

    max_size: int
    max_groups: int
    initialize_retry_interval_ms: int
    stream_linger_ms: int
    join_wait_limit_ms: int
    mode: AssignorMode


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Bounds of the service itself."""

    reviews_at_once: int = 64  # groups reviewed concurrently: changes of topics, one request
    unknown_topic_grace_ms: int = 60_000  # until a topic never seen by this process counts as gone
    deleted_topics_wait: bool = False  # a deleted topic has that grace too
    compact_interval_ms: int = 60_000
    compact_min_records: int = 10_000  # a shorter log is never rewritten
    compact_factor: int = 4  # rewritten once the log holds this many times what is live
    requested_groups: int = 1_000  # of one describe or delete request; more are refused
    requested_partitions: int = 100_000  # of one request on offsets; more are refused
    look_interval_ms: int = 50  # heartbeats that change nothing share one check of the log
    push_timeout_ms: int = 10_000  # for one message to a slow stream


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
        count_groups: Callable[[], int],
        exceeded: Callable[[str], str],
    ) -> None:
        """``count_groups`` returns how many groups this coordinator serves now.

        ``exceeded`` returns why a principal may make no more of them; empty: it may.
        """
        self._exceeded = exceeded
        self.node_id = node_id
        self.clock = clock
        self.view = view
        self.limits = limits
        self.access = Access(authorizer)
        self._authorizer = authorizer
        self._count_groups = count_groups
        self._said_full = False
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

    def group_context(self, group_id: GroupId, epoch_floor: int) -> GroupContext:
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
        if not answer.HasField("assignment"):
            return
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

    def check_room_for_group(self, principal: str) -> None:
        """Refuse a group that would be one too many; those that exist are served on (BND-23).

        Raises:
            RefusedError: INVALID_REQUEST; of all, or of this principal by its quota (QUO-12).
        """
        exceeded = self._exceeded(principal)
        if exceeded:
            raise BoundReachedError(ErrorCode.INVALID_REQUEST, exceeded)
        count, most = self._count_groups(), self.settings.max_groups
        if count < most:
            self._said_full = False
            return
        words = (
            f"this coordinator has {count} groups, the most is {most} ({MAX_GROUPS}); delete "
            "groups that are not needed, add a coordinator, or raise the setting"
        )
        if not self._said_full:
            self._said_full = True
            _log.warning("new groups are refused: %s", words)
        raise BoundReachedError(ErrorCode.INVALID_REQUEST, words)

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


def settings_from(cluster: Mapping[str, str]) -> GroupSettings:
    """Return the settings that these entries of the cluster amount to."""
    return GroupSettings(
        max_size=cluster_int(cluster, MAX_SIZE),
        max_groups=cluster_int(cluster, MAX_GROUPS),
        initialize_retry_interval_ms=cluster_int(cluster, INITIALIZE_RETRY_INTERVAL),
        stream_linger_ms=cluster_int(cluster, STREAM_LINGER),
        join_wait_limit_ms=cluster_int(cluster, JOIN_WAIT_LIMIT),
        mode=AssignorMode(cluster_value(cluster, "group.share.assignors")),
    )


def _check_listed(count: int, what: str, most: int) -> None:
    if count > most:
        raise CallFailedError(
            Failure.RESOURCE_EXHAUSTED, f"{count} {what} in one request; ask for at most {most}"
        )
