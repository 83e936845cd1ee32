"""ShareGroupHeartbeat: one request and one answer, or a stream (spec GC-1 to GC-24)."""

import logging
from collections.abc import Callable
from functools import partial

from sharemesh.authorization.refusals import hear_bound
from sharemesh.domain.errors import RefusedError, invalid_request
from sharemesh.domain.ids import GroupId
from sharemesh.domain.share_group.heartbeat import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    Heartbeat,
    HeartbeatAnswer,
    check_fields,
)
from sharemesh.group_coordinator.coordinator_context import CoordinatorContext
from sharemesh.group_coordinator.member_stream import (
    HeartbeatStream,
    MemberStream,
    assignment_message,
    heartbeat_from,
    refused_heartbeat,
    says_again,
)
from sharemesh.group_coordinator.served_groups import ServedGroups
from sharemesh.ports.authorizer import Operation
from sharemesh.ports.network import CallContext, CallFailedError
from sharemesh.ports.topic_wishes import TopicWishes
from sharemesh.v1.group_coordinator_pb2 import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

_log = logging.getLogger("sharemesh.group_coordinator")


class HeartbeatHandler:
    """Handlers of both forms; refusals are answers, never gRPC errors."""

    def __init__(
        self,
        coordinator: CoordinatorContext,
        groups_of: Callable[[GroupId], ServedGroups],
        wishes: TopicWishes | None = None,
    ) -> None:
        """``groups_of`` returns who serves a group, or raises what the member must hear.

        ``wishes`` is told of the topics of each subscription that was accepted (KTP-2).
        """
        self._wishes = wishes
        self._coordinator = coordinator
        self._groups_of = groups_of

    async def unary(
        self, request: ShareGroupHeartbeatRequest, context: CallContext
    ) -> ShareGroupHeartbeatResponse:
        """Answer one heartbeat; a first one is held up to ``max_wait_ms``."""
        try:
            return await self._answer(request, context, None)
        except RefusedError as error:
            hear_bound(error, context.principal)
            return refused_heartbeat(request.member_id, error)

    async def stream(self, stream: HeartbeatStream, context: CallContext) -> None:
        """Answer the heartbeats of one member, and push assignments to it, until it ends."""
        member: MemberStream | None = None
        groups: ServedGroups | None = None
        try:
            async for request in stream:
                if member is None:
                    group_id = GroupId(request.group_id)
                    member = MemberStream(
                        stream,
                        group_id,
                        heartbeat_from(request, context).member_id,
                        partial(self._coordinator.check_told, context.principal, group_id),
                    )
                response = await context.time.measured(
                    self._stream_answer(request, context, member)
                )
                if groups is None and response.member_epoch > 0:
                    groups = self._serving(member.group_id)
                    if groups is not None:
                        groups.stream_opened(member)
                await member.send(response)
                if member.ended:
                    return
        except CallFailedError as error:
            _log.debug("heartbeat stream of %s: %s", context.peer, error)
        finally:
            if member is not None and groups is not None:
                groups.stream_ended(member)

    async def _stream_answer(
        self, request: ShareGroupHeartbeatRequest, context: CallContext, member: MemberStream
    ) -> ShareGroupHeartbeatResponse:
        try:
            last = member.last
            if last is not None and says_again(request, last):
                groups = self._unchanged(last, context.principal)
                if groups is not None:
                    await groups.looks.confirmed()
                    return self._again(last)
            if (request.group_id, request.member_id) != (member.group_id, member.member_id):
                raise invalid_request(
                    f"this stream is of member {member.member_id!r} of group {member.group_id!r}; "
                    "open another stream for another member"
                )
            return await self._answer(request, context, member)
        except RefusedError as error:
            hear_bound(error, context.principal)
            return refused_heartbeat(request.member_id, error)

    def _unchanged(self, last: Heartbeat, principal: str) -> ServedGroups | None:
        """Take the last heartbeat of a stream once more if it changes nothing; else return None.

        What another request may have changed meanwhile is checked anew.
        """
        self._coordinator.check_feature()
        self._coordinator.access.group(principal, Operation.READ, last.group_id)
        groups = self._groups_of(last.group_id)
        return None if groups.unchanged(last) is None else groups

    def _again(self, last: Heartbeat) -> ShareGroupHeartbeatResponse:
        return ShareGroupHeartbeatResponse(
            member_id=last.member_id,
            member_epoch=last.member_epoch,
            heartbeat_interval_ms=self._coordinator.config(last.group_id).heartbeat_interval_ms,
        )

    def _serving(self, group_id: GroupId) -> ServedGroups | None:
        try:
            return self._groups_of(group_id)
        except RefusedError:
            return None

    async def _answer(
        self,
        message: ShareGroupHeartbeatRequest,
        context: CallContext,
        stream: MemberStream | None,
    ) -> ShareGroupHeartbeatResponse:
        request = heartbeat_from(message, context)
        self._check(request, context.principal)
        groups = self._groups_of(request.group_id)
        if request.member_epoch == LEAVE_EPOCH:
            await groups.leave(request.group_id, request.member_id, request.principal)
            return ShareGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=LEAVE_EPOCH
            )
        answer = await groups.heartbeat(request, stream)
        if self._wishes is not None and request.subscribed_topic_names:
            self._wishes.want(request.subscribed_topic_names)
        if stream is None:
            answer = await self._held(message, request, answer, groups)
        config = self._coordinator.config(request.group_id)
        told = assignment_message(
            request.member_id, answer, config.heartbeat_interval_ms, self._coordinator.catalog
        )
        if stream is None:
            self._coordinator.check_told(context.principal, request.group_id, told)
        elif answer.assignment is None and request.rack_id is None:
            stream.last = request
        return told

    async def _held(
        self,
        message: ShareGroupHeartbeatRequest,
        request: Heartbeat,
        answer: HeartbeatAnswer,
        groups: ServedGroups,
    ) -> HeartbeatAnswer:
        wait_ms = min(message.max_wait_ms, self._coordinator.settings.join_wait_limit_ms)
        if request.member_epoch != JOIN_EPOCH or wait_ms <= 0 or answer.assignment:
            return answer
        return await groups.await_assignment(request, answer, wait_ms)

    def _check(self, request: Heartbeat, principal: str) -> None:
        """Check in the order of spec GC-3, then GC-5."""
        coordinator = self._coordinator
        coordinator.check_feature()
        coordinator.access.group(principal, Operation.READ, request.group_id)
        check_fields(request)
        for name in request.subscribed_topic_names or ():
            coordinator.access.topic(principal, Operation.DESCRIBE, name)
