"""AsyncAdminClient: topics, groups, offsets, configs and the cluster, for asyncio."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from sharemesh import methods
from sharemesh.client.admin.async_acls import AsyncAcls
from sharemesh.client.admin.async_nodes import AsyncNodes
from sharemesh.client.admin.async_states import AsyncStates
from sharemesh.client.admin.codec import (
    Problem,
    caught,
    check,
    cluster_of,
    config_resource,
    configs_of,
    explanation_of,
    group_of,
    group_offset_of,
    group_states,
    offset_partitions,
    raise_problem,
    topic_codes,
    topic_of,
    topic_problems,
)
from sharemesh.client.admin.router import AdminRouter
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
from sharemesh.client.config import admin_config
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.errors import GroupIdNotFoundError, SharemeshError, error_for, optional_error
from sharemesh.client.grpc_environment import real_environment
from sharemesh.domain.errors import ErrorCode
from sharemesh.v1 import admin_pb2, group_coordinator_pb2, record_log_pb2
from sharemesh.v1.share_leader_pb2 import ExplainRequest

EARLIEST = -2
LATEST = -1
LAST_STABLE = -4
"""Timestamps of ``list_offsets`` with a meaning of their own."""

_G = group_coordinator_pb2


class AsyncAdminClient(AsyncAcls, AsyncNodes, AsyncStates):
    """Administers a cluster.

    Calls about several things return a result or an error for each of them; calls about one thing
    raise. Every call ends after ``default.api.timeout.ms``.

    Args:
        config: Kafka's names; ``bootstrap.servers`` is needed.
        environment: The ports; none: real connections, see ``connect``.

    Raises:
        ConfigError: A name or value is not allowed.
    """

    def __init__(
        self, config: Mapping[str, Any], *, environment: ClientEnvironment | None = None
    ) -> None:
        self._config = admin_config(config)
        environment = environment or real_environment(self._config)
        self._environment = environment
        self._made: AdminRouter | None = None

    @property
    def _calls(self) -> AdminRouter:
        if self._made is None:
            self._made = AdminRouter(self._config, self._environment)
        return self._made

    async def close(self) -> None:
        """Close the connections."""
        if self._made is not None:
            await self._made.close()
            self._made = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # ---- topics ---------------------------------------------------------------------------------

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, Problem]:
        """Create topics; with ``validate_only`` check only."""
        response = await self._calls.controller(
            methods.CREATE_TOPICS,
            admin_pb2.CreateTopicsRequest(
                topics=[
                    admin_pb2.NewTopic(
                        name=each.name, partitions=each.partitions, configs=dict(each.configs)
                    )
                    for each in topics
                ],
                validate_only=validate_only,
            ),
            topic_codes,
        )
        return topic_problems(response.topics)

    async def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create one topic.

        Raises:
            TopicAlreadyExistsError: It exists.
            ServiceError: It was refused for another reason.
        """
        raise_problem(
            (await self.create_topics([NewTopic(name, partitions, configs or {})])).get(name)
        )

    async def delete_topics(self, names: Sequence[str]) -> dict[str, Problem]:
        """Delete topics with their records."""
        response = await self._calls.controller(
            methods.DELETE_TOPICS, admin_pb2.DeleteTopicsRequest(names=names), topic_codes
        )
        return topic_problems(response.topics)

    async def add_partitions(self, name: str, total: int) -> None:
        """Raise the number of partitions of a topic to ``total``.

        Raises:
            InvalidPartitionsError: It has as many or more.
            UnknownTopicOrPartitionError: There is no such topic.
        """
        response = await self._calls.controller(
            methods.CREATE_PARTITIONS,
            admin_pb2.CreatePartitionsRequest(
                topics=[admin_pb2.NewPartitions(name=name, total=total)]
            ),
            topic_codes,
        )
        raise_problem(topic_problems(response.topics).get(name))

    async def list_topics(self) -> list[str]:
        """Return the names of all topics, sorted."""
        response = await self._calls.any(methods.METADATA, admin_pb2.MetadataRequest())
        return sorted(topic.name for topic in response.topics)

    async def describe_topics(
        self, names: Sequence[str] | None = None
    ) -> dict[str, TopicDescription | SharemeshError]:
        """Return descriptions by name; None: of all topics."""
        if names is not None and not names:
            return {}
        response = await self._calls.any(
            methods.DESCRIBE_TOPICS, admin_pb2.DescribeTopicsRequest(names=names or ())
        )
        return {
            each.name: optional_error(
                each.error_code, each.error_message, about=f"topic {each.name}"
            )
            or topic_of(each)
            for each in response.topics
        }

    async def describe_cluster(self, *, partitions: bool = False) -> ClusterDescription:
        """Return processes, shards, moves and partitions without a leader; or all partitions."""
        request = admin_pb2.DescribeClusterRequest(partitions=partitions)
        return cluster_of(await self._calls.any(methods.DESCRIBE_CLUSTER, request))

    # ---- groups ---------------------------------------------------------------------------------

    async def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ("share",)
    ) -> list[GroupListing]:
        """Return the groups in these states (none: all), sorted by id.

        Raises:
            IllegalArgumentError: A state is not one of Empty, Stable, Dead (spec ADM-2).
        """
        request = _G.ListGroupsRequest(states_filter=group_states(states), types_filter=types)
        found: dict[str, GroupListing] = {}
        for answer in await self._calls.every_coordinator(methods.LIST_GROUPS, request):
            if answer.error_code not in (
                ErrorCode.NONE,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ):
                raise error_for(answer.error_code, answer.error_message)
            for each in answer.groups:
                found[each.group_id] = GroupListing(
                    each.group_id, each.group_type, each.group_state
                )
        return [found[group_id] for group_id in sorted(found)]

    async def describe_groups(
        self, group_ids: Sequence[str]
    ) -> dict[str, GroupDescription | SharemeshError]:
        """Return descriptions by group id."""

        async def one(group_id: str) -> GroupDescription:
            response = await self._calls.group(
                group_id,
                methods.SHARE_GROUP_DESCRIBE,
                _G.ShareGroupDescribeRequest(group_ids=[group_id]),
                lambda answer: answer.groups[0].error_code if answer.groups else 0,
            )
            if not response.groups:
                raise error_for(ErrorCode.GROUP_ID_NOT_FOUND, about=f"group {group_id}")
            found = response.groups[0]
            check(found.error_code, found.error_message, f"group {group_id}")
            return group_of(found)

        return {group_id: await caught(one, group_id) for group_id in group_ids}

    async def delete_groups(self, group_ids: Sequence[str]) -> dict[str, Problem]:
        """Delete empty groups with their offsets."""

        async def one(group_id: str) -> None:
            response = await self._calls.group(
                group_id,
                methods.DELETE_GROUPS,
                _G.DeleteGroupsRequest(group_ids=[group_id]),
                lambda answer: answer.results[0].error_code if answer.results else 0,
            )
            for each in response.results:
                check(each.error_code, each.error_message, f"group {group_id}")

        return {group_id: await caught(one, group_id) for group_id in group_ids}

    # ---- offsets of groups ----------------------------------------------------------------------

    async def list_share_group_offsets(
        self, group_id: str, topics: Sequence[str] | None = None
    ) -> dict[TopicPartition, GroupOffset | SharemeshError]:
        """Return where a group stands; partitions it never started are left out (spec ADM-1).

        ``topics`` None: all topics of the group.

        Raises:
            ServiceError: The group may not be described.
        """
        asked = _G.DescribeShareGroupOffsetsGroup(group_id=group_id)
        if topics is not None:
            numbers = await self._partitions(topics)
            asked.topics.CopyFrom(
                _G.OffsetTopics(
                    topics=[
                        _G.OffsetTopicRequest(topic_name=name, partitions=range(count))
                        for name, count in numbers.items()
                    ]
                )
            )
        response = await self._calls.group(
            group_id,
            methods.DESCRIBE_SHARE_GROUP_OFFSETS,
            _G.DescribeShareGroupOffsetsRequest(groups=[asked]),
            lambda answer: answer.groups[0].error_code if answer.groups else 0,
        )
        found: dict[TopicPartition, GroupOffset | SharemeshError] = {}
        for group in response.groups:
            check(group.error_code, group.error_message, f"group {group_id}")
            for topic, each in offset_partitions(group.topics):
                where = TopicPartition(topic.topic_name, each.partition)
                code = each.error_code or topic.error_code
                if code != ErrorCode.NONE:
                    text = each.error_message or topic.error_message
                    found[where] = error_for(code, text, about=str(where))
                elif each.start_offset >= 0:
                    found[where] = group_offset_of(each)
        return found

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Problem]:
        """Set start offsets of an empty group; a group that does not exist is made (GC-42).

        Raises:
            NonEmptyGroupError: The group has members.
        """
        topics: dict[str, _G.AlterOffsetTopic] = {}
        for where, offset in offsets.items():
            topic = topics.setdefault(where.topic, _G.AlterOffsetTopic(topic_name=where.topic))
            topic.partitions.add(partition=where.partition, start_offset=offset)
        response = await self._calls.group(
            group_id,
            methods.ALTER_SHARE_GROUP_OFFSETS,
            _G.AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics.values()),
            lambda answer: answer.error_code,
        )
        check(response.error_code, response.error_message, f"group {group_id}")
        return {
            TopicPartition(topic.topic_name, each.partition): optional_error(
                each.error_code or topic.error_code,
                each.error_message or topic.error_message,
                about=f"{topic.topic_name}/{each.partition}",
            )
            for topic, each in offset_partitions(response.topics)
        }

    async def delete_share_group_offsets(
        self, group_id: str, topics: Sequence[str]
    ) -> dict[str, Problem]:
        """Forget where an empty group stands in topics.

        Raises:
            NonEmptyGroupError: The group has members.
            GroupIdNotFoundError: There is no such group.
        """
        response = await self._calls.group(
            group_id,
            methods.DELETE_SHARE_GROUP_OFFSETS,
            _G.DeleteShareGroupOffsetsRequest(group_id=group_id, topic_names=topics),
            lambda answer: answer.error_code,
        )
        check(response.error_code, response.error_message, f"group {group_id}")
        return {
            each.topic_name: optional_error(
                each.error_code, each.error_message, about=f"topic {each.topic_name}"
            )
            for each in response.topics
        }

    # ---- configs --------------------------------------------------------------------------------

    async def describe_group_configs(self, group_id: str) -> list[ConfigValue]:
        """Return the configs of a group with their sources.

        Raises:
            ServiceError: It may not be described.
        """
        response = await self._calls.group(
            group_id,
            methods.DESCRIBE_GROUP_CONFIGS,
            _G.DescribeGroupConfigsRequest(group_ids=[group_id]),
            lambda answer: answer.results[0].error_code if answer.results else 0,
        )
        for each in response.results:
            check(each.error_code, each.error_message, f"group {group_id}")
            return configs_of(each.configs)
        return []

    async def alter_group_configs(
        self, group_id: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set configs of a group; None: back to the default.

        Raises:
            InvalidConfigError: A name or value is not allowed; nothing was changed.
        """
        response = await self._calls.group(
            group_id,
            methods.ALTER_GROUP_CONFIGS,
            _G.AlterGroupConfigsRequest(
                group_id=group_id,
                configs=[_G.AlterGroupConfig(name=n, value=v) for n, v in changes.items()],
                validate_only=validate_only,
            ),
            lambda answer: answer.error_code,
        )
        check(response.error_code, response.error_message, f"group {group_id}")

    async def describe_configs(self, topic: str | None = None) -> list[ConfigValue]:
        """Return the configs of a topic, or of the cluster.

        Raises:
            ServiceError: It may not be described.
        """
        resource, about = config_resource(topic)
        response = await self._calls.any(
            methods.DESCRIBE_CONFIGS, admin_pb2.DescribeConfigsRequest(resources=[resource])
        )
        for each in response.results:
            check(each.error_code, each.error_message, about)
            return configs_of(each.configs)
        return []

    async def alter_configs(
        self,
        changes: Mapping[str, str | None],
        topic: str | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Set configs of a topic, or of the cluster; None: back to the default.

        Raises:
            InvalidConfigError: A name or value is not allowed; nothing was changed.
        """
        resource, about = config_resource(topic)
        response = await self._calls.controller(
            methods.ALTER_CONFIGS,
            admin_pb2.AlterConfigsRequest(
                resource=resource,
                configs=[admin_pb2.AlterConfig(name=n, value=v) for n, v in changes.items()],
                validate_only=validate_only,
            ),
            lambda answer: (answer.error_code,),
        )
        check(response.error_code, response.error_message, about)

    # ---- records --------------------------------------------------------------------------------

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, LogOffset | SharemeshError]:
        """Return offsets by time in ms, or EARLIEST, LATEST, LAST_STABLE."""

        async def one(where: TopicPartition) -> LogOffset:
            response = await self._calls.leader(
                where,
                methods.LIST_OFFSETS,
                lambda topic_id: record_log_pb2.ListOffsetsRequest(
                    partitions=[
                        record_log_pb2.ListOffsetsPartition(
                            topic_id=topic_id, partition=where.partition, timestamp=wanted[where]
                        )
                    ]
                ),
                lambda answer: answer.partitions[0].error_code,
            )
            found = response.partitions[0]
            check(found.error_code, found.error_message, str(where))
            return LogOffset(found.offset, found.timestamp, found.leader_epoch)

        return {where: await caught(one, where) for where in wanted}

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | SharemeshError]:
        """Delete records below an offset (-1: all); return the new log start offsets."""

        async def one(where: TopicPartition) -> int:
            response = await self._calls.leader(
                where,
                methods.DELETE_RECORDS,
                lambda topic_id: record_log_pb2.DeleteRecordsRequest(
                    partitions=[
                        record_log_pb2.DeleteRecordsPartition(
                            topic_id=topic_id, partition=where.partition, offset=before[where]
                        )
                    ]
                ),
                lambda answer: answer.partitions[0].error_code,
            )
            found = response.partitions[0]
            check(found.error_code, found.error_message, str(where))
            return int(found.low_watermark)

        return {where: await caught(one, where) for where in before}

    async def explain(self, group_id: str, topic: str, partition: int, offset: int) -> Explanation:
        """Return why a record is, or is not, being delivered to a group, and what became of it.

        Raises:
            GroupIdNotFoundError: Nothing is known of the group.
            ServiceError: The topic or partition is not known.
        """
        found = await self._calls.leader(
            TopicPartition(topic, partition),
            methods.EXPLAIN,
            lambda _: ExplainRequest(
                group_id=group_id, topic_name=topic, partition=partition, offset=offset
            ),
            lambda answer: answer.error_code,
        )
        check(found.error_code, found.error_message, f"{topic}/{partition}@{offset}")
        if not found.HasField("start_offset"):  # the answer is about the log alone
            described = (await self.describe_groups([group_id]))[group_id]
            if isinstance(described, GroupIdNotFoundError):
                raise described
        return explanation_of(found)

    async def _partitions(self, topics: Sequence[str]) -> dict[str, int]:
        await self._calls.leaders.refresh(topics, timeout_ms=methods.METADATA.deadline_ms)
        found = {name: self._calls.leaders.topic(name) for name in topics}
        return {name: topic.partitions if topic else 0 for name, topic in found.items()}
