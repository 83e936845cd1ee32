"""One open Consume stream: reads requests, acquires within its credit, sends."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from sharemesh.cluster.membership import node_message
from sharemesh.domain.errors import ErrorCode, RefusedError, invalid_request
from sharemesh.domain.ids import GroupId, TopicPartition
from sharemesh.domain.share_session import ShareSession, rotated
from sharemesh.ports.network import Stream
from sharemesh.share_leader.failures import Outcome, outcome_of
from sharemesh.share_leader.partition.hand_over_notices import HandOverNotices
from sharemesh.share_leader.partition.led_partitions import Redirects
from sharemesh.share_leader.partition.share_partition_runner import Phase, SharePartitionRunner
from sharemesh.share_leader.requests.access import FoundInSlices
from sharemesh.share_leader.requests.acknowledgements import (
    AcknowledgeCaller,
    PendingAcknowledgements,
    check_size,
)
from sharemesh.share_leader.requests.acquisition import FetchOrder, PartitionFetch
from sharemesh.share_leader.requests.delayed_share_fetch import DelayedShareFetch
from sharemesh.share_leader.requests.fetch_response import FetchResponse, acknowledged_topics
from sharemesh.share_leader.requests.request_checks import (
    NEWEST_VERSION,
    acquire_mode,
    listed,
    named,
)
from sharemesh.share_leader.requests.share_fetch import SessionServices
from sharemesh.share_leader.streaming.outbox import Outbox
from sharemesh.share_leader.streaming.resting_partitions import RestingPartitions
from sharemesh.share_leader.streaming.stream_terms import StreamTerms
from sharemesh.share_leader.unsent import UnsentOfStream
from sharemesh.tasks import OwnedTasks, cancel_and_wait
from sharemesh.v1 import share_leader_pb2 as pb

_log = logging.getLogger(__name__)

ConsumeStreamPort = Stream[pb.ConsumeResponse, pb.ConsumeRequest]


class ConsumeStream:
    """Three tasks: a reader, a feeder that acquires, and a sender; ``run`` owns them."""

    def __init__(
        self,
        stream: ConsumeStreamPort,
        session: ShareSession,
        terms: StreamTerms,
        services: SessionServices,
    ) -> None:
        settings = services.environment.settings
        self._stream = stream
        self._session = session
        self._terms = terms
        self._services = services
        self._outbox = Outbox(settings.max_stream_messages)
        self.hand_overs = (
            HandOverNotices(session, self._outbox.put, self._outbox.put_handed_over)
            if session.follows_hand_over
            else None
        )
        self._unsent = UnsentOfStream(services.unsent, terms.reader.principal, self._wake)
        self._sending_bytes = 0
        self._acknowledges = OwnedTasks("a consume stream")
        self._acknowledges_under_way = asyncio.Semaphore(settings.max_stream_acknowledges)
        self._credit_records = 0
        self._credit_bytes: int | None = None  # no limit until the client grants some
        self._turn = 0
        self._resting = RestingPartitions(services.environment, self._wake)
        self._changed = asyncio.Event()
        self._wait: DelayedShareFetch | None = None
        self._error: Outcome | None = None
        self._ended = asyncio.Event()
        self._closing = False
        self._mode, self._time = terms.order.mode, terms.time
        self._whose = (terms.reader.principal, terms.reader.group_id)

    async def run(
        self, first: pb.ConsumeRequest, close_session: Callable[[], Awaitable[object]]
    ) -> None:
        """Serve until the client closes, the session is replaced, or the connection is lost.

        ``close_session`` releases what the member holds; it is called if the client asked for
        the end (``close``), after its acknowledgements and before the stream ends.
        """
        sender = asyncio.create_task(self._send())
        feeder = asyncio.create_task(self._feed())
        reader = asyncio.create_task(self._read(first))
        stopped = asyncio.create_task(self._ended.wait())
        tasks = (sender, feeder, reader, stopped)
        lapses = self._services.environment.lapses
        lapses.watch(self._session.key, self._lapsed)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await cancel_and_wait(feeder, reader, stopped)
            if not sender.done():
                await self._finish(sender, close_session)
        finally:
            lapses.unwatch(self._session.key, self._lapsed)
            try:
                await cancel_and_wait(*tasks)
            finally:
                self._unsent.close()
                self._services.pacing.forget(*self._whose, self._wake)
                self._time.forget(self._wake)
                await self._acknowledges.close()
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _finish(
        self, sender: "asyncio.Task[None]", close_session: Callable[[], Awaitable[object]]
    ) -> None:
        """Answer every acknowledgement, release, say the last word; a slow reader has a limit."""
        await self._acknowledges.settle()
        if self._closing:
            await close_session()
        if self._error is not None:
            code, message = self._error
            self._outbox.put(pb.ConsumeResponse(error_code=int(code), error_message=message))
        self._outbox.close()
        settings = self._services.environment.settings
        await asyncio.wait({sender}, timeout=settings.stream_close_ms / 1_000)

    # ---- what others tell the stream ------------------------------------------------------------

    def notify_draining(self, partitions: frozenset[TopicPartition]) -> None:
        """Send a drain notice for those partitions that this stream consumes."""
        mine = partitions.intersection(self._session.partitions)
        view = self._services.environment.view
        named = ((partition, view.next_leader(partition)) for partition in mine)
        self._outbox.put_draining(mine, {each: node_message(node) for each, node in named if node})

    def notify_led(self, partition: TopicPartition) -> None:
        """This node leads the partition now: one that waited for it is served."""
        self._resting.go_on([partition])

    def take_back(self, partition: TopicPartition) -> None:
        """Withhold what waits to be sent of a partition, and give it back uncounted (HND-5)."""
        waiting = self._outbox.withhold(lambda each: each == partition)
        self._count_unsent()
        if waiting:
            offsets = [each for entry in waiting[partition] for each in self._taken_back(entry)]
            self._services.session_cache.give_up(self._session, {partition: offsets})

    def group_awaiting(self, partition: TopicPartition) -> GroupId | None:
        """Return the group of a stream that has added the partition."""
        return self._session.key.group_id if partition in self._session.partitions else None

    def rights_changed(self) -> None:
        """Hand out nothing more of what the principal may not read any more (AUT-6)."""
        reader = self._terms.reader
        waiting = self._outbox.withhold(lambda partition: bool(reader.lost([partition])))
        self._count_unsent()
        withheld = {
            partition: [offsets for entry in entries for offsets in self._taken_back(entry)]
            for partition, entries in waiting.items()
        }
        try:
            reader.check_group()
        except RefusedError as refused:
            self._services.session_cache.give_up(self._session, withheld)
            self._end(refused.error, refused.message)
            return
        lost = reader.lost(dict.fromkeys([*self._session.partitions, *withheld]))
        if lost:
            self._refuse(lost)
            self._services.session_cache.give_up(self._session, withheld, lost)
            self._wake()

    def _taken_back(self, withheld: pb.ShareFetchPartition) -> list[tuple[int, int]]:
        """Return the offsets, and take their credit back: the client never sees these records."""
        offsets = [(each.first_offset, each.last_offset) for each in withheld.acquired_records]
        self._credit_records += sum(last - first + 1 for first, last in offsets)
        if self._credit_bytes is not None:
            self._credit_bytes += len(withheld.records)
        return offsets

    def replaced(self) -> None:
        """The member opened another session: this stream ends, nothing is released (SES-2)."""
        self._end(
            ErrorCode.SHARE_SESSION_NOT_FOUND,
            f"member {self._session.key.member_id!r} opened another share session; one stream "
            "a member and leader",
        )

    def _lapsed(self, since_ms: int) -> None:
        """Locks ended that the member had since then: it may be stalled (HBK-10)."""
        if self._session.lapsed(since_ms):
            _log.warning(
                "%s is stalled: the locks of records that it got have ended, and it has sent "
                "nothing since; it gets no more until it does. See what its application is busy "
                "with; other members get its records",
                self._member(),
            )
            self._wake()

    def _member(self) -> str:
        key = self._session.key
        return f"member {key.member_id!r} of group {key.group_id!r}"

    def _end(self, error: ErrorCode, message: str) -> None:
        self._error = (error, message)
        self._ended.set()

    def _wake(self) -> None:
        self._changed.set()
        if self._wait is not None:
            self._wait.stop()

    # ---- reader ---------------------------------------------------------------------------------

    async def _read(self, first: pb.ConsumeRequest) -> None:
        try:
            await self._time.measured(self._handle(first))
            if self._closing:
                return
            async for request in self._stream:
                if request.HasField("start"):
                    raise invalid_request("a stream starts once; open another stream")
                await self._time.measured(self._handle(request))
                if self._closing:
                    return
        except RefusedError as refused:
            self._end(refused.error, refused.message)

    async def _handle(self, request: pb.ConsumeRequest) -> None:
        # What only acknowledges, or adds to credit that there is, leaves the feeder where it waits.
        concerns_feeder = not self._may_acquire()
        if self._session.heard(self._services.environment.clock.now_ms()):
            _log.info("%s is heard of again, and gets records", self._member())
            concerns_feeder = True
        if request.echo_id and self.hand_overs is not None:
            self.hand_overs.heard(request.echo_id)
        if request.add or request.forget:
            most = self._services.environment.settings.max_partitions_per_request
            forgotten, added = named(request.forget, most), named(request.add, most)
            self._session.forget(forgotten)
            self._resting.forgotten(forgotten)
            self._services.session_cache.check_room(self._session, added)
            self._session.add(added)
            self._resting.added(added)
            concerns_feeder = True
        if request.credit_records < 0 or request.credit_bytes < 0:
            raise invalid_request("credit is only added, never taken")
        if request.HasField("share_acquire_mode"):
            self._mode = acquire_mode(request.share_acquire_mode, NEWEST_VERSION)
            concerns_feeder = True
        self._credit_records += request.credit_records
        if request.credit_bytes:
            self._credit_bytes = (self._credit_bytes or 0) + request.credit_bytes
        for acknowledge in request.acknowledgements:
            await self._acknowledge(acknowledge)
        self._closing = request.close
        if concerns_feeder or self._closing:
            self._wake()

    async def _acknowledge(self, acknowledge: pb.ConsumeAcknowledge) -> None:
        check_size(acknowledge.topics, self._services.environment)
        listed(acknowledge.topics)
        # While too many are unanswered the stream is not read: the client's sends wait.
        await self._acknowledges_under_way.acquire()
        who = AcknowledgeCaller(
            self._terms.reader.principal,
            self._session.key.group_id,
            self._session.key.member_id,
            2,
            acknowledge.is_renew_ack,
        )
        under_way = await self._services.acknowledgements.begin_known(who, acknowledge.topics)
        work = self._time.measured(self._answer(acknowledge.acknowledge_id, who, under_way))
        self._acknowledges.spawn_heard(work, self._answered)

    async def _answer(
        self, acknowledge_id: int, who: AcknowledgeCaller, under_way: PendingAcknowledgements
    ) -> None:
        await self._services.acknowledgements.begin_early(who, under_way)
        outcomes = await self._services.acknowledgements.finish(under_way)
        if self._resting.alarms:
            self._resting.go_on(
                partition for partition, (error, _) in outcomes.items() if not error
            )
        redirects = Redirects(self._services.environment.view)
        result = pb.ConsumeAcknowledged(
            acknowledge_id=acknowledge_id, topics=acknowledged_topics(outcomes, redirects)
        )
        self._outbox.put_acknowledged(result, redirects.endpoints())

    def _answered(self, outcome: BaseException | None) -> None:
        """An acknowledgement without an answer is waited for: then the stream ends, with why."""
        self._acknowledges_under_way.release()
        if isinstance(outcome, Exception):
            where = f"member {self._session.key.member_id!r}"
            self._end(*outcome_of("answering an acknowledgement", where, outcome))

    # ---- feeder ---------------------------------------------------------------------------------

    async def _feed(self) -> None:
        while True:
            await self._outbox.room()
            if not (
                self._may_acquire()
                and self._unsent.allowed(self._order_now().max_bytes)
                and self._services.pacing.may_get(*self._whose, self._wake)
                and self._time.may_go_on(self._wake)
            ):
                self._changed.clear()
                await self._changed.wait()
            elif self._session.is_stalled:
                await self._stay_out()
            else:
                await self._time.measured(self._feed_once())
                self._unsent.acquiring = 0
                self._count_unsent()

    def _may_acquire(self) -> bool:
        if (
            self._closing
            or self._ended.is_set()
            or self._credit_records <= 0
            or not self._session.partitions
        ):
            return False
        return self._credit_bytes is None or self._credit_bytes > 0

    async def _stay_out(self) -> None:
        """Wait for a message of a stalled member; its share partitions know that it is stalled."""
        self._changed.clear()
        partitions = list(self._session.partitions)
        runners = [runner async for here, _ in self._found(partitions) for runner in here]
        for runner in runners:
            runner.leave_out(self)
        try:
            await self._changed.wait()
        finally:
            for runner in runners:
                runner.take_in(self)

    async def _feed_once(self) -> None:
        environment = self._services.environment
        order = self._order_now()
        self._turn += 1
        self._changed.clear()
        if (runners := await self._runners()) is None:
            return
        wait = self._wait = DelayedShareFetch(
            runners,
            min_bytes=min(self._terms.min_bytes, order.max_bytes),
            max_bytes=order.max_bytes,
            enough_records=order.max_records,
        )
        if self._changed.is_set():  # while partitions were looked through: it begins anew soon
            kept = wait.try_now() or []
        else:
            kept = await wait.until(self._deadline_ms(), environment.alarms)
        self._wait = None
        environment.counters.fetches_expired += wait.expired
        response = self._new_response()
        taken, pause_ms = await self._fill(response, kept, wait)
        lost = self._terms.reader.lost(response.with_records())
        if lost:
            self._services.session_cache.give_up(self._session, response.withhold_lost(lost), lost)
        if self._ended.is_set():
            return
        for one in (each for each in taken if each.partition not in lost):
            if one.throttled:
                self._resting.rest(one.partition, environment.settings.throttled_rest_ms)
            self._credit_records -= one.delivered
            if self._credit_bytes is not None:
                self._credit_bytes -= len(one.records)
        failed = {one.partition: (one.error, one.message) for one in taken if one.error}
        failed |= {
            runner.key.topic_partition: (runner.error, runner.message)
            for runner in runners
            if runner.phase is Phase.ENDED
        }
        self._refuse(failed | wait.failed | lost, response)
        if kept and not taken and self._unsent.acquiring:  # without room it waits for that
            await environment.clock.sleep_ms(pause_ms)

    async def _fill(
        self,
        response: FetchResponse[pb.ConsumeResponse],
        kept: list[SharePartitionRunner],
        wait: DelayedShareFetch,
    ) -> tuple[list[PartitionFetch], int]:
        """Acquire into a message; return what was, and the pause if it is nothing."""
        settings, form = self._services.environment.settings, self._terms.record_format
        whose, has_room = self._whose[0], self._unsent.acquire_more
        async with self._services.unpacking.answer(form, whose, 0, has_room) as opened:
            order = replace(self._order_now(), opened=opened)  # there may be more credit by now
            taken = await self._take(kept, wait, order)
            if any(one.ranges for one in taken):
                self._session.granted(self._services.environment.clock.now_ms())
            for one in taken:
                if one.ranges or one.error:
                    await response.add_taken(one, opened)
        is_short = opened is not None and opened.lacks_room
        return taken, settings.no_room_pause_ms if is_short else settings.empty_take_pause_ms

    async def _runners(self) -> list[SharePartitionRunner] | None:
        """Return the share partitions to fetch from; None: some are refused, which is told."""
        partitions = [p for p in self._session.partitions if p not in self._resting.alarms]
        runners: list[SharePartitionRunner] = []
        response: FetchResponse[pb.ConsumeResponse] | None = None
        async for here, refused in self._found(rotated(partitions, self._turn)):
            for runner in here:
                self._resting.arrived(runner.key.topic_partition)
                if runner.phase is Phase.ENDED:
                    refused[runner.key.topic_partition] = (runner.error, runner.message)
            if refused:
                response = response or self._new_response()
                response.add_errors(self._resting.refused(refused, self._session))
            runners += here
        if response is not None:
            self._put(response)
            return None
        if self._changed.is_set():  # meanwhile some may have been forgotten, or all is over
            mine = self._session.partitions if self._may_acquire() else {}
            runners = [runner for runner in runners if runner.key.topic_partition in mine]
        return runners

    def _found(self, partitions: Sequence[TopicPartition]) -> FoundInSlices:
        clock = self._services.environment.clock
        return self._services.sources.find_in_slices(self._terms.reader, partitions, clock)

    async def _take(
        self, kept: list[SharePartitionRunner], wait: DelayedShareFetch, order: FetchOrder
    ) -> list[PartitionFetch]:
        """Acquire, unless there is no room now for what will wait to be sent (spec BND-3)."""
        allowed = self._unsent.allowed(order.max_bytes)
        order = replace(order, max_bytes=allowed, max_records=order.max_records if allowed else 0)
        if order.opened is not None:
            order.opened.bytes_max = allowed
        self._unsent.acquiring = allowed
        self._count_unsent()
        return await self._services.acquisition.take(kept, wait, order, self._terms.reader)

    def _count_unsent(self) -> None:
        """Report to the budget what waits here, is being sent, and is being acquired."""
        self._unsent.hold(self._outbox.waiting_bytes + self._sending_bytes)

    def _order_now(self) -> FetchOrder:
        order = self._terms.order
        max_bytes = order.max_bytes
        if self._credit_bytes is not None:
            max_bytes = min(max_bytes, self._credit_bytes)
        return FetchOrder(
            order.member_id,
            self._mode,
            order.batch_size,
            min(order.max_records, self._credit_records),
            max_bytes,
            self._session,
        )

    def _deadline_ms(self) -> int | None:
        if self._terms.min_bytes <= 1:
            return None
        return self._services.environment.clock.now_ms() + max(1, self._terms.max_wait_ms)

    def _refuse(
        self,
        refused: dict[TopicPartition, Outcome],
        response: FetchResponse[pb.ConsumeResponse] | None = None,
    ) -> None:
        """Send what there is with the errors."""
        response = response or self._new_response()
        response.add_errors(self._resting.refused(refused, self._session))
        self._put(response)

    def _put(self, response: FetchResponse[pb.ConsumeResponse]) -> None:
        environment, message = self._services.environment, response.message
        if message.responses:
            config = environment.view.group_config(self._session.key.group_id)
            throttle_ms = self._services.pacing.throttle_ms(*self._whose)
            message.throttle_time_ms = max(throttle_ms, self._time.throttle_ms)
            message.acquisition_lock_timeout_ms = config.record_lock_duration_ms
            message.node_endpoints.extend(response.endpoints())
            self._outbox.put(message, response.record_bytes)

    def _new_response(self) -> "FetchResponse[pb.ConsumeResponse]":
        return FetchResponse(pb.ConsumeResponse(), self._services.environment.view)

    # ---- sender ---------------------------------------------------------------------------------

    async def _send(self) -> None:
        while (outgoing := await self._outbox.take()) is not None:
            message, self._sending_bytes = outgoing
            if message.acknowledged and not message.acquisition_lock_timeout_ms:
                config = self._services.environment.view.group_config(self._session.key.group_id)
                message.acquisition_lock_timeout_ms = config.record_lock_duration_ms
            await self._time.measured(self._stream.send(message))
            self._sending_bytes = 0
            self._count_unsent()
