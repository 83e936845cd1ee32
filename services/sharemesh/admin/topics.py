"""Changes of topics; answers wait until new partitions are led."""

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from sharemesh.admin.topic_stores import TopicStore
from sharemesh.authorization.access import Access
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.ids import TopicPartition
from sharemesh.ports.authorizer import Operation, ResourceType
from sharemesh.ports.cluster import ClusterView, TopicInfo
from sharemesh.ports.coordination import CoordinationError
from sharemesh.ports.network import CallContext, CallFailedError, Failure
from sharemesh.v1 import admin_pb2 as pb

Item = TypeVar("Item")

MAX_TOPICS_PER_REQUEST = 100
LEADERS_WAIT_MS = 5_000
"""How long an answer waits for leaders, so that the next produce finds one."""


class TopicAdmin:
    """The topic store, asked over RPC. One topic's refusal does not touch the others."""

    def __init__(self, store: TopicStore, view: ClusterView, access: Access) -> None:
        self._store = store
        self._view = view
        self._access = access

    async def create(
        self, request: pb.CreateTopicsRequest, context: CallContext
    ) -> pb.CreateTopicsResponse:
        """Create topics and wait, bounded, until each partition has a leader."""
        response = pb.CreateTopicsResponse()
        created = []
        topics = _bounded(request.topics)
        doubled = _doubled(topic.name for topic in topics)
        for new in topics:
            try:
                _once(new.name, doubled)
                self._check_creation(context.principal, new.name)
                topic = await self._store.create(
                    new.name, new.partitions, new.configs, validate_only=request.validate_only
                )
            except (RefusedError, CoordinationError) as error:
                response.topics.append(_refused(new.name, error))
                continue
            response.topics.append(_done(topic))
            if not request.validate_only:
                created.append(topic)
        await self._until_led(created)
        return response

    def _check_creation(self, principal: str, name: str) -> None:
        """Check that a topic may be created: CREATE on the cluster, or on the topic."""
        if not self._access.may(principal, Operation.CREATE, ResourceType.CLUSTER):
            self._access.topic(principal, Operation.CREATE, name)

    async def add_partitions(
        self, request: pb.CreatePartitionsRequest, context: CallContext
    ) -> pb.CreatePartitionsResponse:
        """Let topics grow, and wait as ``create`` does."""
        response = pb.CreatePartitionsResponse()
        grown = []
        topics = _bounded(request.topics)
        doubled = _doubled(topic.name for topic in topics)
        for more in topics:
            try:
                _once(more.name, doubled)
                self._access.topic(context.principal, Operation.ALTER, more.name)
                topic = await self._store.grow(
                    more.name, more.total, validate_only=request.validate_only
                )
            except (RefusedError, CoordinationError) as error:
                response.topics.append(_refused(more.name, error))
                continue
            response.topics.append(_done(topic))
            if not request.validate_only:
                grown.append(topic)
        await self._until_led(grown)
        return response

    async def delete(
        self, request: pb.DeleteTopicsRequest, context: CallContext
    ) -> pb.DeleteTopicsResponse:
        """Delete topics; returns when this process sees them no more (bounded)."""
        response = pb.DeleteTopicsResponse()
        deleted = []
        for name in _bounded(dict.fromkeys(request.names)):
            try:
                self._access.topic(context.principal, Operation.DELETE, name)
                topic = await self._store.delete(name)
            except (RefusedError, CoordinationError) as error:
                response.topics.append(_refused(name, error))
                continue
            response.topics.append(_done(topic))
            deleted.append(topic)
        await self._until_gone(deleted)
        return response

    async def attach(
        self, request: pb.AttachTopicsRequest, context: CallContext
    ) -> pb.AttachTopicsResponse:
        """Attach topics of the Kafka cluster, and wait as ``create`` does."""
        response = pb.AttachTopicsResponse()
        attached = []
        for name in _bounded(dict.fromkeys(request.names)):
            try:
                self._check_creation(context.principal, name)
                topic = await self._store.attach(name)
            except (RefusedError, CoordinationError) as error:
                response.topics.append(_refused(name, error))
                continue
            response.topics.append(_done(topic))
            attached.append(topic)
        await self._until_led(attached)
        return response

    async def detach(
        self, request: pb.DetachTopicsRequest, context: CallContext
    ) -> pb.DetachTopicsResponse:
        """Detach topics of the Kafka cluster; returns when this process sees them no more."""
        response = pb.DetachTopicsResponse()
        detached = []
        for name in _bounded(dict.fromkeys(request.names)):
            try:
                self._access.topic(context.principal, Operation.DELETE, name)
                topic = await self._store.detach(name)
            except (RefusedError, CoordinationError) as error:
                response.topics.append(_refused(name, error))
                continue
            response.topics.append(_done(topic))
            detached.append(topic)
        await self._until_gone(detached)
        return response

    async def _until_gone(self, topics: list[TopicInfo]) -> None:
        await self._view.wait_for(
            lambda: all(self._view.topic(topic.topic_id) is None for topic in topics),
            timeout_ms=LEADERS_WAIT_MS,
        )

    async def _until_led(self, topics: list[TopicInfo]) -> None:
        if not topics:
            return
        partitions = {
            TopicPartition(topic.topic_id, number)
            for topic in topics
            for number in range(topic.partitions)
        }

        def led() -> bool:
            found = {each for each in partitions if self._view.leader(each) is not None}
            partitions.difference_update(found)
            return not partitions

        await self._view.wait_for(led, timeout_ms=LEADERS_WAIT_MS)


def _bounded(items: Iterable[Item]) -> list[Item]:
    listed = list(items)
    if len(listed) > MAX_TOPICS_PER_REQUEST:
        raise CallFailedError(
            Failure.INVALID_ARGUMENT,
            f"{len(listed)} topics in one request; send at most {MAX_TOPICS_PER_REQUEST}",
        )
    return listed


def _doubled(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def _once(name: str, doubled: frozenset[str]) -> None:
    if name in doubled:
        raise invalid_request(f"topic {name[:100]!r} is named twice; name it once")


def _done(topic: TopicInfo) -> pb.TopicResult:
    return pb.TopicResult(name=topic.name, topic_id=topic.topic_id, partitions=topic.partitions)


def _refused(name: str, error: RefusedError | CoordinationError) -> pb.TopicResult:
    if isinstance(error, RefusedError):
        return pb.TopicResult(name=name, error_code=error.error, error_message=error.message)
    return pb.TopicResult(
        name=name,
        error_code=ErrorCode.REQUEST_TIMED_OUT,
        error_message=f"{error}; check whether the change took effect before you repeat it",
    )
