"""The groups of one loaded shard: heartbeats, sessions, reviews, and what follows them."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sharemesh.domain.errors import RefusedError
from sharemesh.domain.ids import GroupId, MemberId
from sharemesh.domain.share_group.context import (
    GroupContext,
    GroupDecision,
    InitializePlan,
    TopicsImage,
)
from sharemesh.domain.share_group.epochs import next_review_ms
from sharemesh.domain.share_group.group import ShareGroup
from sharemesh.domain.share_group.heartbeat import (
    Heartbeat,
    HeartbeatAnswer,
    deliver,
    heartbeat,
    leave,
    remove_members,
    review,
    settled_answer,
    waits_for_assignment,
)
from sharemesh.group_coordinator.coordinator_context import CoordinatorContext
from sharemesh.group_coordinator.group_shard import GroupDecisions, LoadedShard
from sharemesh.group_coordinator.heartbeat_barrier import HeartbeatBarrier
from sharemesh.group_coordinator.member_stream import (
    GroupTimers,
    MemberStream,
    MemberStreams,
    assignment_message,
)
from sharemesh.group_coordinator.share_state_work import ShareStateWork
from sharemesh.ports.share_state import PersisterPort
from sharemesh.ports.topic_wishes import TopicWishes
from sharemesh.runtime.shard_kind import Decision
from sharemesh.timers import Timers
from sharemesh.v1.group_coordinator_pb2 import ShareGroupHeartbeatResponse

REVIEW = MemberId("")
"""Key of the group itself in the deadlines: when to review it without a heartbeat."""
WISHES_MS = 60_000
RETRY_MS = 1_000
"""After a decision that the log did not take in time."""

_log = logging.getLogger("sharemesh.group_coordinator")


class ServedGroups:
    """The groups of one shard while it is served here.

    Every decision that leaves records is followed by a review of the group: it raises the epoch,
    computes what is due, starts initializations, and pushes assignments to streams and to joins
    that are held. Reviews also come from deadlines and from changes of topics.
    """

    def __init__(
        self,
        shard: LoadedShard,
        coordinator: CoordinatorContext,
        persister: PersisterPort,
        timers: Timers,
        wishes: TopicWishes | None = None,
    ) -> None:
        """``wishes`` is reminded of the topics that groups subscribe to."""
        self._wishes = wishes
        self.shard = shard
        self.decisions = GroupDecisions(shard, coordinator, self.want_review)
        self.state_work = ShareStateWork(self.decisions, coordinator, persister)
        self._coordinator = coordinator
        self._timers = GroupTimers(timers, coordinator.clock, self._handle_due)
        self.looks = HeartbeatBarrier(shard, coordinator.clock, coordinator.limits.look_interval_ms)
        self.streams = MemberStreams()
        self._to_review: dict[GroupId, None] = {}
        self._review_wanted = asyncio.Event()
        self._held: dict[GroupId, dict[asyncio.Event, None]] = {}

    def start(self) -> None:
        """Begin to serve: all sessions at full length (spec GC-21), unfinished work resumes."""
        groups = self.shard.peek(lambda machine: list(machine.groups.values()))
        for group in groups:
            for member_id in group.members:
                self.restart_session(group.group_id, member_id)
            self.want_review(group.group_id)
        self.shard.keep("looks", self.looks.run)
        self.shard.keep("reviews", self._reviews)
        self.state_work.resume(groups)
        limits = self._coordinator.limits
        self.shard.every(limits.compact_interval_ms, "compaction", self._compact)
        self.shard.every(
            limits.unknown_topic_grace_ms, "unknown topics", self.state_work.drop_unknown
        )

        if self._wishes is not None:
            self.shard.every(WISHES_MS, "wanted topics", self._remind)

    async def _remind(self) -> None:
        """Ask once more for what groups subscribe to: what was written may be forgotten (KTP-2)."""
        if self._wishes is not None:
            groups = self.shard.peek(lambda machine: list(machine.groups.values()))
            for group in groups:
                self._wishes.want(group.subscribed_names)

    def end(self) -> list[MemberStream]:
        """Stop the timers; return the streams, which must be closed: members look the shard up."""
        self._timers.close()
        return self.streams.all()

    # ---- requests of members ---------------------------------------------------------------------

    async def heartbeat(
        self, request: Heartbeat, stream: MemberStream | None = None
    ) -> HeartbeatAnswer:
        """Decide a heartbeat with epoch 0 or higher (spec GC-7 to GC-22)."""
        under_way = stream is not None and stream.knows(request.member_epoch)
        settled = self.unchanged(request)
        if settled is not None:
            await self.looks.confirmed()
            return settled

        def make(
            group: ShareGroup | None, group_context: GroupContext
        ) -> GroupDecision[HeartbeatAnswer]:
            asked = request
            member = None if group is None else group.members.get(request.member_id)
            if member is not None and under_way:
                asked = replace(request, member_epoch=member.member_epoch)
            return heartbeat(group, asked, group_context)

        def accepted(answer: HeartbeatAnswer) -> None:
            self.restart_session(request.group_id, request.member_id)
            self._start_initialization(answer.initialize)

        return await self.decisions.decide(
            request.group_id, make, accepted, principal=request.principal
        )

    def unchanged(self, request: Heartbeat) -> HeartbeatAnswer | None:
        """Return the answer to a heartbeat that changes nothing, to be told after a look.

        The member's session begins anew. None: the heartbeat must be decided.
        """
        group_id = request.group_id
        settled = settled_answer(self.decisions.group(group_id), request, self._coordinator.catalog)
        if settled is not None:
            self.restart_session(group_id, request.member_id)
        return settled

    async def leave(self, group_id: GroupId, member_id: MemberId, principal: str) -> None:
        """Decide a leave (spec GC-23)."""

        def make(group: ShareGroup | None, group_context: GroupContext) -> GroupDecision[None]:
            outcome = leave(group, group_id, member_id, group_context.catalog, principal=principal)
            self._timers.stop(group_id, member_id)
            return outcome

        await self.decisions.decide(group_id, make)

    async def await_assignment(
        self, request: Heartbeat, answer: HeartbeatAnswer, wait_ms: int
    ) -> HeartbeatAnswer:
        """Hold a join until its assignment is there, or the wait is over."""
        group_id, member_id = request.group_id, request.member_id
        changed = asyncio.Event()
        self._held.setdefault(group_id, {})[changed] = None
        try:
            async with asyncio.timeout(wait_ms / 1_000):
                while self._still_waits(group_id, member_id):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            pass
        finally:
            held = self._held[group_id]
            del held[changed]
            if not held:
                del self._held[group_id]
        told = await self.decisions.decide(
            group_id, lambda group, _: _delivered(group, [member_id])
        )
        self.restart_session(group_id, member_id)
        return told.get(member_id, answer)

    async def members_expired(self, group_id: GroupId, member_ids: Sequence[MemberId]) -> None:
        """Remove members that were silent too long, unless they spoke in the meantime."""

        def make(group: ShareGroup | None, group_context: GroupContext) -> GroupDecision[None]:
            silent = [
                member_id
                for member_id in member_ids
                if not self._timers.running(group_id, member_id)
            ]
            if group is None:
                return GroupDecision((), None)
            return remove_members(group, silent, group_context.catalog)

        try:
            await self.decisions.decide(group_id, make)
        except Exception as error:  # or these groups would never be reviewed again
            _said("expiry of members", group_id, error)
            for member_id in member_ids:
                if not self._timers.running(group_id, member_id):
                    self._timers.start(group_id, member_id, RETRY_MS)

    # ---- sessions and streams -------------------------------------------------------------------

    def restart_session(self, group_id: GroupId, member_id: MemberId) -> None:
        """Give a member its full session time-out from now on (spec GC-21)."""
        timeout_ms = self._coordinator.config(group_id).session_timeout_ms
        self._timers.start(group_id, member_id, timeout_ms)

    def stream_opened(self, stream: MemberStream) -> None:
        """A member speaks on a stream from now on; one it had before is closed."""
        before = self.streams.add(stream)
        if before is not None:
            self.shard.start_job("replaced stream", before.close())

    def stream_ended(self, stream: MemberStream) -> None:
        """Without its stream a member has only a short time to come back."""
        if not self.streams.remove(stream):
            return
        linger_ms = self._coordinator.settings.stream_linger_ms
        self._timers.shorten(stream.group_id, stream.member_id, linger_ms)

    def rights_changed(self) -> None:
        """End the streams of members that may not read their group any more (AUT-6)."""
        for stream in self.streams.all():
            refusal = stream.refusal(ShareGroupHeartbeatResponse())
            if refusal is not None:
                timeout_ms = self._coordinator.limits.push_timeout_ms
                ending = stream.end_without_right(refusal, timeout_ms)
                self.shard.start_job("revoked stream", ending)

    # ---- reviews --------------------------------------------------------------------------------

    def want_review(self, group_id: GroupId) -> None:
        """Schedule a review of a group soon."""
        self._to_review[group_id] = None
        self._review_wanted.set()

    def topics_changed(self, before: TopicsImage, now: TopicsImage) -> None:
        """Look at the groups that topics which came, went or grew concern (spec GC-14, GC-30).

        Only a topic that this process saw counts as deleted at once; for others there is a grace
        (``drop_unknown``): a view that lags must not cost a group its offsets. Where topics are
        those of a Kafka cluster, all have that grace (KTP-10).
        """
        changed = set(before.topics) ^ set(now.topics)
        names = {topic.name for topic in changed}
        self.state_work.topics_come(topic.topic_id for topic in now.topics)
        gone = {
            topic.topic_id: topic.partitions
            for topic in before.topics
            if now.with_id(topic.topic_id) is None
        }
        for group in self.shard.peek(lambda machine: list(machine.groups.values())):
            if not names.isdisjoint(group.subscribed_names):
                self.want_review(group.group_id)
        if gone and not self._coordinator.limits.deleted_topics_wait:
            self.state_work.topics_gone(gone)

    async def _reviews(self) -> None:
        at_once = self._coordinator.limits.reviews_at_once
        while True:
            await self._review_wanted.wait()
            self._review_wanted.clear()
            while self._to_review:
                chunk = [
                    self._to_review.popitem()[0] for _ in range(min(at_once, len(self._to_review)))
                ]
                await asyncio.gather(*(self._review(group_id) for group_id in chunk))

    async def _review(self, group_id: GroupId) -> None:
        def make(group: ShareGroup | None, group_context: GroupContext) -> GroupDecision[None]:
            if group is None:
                return GroupDecision((), None)
            outcome = review(group, group_context)
            self._start_initialization(outcome.answer)
            return GroupDecision(outcome.records, None)

        try:
            await self.decisions.review(group_id, make)
            self._schedule(group_id)
            await self._announce(group_id)
        except Exception as error:  # it must not end the reviews of other groups
            _said("review", group_id, error)
            self._timers.start(group_id, REVIEW, RETRY_MS)

    def _schedule(self, group_id: GroupId) -> None:
        group = self.decisions.group(group_id)
        due_ms = None
        if group is not None:
            due_ms = next_review_ms(group, self._coordinator.group_context(group_id, 0))
        if due_ms is None:
            self._timers.stop(group_id, REVIEW)
        else:
            self._timers.start_at(group_id, REVIEW, due_ms)

    async def _announce(self, group_id: GroupId) -> None:
        """Tell held joins, and members with a stream whose partitions changed."""
        for changed in self._held.get(group_id, ()):
            changed.set()
        streams = self.streams.of_group(group_id)
        group = self.decisions.group(group_id)
        if group is None or not streams:
            return
        waiting = [
            member_id
            for member_id in streams
            if (member := group.members.get(member_id)) is not None
            and member.assigned != group.target(member_id)
        ]
        if not waiting:
            return
        told = await self.decisions.review(group_id, lambda now, _: _delivered(now, waiting))
        interval_ms = self._coordinator.config(group_id).heartbeat_interval_ms
        for member_id, answer in told.items():
            message = assignment_message(member_id, answer, interval_ms, self._coordinator.catalog)
            push = streams[member_id].push(message, self._coordinator.limits.push_timeout_ms)
            self.shard.start_job("push", push)

    def _still_waits(self, group_id: GroupId, member_id: MemberId) -> bool:
        group_context = self._coordinator.group_context(group_id, 0)
        return waits_for_assignment(self.decisions.group(group_id), member_id, group_context)

    def _start_initialization(self, plan: InitializePlan | None) -> None:
        if plan is not None:
            interval_ms = self._coordinator.settings.initialize_retry_interval_ms
            self.shard.start_job(
                "initialize",
                self.state_work.initialize(plan),
                put_off=f"to a review of group {plan.group_id!r} within {interval_ms} ms",
            )

    def _handle_due(self, due: list[tuple[GroupId, MemberId]]) -> None:
        silent: dict[GroupId, list[MemberId]] = {}
        for group_id, member_id in due:
            if member_id == REVIEW:
                self.want_review(group_id)
            else:
                silent.setdefault(group_id, []).append(member_id)
        for group_id, member_ids in silent.items():
            _log.info("group %r: %d members timed out", group_id, len(member_ids))
            self.shard.start_job("expiry", self.members_expired(group_id, member_ids))

    # ---- the log --------------------------------------------------------------------------------

    async def _compact(self) -> None:
        """Write what is live once more and drop the log below, so that loading stays short."""
        limits = self._coordinator.limits
        chunks = self.shard.peek(lambda machine: machine.live_records())
        live = sum(map(len, chunks))
        if self.shard.log_length < max(limits.compact_min_records, live * limits.compact_factor):
            return
        begin = self.shard.log_start_offset + self.shard.log_length
        group_ids = self.shard.peek(lambda machine: list(machine.groups))
        for group_id in group_ids:
            await self._write_again(group_id)
        await self.shard.write(lambda machine: Decision(machine.own_records(), None))
        await self.shard.delete_before(begin)

    async def _write_again(self, group_id: GroupId) -> None:
        await self.shard.write(lambda machine: Decision(machine.records_of(group_id), None))


def _said(what: str, group_id: GroupId, error: Exception) -> None:
    """Log why work is retried; an unexpected error is logged with its traceback."""
    trace = None if isinstance(error, RefusedError) else error
    _log.warning("%s of group %r failed, again soon: %s", what, group_id, error, exc_info=trace)


def _delivered(
    group: ShareGroup | None, member_ids: Iterable[MemberId]
) -> GroupDecision[Mapping[MemberId, HeartbeatAnswer]]:
    return GroupDecision((), {}) if group is None else deliver(group, member_ids)
