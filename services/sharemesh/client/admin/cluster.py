"""Topics, configs, processes, access rules, quotas of a cluster, as an administrator sees them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sharemesh import methods
from sharemesh.client.acls import (
    AclBinding,
    AclBindingFilter,
    binding_of,
    filter_message,
    rule_message,
)
from sharemesh.client.admin.codec import (
    Problem,
    caught,
    check,
    cluster_of,
    config_resource,
    configs_of,
    raise_problem,
    topic_of,
)
from sharemesh.client.admin.router import AdminConnection
from sharemesh.client.admin.setting_texts import changed_texts, setting_text
from sharemesh.client.admin_results import (
    AcceptedLoss,
    ClusterDescription,
    ConfigValue,
    LogOffset,
    NewTopic,
    TopicDescription,
    TopicPartition,
    TransactionListing,
)
from sharemesh.client.errors import IllegalArgumentError, SharemeshError, optional_error
from sharemesh.client.quotas import (
    EntityType,
    QuotaChanges,
    QuotaEntity,
    alteration_of,
    entity_of,
    filters_of,
    words_of,
)
from sharemesh.methods import Method, Request, Response
from sharemesh.v1 import admin_pb2, record_log_pb2

_PRODUCER_EPOCH_MAX = 32_767
_QUOTA_ENTRIES_MAX = 100  # of one request
_RULES_MAX = 50  # of one request: each is a commit of its own


class TopicAdministration(AdminConnection):
    """Creates, describes and changes topics; reads and cuts their logs."""

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, Problem]:
        """Create topics; with ``validate_only`` check only.

        Raises:
            IllegalArgumentError: A config is not text, True or False, or a whole number.
        """
        return await self._change_topics(
            methods.CREATE_TOPICS,
            admin_pb2.CreateTopicsRequest(
                topics=[
                    admin_pb2.NewTopic(
                        name=each.name,
                        partitions=each.partitions,
                        configs={n: setting_text(n, v) for n, v in each.configs.items()},
                    )
                    for each in topics
                ],
                validate_only=validate_only,
            ),
        )

    async def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str | int] | None = None
    ) -> None:
        """Create one topic.

        Raises:
            IllegalArgumentError: A config is not text, True or False, or a whole number.
            TopicAlreadyExistsError: It exists.
            ServiceError: It was refused for another reason.
        """
        raise_problem(
            (await self.create_topics([NewTopic(name, partitions, configs or {})])).get(name)
        )

    async def delete_topics(self, names: Sequence[str]) -> dict[str, Problem]:
        """Delete topics with their records."""
        request = admin_pb2.DeleteTopicsRequest(names=names)
        return await self._change_topics(methods.DELETE_TOPICS, request)

    async def attach_topics(self, names: Sequence[str]) -> dict[str, Problem]:
        """Attach topics of the Kafka cluster that keeps the records; nothing is changed there."""
        request = admin_pb2.AttachTopicsRequest(names=names)
        return await self._change_topics(methods.ATTACH_TOPICS, request)

    async def detach_topics(self, names: Sequence[str]) -> dict[str, Problem]:
        """Detach topics of the Kafka cluster; groups' states of them go after a grace."""
        request = admin_pb2.DetachTopicsRequest(names=names)
        return await self._change_topics(methods.DETACH_TOPICS, request)

    async def add_partitions(self, name: str, total: int) -> None:
        """Raise the number of partitions of a topic to ``total``.

        Raises:
            InvalidPartitionsError: It has as many or more.
            UnknownTopicOrPartitionError: There is no such topic.
        """
        request = admin_pb2.CreatePartitionsRequest(
            topics=[admin_pb2.NewPartitions(name=name, total=total)]
        )
        raise_problem((await self._change_topics(methods.CREATE_PARTITIONS, request)).get(name))

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
        changes: Mapping[str, str | int | None],
        topic: str | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Set configs of a topic, or of the cluster; None: back to the default.

        Values are text, True or False, or whole numbers.

        Raises:
            IllegalArgumentError: A value is nothing of these.
            InvalidConfigError: A name or value is not allowed; nothing was changed.
        """
        resource, about = config_resource(topic)
        response = await self._calls.controller(
            methods.ALTER_CONFIGS,
            admin_pb2.AlterConfigsRequest(
                resource=resource,
                configs=[
                    admin_pb2.AlterConfig(name=n, value=v)
                    for n, v in changed_texts(changes).items()
                ],
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
            found = await self._at_leader(where, methods.LIST_OFFSETS, timestamp=wanted[where])
            return LogOffset(found.offset, found.timestamp, found.leader_epoch)

        return {where: await caught(one, where) for where in wanted}

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | SharemeshError]:
        """Delete records below an offset (-1: all); return the new log start offsets."""

        async def one(where: TopicPartition) -> int:
            found = await self._at_leader(where, methods.DELETE_RECORDS, offset=before[where])
            return int(found.low_watermark)

        return {where: await caught(one, where) for where in before}

    async def list_transactions(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[TransactionListing] | SharemeshError]:
        """Return the open transactions of partitions, the one that began first in front."""

        async def one(where: TopicPartition) -> list[TransactionListing]:
            found = await self._at_leader(where, methods.DESCRIBE_PRODUCERS)
            return [
                TransactionListing(
                    each.producer_id,
                    each.producer_epoch,
                    each.current_txn_start_offset,
                    each.open_ms,
                )
                for each in found.active_producers
            ]

        return {where: await caught(one, where) for where in partitions}

    async def abort_transaction(
        self, where: TopicPartition, transaction: TransactionListing
    ) -> None:
        """Abort an open transaction; batches of it that come late are refused.

        Raises:
            ServiceError: It was refused; INVALID_PRODUCER_EPOCH if the producer went on meanwhile.
        """
        epoch = min(transaction.producer_epoch + 1, _PRODUCER_EPOCH_MAX)

        def marker(topic_id: bytes) -> record_log_pb2.WriteTxnMarkersRequest:
            return record_log_pb2.WriteTxnMarkersRequest(
                markers=[
                    record_log_pb2.TxnMarker(
                        producer_id=transaction.producer_id,
                        producer_epoch=epoch,
                        topic_id=topic_id,
                        partition=where.partition,
                    )
                ]
            )

        response = await self._calls.leader(
            where, methods.WRITE_TXN_MARKERS, marker, lambda answer: answer.results[0].error_code
        )
        [result] = response.results
        check(result.error_code, result.error_message, str(where))

    async def _at_leader(
        self, where: TopicPartition, method: Method[Request, Response], **fields: int
    ) -> Any:  # noqa: ANN401 - several results, which have the fields of an error in common
        """Return what the leader answers for its partition, asked with these further fields."""

        def make(topic_id: bytes) -> Request:
            request = method.request()
            partitions: Any = request.partitions  # type: ignore[attr-defined]
            partitions.add(topic_id=topic_id, partition=where.partition, **fields)
            return request

        response: Any = await self._calls.leader(where, method, make, _code_of_partition)
        found = response.partitions[0]
        check(found.error_code, found.error_message, str(where))
        return found

    async def _change_topics(
        self, method: Method[Request, Response], request: Request
    ) -> dict[str, Problem]:
        """Return the error of each topic, or None."""
        response: Any = await self._calls.controller(method, request, _codes_of_topics)
        return {
            each.name: optional_error(
                each.error_code, each.error_message, about=f"topic {each.name}"
            )
            for each in response.topics
        }


class ClusterAdministration(AdminConnection):
    """Describes the cluster, drains processes, and keeps access rules."""

    async def describe_cluster(self, *, partitions: bool = False) -> ClusterDescription:
        """Return processes, shards, moves and partitions without a leader; or all partitions."""
        request = admin_pb2.DescribeClusterRequest(partitions=partitions)
        return cluster_of(await self._calls.any(methods.DESCRIBE_CLUSTER, request))

    async def drain_node(self, node_id: str) -> None:
        """Make a process hand over all that it leads; ``describe_cluster`` shows what is left.

        The process keeps running without leading anything, and leads again after a restart.

        Raises:
            IllegalArgumentError: There is no such process.
            ServiceError: It was refused.
            ConnectionFailedError: The process did not answer.
        """
        found = await self._calls.any(methods.DESCRIBE_CLUSTER, admin_pb2.DescribeClusterRequest())
        nodes = {each.node.node_id: each.node for each in found.members}
        node = nodes.get(node_id)
        if node is None:
            known = ", ".join(sorted(nodes)) or "none"
            raise IllegalArgumentError(f"no node {node_id!r} in the cluster; there are: {known}")
        response = await self._calls.at(
            f"{node.host}:{node.port}",
            methods.DRAIN_NODE,
            admin_pb2.DrainNodeRequest(node_id=node_id),
        )
        check(response.error_code, response.error_message, about=f"node {node_id}")

    async def accept_loss(self, shard: str) -> AcceptedLoss:
        """Give up what the Kafka cluster lost of a coordinator shard's log, and return it.

        ``describe_cluster`` says which shards are not served because of a loss.

        Raises:
            InvalidRequestError: No loss of this shard is known.
            ServiceError: It was refused for another reason.
        """
        response = await self._calls.any(
            methods.ACCEPT_LOSS, admin_pb2.AcceptLossRequest(shard=shard)
        )
        check(response.error_code, response.error_message, about=f"shard {shard}")
        return AcceptedLoss(shard, response.confirmed, response.left)

    async def create_acls(self, bindings: Sequence[AclBinding]) -> dict[AclBinding, Problem]:
        """Add access rules; those that are there already stay."""
        problems: dict[AclBinding, Problem] = {}
        for first in range(0, len(bindings), _RULES_MAX):
            some = bindings[first : first + _RULES_MAX]
            response = await self._calls.any(
                methods.CREATE_ACLS,
                admin_pb2.CreateAclsRequest(rules=[rule_message(each) for each in some]),
            )
            for each, found in zip(some, response.results, strict=True):
                problems[each] = optional_error(
                    found.error_code, found.error_message, about=each.principal
                )
        return problems

    async def delete_acls(
        self, wanted: AclBindingFilter | Sequence[AclBindingFilter]
    ) -> list[AclBinding]:
        """Remove the access rules that fit, one of several filters, and return them.

        Raises:
            ServiceError: It was refused; what went before is removed.
        """
        filters = [wanted] if isinstance(wanted, AclBindingFilter) else wanted
        removed = []
        for first in range(0, len(filters), _RULES_MAX):
            some = [filter_message(each) for each in filters[first : first + _RULES_MAX]]
            response = await self._calls.any(
                methods.DELETE_ACLS, admin_pb2.DeleteAclsRequest(filters=some)
            )
            for found in response.results:
                check(found.error_code, found.error_message, "access rules")
                removed += [binding_of(each) for each in found.rules]
        return removed

    async def describe_acls(self, wanted: AclBindingFilter | None = None) -> list[AclBinding]:
        """Return the access rules that fit; None: all.

        Raises:
            ServiceError: It was refused.
        """
        response = await self._calls.any(
            methods.DESCRIBE_ACLS,
            admin_pb2.DescribeAclsRequest(filter=filter_message(wanted or AclBindingFilter())),
        )
        check(response.error_code, response.error_message, "access rules")
        return [binding_of(each) for each in response.rules]

    async def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, QuotaChanges], *, validate_only: bool = False
    ) -> dict[QuotaEntity, Problem]:
        """Set quotas by name, or remove them (None); those of an entity all together or none.

        With ``validate_only`` they are checked only.
        """
        entities = list(changes)
        problems: dict[QuotaEntity, Problem] = {}
        for first in range(0, len(entities), _QUOTA_ENTRIES_MAX):
            some = entities[first : first + _QUOTA_ENTRIES_MAX]
            response = await self._calls.any(
                methods.ALTER_CLIENT_QUOTAS,
                admin_pb2.AlterClientQuotasRequest(
                    entries=[alteration_of(each, changes[each]) for each in some],
                    validate_only=validate_only,
                ),
            )
            for each, found in zip(some, response.results, strict=True):
                problems[each] = optional_error(
                    found.error_code, found.error_message, about=words_of(each)
                )
        return problems

    async def describe_client_quotas(
        self, entity: QuotaEntity | None = None, *, entity_type: EntityType | None = None
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return stored quotas by entity and name: of one entity, of a type, or all.

        Raises:
            ServiceError: It was refused.
        """
        response = await self._calls.any(
            methods.DESCRIBE_CLIENT_QUOTAS,
            admin_pb2.DescribeClientQuotasRequest(components=filters_of(entity, entity_type)),
        )
        check(response.error_code, response.error_message, "quotas")
        return {
            entity_of(each): {value.key: value.value for value in each.values}
            for each in response.entries
        }


def _codes_of_topics(response: Any) -> Iterable[int]:  # noqa: ANN401
    return [each.error_code for each in response.topics]


def _code_of_partition(response: Any) -> int:  # noqa: ANN401
    return int(response.partitions[0].error_code)
