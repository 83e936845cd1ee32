"""Membership in a share group: joins, keeps alive, rejoins, leaves (spec GC-1..25, CL-28)."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sharemesh.backoff import Backoff
from sharemesh.client.errors import SharemeshError, error_for
from sharemesh.client.metadata.metadata_cache import MetadataCache
from sharemesh.client.repeated_warnings import RepeatedWarnings
from sharemesh.domain.errors import Ends, ErrorCode, coordinator_moved, policy_of
from sharemesh.methods import SHARE_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT_STREAM
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import REFUSALS, Caller, CallFailedError, Failure, Stream
from sharemesh.tasks import cancel_and_wait, wait_until_set
from sharemesh.v1.common_pb2 import TopicPartitions
from sharemesh.v1.group_coordinator_pb2 import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    SubscribedTopicNames,
)

_log = logging.getLogger(__name__)

LEAVE_EPOCH = -1
JOIN_EPOCH = 0
SESSION_TIMEOUT_MS = 45_000
"""Without a response for this long the member considers itself fenced and drops its assignment."""

ANSWER_TIMEOUT_MS = 10_000
"""A stream that leaves a heartbeat unanswered for this long is closed."""

_FIRST_INTERVAL_MS = 1_000
_FIND_TIMEOUT_MS = 10_000
_JOIN_WAIT_MS = 1_000

_REPEATED = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR})
"""Coordinator errors after which the heartbeat is retried, perhaps at the next coordinator."""

Beats = Stream[ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse]


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """Who this is; the member id is made once and never changes (spec GC-2)."""

    group_id: str
    member_id: str
    client_id: str
    rack_id: str


class _FindAgainError(Exception):
    """The coordinator moved or is not ready."""


class Membership:
    """The membership of one consumer; ``run`` is its only task.

    ``on_assignment`` gets each new assignment, ``on_fatal`` an error that ends the membership.
    """

    def __init__(
        self,
        member: MemberIdentity,
        leaders: MetadataCache,
        caller: Caller,
        clock: Clock,
        on_assignment: Callable[[Sequence[TopicPartitions]], None],
        on_fatal: Callable[[SharemeshError], None],
    ) -> None:
        self._member = member
        self._leaders = leaders
        self._caller = caller
        self._clock = clock
        self._on_assignment = on_assignment
        self._on_fatal = on_fatal
        self._names: tuple[str, ...] = ()
        self._names_sent = False
        self._epoch = JOIN_EPOCH
        self._interval_ms = _FIRST_INTERVAL_MS
        self._answered_ms = clock.now_ms()
        self._changed = asyncio.Event()
        self._left = asyncio.Event()
        self._streaming = True
        self._backoff: Backoff = leaders.backoff()
        self._warnings = RepeatedWarnings(clock)
        self.heartbeats = 0
        self.rejoins = 0
        self.assignments = 0

    @property
    def epoch(self) -> int:
        """The member epoch; 0 before the first join and after being fenced."""
        return self._epoch

    @property
    def names(self) -> Sequence[str]:
        """The subscribed topics."""
        return self._names

    def subscribe(self, names: Sequence[str]) -> None:
        """Set the subscription, not empty; the coordinator gets it at once."""
        self._names = tuple(sorted(set(names)))
        self._names_sent = False
        self._changed.set()

    async def run(self) -> None:
        """Keep the membership until a fatal error; cancel it to end without leaving."""
        while True:
            try:
                address = await self._leaders.coordinator(
                    self._member.group_id, timeout_ms=_FIND_TIMEOUT_MS
                )
                await (self._by_stream(address) if self._streaming else self._by_calls(address))
            except _FindAgainError:
                pass
            except CallFailedError as error:
                if error.failure is Failure.UNIMPLEMENTED and self._streaming:
                    self._streaming = False
                    continue
                if error.failure in REFUSALS:
                    self._on_fatal(error_for(ErrorCode.GROUP_AUTHORIZATION_FAILED, str(error)))
                    return
            except SharemeshError as error:
                if not getattr(error, "retriable", True):
                    self._on_fatal(error)
                    return
                self._warn(error)
            self._leaders.forget_coordinator(self._member.group_id)
            self._names_sent = False
            self._drop_when_silent()
            await self._clock.sleep_ms(self._backoff.next_ms())

    def _warn(self, error: SharemeshError) -> None:
        if self._warnings.is_due(type(error).__name__):
            _log.warning("group %s cannot be joined now: %s", self._member.group_id, error)

    def _drop_when_silent(self) -> None:
        silent_ms = self._clock.now_ms() - self._answered_ms
        if self._epoch != JOIN_EPOCH and silent_ms > SESSION_TIMEOUT_MS:
            self._rejoin()

    def _rejoin(self) -> None:
        self.rejoins += 1
        self._epoch = JOIN_EPOCH
        self._names_sent = False
        self._on_assignment(())

    async def _by_stream(self, address: str) -> None:
        stream = await self._caller.stream(SHARE_GROUP_HEARTBEAT_STREAM, to=address)
        reader = asyncio.ensure_future(self._read(stream))
        try:
            while True:
                self._changed.clear()
                sent_ms = self._clock.now_ms()
                await stream.send(self._request(max_wait_ms=0))
                await self._pause(reader)
                if reader.done():
                    reader.result()
                    raise _FindAgainError
                if self._answered_ms < sent_ms - ANSWER_TIMEOUT_MS:
                    raise _FindAgainError
        finally:
            await cancel_and_wait(reader)
            await stream.close()

    async def _pause(self, reader: "asyncio.Task[None]") -> None:
        """Return when the next heartbeat is due: interval, change, or the stream's end."""
        change = asyncio.ensure_future(self._changed.wait())
        timer = asyncio.ensure_future(self._clock.sleep_ms(self._interval_ms))
        try:
            await asyncio.wait((change, timer, reader), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(change, timer)

    async def _read(self, stream: Beats) -> None:
        async for response in stream:
            self._take(response)

    async def _by_calls(self, address: str) -> None:
        while True:
            self._changed.clear()
            first = self._epoch == JOIN_EPOCH
            response = await self._caller.call(
                SHARE_GROUP_HEARTBEAT,
                self._request(max_wait_ms=_JOIN_WAIT_MS if first else 0),
                to=address,
                timeout_ms=ANSWER_TIMEOUT_MS,
            )
            self._take(response)
            if self._changed.is_set():
                continue
            await wait_until_set(self._changed, self._interval_ms)

    def _request(self, *, max_wait_ms: int) -> ShareGroupHeartbeatRequest:
        request = ShareGroupHeartbeatRequest(
            group_id=self._member.group_id,
            member_id=self._member.member_id,
            member_epoch=self._epoch,
            client_id=self._member.client_id,
            max_wait_ms=max_wait_ms,
        )
        if not self._names_sent or self._epoch == JOIN_EPOCH:
            request.subscribed_topic_names.CopyFrom(SubscribedTopicNames(names=self._names))
            if self._member.rack_id:
                request.rack_id = self._member.rack_id
            self._names_sent = True
        self.heartbeats += 1
        return request

    def _take(self, response: ShareGroupHeartbeatResponse) -> None:
        """Carry out an answer or a pushed assignment.

        Raises:
            _FindAgainError: The coordinator moved or is loading.
            ServiceError: The membership ended.
        """
        self._answered_ms = self._clock.now_ms()
        code = response.error_code
        if _find_again(code):
            raise _FindAgainError
        lost = policy_of(code).ends is Ends.MEMBERSHIP or (
            code == ErrorCode.GROUP_ID_NOT_FOUND and self._epoch != JOIN_EPOCH
        )
        if lost:
            joining = self._epoch == JOIN_EPOCH
            self._rejoin()
            if joining:
                self._warn(error_for(code, response.error_message))
                raise _FindAgainError  # with a wait: the member is another principal's (BND-26)
            self._changed.set()
            return
        if code != ErrorCode.NONE:
            raise error_for(code, response.error_message, about=f"group {self._member.group_id}")
        if response.member_epoch == LEAVE_EPOCH:
            self._left.set()
            return
        self._backoff.reset()
        self._epoch = response.member_epoch
        self._interval_ms = response.heartbeat_interval_ms or self._interval_ms
        if response.HasField("assignment"):
            self.assignments += 1
            self._on_assignment(tuple(response.assignment.topic_partitions))

    async def leave(self, *, timeout_ms: int) -> None:
        """Leave the group; ``run`` must have ended.

        A coordinator that does not answer in time is left to the session time-out.
        """
        if self._epoch == JOIN_EPOCH:
            return
        request = ShareGroupHeartbeatRequest(
            group_id=self._member.group_id,
            member_id=self._member.member_id,
            member_epoch=LEAVE_EPOCH,
        )
        deadline_ms = self._clock.now_ms() + timeout_ms
        self._epoch = JOIN_EPOCH
        self._names_sent = False
        while (left_ms := deadline_ms - self._clock.now_ms()) > 0:
            try:
                address = await self._leaders.coordinator(self._member.group_id, timeout_ms=left_ms)
                response = await self._caller.call(
                    SHARE_GROUP_HEARTBEAT,
                    request,
                    to=address,
                    timeout_ms=max(deadline_ms - self._clock.now_ms(), 1),
                )
            except (CallFailedError, SharemeshError):
                response = None
            if response is not None and not _find_again(response.error_code):
                return
            self._leaders.forget_coordinator(self._member.group_id)
            await self._clock.sleep_ms(min(self._backoff.next_ms(), max(left_ms, 0)))


def _find_again(code: int) -> bool:
    return coordinator_moved(code) or code in _REPEATED
