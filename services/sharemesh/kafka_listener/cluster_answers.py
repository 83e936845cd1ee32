"""Metadata, DescribeCluster and DescribeTopicPartitions: what is there, and what of it one may do.

No method tells what is permitted: it is looked up here, where somebody asks (KLS-45).
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from sharemesh import methods
from sharemesh.authorization.access import Access
from sharemesh.authorization.permitted_operations import (
    NOT_ASKED_FOR,
    permitted_on_topics,
    permitted_operations,
)
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicId
from sharemesh.kafka.messages import KafkaMessage
from sharemesh.kafka_listener.config_answers import UnwrittenAnswer
from sharemesh.kafka_listener.failures import code_of
from sharemesh.kafka_listener.long_work import parts_of
from sharemesh.kafka_listener.nodes import KafkaNodes
from sharemesh.kafka_listener.offered_handlers import OfferedHandlers
from sharemesh.kafka_listener.translation import metadata, topic_partitions
from sharemesh.kafka_listener.translation.metadata import Permitted
from sharemesh.kafka_listener.translation.seen_request import SeenRequest
from sharemesh.ports.authorizer import ResourceType
from sharemesh.ports.clock import Clock
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.network import CallContext, CallFailedError
from sharemesh.v1 import admin_pb2 as pb

_NOTHING: Mapping[str, int] = {}


class ClusterAnswers:
    """Answers about the cluster and its topics; without a state."""

    def __init__(
        self, handlers: OfferedHandlers, view: ClusterView, access: Access, clock: Clock
    ) -> None:
        self._handlers = handlers
        self._view = view
        self._access = access
        self._clock = clock

    async def metadata(self, seen: SeenRequest, context: CallContext) -> UnwrittenAnswer:
        """Return the answer to Metadata."""
        message = seen.message
        if metadata.has_ids_too_early(seen.version, message):
            return UnwrittenAnswer(0, lambda: metadata.not_by_id_yet(message))
        try:
            response = await self._asked(metadata.to_request(seen), context)
        except CallFailedError as error:
            code = code_of(error, ErrorCode.UNKNOWN_SERVER_ERROR)
            return UnwrittenAnswer(0, lambda: metadata.refused(message, code, seen.nodes))
        permitted = Permitted(
            self._on_cluster(message, context),
            await self._on_topics(response, context)
            if getattr(message, "include_topic_authorized_operations", False)
            else _NOTHING,
        )
        seen = replace(seen, nodes=KafkaNodes(self._view.nodes()))
        return UnwrittenAnswer(
            parts_of(response), lambda: metadata.to_answer(seen, response, permitted)
        )

    async def topic_partitions(self, seen: SeenRequest, context: CallContext) -> UnwrittenAnswer:
        """Return the answer to DescribeTopicPartitions, which always tells operations."""
        try:
            response = await self._asked(topic_partitions.to_request(seen), context)
        except CallFailedError as error:
            code = code_of(error, ErrorCode.UNKNOWN_SERVER_ERROR)
            return UnwrittenAnswer(0, lambda: topic_partitions.refused(seen, code))
        permitted = await self._on_topics(response, context)
        return UnwrittenAnswer(
            parts_of(response), lambda: topic_partitions.to_answer(seen, response, permitted)
        )

    async def cluster(self, seen: SeenRequest, context: CallContext) -> UnwrittenAnswer:
        """Return the answer to DescribeCluster."""
        refused = metadata.wrong_endpoint(seen.message)
        if refused is not None:
            return UnwrittenAnswer(0, lambda: metadata.cluster_not_described(*refused))
        try:
            response = await self._asked(pb.MetadataRequest(topics=pb.TopicNames()), context)
        except CallFailedError as error:
            code, why = code_of(error, ErrorCode.UNKNOWN_SERVER_ERROR), error.message
            return UnwrittenAnswer(0, lambda: metadata.cluster_not_described(code, why))
        permitted = self._on_cluster(seen.message, context)
        return UnwrittenAnswer(
            0, lambda: metadata.described_cluster(response, seen.nodes, permitted)
        )

    def seen(self, version: int, message: KafkaMessage) -> SeenRequest:
        """Return a request with the nodes and topics as they are known now.

        Topics are looked up once: results stay with what they are about.
        """
        return SeenRequest(version, message, KafkaNodes(self._view.nodes()), cache(self._name_of))

    def _name_of(self, topic_id: TopicId) -> str | None:
        topic = self._view.topic(topic_id)
        return None if topic is None else topic.name

    async def _asked(
        self, request: pb.MetadataRequest, context: CallContext
    ) -> pb.MetadataResponse:
        return await self._handlers.call(methods.METADATA, request, context)

    def _on_cluster(self, message: KafkaMessage, context: CallContext) -> int:
        if not getattr(message, "include_cluster_authorized_operations", False):
            return NOT_ASKED_FOR
        return permitted_operations(self._access, context.principal, ResourceType.CLUSTER)

    async def _on_topics(
        self, response: pb.MetadataResponse, context: CallContext
    ) -> Mapping[str, int]:
        return await permitted_on_topics(
            self._access,
            context.principal,
            [each.name for each in response.topics if metadata.is_told(each)],
            self._clock,
        )
