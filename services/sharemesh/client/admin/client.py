"""AdminClient: topics, groups, offsets, configs and the cluster, for threads."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from sharemesh.client.acls import AclBinding, AclBindingFilter
from sharemesh.client.admin.async_client import AsyncAdminClient
from sharemesh.client.admin.codec import Problem
from sharemesh.client.admin_results import (
    ClusterDescription,
    ConfigValue,
    Explanation,
    GroupDescription,
    GroupListing,
    GroupOffset,
    LogOffset,
    NewTopic,
    TopicDescription,
    TopicPartition,
)
from sharemesh.client.background_loop import BackgroundLoop
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.errors import SharemeshError
from sharemesh.domain.state_batch import StateBatch


class AdminClient:
    """Administers a cluster, from any thread.

    Arguments, results and errors are those of ``AsyncAdminClient``.
    """

    def __init__(
        self, config: Mapping[str, Any], *, environment: ClientEnvironment | None = None
    ) -> None:
        self._admin = AsyncAdminClient(config, environment=environment)
        self._loop = BackgroundLoop("sharemesh-admin")

    def close(self) -> None:
        """Close the connections. Repeating it is fine."""
        if self._loop.is_open:
            self._loop.run(self._admin.close())
            self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, Problem]:
        """Create topics; with ``validate_only`` check only."""
        return self._loop.run(self._admin.create_topics(topics, validate_only=validate_only))

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create one topic."""
        return self._loop.run(self._admin.create_topic(name, partitions, configs))

    def delete_topics(self, names: Sequence[str]) -> dict[str, Problem]:
        """Delete topics with their records."""
        return self._loop.run(self._admin.delete_topics(names))

    def add_partitions(self, name: str, total: int) -> None:
        """Raise the number of partitions of a topic to ``total``."""
        return self._loop.run(self._admin.add_partitions(name, total))

    def list_topics(self) -> list[str]:
        """Return the names of all topics, sorted."""
        return self._loop.run(self._admin.list_topics())

    def describe_topics(
        self, names: Sequence[str] | None = None
    ) -> dict[str, TopicDescription | SharemeshError]:
        """Return descriptions by name; None: of all topics."""
        return self._loop.run(self._admin.describe_topics(names))

    def describe_cluster(self, *, partitions: bool = False) -> ClusterDescription:
        """Return processes, shards, moves and partitions without a leader; or all partitions."""
        return self._loop.run(self._admin.describe_cluster(partitions=partitions))

    def drain_node(self, node_id: str) -> None:
        """Let a process begin to hand over all it leads; it serves again after a restart.

        Raises:
            IllegalArgumentError: There is no such process.
            ServiceError: It was refused.
        """
        self._loop.run(self._admin.drain_node(node_id))

    def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ("share",)
    ) -> list[GroupListing]:
        """Return the groups in these states (none: all), sorted by id."""
        return self._loop.run(self._admin.list_groups(states=states, types=types))

    def describe_groups(
        self, group_ids: Sequence[str]
    ) -> dict[str, GroupDescription | SharemeshError]:
        """Return descriptions by group id."""
        return self._loop.run(self._admin.describe_groups(group_ids))

    def delete_groups(self, group_ids: Sequence[str]) -> dict[str, Problem]:
        """Delete empty groups with their offsets."""
        return self._loop.run(self._admin.delete_groups(group_ids))

    def list_share_group_offsets(
        self, group_id: str, topics: Sequence[str] | None = None
    ) -> dict[TopicPartition, GroupOffset | SharemeshError]:
        """Return where a group stands; partitions it never started are left out (spec ADM-1)."""
        return self._loop.run(self._admin.list_share_group_offsets(group_id, topics))

    def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Problem]:
        """Set start offsets of an empty group; a group that does not exist is made (GC-42)."""
        return self._loop.run(self._admin.alter_share_group_offsets(group_id, offsets))

    def import_delivery_states(
        self,
        group_id: str,
        where: TopicPartition,
        *,
        start_offset: int,
        batches: Sequence[StateBatch],
    ) -> None:
        """Let an empty group go on in a partition as if it had these delivery states (spec OLD).

        Raises:
            NonEmptyGroupError: The group has members.
        """
        self._loop.run(
            self._admin.import_delivery_states(
                group_id,
                where,
                start_offset=start_offset,
                batches=batches,
            )
        )

    def delete_share_group_offsets(
        self, group_id: str, topics: Sequence[str]
    ) -> dict[str, Problem]:
        """Forget where an empty group stands in topics."""
        return self._loop.run(self._admin.delete_share_group_offsets(group_id, topics))

    def describe_group_configs(self, group_id: str) -> list[ConfigValue]:
        """Return the configs of a group with their sources."""
        return self._loop.run(self._admin.describe_group_configs(group_id))

    def alter_group_configs(
        self, group_id: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set configs of a group; None: back to the default."""
        return self._loop.run(
            self._admin.alter_group_configs(group_id, changes, validate_only=validate_only)
        )

    def describe_configs(self, topic: str | None = None) -> list[ConfigValue]:
        """Return the configs of a topic, or of the cluster."""
        return self._loop.run(self._admin.describe_configs(topic))

    def alter_configs(
        self,
        changes: Mapping[str, str | None],
        topic: str | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Set configs of a topic, or of the cluster; None: back to the default."""
        return self._loop.run(
            self._admin.alter_configs(changes, topic, validate_only=validate_only)
        )

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, LogOffset | SharemeshError]:
        """Return offsets by time in ms, or EARLIEST, LATEST, LAST_STABLE."""
        return self._loop.run(self._admin.list_offsets(wanted))

    def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | SharemeshError]:
        """Delete records below an offset (-1: all); return the new log start offsets."""
        return self._loop.run(self._admin.delete_records(before))

    def explain(self, group_id: str, topic: str, partition: int, offset: int) -> Explanation:
        """Return why a record is, or is not, being delivered to a group."""
        return self._loop.run(self._admin.explain(group_id, topic, partition, offset))

    def create_acls(self, bindings: Sequence[AclBinding]) -> dict[AclBinding, Problem]:
        """Add access rules; those that are there already stay."""
        return self._loop.run(self._admin.create_acls(bindings))

    def delete_acls(self, wanted: AclBindingFilter) -> list[AclBinding]:
        """Remove the access rules that fit and return them."""
        return self._loop.run(self._admin.delete_acls(wanted))

    def describe_acls(self, wanted: AclBindingFilter | None = None) -> list[AclBinding]:
        """Return the access rules that fit; None: all."""
        return self._loop.run(self._admin.describe_acls(wanted))
