"""Consume and HoldSession: share sessions that live as long as a stream."""

import asyncio
from collections import Counter
from contextlib import suppress

from sharemesh.authorization.refusals import hear_bound
from sharemesh.domain.errors import BoundReachedError, ErrorCode, RefusedError, invalid_request
from sharemesh.domain.ids import GroupId, TopicPartition
from sharemesh.domain.share_session import SessionKey
from sharemesh.ports.network import CallContext, Stream
from sharemesh.share_leader.partition.open_streams import OpenStreams, topics_message
from sharemesh.share_leader.requests.access import Reader
from sharemesh.share_leader.requests.acquisition import FetchOrder
from sharemesh.share_leader.requests.request_checks import (
    NEWEST_VERSION,
    acquire_mode,
)
from sharemesh.share_leader.requests.share_fetch import SessionServices
from sharemesh.share_leader.requests.share_session_cache import ShareSessionCache
from sharemesh.share_leader.streaming.consume_stream import (
    ConsumeStream,
    ConsumeStreamPort,
)
from sharemesh.share_leader.streaming.stream_terms import StreamTerms
from sharemesh.share_leader.unpacking import most_records
from sharemesh.tasks import cancel_and_wait
from sharemesh.v1 import share_leader_pb2 as pb

_MAX_NOTICES = 1_000
_HOLDS_OF_A_SESSION = 2
"""The stream of a connection that was lost, and the one that binds the session anew (BND-16)."""


class Consume:
    """Answers Consume: a new stream is a new share session (spec SES-2)."""

    def __init__(self, services: SessionServices, streams: OpenStreams) -> None:
        self._services = services
        self._access = services.access
        self._checks = services.checks
        self._session_cache = services.session_cache
        self._streams = streams

    async def __call__(self, stream: ConsumeStreamPort, context: CallContext) -> None:
        """Serve one stream until its end; the end of the stream is the end of the session."""
        first = await anext(aiter(stream), None)
        if first is None:
            return
        try:
            key, terms = self._terms(first, context)
            session, _ = self._session_cache.sessions.open(key, context.principal)
            session.follows_hand_over = first.start.follows_hand_over
        except RefusedError as refused:
            hear_bound(refused, context.principal)
            await stream.send(
                pb.ConsumeResponse(error_code=int(refused.error), error_message=refused.message)
            )
            return
        served = ConsumeStream(stream, session, terms, self._services)
        self._session_cache.began(session, stream=served, on_replaced=served.replaced)
        self._streams.add(served)
        try:
            await served.run(first, lambda: self._session_cache.close(session))
        finally:
            self._streams.remove(served)
            self._session_cache.stream_lost_soon(key, context.principal, served)

    def _terms(
        self, first: pb.ConsumeRequest, context: CallContext
    ) -> tuple[SessionKey, StreamTerms]:
        if not first.HasField("start"):
            raise invalid_request("the first message of a Consume stream needs start")
        start = first.start
        settings = self._services.environment.settings
        key = self._checks.member(context.principal, start.group_id, start.member_id)
        order = FetchOrder(
            member_id=key.member_id,
            mode=acquire_mode(start.share_acquire_mode, NEWEST_VERSION),
            batch_size=start.batch_size if start.batch_size > 0 else 500,
            max_records=(
                min(start.max_records, most_records(start.record_format, settings))
                if start.max_records > 0
                else settings.default_stream_records
            ),
            max_bytes=settings.stream_message_bytes,
        )
        return key, StreamTerms(
            Reader(self._access, context.principal, key.group_id),
            order,
            max(0, start.min_bytes),
            min(max(0, start.max_wait_ms), settings.max_fetch_wait_ms),
            start.record_format,
            context.time,
        )


