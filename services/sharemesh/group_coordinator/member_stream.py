"""Members at their coordinator: heartbeats as messages, open streams, ends of sessions."""

import asyncio
from collections import deque
from collections.abc import Callable

from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import GroupId, MemberId
from sharemesh.domain.share_group.assignor import Assignment
from sharemesh.domain.share_group.context import MAX_SUBSCRIBED_TOPICS, TopicsImage
from sharemesh.domain.share_group.deadlines import SessionDeadlines
from sharemesh.domain.share_group.heartbeat import JOIN_EPOCH, Heartbeat, HeartbeatAnswer
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import CallContext, CallFailedError, Stream
from sharemesh.timers import TimerHandle, Timers
from sharemesh.v1.common_pb2 import TopicPartitions
from sharemesh.v1.group_coordinator_pb2 import (
    ShareGroupAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


def heartbeat_from(request: ShareGroupHeartbeatRequest, context: CallContext) -> Heartbeat:
    """Return what a member says; absent fields are unchanged (spec GC-1)."""
    names: tuple[str, ...] | None = None
    if request.HasField("subscribed_topic_names"):
        # one more than allowed is enough to refuse it, after the checks that come first
        names = tuple(request.subscribed_topic_names.names[: MAX_SUBSCRIBED_TOPICS + 1])
    joins = request.member_epoch == JOIN_EPOCH  # only then is it kept where a member is from
    return Heartbeat(
        GroupId(request.group_id),
        MemberId(request.member_id),
        request.member_epoch,
        rack_id=request.rack_id if request.HasField("rack_id") else None,
        subscribed_topic_names=names,
        client_id=request.client_id,
        client_host=client_host(context.peer) if joins else "",
        principal=context.principal,
    )


def says_again(request: ShareGroupHeartbeatRequest, before: Heartbeat) -> bool:
    """Return whether a request is this heartbeat of the same stream once more.

    A member says the same again and again: it need not be read and checked anew each time.
    """
    return (
        request.member_epoch == before.member_epoch
        and request.member_id == before.member_id
        and request.group_id == before.group_id
        and request.client_id == before.client_id
        and not request.HasField("rack_id")
        and not request.HasField("subscribed_topic_names")
    )


def client_host(peer: str) -> str:
    """Return the host of a peer such as ``ipv4:10.0.0.1:4711``, as Kafka shows it."""
    for family in ("ipv4:", "ipv6:"):
        if peer.startswith(family):
            return "/" + peer.removeprefix(family).rpartition(":")[0].strip("[]")
    return peer


def assignment_message(
    member_id: MemberId, answer: HeartbeatAnswer, heartbeat_interval_ms: int, catalog: TopicsImage
) -> ShareGroupHeartbeatResponse:
    """Return a heartbeat's answer; without an assignment in it if that did not change."""
    message = ShareGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms,
    )
    if answer.assignment is not None:
        message.assignment.CopyFrom(partitions_message(answer.assignment, catalog))
    return message


def partitions_message(assignment: Assignment, catalog: TopicsImage) -> ShareGroupAssignment:
    """Return partitions with the names of their topics where those still exist."""
    message = ShareGroupAssignment()
    for topic_id, numbers in assignment.items():
        topic = catalog.with_id(topic_id)
        message.topic_partitions.append(
            TopicPartitions(
                topic_id=topic_id,
                partitions=numbers,
                topic_name=topic.name if topic is not None else "",
            )
        )
    return message


def refused_heartbeat(member_id: str, error: RefusedError) -> ShareGroupHeartbeatResponse:
    """Return the answer to a heartbeat that was refused."""
    return ShareGroupHeartbeatResponse(
        error_code=error.error, error_message=error.message, member_id=member_id
    )


HeartbeatStream = Stream[ShareGroupHeartbeatResponse, ShareGroupHeartbeatRequest]
MAX_EPOCHS_UNDER_WAY = 64
"""Epochs sent and not yet echoed that are remembered; a member further behind is fenced."""


