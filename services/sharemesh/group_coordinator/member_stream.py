"""The heartbeat streams of members: answers, and assignments that come unasked."""

import asyncio
from collections import deque
from collections.abc import Callable

from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import GroupId, MemberId
from sharemesh.group_coordinator.messages import refused_heartbeat
from sharemesh.ports.network import CallFailedError, Stream
from sharemesh.v1.group_coordinator_pb2 import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
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
        self.ended = False

    def knows(self, member_epoch: int) -> bool:
        """Return whether this epoch was sent here and nothing older came back since.

        A heartbeat that crossed a pushed assignment still carries an epoch of before.
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
        async with self._turn:
            if self.ended:
                return
            refusal = None if message.error_code else self.refusal(message)
            if refusal is not None:
                self.ended = True
                message = refused_heartbeat(self.member_id, refusal)
            if message.member_epoch > 0:
                if message.member_epoch < self._newest:
                    message.member_epoch = self._newest
                    message.ClearField("assignment")
                self._newest = message.member_epoch
                if not self._under_way or self._under_way[-1] != self._newest:
                    self._under_way.append(self._newest)
            await self._stream.send(message)

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
        """Return why the member may not be told this, as rights are now."""
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
