"""One request after the other: read, asked of the handler that gRPC has for it, answered."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from google.protobuf.message import Message

from sharemesh import methods
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import NodeId, TopicPartition
from sharemesh.kafka.messages import (
    Content,
    KafkaMessage,
    MalformedMessageError,
    milliseconds,
)
from sharemesh.kafka.served_messages import has_flexible_header, read_request, response_frame
from sharemesh.kafka_listener import api_versions
from sharemesh.kafka_listener.cluster_answers import ClusterAnswers
from sharemesh.kafka_listener.config_answers import ConfigAnswers, UnwrittenAnswer
from sharemesh.kafka_listener.failures import code_of
from sharemesh.kafka_listener.frames import RefusedFrameError
from sharemesh.kafka_listener.held_sessions import HeldSessions
from sharemesh.kafka_listener.login import answers as logins
from sharemesh.kafka_listener.login.logins import ConnectionLogin
from sharemesh.kafka_listener.long_work import (
    BYTES_IN_LOOP,
    PARTS_IN_LOOP,
    LongWork,
    Result,
    has_many_parts,
)
from sharemesh.kafka_listener.named_parts import parts_named
from sharemesh.kafka_listener.nodes import KafkaNodes
from sharemesh.kafka_listener.offered_handlers import THROTTLE_MS, OfferedHandlers
from sharemesh.kafka_listener.plain_requests import PLAIN_REQUESTS
from sharemesh.kafka_listener.request_header import RequestHeader, kind_of, read_header
from sharemesh.kafka_listener.served_requests import BY_KEY, OF_LOGINS, ServedRequest
from sharemesh.kafka_listener.translation import (
    acknowledgements,
    coordinators,
    fetch,
    groups,
    list_offsets,
    lone_batch,
    produce,
    produced_parts,
    share_fetch,
    share_group,
    topic_partitions,
)
from sharemesh.kafka_listener.translation.seen_request import SeenRequest
from sharemesh.ports.cluster import ClusterView
from sharemesh.ports.network import CallContext, CallFailedError
from sharemesh.telemetry import names
from sharemesh.telemetry.instruments import Registry
from sharemesh.v1 import share_leader_pb2

Frame = Sequence[bytes]
"""A frame in pieces, its size in front; empty: the request wants no answer."""

_FINAL_EPOCH = -1

_log = logging.getLogger(__name__)


class Asked(NamedTuple):
    """One request that was read, and who asks."""

    header: RequestHeader
    message: KafkaMessage
    context: CallContext
    sessions: HeldSessions
    login: ConnectionLogin
    parts: int
    """How many topics, partitions or keys it names."""
    size: int
    """Length of its frame in bytes: acknowledgement batches and settings are no parts."""

    @property
    def is_long(self) -> bool:
        """Whether it names so many that it is not translated in the loop."""
        return self.parts > PARTS_IN_LOOP

    @property
    def is_large(self) -> bool:
        """Whether it may hold as much that is no part; not for one that carries records."""
        return self.is_long or self.size > BYTES_IN_LOOP

    @property
    def request(self) -> ServedRequest:
        """The kind of request."""
        return BY_KEY[self.header.key]

    def answered(self, content: Content) -> Frame:
        """Return the frame of an answer."""
        header = self.header
        throttle_ms = THROTTLE_MS.get()
        if throttle_ms and "throttle_time" in content:
            content = {**content, "throttle_time": milliseconds(throttle_ms)}
        if self.request is ServedRequest.DELETE_GROUPS and header.version >= groups.WITH_MESSAGES:
            return (groups.deleted_with_messages(header.correlation, content),)
        return (response_frame(header.key, header.version, header.correlation, content),)


class KafkaAnswers:
    """Answers frames; without a state but for what it counts."""

    def __init__(
        self,
        handlers: OfferedHandlers,
        view: ClusterView,
        node_id: NodeId,
        registry: Registry,
        configs: ConfigAnswers,
        clusters: ClusterAnswers,
    ) -> None:
        self.handlers = handlers
        self._view = view
        self._node_id = node_id
        self._registry = registry
        self._configs = configs
        self._clusters = clusters
        self._long_work = LongWork()
        self._by_request: dict[ServedRequest, Callable[[Asked], Awaitable[Frame]]] = {
            ServedRequest.PRODUCE: self._produce,
            ServedRequest.FETCH: self._fetch,
            ServedRequest.LIST_OFFSETS: self._list_offsets,
            ServedRequest.METADATA: self._metadata,
            ServedRequest.FIND_COORDINATOR: self._find_coordinator,
            ServedRequest.INIT_PRODUCER_ID: self._init_producer_id,
            ServedRequest.SASL_HANDSHAKE: self._sasl_handshake,
            ServedRequest.SASL_AUTHENTICATE: self._sasl_authenticate,
            ServedRequest.DESCRIBE_CLUSTER: self._describe_cluster,
            ServedRequest.DESCRIBE_TOPIC_PARTITIONS: self._topic_partitions,
            ServedRequest.SHARE_GROUP_HEARTBEAT: self._share_group_heartbeat,
            ServedRequest.SHARE_FETCH: self._share_fetch,
            ServedRequest.SHARE_ACKNOWLEDGE: self._share_acknowledge,
            ServedRequest.DESCRIBE_CONFIGS: self._describe_configs,
            ServedRequest.INCREMENTAL_ALTER_CONFIGS: self._alter_configs,
            ServedRequest.LIST_CONFIG_RESOURCES: self._list_config_resources,
            ServedRequest.LIST_PARTITION_REASSIGNMENTS: self._list_reassignments,
            **dict.fromkeys(PLAIN_REQUESTS, self._plain),
        }

    def close(self) -> None:
        """Answer nothing long any more."""
        self._long_work.close()

    async def answer(
        self,
        frame: bytes,
        context: CallContext,
        sessions: HeldSessions,
        login: ConnectionLogin,
    ) -> Frame:
        """Return the answer to a frame.

        Raises:
            RefusedFrameError: There is none; the connection is to be closed.
        """
        THROTTLE_MS.set(0)
        key, version = kind_of(frame)
        request = BY_KEY[key]
        counted = str(version) if request.answers(version) else "unknown"
        self._registry.counter(names.KAFKA_LISTENER_REQUESTS, request.label, counted).add()
        try:
            if request is ServedRequest.API_VERSIONS:
                return self._api_versions(version, frame)
            header, message = await self._long_work.done(
                context.principal,
                lambda: _read(key, version, frame),
                is_long=len(frame) > BYTES_IN_LOOP and _names_many(request, version, frame),
            )
        except MalformedMessageError as error:
            raise RefusedFrameError(
                "malformed", f"its request {request.label} version {version} is none: {error}"
            ) from error
        if login.is_over() and request not in OF_LOGINS:
            raise RefusedFrameError(
                "login_over", "its login has ended, and it did not log in anew (KIP-368)"
            )
        try:
            parts = parts_named(request, message)
            asked = Asked(header, message, context, sessions, login, parts, len(frame))
            return await self._by_request[request](asked)
        except RefusedFrameError:
            raise
        except Exception as error:
            _log.exception("answering %s version %d failed", request.label, version)
            raise RefusedFrameError(
                "internal", f"{request.label} version {version}: {type(error).__name__} here"
            ) from error

    def _api_versions(self, version: int, frame: bytes) -> Frame:
        whole = memoryview(frame)
        is_known = ServedRequest.API_VERSIONS.answers(version)
        flexible = is_known and api_versions.has_flexible_header(version)
        header = read_header(whole, flexible=flexible)
        if not is_known:
            return (api_versions.answer_unknown_version(header.correlation),)
        greeting = api_versions.read_greeting(version, whole[header.size :])
        number = self._nodes().number(self._node_id)
        error = api_versions.judged(greeting, self._view.cluster_id, number)
        return (api_versions.answer(version, header.correlation, error),)

    async def _sasl_handshake(self, asked: Asked) -> Frame:
        return _login_answer(asked, logins.handshake(asked.login, asked.message))

    async def _sasl_authenticate(self, asked: Asked) -> Frame:
        return _login_answer(asked, await logins.authenticate(asked.login, asked.message))

    async def _metadata(self, asked: Asked) -> Frame:
        return await self._put_together(
            asked, await self._clusters.metadata(self._seen(asked), asked.context)
        )

    async def _describe_cluster(self, asked: Asked) -> Frame:
        return await self._put_together(
            asked, await self._clusters.cluster(self._seen(asked), asked.context)
        )

    async def _topic_partitions(self, asked: Asked) -> Frame:
        return await self._put_together(
            asked, await self._clusters.topic_partitions(self._seen(asked), asked.context)
        )

    async def _find_coordinator(self, asked: Asked) -> Frame:
        version, message = asked.header.version, asked.message
        request = coordinators.to_request(version, message)

        def refused(code: int, why: str) -> Callable[[], Content]:
            return lambda: coordinators.refused(version, message, code, why)

        if request is None:
            why = coordinators.NO_SUCH_COORDINATOR
            return await self._written(asked, refused(ErrorCode.INVALID_REQUEST, why))
        try:
            response = await self.handlers.call(methods.FIND_COORDINATOR, request, asked.context)
        except CallFailedError as error:
            code = code_of(error, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return await self._written(asked, refused(code, error.message))
        nodes = self._nodes()
        return await self._written(asked, lambda: coordinators.to_answer(response, nodes), response)

    async def _list_offsets(self, asked: Asked) -> Frame:
        version, message = asked.header.version, asked.message
        request = await self._beside(
            asked, lambda: list_offsets.to_request(message), is_long=asked.is_long
        )
        try:
            response = await self.handlers.call(methods.LIST_OFFSETS, request, asked.context)
        except CallFailedError as error:
            code = code_of(error, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return await self._written(asked, lambda: list_offsets.refused(message, code))
        return await self._written(
            asked, lambda: list_offsets.to_answer(version, message, response)
        )

    async def _fetch(self, asked: Asked) -> Frame:
        version, message = asked.header.version, asked.message
        correlation = asked.header.correlation
        if not fetch.names_all(version, message):
            return fetch.without_session(version, correlation)
        request = await self._beside(
            asked, lambda: fetch.to_request(version, message), is_long=asked.is_long
        )
        try:
            response = await self.handlers.call(methods.FETCH, request, asked.context)
        except CallFailedError as error:
            response = await self._beside(
                asked, partial(fetch.refused, request, error), is_long=asked.is_long
            )
        nodes = self._nodes()
        return await self._beside(
            asked,
            lambda: fetch.to_frame(version, correlation, message, response, nodes),
            is_long=asked.is_long,
        )

    async def _produce(self, asked: Asked) -> Frame:
        version, message = asked.header.version, asked.message
        wants_answer = message.acks != produce.NO_ANSWER
        if not produce.accepts(message):
            why = f"acks {message.acks}: use all"
            code = produce.INVALID_REQUIRED_ACKS
            return await self._written(asked, lambda: produce.refused(message, code, why))
        request = await self._beside(
            asked, lambda: produce.to_request(version, message), is_long=asked.is_long
        )
        try:
            response = await self.handlers.call(methods.PRODUCE, request, asked.context)
        except CallFailedError as error:
            if not wants_answer:
                raise RefusedFrameError("unanswered", f"Produce with acks=0: {error}") from error
            code, why = code_of(error, ErrorCode.NOT_LEADER_OR_FOLLOWER), error.message
            return await self._written(asked, lambda: produce.refused(message, code, why))
        if wants_answer:
            if isinstance(message, lone_batch.LoneBatch):
                frame = lone_batch.to_frame(asked.header.correlation, message, response)
                if frame is not None:
                    return (frame,)
            nodes = self._nodes()
            return await self._written(
                asked, lambda: produce.to_answer(version, message, response, nodes)
            )
        if produce.failed(response):
            raise RefusedFrameError("unanswered", "Produce with acks=0 failed; use acks=all")
        return ()

    async def _init_producer_id(self, asked: Asked) -> Frame:
        if asked.message.transactional_id is not None:
            return asked.answered(produce.no_producer(ErrorCode.INVALID_REQUEST))
        request = produce.producer_to_request(asked.message)
        try:
            response = await self.handlers.call(methods.INIT_PRODUCER_ID, request, asked.context)
        except CallFailedError as error:
            code = code_of(error, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return asked.answered(produce.no_producer(code))
        return asked.answered(produce.producer_to_answer(response))

    async def _share_group_heartbeat(self, asked: Asked) -> Frame:
        request = share_group.to_request(asked.message, asked.header.client_id)
        call = self.handlers.call
        try:
            response = await call(methods.SHARE_GROUP_HEARTBEAT, request, asked.context)
        except CallFailedError as error:
            code = code_of(error, ErrorCode.NOT_COORDINATOR)
            return asked.answered(share_group.refused(asked.message, code, error.message))
        return asked.answered(share_group.to_answer(response))

    async def _share_fetch(self, asked: Asked) -> Frame:
        request = await self._beside(
            asked,
            lambda: share_fetch.to_request(asked.header.version, asked.message),
            is_long=asked.is_large,
        )
        batches: dict[TopicPartition, bytes] = {}
        context = replace(asked.context, batches=batches)
        try:
            await asked.sessions.hold(request.group_id, request.member_id)
            response = await self.handlers.call(methods.SHARE_FETCH, request, context)
        except CallFailedError as error:
            batches.clear()
            code = _session_code(error)
            if code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
                await asked.sessions.before_refusal(request.max_wait_ms)
            response = share_fetch.refused(code, error.message)
            response.throttle_time_ms = error.throttle_ms
        await _ended(asked, request)
        correlation, nodes = asked.header.correlation, self._nodes()
        return await self._beside(
            asked,
            lambda: share_fetch.to_frame(correlation, response, batches, nodes),
            is_long=asked.is_long or has_many_parts(response),
        )

    async def _share_acknowledge(self, asked: Asked) -> Frame:
        request = await self._beside(
            asked,
            lambda: acknowledgements.to_request(asked.header.version, asked.message),
            is_long=asked.is_large,
        )
        try:
            response = await self.handlers.call(methods.SHARE_ACKNOWLEDGE, request, asked.context)
        except CallFailedError as error:
            response = acknowledgements.refused(_session_code(error), error.message)
        await _ended(asked, request)
        nodes = self._nodes()
        return await self._written(
            asked, lambda: acknowledgements.to_answer(response, nodes), response
        )

    async def _plain(self, asked: Asked) -> Frame:
        """Answer a request by one call, and nothing else."""
        plain = PLAIN_REQUESTS[asked.request]
        seen = self._seen(asked)
        request = await self._beside(asked, lambda: plain.to_request(seen), is_long=asked.is_large)
        try:
            response = await self.handlers.call(plain.method, request, asked.context)
        except CallFailedError as error:
            code, why = code_of(error, plain.elsewhere), error.message
            return await self._written(asked, lambda: plain.refused(seen, code, why))
        return await self._written(asked, lambda: plain.to_answer(seen, response), response)

    async def _describe_configs(self, asked: Asked) -> Frame:
        return await self._put_together(
            asked, await self._configs.describe(asked.message, asked.context)
        )

    async def _alter_configs(self, asked: Asked) -> Frame:
        return await self._put_together(
            asked, await self._configs.alter(asked.message, asked.context)
        )

    async def _list_config_resources(self, asked: Asked) -> Frame:
        version, message = asked.header.version, asked.message
        return await self._put_together(
            asked, await self._configs.list_resources(version, message, asked.context)
        )

    async def _list_reassignments(self, asked: Asked) -> Frame:
        return asked.answered(topic_partitions.no_reassignments())

    async def _beside(self, asked: Asked, work: Callable[[], Result], *, is_long: bool) -> Result:
        """Return what ``work`` returns: beside the loop, in the turn of who asks, if it is long."""
        return await self._long_work.done(asked.context.principal, work, is_long=is_long)

    async def _put_together(self, asked: Asked, answer: UnwrittenAnswer) -> Frame:
        return await self._beside(
            asked,
            lambda: asked.answered(answer.content()),
            is_long=asked.is_long or answer.parts > PARTS_IN_LOOP,
        )

    async def _written(
        self, asked: Asked, content: Callable[[], Content], response: Message | None = None
    ) -> Frame:
        """Return the frame of an answer that may have many parts."""
        is_long = asked.is_long or (response is not None and has_many_parts(response))
        return await self._beside(asked, lambda: asked.answered(content()), is_long=is_long)

    def _nodes(self) -> KafkaNodes:
        return KafkaNodes(self._view.nodes())

    def _seen(self, asked: Asked) -> SeenRequest:
        return self._clusters.seen(asked.header.version, asked.message)


def _read(key: int, version: int, frame: bytes) -> tuple[RequestHeader, KafkaMessage]:
    whole = memoryview(frame)
    shape = BY_KEY[key].shape(version)
    header = read_header(whole, flexible=has_flexible_header(key, shape))
    body = whole[header.size :]
    if key == ServedRequest.PRODUCE.key:
        lone = lone_batch.read(version, body)
        if lone is not None:
            return header, lone
    return header, read_request(key, shape, body)


def _names_many(request: ServedRequest, version: int, frame: bytes) -> bool:
    """Return whether a long request has many parts: a Produce may be its records, most of it."""
    if request is not ServedRequest.PRODUCE:
        return True
    whole = memoryview(frame)
    flexible = has_flexible_header(request.key, request.shape(version))
    body = whole[read_header(whole, flexible=flexible).size :]
    return produced_parts.has_more_parts(version, body, PARTS_IN_LOOP)


def _login_answer(asked: Asked, found: logins.LoginAnswer) -> Frame:
    """Return the answer to a step of a login; one that ends the connection is its last.

    Raises:
        RefusedFrameError: It is.
    """
    (frame,) = asked.answered(found.content)
    if found.closed_for:
        raise RefusedFrameError("login_refused", found.closed_for, frame)
    return (frame,)


def _session_code(error: CallFailedError) -> ErrorCode:
    """Return the code of a whole request in a share session; clients open another after it."""
    code = code_of(error, ErrorCode.SHARE_SESSION_NOT_FOUND)
    if code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
        return ErrorCode.SHARE_SESSION_LIMIT_REACHED
    return code


async def _ended(
    asked: Asked,
    request: share_leader_pb2.ShareFetchRequest | share_leader_pb2.ShareAcknowledgeRequest,
) -> None:
    """A session that its member has closed is held no more."""
    if request.share_session_epoch == _FINAL_EPOCH:
        await asked.sessions.end(request.group_id, request.member_id)
