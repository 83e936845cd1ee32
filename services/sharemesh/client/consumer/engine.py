"""The network's side of a share consumer: membership, one session a leader, buffered deliveries."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

from sharemesh.client.config import INT32_MAX, ClientConfig
from sharemesh.client.consumer.acknowledgement_sender import AcknowledgementSender
from sharemesh.client.consumer.consume_stream import LeaderSession, SessionEvents
from sharemesh.client.consumer.deliveries import (
    AcknowledgementResult,
    Delivery,
    PartitionAcknowledgements,
)
from sharemesh.client.consumer.fetch_latency import FetchLatency
from sharemesh.client.consumer.membership import MemberIdentity, Membership
from sharemesh.client.consumer.share_sessions import ShareSessionPool
from sharemesh.client.consumer.unseen_records import UnseenRecords
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.errors import (
    ConnectionFailedError,
    SharemeshError,
    UnsupportedVersionError,
    WakeupError,
    error_for,
)
from sharemesh.client.metadata.metadata_cache import ApiVersions, MetadataCache
from sharemesh.client.metadata.missing_topics import MissingTopics
from sharemesh.client.records import TopicIdPartition
from sharemesh.client.throttle_times import ThrottleTimes
from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.errors import Ends, ErrorCode, coordinator_moved, leader_moved, policy_of
from sharemesh.domain.share_partition.events import AcquireMode
from sharemesh.ports.network import REFUSALS
from sharemesh.tasks import cancel_and_wait, wait_until_set
from sharemesh.v1.common_pb2 import CurrentLeader, TopicPartitions
from sharemesh.v1.share_leader_pb2 import ConsumeStart, ShareFetchPartition

BUFFERED_DELIVERIES_MAX = 10_000
"""More is a leader that ignores credits; the session is ended."""

STREAMS_SHARE_OF_CLOSE = 0.75
"""Part of a close's time-out that the sessions may use; the rest is for leaving the group."""

MESSAGE_POLLS = 4
"""Records that a leader may put into one message, in multiples of max.poll.records: half of what
it may send ahead, so that one message is on its way while another one is worked on."""

MESSAGE_BULKS = 2
"""The same in multiples of what one ``poll_batches`` returns."""

_log = logging.getLogger(__name__)

PASSING_ERRORS_MAX = 100
"""Errors of partitions kept for the application; the oldest go first."""