class MemberStream:
    """One member's open stream. Messages go out one at a time, member epochs never backward."""

    def __init__(
        self,
        stream: HeartbeatStream,
        group_id: GroupId,
        member_id: MemberId,
        check: Callable[[ShareGroupHeartbeatResponse], None],
    ) -> None:
        """``check`` raises RefusedError for an answer that the member may not hear (AUT-5)."""
        self.group_id = group_id
        self.member_id = member_id
        self._stream = stream
        self._check = check
        self._turn = asyncio.Lock()
        self._under_way: deque[int] = deque(maxlen=MAX_EPOCHS_UNDER_WAY)
        self._newest = 0
        self.last: Heartbeat | None = None  # that changed nothing
        self.ended = False

    def knows(self, member_epoch: int) -> bool:
        """Return whether this epoch was sent here and nothing older came back since.

        A heartbeat that crossed a pushed assignment still carries an earlier epoch.
        """
        if member_epoch not in self._under_way:
            return False
        while self._under_way[0] != member_epoch:
            self._under_way.popleft()
        return True

    async def send(self, message: ShareGroupHeartbeatResponse) -> None:
        """Send an answer or an assignment; without the right to it, the refusal, and no more.

        Raises:
            CallFailedError: The stream is gone.
        """
        await self._turn.acquire()  # not a block of its own: that is two coroutines a message
        try:
            if self.ended:
                return
            refusal = None if message.error_code else self.refusal(message)
            if refusal is not None:
                self.ended = True
                message = refused_heartbeat(self.member_id, refusal)
            epoch = message.member_epoch
            if epoch > 0:
                if epoch < self._newest:
                    message.member_epoch = epoch = self._newest
                    message.ClearField("assignment")
                self._newest = epoch
                if not self._under_way or self._under_way[-1] != epoch:
                    self._under_way.append(epoch)
            await self._stream.send(message)
        finally:
            self._turn.release()

    async def push(self, message: ShareGroupHeartbeatResponse, timeout_ms: int) -> None:
        """Send unasked; a stream that does not take it in time is closed."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self.send(message)
        except (CallFailedError, TimeoutError):
            self.ended = True
        if self.ended:
            await self.close()

    def refusal(self, message: ShareGroupHeartbeatResponse) -> RefusedError | None:
        """Return why the member may not see this under the current access rules."""
        try:
            self._check(message)
        except RefusedError as refused:
            return refused
        return None

    async def end_without_right(self, refusal: RefusedError, timeout_ms: int) -> None:
        """Say what right is gone as the last word, and end (AUT-6)."""
        await self.push(refused_heartbeat(self.member_id, refusal), timeout_ms)
        await self.close()

    async def close(self) -> None:
        """End the stream; its handler then notes the end."""
        self.ended = True
        await self._stream.close()


class MemberStreams:
    """Open streams of one shard, by group and member."""

    def __init__(self) -> None:
        self._streams: dict[GroupId, dict[MemberId, MemberStream]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._streams.values()))

    def add(self, stream: MemberStream) -> MemberStream | None:
        """Remember a member's stream; return the one it replaces."""
        members = self._streams.setdefault(stream.group_id, {})
        before = members.get(stream.member_id)
        members[stream.member_id] = stream
        return before if before is not stream else None

    def remove(self, stream: MemberStream) -> bool:
        """Forget a stream; return whether it was still the member's."""
        members = self._streams.get(stream.group_id, {})
        if members.get(stream.member_id) is not stream:
            return False
        del members[stream.member_id]
        if not members:
            del self._streams[stream.group_id]
        return True

    def of_group(self, group_id: GroupId) -> dict[MemberId, MemberStream]:
        """Return the streams of a group's members."""
        return dict(self._streams.get(group_id, {}))

    def all(self) -> list[MemberStream]:
        """Return all streams."""
        return [stream for members in self._streams.values() for stream in members.values()]


class GroupTimers:
    """Sessions of members, and the moments of reviews: one handle of the timer at a time."""

    def __init__(
        self,
        timers: Timers,
        clock: Clock,
        due: Callable[[list[tuple[GroupId, MemberId]]], None],
    ) -> None:
        """``due`` is called with the members whose moment has come."""
        self._timers = timers
        self._clock = clock
        self._due = due
        self._deadlines = SessionDeadlines()
        self._handle: TimerHandle | None = None
        self._closed = False

    def start(self, group_id: GroupId, member_id: MemberId, after_ms: int) -> None:
        """Set, or move, the moment of a member to ``after_ms`` from now."""
        self.start_at(group_id, member_id, self._clock.now_ms() + after_ms)

    def start_at(self, group_id: GroupId, member_id: MemberId, due_ms: int) -> None:
        """Set, or move, the moment of a member (monotonic)."""
        self._deadlines.restart(group_id, member_id, due_ms)
        self._wake_by(due_ms)

    def shorten(self, group_id: GroupId, member_id: MemberId, after_ms: int) -> None:
        """Bring a moment forward to ``after_ms`` from now, if it is set and later."""
        due_ms = self._clock.now_ms() + after_ms
        self._deadlines.shorten(group_id, member_id, due_ms)
        self._wake_by(due_ms)

    def stop(self, group_id: GroupId, member_id: MemberId) -> None:
        """Forget a moment. Repeating it is fine."""
        self._deadlines.forget(group_id, member_id)

    def running(self, group_id: GroupId, member_id: MemberId) -> bool:
        """Return whether a moment is set that has not come yet."""
        return self._deadlines.deadline_ms(group_id, member_id) is not None

    def close(self) -> None:
        """Call ``due`` no more. Repeating it is fine."""
        self._closed = True
        if self._handle is not None:
            self._handle.cancel()

    def _wake_by(self, due_ms: int) -> None:
        if self._handle is not None:
            if self._handle.is_set and self._handle.deadline_ms <= due_ms:
                return
            self._handle.cancel()
        if not self._closed:
            self._handle = self._timers.at(due_ms, self._wake)

    def _wake(self) -> None:
        come = self._deadlines.take_due(self._clock.now_ms())
        next_ms = self._deadlines.next_ms()
        if next_ms is not None:
            self._wake_by(next_ms)
        if come:
            self._due(come)
