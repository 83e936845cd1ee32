"""Consume and HoldSession: share sessions that live as long as a stream (DESIGN 7)."""

import asyncio

from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, TopicPartition
from sharemesh.domain.share_session import SessionKey
from sharemesh.ports.network import CallContext, Stream
from sharemesh.share_leader.acquisition import FetchOrder
from sharemesh.share_leader.consume_stream import (
    ConsumeStream,
    ConsumeStreamPort,
    StreamServices,
    StreamTerms,
)
from sharemesh.share_leader.request_checks import NEWEST_VERSION, RequestChecks, acquire_mode
from sharemesh.share_leader.session_book import SessionBook
from sharemesh.share_leader.streams import Streams, topics_message
from sharemesh.v1 import share_leader_pb2 as pb

_MAX_NOTICES = 1_000


class Consume:
    """Answers Consume: a new stream is a new share session (spec SES-2)."""

    def __init__(
        self,
        services: StreamServices,
        checks: RequestChecks,
        book: SessionBook,
        streams: Streams,
    ) -> None:
        self._services = services
        self._checks = checks
        self._book = book
        self._streams = streams

    async def __call__(self, stream: ConsumeStreamPort, context: CallContext) -> None:
        """Serve one stream until its end; the end of the stream is the end of the session."""
        first = await anext(aiter(stream), None)
        if first is None:
            return
        try:
            key, terms = self._terms(first, context)
            session, _ = self._book.sessions.open(key)
        except RefusedError as refused:
            await stream.send(
                pb.ConsumeResponse(error_code=int(refused.error), error_message=refused.message)
            )
            return
        served = ConsumeStream(stream, session, terms, self._services)
        self._book.began(session, stream=served, on_replaced=served.replaced)
        self._streams.add(served)
        try:
            await served.run(first, lambda: self._book.close(session))
        finally:
            self._streams.remove(served)
            self._book.stream_lost_soon(key, served)

    def _terms(
        self, first: pb.ConsumeRequest, context: CallContext
    ) -> tuple[SessionKey, StreamTerms]:
        if not first.HasField("start"):
            raise RefusedError(
                ErrorCode.INVALID_REQUEST, "the first message of a Consume stream needs start"
            )
        start = first.start
        settings = self._services.environment.settings
        key = self._checks.member(context.principal, start.group_id, start.member_id)
        order = FetchOrder(
            member_id=key.member_id,
            mode=acquire_mode(start.share_acquire_mode, NEWEST_VERSION),
            batch_size=start.batch_size if start.batch_size > 0 else 500,
            max_records=(
                min(start.max_records, settings.max_fetch_records)
                if start.max_records > 0
                else settings.default_stream_records
            ),
            max_bytes=settings.stream_message_bytes,
        )
        return key, StreamTerms(
            context.principal,
            order,
            max(0, start.min_bytes),
            min(max(0, start.max_wait_ms), settings.max_fetch_wait_ms),
            start.record_format,
        )


class HoldSession:
    """Answers HoldSession: binds the session of unary calls to this stream."""

    def __init__(self, checks: RequestChecks, book: SessionBook, streams: Streams) -> None:
        self._checks = checks
        self._book = book
        self._streams = streams

    async def __call__(
        self, stream: Stream[pb.HoldSessionResponse, pb.HoldSessionRequest], context: CallContext
    ) -> None:
        """Hold until the client ends the stream or its connection is lost (spec SES-12)."""
        first = await anext(aiter(stream), None)
        if first is None:
            return
        try:
            key = self._checks.member(context.principal, first.group_id, first.member_id)
        except RefusedError as refused:
            await stream.send(
                pb.HoldSessionResponse(error_code=int(refused.error), error_message=refused.message)
            )
            return
        held = _HeldSession(key, self._book)
        self._book.hold(key, held)
        self._streams.add(held)
        notices = asyncio.create_task(held.send_notices(stream))
        try:
            await stream.send(pb.HoldSessionResponse())
            async for _ in stream:
                pass  # further messages mean nothing
        finally:
            # Nothing is awaited before the loss is told: a lost connection ends the stream and
            # cancels this handler, and the second may come while the first is being dealt with.
            self._streams.remove(held)
            self._book.stream_lost_soon(key, held)
            notices.cancel()
            await asyncio.gather(notices, return_exceptions=True)


class _HeldSession:
    """One open HoldSession stream."""

    def __init__(self, key: SessionKey, book: SessionBook) -> None:
        self._key = key
        self._book = book
        self._notices: asyncio.Queue[list[TopicPartition]] = asyncio.Queue(_MAX_NOTICES)

    def notify_draining(self, partitions: frozenset[TopicPartition]) -> None:
        session = self._book.session_of(self._key)
        mine = partitions.intersection(session.partitions) if session else frozenset()
        if mine and not self._notices.full():
            self._notices.put_nowait(sorted(mine))

    def notify_led(self, partition: TopicPartition) -> None:
        """Unary fetches ask again by themselves."""

    def group_awaiting(self, partition: TopicPartition) -> GroupId | None:
        """Return None: it is not known what unary fetches will ask for."""

    async def send_notices(
        self, stream: Stream[pb.HoldSessionResponse, pb.HoldSessionRequest]
    ) -> None:
        while True:
            draining = topics_message(await self._notices.get())
            await stream.send(pb.HoldSessionResponse(draining=draining))