class HoldSession:
    """Answers HoldSession: binds the session of unary calls to this stream."""

    def __init__(self, services: SessionServices, streams: OpenStreams) -> None:
        self._environment = services.environment
        self._access = services.access
        self._checks = services.checks
        self._session_cache = services.session_cache
        self._streams = streams
        self._of_principal: Counter[str] = Counter()

    async def __call__(
        self, stream: Stream[pb.HoldSessionResponse, pb.HoldSessionRequest], context: CallContext
    ) -> None:
        """Hold until the client ends the stream or its connection is lost (spec SES-12).

        Without READ on the group it ends too, with the refusal as its last message (AUT-6).
        """
        first = await anext(aiter(stream), None)
        if first is None:
            return
        try:
            key = self._checks.member(context.principal, first.group_id, first.member_id)
            self._session_cache.sessions.check_owner(key, context.principal)
            self._check_room(context.principal)
        except RefusedError as refused:
            hear_bound(refused, context.principal)
            await stream.send(
                pb.HoldSessionResponse(error_code=int(refused.error), error_message=refused.message)
            )
            return
        reader = Reader(self._access, context.principal, key.group_id)
        held = _HeldSession(key, self._session_cache, reader)
        self._session_cache.hold(key, context.principal, held)
        self._streams.add(held)
        self._of_principal[context.principal] += 1
        notices = asyncio.create_task(held.send_notices(stream))
        client = asyncio.create_task(_ends(stream))
        ended = asyncio.create_task(held.ended.wait())
        tasks = (notices, client, ended)
        try:
            await stream.send(pb.HoldSessionResponse())
            await asyncio.wait((client, ended), return_when=asyncio.FIRST_COMPLETED)
            await cancel_and_wait(notices)
            if client.done():
                client.result()
            else:
                await self._refuse(stream, held.refusal)
        finally:
            # Nothing is awaited before the loss is told: a lost connection ends the stream and
            # cancels this handler, and the second may come while the first is being dealt with.
            self._streams.remove(held)
            self._of_principal[context.principal] -= 1
            if not self._of_principal[context.principal]:
                del self._of_principal[context.principal]
            self._session_cache.stream_lost_soon(key, context.principal, held)
            await cancel_and_wait(*tasks)

    def _check_room(self, principal: str) -> None:
        """Refuse one stream more than a principal can need: their members may be invented."""
        most = _HOLDS_OF_A_SESSION * self._environment.settings.max_principal_sessions
        if self._of_principal[principal] >= most:
            raise BoundReachedError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"at this leader {principal!r} has {most} HoldSession streams, the most that it "
                "may have: end those of members that are gone; retry later, or raise "
                "group.share.max.share.sessions",
            )

    async def _refuse(
        self,
        stream: Stream[pb.HoldSessionResponse, pb.HoldSessionRequest],
        refusal: tuple[ErrorCode, str],
    ) -> None:
        """Send the last message; a client that does not read it is cut off after a limit."""
        last = pb.HoldSessionResponse(error_code=int(refusal[0]), error_message=refusal[1])
        with suppress(TimeoutError):
            async with asyncio.timeout(self._environment.settings.stream_close_ms / 1_000):
                await stream.send(last)


class _HeldSession:
    """One open HoldSession stream."""

    def __init__(self, key: SessionKey, session_cache: ShareSessionCache, reader: Reader) -> None:
        self._key = key
        self._session_cache = session_cache
        self._reader = reader
        self.hand_overs = None  # who calls unary methods does not follow
        self.ended = asyncio.Event()
        self.refusal: tuple[ErrorCode, str] = (ErrorCode.NONE, "")
        self._notices: asyncio.Queue[list[TopicPartition]] = asyncio.Queue(_MAX_NOTICES)

    def notify_draining(self, partitions: frozenset[TopicPartition]) -> None:
        session = self._session_cache.session_of(self._key)
        mine = partitions.intersection(session.partitions) if session else frozenset()
        if mine and not self._notices.full():
            self._notices.put_nowait(sorted(mine))

    def notify_led(self, partition: TopicPartition) -> None:
        """Unary fetches ask again by themselves."""

    def take_back(self, partition: TopicPartition) -> None:
        """Nothing waits to be sent."""

    def rights_changed(self) -> None:
        """Without READ on the group nothing is held any more (AUT-6)."""
        try:
            self._reader.check_group()
        except RefusedError as refused:
            self.refusal = (refused.error, refused.message)
            self.ended.set()

    def group_awaiting(self, partition: TopicPartition) -> GroupId | None:
        """Return None: it is not known what unary fetches will ask for."""

    async def send_notices(
        self, stream: Stream[pb.HoldSessionResponse, pb.HoldSessionRequest]
    ) -> None:
        while True:
            draining = topics_message(await self._notices.get())
            await stream.send(pb.HoldSessionResponse(draining=draining))


async def _ends(stream: Stream[pb.HoldSessionResponse, pb.HoldSessionRequest]) -> None:
    async for _ in stream:
        pass  # further messages mean nothing
