"""One share session with one leader: credits out, records in, acknowledgements answered."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sharemesh.client.consumer.acknowledgement_rounds import (
    AcknowledgementRound,
    encode_together,
    rounds_of,
)
from sharemesh.client.consumer.deliveries import (
    AcknowledgementResult,
    Delivery,
    PartitionAcknowledgements,
    Payload,
)
from sharemesh.client.consumer.handed_over import FOLLOW_MS, HandedOver
from sharemesh.client.errors import (
    InvalidRecordStateError,
    NetworkError,
    NotLeaderOrFollowerError,
    SharemeshError,
    optional_error,
)
from sharemesh.client.records import AcquiredRange, RecordGrant, TopicIdPartition
from sharemesh.methods import CONSUME
from sharemesh.ports.clock import Clock
from sharemesh.ports.network import Caller, CallFailedError, Failure, Stream
from sharemesh.tasks import beside
from sharemesh.v1.common_pb2 import CurrentLeader, Node, TopicPartitions
from sharemesh.v1.share_leader_pb2 import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ConsumeAcknowledged,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeStart,
    ShareFetchPartition,
)

_log = logging.getLogger(__name__)
Wire = Stream[ConsumeRequest, ConsumeResponse]

HOLD_MS = 10
"""Acknowledgements of a busy consumer wait so long for a message that goes anyway (spec CL-34)."""

REDELIVERED = "the acquisition lock was lost: the record was delivered again"


@dataclass(frozen=True, slots=True)
class SessionEvents:
    """Whom a session notifies; all are called on the event loop and never block.

    Attributes:
        delivered: Records came.
        finished: Acknowledgements were answered, or will never be.
        partition_failed: A partition cannot be consumed from this session now.
        leader_known: A refusal named the leader of a partition (topic id, number).
        nodes_known: Addresses of nodes came with an answer.
        draining: Partitions will move, each to the node named (may be empty); until then they
            are acknowledged here.
        handed_over: Partitions have moved: what is held of them is acknowledged where they are led
            now, once ``follow`` names a session there.
        throttled: A leader sends nothing for so many ms because of a quota; 0 with records: it
            goes on at once.
        ended: The session is over: see its ``error_code`` and ``failure``.
    """

    delivered: Callable[[Delivery], None]
    finished: Callable[[Sequence[AcknowledgementResult]], None]
    partition_failed: Callable[["LeaderSession", TopicIdPartition, ShareFetchPartition], None]
    leader_known: Callable[[bytes, int, CurrentLeader], None]
    nodes_known: Callable[[Iterable[Node]], None]
    draining: Callable[["LeaderSession", Mapping[TopicIdPartition, str]], None]
    handed_over: Callable[["LeaderSession", Sequence[TopicIdPartition]], None]
    throttled: Callable[[str, int], None]
    ended: Callable[["LeaderSession"], None]


class LeaderSession:
    """A session of one member with one leader; a new stream is a new session (spec SES-2).

    Attributes:
        node_id: Id of the leader's node.
        error_code: The leader's reason for ending the session; 0 while open or without one.
        error_message: The leader's message on it.
        failure: The transport's reason, or None.
        credit_records: Records that the leader may still send; below 0 if it sent more.
    """

    def __init__(
        self,
        node_id: str,
        address: str,
        start: ConsumeStart,
        caller: Caller,
        clock: Clock,
        events: SessionEvents,
    ) -> None:
        self.node_id = node_id
        self._address = address
        self.error_code = 0
        self.error_message = ""
        self.failure: CallFailedError | None = None
        self.credit_records = 0
        self.credit_bytes = 0
        self._caller = caller
        self._clock = clock
        self._events = events
        self._next = ConsumeRequest(start=start)
        self._changes: dict[TopicIdPartition, bool] = {}  # last word: consume it, or not
        self._has_next = asyncio.Event()
        self._partitions: dict[tuple[bytes, int], TopicIdPartition] = {}
        self._names: dict[bytes, str] = {}
        self._unsent: list[PartitionAcknowledgements] = []
        self._flushing: asyncio.Task[None] | None = None
        self._waiting: dict[int, AcknowledgementRound] = {}
        self._last_id = 0
        self._handed_over = HandedOver()
        self._epochs: dict[TopicIdPartition, int] = {}  # of what came last
        self._draining: dict[TopicIdPartition, int] = {}  # epochs of which the end is not known
        self._shown: set[TopicIdPartition] = set()  # partitions whose state the leader had read
        self._open = True
        self._closing = False
        self._lock_timeout_ms = 0
        self._asked_ms: int | None = None

    @property
    def address(self) -> str:
        """``host:port`` of the leader."""
        return self._address

    @property
    def is_open(self) -> bool:
        """Whether the session can still take acknowledgements."""
        return self._open

    def has_shown(self, source: TopicIdPartition) -> bool:
        """Return whether the leader has shown that it had read the state of a partition (HND-11).

        It has delivered records of it, decided on acknowledgements, or handed locks over.
        """
        return source in self._shown

    def never_had(self, source: TopicIdPartition) -> bool:
        """Return whether it ended, and its leader may not have had the locks (HND-11)."""
        return not (self._open or self.has_shown(source))

    def looks_for_next(self, source: TopicIdPartition) -> bool:
        """Return whether a partition was handed over to a leader that is not known yet."""
        return self._handed_over.looks_for_next(source)

    def is_open_for(self, source: TopicIdPartition, leader_epoch: int) -> bool:
        """Return whether acknowledgements of what is held here in a leader epoch can be taken."""
        if self.is_handed_over(source, leader_epoch):
            return self._handed_over.is_open_for(source)
        return self._open

    def is_handed_over(self, source: TopicIdPartition, leader_epoch: int) -> bool:
        """Return whether what is held here in a leader epoch lives on elsewhere (HND-9)."""
        return self._handed_over.holds(source, leader_epoch)

    def may_live_on(self, source: TopicIdPartition, leader_epoch: int) -> bool:
        """Return whether locks live on at the next leader, or that is not known yet (HND-11)."""
        is_leaving = self._open and leader_epoch <= self._draining.get(source, 0)
        return is_leaving or self.is_handed_over(source, leader_epoch)

    def follows_until_ms(self, source: TopicIdPartition, leader_epoch: int) -> int:
        """Return until when what the next leader refuses may be sent again; 0: not at all."""
        if self.is_open_for(source, leader_epoch) and self.is_handed_over(source, leader_epoch):
            return self._handed_over.until_ms(source)
        return 0

    def handed_over_in(self, source: TopicIdPartition) -> int:
        """Return the last leader epoch here of a partition that was handed over, or 0."""
        return self._handed_over.leader_epoch(source)

    def follow(self, source: TopicIdPartition, to: "LeaderSession", leader_epoch: int) -> None:
        """Acknowledge what is held of a partition in a session with its next leader (HND-10)."""
        to.expect(source)
        self._handed_over.lead(source, to, leader_epoch)

    def look_further(self, source: TopicIdPartition, leader_epoch: int) -> bool:
        """Return whether the leader of that epoch is the next one, and no longer who was (HND-11).

        Then it is looked for as long as the first one was.
        """
        until_ms = self._clock.now_ms() + FOLLOW_MS
        return self._handed_over.look_further(source, leader_epoch, until_ms)

    def expect(self, source: TopicIdPartition) -> None:
        """Know a partition of which locks live on here, consumed here or not."""
        self._names[source.topic_id] = source.topic

    def lose(self, source: TopicIdPartition) -> None:
        """Fail what waits for a next leader that was not found (HND-11)."""
        self._fail(self._handed_over.give_up(source), self._lost(sent=True))

    @property
    def partitions(self) -> Sequence[TopicIdPartition]:
        """The partitions consumed here."""
        return tuple(self._partitions.values())

    def add(self, sources: Iterable[TopicIdPartition]) -> None:
        """Consume these partitions too, from now on."""
        for source in sources:
            self._partitions[source.topic_id, source.partition] = source
            self._names[source.topic_id] = source.topic
            self._changes[source] = True
            self._has_next.set()

    def forget(self, sources: Iterable[TopicIdPartition]) -> None:
        """Stop consuming these partitions; acquired records stay acquired (spec SES-11)."""
        for source in sources:
            if self._partitions.pop((source.topic_id, source.partition), None) is not None:
                self._changes[source] = False
                self._has_next.set()

    def grant(self, records: int, size_bytes: int) -> None:
        """Raise the credit to ``records`` and ``size_bytes``; never lowers it.

        While more than half is left nothing is sent: the leader goes on, and few large messages
        cost it less than many small ones.
        """
        more_records = max(records - self.credit_records, 0)
        more_bytes = max(size_bytes - self.credit_bytes, 0)
        if more_records and self._asked_ms is None:
            self._asked_ms = self._clock.now_ms()
        if more_records <= records // 2 and self.credit_bytes > size_bytes // 2:
            return
        self.credit_records += more_records
        self.credit_bytes += more_bytes
        self._next.credit_records += more_records
        self._next.credit_bytes += more_bytes
        self._has_next.set()

    def acquire(self, mode: int) -> None:
        """Change the acquire mode, from now on."""
        self._next.share_acquire_mode = mode
        self._has_next.set()

    def speak(self) -> None:
        """Send a message, if only an empty one: the leader hears that this member goes on."""
        reached: dict[LeaderSession, None] = {self: None}
        waiting = [self]
        while waiting:
            session = waiting.pop()
            session._has_next.set()
            for each in session._handed_over.sessions():
                if each not in reached:
                    reached[each] = None
                    waiting.append(each)

    def acknowledge(
        self,
        acknowledgements: Sequence[PartitionAcknowledgements],
        *,
        may_wait: bool = False,
        held_in: int = 0,
    ) -> None:
        """Send these with the next message; ``finished`` gets each result once.

        With ``may_wait`` they are no reason for a message of their own before ``HOLD_MS``. They
        are held here in leader epoch ``held_in`` if they were handed over, else in their own.
        """
        acknowledgements = self._handed_over.take(
            acknowledgements, may_wait=may_wait, held_in=held_in
        )
        if not acknowledgements:
            return
        if not self._open or self._closing:
            self._fail(acknowledgements, self._lost(sent=False))
            return
        self._unsent.extend(acknowledgements)
        if not may_wait:
            self._has_next.set()
        elif self._flushing is None or self._flushing.done():
            self._flushing = asyncio.ensure_future(self._flush_soon())

    async def _flush_soon(self) -> None:
        await self._clock.sleep_ms(HOLD_MS)
        if self._unsent:
            self._has_next.set()

    def _put_acknowledgements(self, request: ConsumeRequest) -> None:
        unsent, self._unsent = self._unsent, []
        for one in rounds_of(unsent):
            self._last_id += 1
            self._waiting[self._last_id] = one
            message = request.acknowledgements.add(acknowledge_id=self._last_id)
            topics: dict[bytes, AcknowledgeTopic] = {}
            for (topic_id, partition), together in one.items():
                topic = topics.get(topic_id)
                if topic is None:
                    topic = topics[topic_id] = message.topics.add(topic_id=topic_id)
                message.is_renew_ack |= any(each.is_renew for each in together)
                topic.partitions.append(
                    AcknowledgePartition(
                        partition=partition,
                        acknowledgement_batches=encode_together(together),
                        leader_epoch=together[0].leader_epoch,
                    )
                )

    async def run(self) -> None:
        """Carry the session until it ends; cancelling it drops the connection."""
        try:
            await self._carry()
        except CallFailedError as error:
            self.failure = error
        except Exception as error:  # else nobody would hear that nothing is sent or read any more
            _log.exception("the session with leader %s broke down", self.address)
            self.failure = CallFailedError(Failure.INTERNAL, f"the session broke down: {error!r}")
        finally:
            self._open = False
            if self._flushing is not None:
                self._flushing.cancel()
            self._give_up_waiting()
            self._events.ended(self)

    async def _carry(self) -> None:
        stream = await self._caller.stream(CONSUME, to=self.address)
        try:
            async with beside(lambda: self._write(stream), quiet=CallFailedError):
                async for response in stream:
                    self._take(response)
                    if response.error_code:
                        self.error_code = response.error_code
                        self.error_message = response.error_message
                        return
        finally:
            await stream.close()

    async def _write(self, stream: Wire) -> None:
        while True:
            await self._has_next.wait()
            self._has_next.clear()
            request, self._next = self._next, ConsumeRequest()
            changes, self._changes = self._changes, {}
            for source, consume in changes.items():
                (request.add if consume else request.forget).append(_wire_partition(source))
            self._put_acknowledgements(request)
            await stream.send(request)
            if request.close:
                await stream.close()
                return

    def close(self) -> None:
        """End the session: what was given to ``acknowledge`` is done, the rest released."""
        if self._open and not self._closing:
            self._closing = True
            self._next.close = True
            self._has_next.set()

    def _take(self, response: ConsumeResponse) -> None:
        if response.acquisition_lock_timeout_ms:
            self._lock_timeout_ms = response.acquisition_lock_timeout_ms
        if response.node_endpoints:
            self._events.nodes_known(response.node_endpoints)
        if response.handed_over:
            self._take_hand_over(response)
        for answer in response.acknowledged:
            self._take_results(answer)
        for topic in response.responses:
            for partition in topic.partitions:
                self._take_partition(topic.topic_id, partition)
        if response.echo_id:
            self._next.echo_id = response.echo_id
            self._has_next.set()
        if response.responses:
            self._events.throttled(self._address, response.throttle_time_ms)
        if response.draining:
            named = {(each.topic_id, each.partition): each for each in response.next_leaders}
            moving = {
                source: next_leader.node_id if (next_leader := named.get(key)) else ""
                for each in response.draining
                for number in each.partitions
                if (source := self._partitions.get(key := (each.topic_id, number))) is not None
            }
            self._draining.update({each: self._epochs.get(each, 0) for each in moving})
            self._events.draining(self, moving)

    def _take_hand_over(self, response: ConsumeResponse) -> None:
        """Note what lives on elsewhere, before results are read that say so (HND-9)."""
        sources: list[TopicIdPartition] = []
        for each in response.handed_over:
            name = self._names.get(each.topic_id)
            if name is not None:
                sources.append(source := TopicIdPartition(name, each.partition, each.topic_id))
                until_ms = self._clock.now_ms() + FOLLOW_MS
                self._handed_over.begin(source, each.leader_epoch, until_ms)
                self._draining.pop(source, None)
                self._shown.add(source)
        unsent, self._unsent = self._unsent, []  # ways may lead back here
        self._unsent += self._handed_over.take(unsent, may_wait=False)
        self._events.handed_over(self, sources)

    def _take_partition(self, topic_id: bytes, answer: ShareFetchPartition) -> None:
        name = self._names.get(topic_id)
        if name is None:
            return
        source = TopicIdPartition(name, answer.partition, topic_id)
        if answer.current_leader.leader_id:
            self._events.leader_known(topic_id, answer.partition, answer.current_leader)
        if answer.acquired_records:
            self._epochs[source] = answer.leader_epoch
            self._shown.add(source)
            now_ms, asked_ms, self._asked_ms = self._clock.now_ms(), self._asked_ms, None
            records = answer.records  # each look at it is a copy
            delivery = Delivery(
                source=source,
                route=self,
                payload=Payload(records),
                acquired=tuple(
                    AcquiredRange(run.first_offset, run.last_offset, run.delivery_count)
                    for run in answer.acquired_records
                ),
                leader_epoch=answer.leader_epoch,
                lock_timeout_ms=self._lock_timeout_ms,
                expires_ms=now_ms + self._lock_timeout_ms,
                waited_ms=None if asked_ms is None else now_ms - asked_ms,
                grant=RecordGrant(answer.state_epoch, answer.acquisition_number),
            )
            self.credit_records -= delivery.record_count
            self.credit_bytes -= len(records)
            self._events.delivered(delivery)
        if answer.error_code:
            self._draining.pop(source, None)
            self._events.partition_failed(self, source, answer)

    def _take_results(self, answer: ConsumeAcknowledged) -> None:
        waiting = self._waiting.pop(answer.acknowledge_id, None)
        if waiting is None:
            return
        outcomes: list[AcknowledgementResult] = []
        for topic in answer.topics:
            for result in topic.partitions:
                together = waiting.pop((topic.topic_id, result.partition), None)
                if together is None:
                    continue
                if result.current_leader.leader_id:
                    self._events.leader_known(
                        topic.topic_id, result.partition, result.current_leader
                    )
                source = together[0].source
                error = optional_error(result.error_code, result.error_message, about=str(source))
                if error is None or isinstance(error, InvalidRecordStateError):
                    self._shown.add(source)
                outcomes += [
                    AcknowledgementResult(asked, error, self._lock_timeout_ms) for asked in together
                ]
        for together in waiting.values():  # no answer for it (spec CL-22)
            about = str(together[0].source)
            missing = InvalidRecordStateError("the leader gave no answer", about=about)
            outcomes += [
                AcknowledgementResult(asked, missing, self._lock_timeout_ms) for asked in together
            ]
        self._events.finished(outcomes)

    def _give_up_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        unsent, self._unsent = self._unsent, []
        sent = [each for one in waiting.values() for together in one.values() for each in together]
        self._fail(sent, self._lost(sent=True))
        self._fail(self._handed_over.take(unsent, may_wait=False), self._lost(sent=False))

    def _fail(
        self, acknowledgements: Sequence[PartitionAcknowledgements], error: SharemeshError
    ) -> None:
        if acknowledgements:
            lost = [AcknowledgementResult(each, error, 0) for each in acknowledgements]
            self._events.finished(lost)

    def _lost(self, *, sent: bool) -> SharemeshError:
        """Return the error of acknowledgements that this session cannot carry (spec CL-20, 21)."""
        if self.error_code:
            named = optional_error(self.error_code, self.error_message, about=self.address)
            if isinstance(named, NotLeaderOrFollowerError):
                return named
        if sent or self.failure is not None:
            why = self.failure.message if self.failure is not None else "the session ended"
            return NetworkError(f"leader {self.address}: {why}; the records are delivered again")
        return InvalidRecordStateError(
            f"the share session with leader {self.address} ended; its records are delivered again"
        )


def _wire_partition(source: TopicIdPartition) -> TopicPartitions:
    return TopicPartitions(
        topic_id=source.topic_id, partitions=[source.partition], topic_name=source.topic
    )