class ConsumerEngine:
    """Everything of a consumer that lives on the event loop.

    The application's side asks with ``fetch`` and ``acknowledge``; results of acknowledgements go
    to ``on_outcomes``, each exactly once.
    """

    def __init__(
        self,
        config: ClientConfig,
        environment: ClientEnvironment,
        member_id: str,
        on_outcomes: Callable[[Sequence[AcknowledgementResult]], None],
    ) -> None:
        self._config = config
        self._clock = environment.clock
        self._caller = environment.open_caller()
        self._on_outcomes = on_outcomes
        self.leaders = MetadataCache(environment, config, self._caller)
        self.versions = ApiVersions(self.leaders, environment.clock)
        self._chosen_limit = config.text("share.acquire.mode") == "record_limit"
        self._start = _start_of(config, member_id, limited=self._chosen_limit)
        self.heartbeats = Membership(
            MemberIdentity(
                config.text("group.id"),
                member_id,
                config.text("client.id"),
                config.text("client.rack"),
            ),
            self.leaders,
            self._caller,
            environment.clock,
            self._assigned,
            self._fail,
        )
        self.acknowledgements = AcknowledgementSender(
            environment.clock,
            lambda: self._buffer,
            self._finished,
            self._confirmed,
        )
        self.throttled = ThrottleTimes(environment.clock)
        self._sessions = ShareSessionPool(
            self.leaders,
            self._caller,
            environment.clock,
            self._start,
            max(config.number("fetch.max.bytes"), 1),
            SessionEvents(
                delivered=self._delivered,
                finished=self.acknowledgements.finished,
                partition_failed=self._partition_failed,
                leader_known=self._leader_known,
                nodes_known=self.leaders.learn_nodes,
                draining=self._draining,
                handed_over=self._handed_over,
                throttled=self.throttled.told,
                ended=self._ended,
            ),
        )
        self.unseen = UnseenRecords(
            environment.clock,
            at_once=config.number("max.poll.records"),
            kept=max(config.number("prefetch.records"), 0),
            give_back=self._give_back,
            hold_back=self._sessions.hold_back,
            acquire=self._acquire,
        )
        self._buffer = self.unseen.buffer
        self._missing = MissingTopics(self.leaders, environment.clock, self._unassigned)
        self._error: SharemeshError | None = None
        self._passing_errors: deque[SharemeshError] = deque(maxlen=PASSING_ERRORS_MAX)
        self._storage_troubles: dict[TopicIdPartition, str] = {}
        self._wakeup = False
        self._giving_back = False
        self._something = asyncio.Event()
        self._answered = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.records_received = self.bytes_received = 0
        self.fetches = FetchLatency()
        self.on_pause: Callable[[Collection[TopicIdPartition]], None] = lambda _: None

    # ---- subscription ---------------------------------------------------------------------------

    def subscribe(self, names: Sequence[str]) -> None:
        """Set the subscription, not empty; the first one starts the membership."""
        self.heartbeats.subscribe(names)
        if not self._tasks:
            self._tasks = [
                asyncio.ensure_future(self.heartbeats.run()),
                asyncio.ensure_future(self._consume()),
                asyncio.ensure_future(self._missing.run()),
            ]
            for task in self._tasks:
                task.add_done_callback(self._broke_down)

    async def _consume(self) -> None:
        """Learn what the cluster knows, then keep the sessions."""
        await self.versions.learn()
        if not self.versions.knows_renew:
            if self._config.text("share.acquire.mode") == "record_limit":
                self._fail(
                    UnsupportedVersionError(
                        "the cluster does not know share.acquire.mode=record_limit: upgrade its "
                        "processes"
                    )
                )
                return
            self._start.share_acquire_mode = AcquireMode.BATCH_OPTIMIZED
        await self._sessions.run()

    def _broke_down(self, task: "asyncio.Task[None]") -> None:
        """End polls that wait for a background task that failed."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(SharemeshError(f"the consumer broke down: {error!r}"))

    async def unsubscribe(self, *, timeout_ms: int) -> None:
        """Send what is to be acknowledged, close the sessions, leave the group (spec CL-5)."""
        deadline_ms = self._clock.now_ms() + timeout_ms
        self.pause()
        await cancel_and_wait(*self._tasks)
        self._tasks = []
        await self._sessions.close(timeout_ms=int(timeout_ms * STREAMS_SHARE_OF_CLOSE))
        with contextlib.suppress(SharemeshError):
            await self.heartbeats.leave(timeout_ms=max(deadline_ms - self._clock.now_ms(), 0))
        self._error = None

    async def close(self, *, timeout_ms: int) -> None:
        """Unsubscribe and close all connections; what is not done in time is abandoned."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self.unsubscribe(timeout_ms=timeout_ms)
        except TimeoutError:
            pass
        finally:
            await cancel_and_wait(*self._tasks)
            await self.unseen.close()
            await self.acknowledgements.close()
            await self._sessions.drop()
            await self._caller.close()

    # ---- what the application asks --------------------------------------------------------------

    def wakeup(self) -> None:
        """Let the fetch that waits, or the next one, raise ``WakeupError`` once."""
        self._wakeup = True
        self._something.set()
        self._answered.set()

    async def fetch(
        self,
        acknowledgements: Sequence[PartitionAcknowledgements],
        *,
        wanted: int,
        ahead: int,
        timeout_ms: int,
    ) -> list[Delivery]:
        """Send acknowledgements, then return records as soon as there are some.

        At most ``wanted``, in whole deliveries or parts of them; empty after ``timeout_ms``.
        Leaders may then send up to ``ahead`` records for the next fetch, if the application's
        pace lets it begin them soon.

        Raises:
            WakeupError: ``wakeup`` was called; nothing is lost.
            ServiceError: The membership or a session ended for good.
        """
        if wanted > self._start.batch_size and not self._chosen_limit:
            self._start.batch_size = wanted  # in bulk: sessions opened from now on get more at once
            self._start.max_records = min(MESSAGE_BULKS * wanted, INT32_MAX)
        self.acknowledgements.send(acknowledgements, may_wait=self._buffer.records > 0)
        self._giving_back = False
        found: list[Delivery] = []
        self.unseen.fetch_begins()
        try:
            found = await self._wait_for(wanted, timeout_ms)
        finally:
            self.unseen.fetch_ends(sum(delivery.record_count for delivery in found))
        ahead = min(ahead, self.unseen.workable())
        if ahead > self._buffer.records:
            self._sessions.resume()
            if self._buffer.records <= ahead // 2:  # few large messages cost less than many
                self._sessions.grant(ahead - self._buffer.records)
        elif found and not ahead:
            self._sessions.hold_back()
        return found

    async def _wait_for(self, wanted: int, timeout_ms: int) -> list[Delivery]:
        deadline_ms = self._clock.now_ms() + timeout_ms
        while True:
            self.raise_errors()
            found = self.unseen.take(wanted)
            left_ms = deadline_ms - self._clock.now_ms()
            if not found:
                self._sessions.resume()
                self._sessions.grant(wanted)
            if found or left_ms <= 0:
                return found
            self._something.clear()
            await wait_until_set(self._something, left_ms)

    @property
    def is_over(self) -> bool:
        """Whether the membership or a session ended for good; other errors are of one partition."""
        return self._error is not None

    def raise_errors(self) -> None:
        """Raise what ended the membership, or a wakeup.

        Raises:
            WakeupError: ``wakeup`` was called.
            ServiceError: The membership or a session ended for good.
        """
        if self._wakeup:
            self._wakeup = False
            raise WakeupError("wakeup was called")
        if self._error is not None:
            raise self._error
        if self._passing_errors:
            raise self._passing_errors.popleft()

    def pause(self) -> None:
        """Pause until the next fetch; give back buffered records and those still in transit."""
        self._sessions.hold_back()
        self._giving_back = True
        self._give_back(self._buffer.take(self._buffer.records))

    @property
    def assignment(self) -> Collection[TopicIdPartition]:
        """The assigned partitions."""
        return self._sessions.assignment.values()

    @property
    def paused(self) -> Collection[TopicIdPartition]:
        """Those that the application paused."""
        return self._sessions.paused.values()

    def pause_partitions(self, sources: Collection[TopicIdPartition]) -> None:
        """Hand out nothing of these; what waits goes back to the group (spec PAU-6, PAU-7)."""
        self._sessions.pause(sources)
        self._give_back(self._buffer.remove(lambda held: held.source in sources))
        self.on_pause(sources)

    def resume_partitions(self, sources: Collection[TopicIdPartition]) -> None:
        """Hand out records of these again."""
        self._sessions.unpause(sources)

    def acquire_at_most(self, records: int) -> None:
        """Ask leaders for no more than there is credit for, in sessions opened from now on."""
        self._chosen_limit = True
        if self.versions.knows_renew:
            self._start.share_acquire_mode = AcquireMode.RECORD_LIMIT
        self._start.max_records = min(self._start.max_records, records)

    async def settle(self, pending: Callable[[], bool], *, timeout_ms: int) -> None:
        """Return when ``pending`` is false, or after ``timeout_ms``.

        Raises:
            WakeupError: ``wakeup`` was called.
        """
        deadline_ms = self._clock.now_ms() + timeout_ms
        while pending():
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                return
            self._answered.clear()
            await wait_until_set(self._answered, left_ms)
            if self._wakeup:
                self._wakeup = False
                raise WakeupError("wakeup was called")

    # ---- what the leaders say -------------------------------------------------------------------

    def _delivered(self, delivery: Delivery) -> None:
        """Buffer records for the next fetch."""
        self.acknowledgements.redelivered(delivery)
        if len(self._buffer) >= BUFFERED_DELIVERIES_MAX:
            self._fail(ConnectionFailedError("a leader sent more than it had credit for"))
            return
        if self._giving_back or delivery.source in self.paused:
            self._give_back([delivery])
            return
        self.records_received += delivery.record_count
        self.bytes_received += len(delivery.payload.data)
        if delivery.waited_ms is not None:
            self.fetches.record(delivery.waited_ms)
        assert isinstance(delivery.route, LeaderSession)
        self._sessions.worked(delivery.route.node_id, delivery.source)
        self.unseen.arrived(delivery)
        self._something.set()

    def _confirmed(self, asked: PartitionAcknowledgements) -> None:
        self.unseen.confirmed(asked)

    def _finished(self, outcomes: Sequence[AcknowledgementResult]) -> None:
        self._on_outcomes(outcomes)
        self._answered.set()
        self._something.set()

    def _partition_failed(
        self, stream: LeaderSession, source: TopicIdPartition, answer: ShareFetchPartition
    ) -> None:
        """Find the leader again; an error that no move explains goes to the application."""
        stream.forget([source])
        self._sessions.refused(source, stream.node_id)
        self.unseen.refused(source)
        if policy_of(answer.error_code).ends is Ends.CONSUMER:  # its leader released them (CL-35)
            self._buffer.remove(lambda held: held.route is stream and held.source == source)
        is_coordinators = coordinator_moved(answer.error_code)  # its leader finds it again
        if not is_coordinators and not leader_moved(answer.error_code):
            self._passing_errors.append(
                error_for(answer.error_code, answer.error_message, about=str(source))
            )
            self._something.set()
        elif is_coordinators or answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            self._warn_once(source, answer.error_message)

    def _warn_once(self, source: TopicIdPartition, message: str) -> None:
        """Log why a partition waits: it may recover, so the application gets no error."""
        if self._storage_troubles.get(source) != message:
            self._storage_troubles[source] = message
            _log.warning("%s cannot be fetched now, it is asked for again: %s", source, message)

    def _leader_known(self, topic_id: bytes, partition: int, current: CurrentLeader) -> None:
        self.leaders.learn_leader(topic_id, partition, current)
        self._sessions.leader_known()

    def _draining(self, stream: LeaderSession, sources: Mapping[TopicIdPartition, str]) -> None:
        """Follow partitions to their next leader; records held here are acknowledged here."""
        for source, next_node_id in sources.items():
            self._sessions.leaving(source, stream.node_id, next_node_id)

    def _handed_over(self, stream: LeaderSession, sources: Sequence[TopicIdPartition]) -> None:
        """Acknowledge what is held of partitions at their next leader (HND-10)."""
        for source in sources:
            self._sessions.handed_over(source, stream)

    def _ended(self, stream: LeaderSession) -> None:
        """Open a new session later; deliveries that no poll has returned are dropped."""
        self._buffer.remove(lambda held: not held.route.is_open_for(held.source, held.leader_epoch))
        if not self._sessions.ended(stream):
            return
        if policy_of(stream.error_code).ends is Ends.CONSUMER:
            self._fail(error_for(stream.error_code, stream.error_message))
        elif stream.failure is not None and stream.failure.failure in REFUSALS:
            self._fail(error_for(ErrorCode.GROUP_AUTHORIZATION_FAILED, stream.failure.message))

    def _fail(self, error: SharemeshError) -> None:
        self._error = error
        self._something.set()
        self._answered.set()

    def _unassigned(self) -> set[str]:
        """Return the subscribed topics of which nothing is assigned."""
        assigned = {source.topic for source in self._sessions.assignment.values()}
        return set(self.heartbeats.names) - assigned

    # ---- assignment to sessions -----------------------------------------------------------------

    def _assigned(self, assigned: Sequence[TopicPartitions]) -> None:
        self._sessions.assign(
            {
                (topic.topic_id, number): TopicIdPartition(topic.topic_name, number, topic.topic_id)
                for topic in assigned
                for number in topic.partitions
            }
        )
        assignment = self._sessions.assignment
        self._give_back(
            self._buffer.remove(
                lambda held: (held.source.topic_id, held.source.partition) not in assignment
            )
        )

    def _acquire(self, mode: AcquireMode) -> None:
        """Follow the application's pace, unless it chose to be sent no more than it asked for."""
        if self.versions.knows_renew and not self._chosen_limit:
            self._sessions.acquire(mode)

    def _give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Release what no poll has returned (HBK-20), so that its locks block no other member."""
        self.acknowledgements.send(
            [
                PartitionAcknowledgements(
                    *held.acquired_in,
                    dict.fromkeys(held.offsets(), AcknowledgeType.RELEASE),
                    unreported=True,
                    uncounted=held.delivery_counts(),
                )
                for held in deliveries
                if held.route.is_open_for(held.source, held.leader_epoch)
            ]
        )


def _start_of(config: ClientConfig, member_id: str, *, limited: bool) -> ConsumeStart:
    """Return the terms of a member's sessions."""
    return ConsumeStart(
        group_id=config.text("group.id"),
        member_id=member_id,
        share_acquire_mode=AcquireMode.RECORD_LIMIT if limited else AcquireMode.BATCH_OPTIMIZED,
        batch_size=config.number("max.poll.records"),
        max_records=min(MESSAGE_POLLS * config.number("max.poll.records"), INT32_MAX),
        min_bytes=config.number("fetch.min.bytes"),
        max_wait_ms=config.number("fetch.max.wait.ms"),
        follows_hand_over=True,
    )
