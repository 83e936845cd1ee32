"""Topics, their records and configs, as an administrator sees them."""

from collections.abc import Mapping, Sequence

from sharemesh import methods
from sharemesh.client.admin.codec import (
    Problem,
    caught,
    check,
    config_resource,
    configs_of,
    raise_problem,
    topic_codes,
    topic_of,
    topic_problems,
)
from sharemesh.client.admin.router import AdminConnection
from sharemesh.client.admin_results import (
    ConfigValue,
    LogOffset,
    NewTopic,
    TopicDescription,
    TopicPartition,
)
from sharemesh.client.errors import SharemeshError, optional_error
from sharemesh.v1 import admin_pb2, record_log_pb2


class TopicAdministration(AdminConnection):
    """Creates, describes and changes topics; reads and cuts their logs."""

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
