"""What each call of a share consumer does, once for asyncio and for threads (spec CL).

A call is a generator: it yields work for the event loop and gets the result back. So the rules,
deserializers and callbacks run where the application called, and the network runs on its loop.
"""

from collections.abc import Coroutine, Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from sharemesh.client.admin_results import TopicPartition
from sharemesh.client.argument_checks import acknowledge_type, shown
from sharemesh.client.background_loop import BackgroundLoop
from sharemesh.client.config import INT32_MAX, ClientConfig, check_timeout_ms, consumer_config
from sharemesh.client.consumer.application_state import CommitCallback, CommitResult, ConsumerState
from sharemesh.client.consumer.deliveries import Delivery, PartitionAcknowledgements
from sharemesh.client.consumer.engine import ConsumerEngine
from sharemesh.client.consumer.release_terms import release_terms
from sharemesh.client.environment import ClientEnvironment, real_environment
from sharemesh.client.errors import (
    IllegalArgumentError,
    IllegalStateError,
    UnsupportedVersionError,
)
from sharemesh.client.record_columns import RecordColumns
from sharemesh.client.records import ConsumerRecord, TopicIdPartition
from sharemesh.client.warm_heap import keep_pages
from sharemesh.domain.delivery_state import AcknowledgeType

T = TypeVar("T")
Steps = Generator[Coroutine[Any, Any, Any], Any, T]

DEFAULT_CLOSE_TIMEOUT_MS = 30_000

AHEAD_MS = 20
"""Read-ahead in implicit mode: what the application processed in this time at its last poll."""

AHEAD_POLLS_MAX = 8
"""Upper bound of read-ahead from each leader, in multiples of what one poll returns at most. With
four, leader and consumer of small records waited for each other (measured)."""

AHEAD_BULKS_MAX = 4
"""The same for ``poll_batches``, which returns as many as several polls."""

BULK_POLLS = 8
"""What poll_batches returns at most unless it is set, in multiples of max.poll.records."""


async def drive(steps: Steps[T]) -> T:
    """Carry a call out on the running event loop."""
    try:
        work = next(steps)
        while True:
            try:
                value = await work
            except BaseException as error:
                work = steps.throw(error)
            else:
                work = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result


def drive_on(loop: BackgroundLoop, steps: Steps[T]) -> T:
    """Carry a call out on this thread, its network work on ``loop``."""
    try:
        work = next(steps)
        while True:
            try:
                value = loop.run(work)
            except BaseException as error:
                work = steps.throw(error)
            else:
                work = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result


class ConsumerCalls:
    """The calls of one consumer; the caller ensures that only one runs at a time."""

    def __init__(self, config: Mapping[str, Any], environment: ClientEnvironment | None) -> None:
        keep_pages()
        self.config: ClientConfig = consumer_config(config)
        environment = environment or real_environment(self.config)
        self.environment = environment
        self._clock = environment.clock
        self.member_id = environment.new_id()
        self.instance_id = environment.new_id()
        self._wanted = self.config.number("max.poll.records")
        in_bulk = self.config.number("max.poll.batches.records")
        self._wanted_in_bulk = in_bulk if in_bulk > 0 else min(BULK_POLLS * self._wanted, INT32_MAX)
        ahead = self.config.number("prefetch.records")
        explicit = self.config.text("share.acknowledgement.mode") == "explicit"
        self._ahead = 0 if explicit and ahead < 0 else ahead
        self._handed_out = 0
        self._handed_out_ms = 0
        self.state = ConsumerState(
            explicit=explicit,
            key_deserializer=self.config.function("key.deserializer"),
            value_deserializer=self.config.function("value.deserializer"),
            check_crcs=self.config.flag("check.crcs"),
        )
        self.engine: ConsumerEngine | None = None
        self.closed = False
        self._woken = False
        self._polls = 0

    # ---- subscription ---------------------------------------------------------------------------

    def subscribe(self, topics: Sequence[str]) -> Steps[None]:
        """Replace the subscription; an empty one unsubscribes."""
        self._check_open()
        self.state.subscribe(topics)
        if topics:
            engine = yield self._start()
            yield self._subscribe(engine, sorted(self.state.subscription))
        elif self.engine is not None:
            yield from self._leave(self.engine)

    def unsubscribe(self) -> Steps[None]:
        """Send what was acknowledged, leave the group."""
        yield from self.subscribe(())

    def _leave(self, engine: ConsumerEngine) -> Steps[None]:
        yield self._send(engine, self.state.collect(accept_all=False))
        yield engine.unsubscribe(timeout_ms=DEFAULT_CLOSE_TIMEOUT_MS)
        self.state.settle_outcomes()
        self.state.drop_everything()

    async def _start(self) -> ConsumerEngine:
        """Make the engine on the event loop, once."""
        if self.engine is None:
            self.engine = ConsumerEngine(
                self.config, self.environment, self.member_id, self.state.take_outcomes
            )
            if self._woken:
                self.engine.wakeup()
        return self.engine

    @staticmethod
    async def _subscribe(engine: ConsumerEngine, names: Sequence[str]) -> None:
        engine.subscribe(names)

    @staticmethod
    async def _send(
        engine: ConsumerEngine,
        acknowledgements: Sequence[PartitionAcknowledgements],
        rest: Sequence[Delivery] = (),
    ) -> None:
        """Send acknowledgements; ``rest`` of what was fetched comes with the next poll."""
        engine.acknowledgements.send(acknowledgements)
        engine.unseen.put_back(rest)

    # ---- polling --------------------------------------------------------------------------------

    def poll(self, timeout_ms: int) -> Steps[list[ConsumerRecord]]:
        """Return records as soon as there are some (spec CL-6..10, CL-24)."""
        deadline_ms = self._deadline_ms(timeout_ms)
        ahead = self._records_ahead(self._wanted, AHEAD_POLLS_MAX)
        engine: ConsumerEngine = self.engine or (yield self._start())
        engine.raise_errors()
        self.state.settle_outcomes()
        outgoing = self.state.begin_poll()
        if self.state.is_renewing and not self.state.has_renewed:
            yield self._rest(engine, outgoing, timeout_ms)
            self.state.settle_outcomes()
            return []
        if self.state.has_renewed:
            yield self._polled(engine, outgoing)
            outgoing = []
        records = self.state.hand_out()
        while not records:
            left_ms = max(deadline_ms - self._clock.now_ms(), 0)
            deliveries: list[Delivery] = yield engine.fetch(
                outgoing, wanted=self._wanted, ahead=ahead, timeout_ms=left_ms
            )
            if not deliveries:
                break
            self.state.accept(deliveries)
            outgoing = self.state.collect_gaps()
            try:
                records = self.state.hand_out()
            finally:
                rest = self.state.leftover()
                if outgoing or rest:
                    yield self._send(engine, outgoing, rest)
            outgoing = []
        self.state.settle_outcomes()
        self._handed_out, self._handed_out_ms = len(records), self._clock.now_ms()
        return records

    def poll_batches(self, timeout_ms: int) -> Steps[list[RecordColumns]]:
        """Return records as columns, as soon as there are some (spec CL-31)."""
        deadline_ms = self._deadline_ms(timeout_ms)
        ahead = self._records_ahead(self._wanted_in_bulk, AHEAD_BULKS_MAX)
        engine: ConsumerEngine = self.engine or (yield self._start())
        engine.raise_errors()
        self.state.settle_outcomes()
        if self.state.is_renewing or self.state.has_renewed:
            raise IllegalStateError("records of poll were renewed: call poll until they are done")
        outgoing = self.state.begin_poll()
        found: list[RecordColumns] = []
        while not found:
            left_ms = max(deadline_ms - self._clock.now_ms(), 0)
            deliveries: list[Delivery] = yield engine.fetch(
                outgoing, wanted=self._wanted_in_bulk, ahead=ahead, timeout_ms=left_ms
            )
            if not deliveries:
                break
            found, rest, failure = self.state.accept_columns(deliveries)
            outgoing = self.state.collect_gaps()
            if outgoing or rest:
                yield self._send(engine, outgoing, rest)
            if failure is not None:
                raise failure
            outgoing = []
        self.state.settle_outcomes()
        self._handed_out, self._handed_out_ms = sum(map(len, found)), self._clock.now_ms()
        return found

    def _deadline_ms(self, timeout_ms: int) -> int:
        """Begin a poll; return when it is over."""
        self._check_open()
        check_timeout_ms(timeout_ms)
        self._polls += 1
        return self._clock.now_ms() + timeout_ms

    def _records_ahead(self, wanted: int, calls_max: int) -> int:
        """Return how many records a leader may send ahead: more to a fast application."""
        if self._ahead >= 0:
            return self._ahead
        spent_ms = max(self._clock.now_ms() - self._handed_out_ms, 1)
        taken = self._handed_out * AHEAD_MS // spent_ms
        return min(max(taken, wanted), calls_max * wanted)

    @staticmethod
    async def _polled(
        engine: ConsumerEngine, outgoing: Sequence[PartitionAcknowledgements]
    ) -> None:
        engine.acknowledgements.send(outgoing)
        engine.unseen.polled()

    async def _rest(
        self,
        engine: ConsumerEngine,
        outgoing: Sequence[PartitionAcknowledgements],
        timeout_ms: int,
    ) -> None:
        """Wait out a poll that carries renewals: it fetches nothing (spec CL-24)."""
        engine.acknowledgements.send(outgoing)
        engine.unseen.polled()
        await engine.settle(lambda: True, timeout_ms=timeout_ms)
        engine.raise_errors()

    # ---- acknowledging --------------------------------------------------------------------------

    def acknowledge(
        self,
        record: ConsumerRecord,
        kind: AcknowledgeType,
        delay: float | timedelta | None,
        *,
        counted: bool,
    ) -> None:
        """Decide on a record of the last poll (spec CL-11).

        Raises:
            IllegalArgumentError: Not a type for records, a delay that is none, or delay or
                ``counted`` without RELEASE.
            IllegalStateError: Closed, implicit mode, or the record is not in flight.
            UnsupportedVersionError: RENEW, and the cluster does not know it.
        """
        self._check_open()
        kind = acknowledge_type(kind)
        if kind is AcknowledgeType.RENEW and self.engine is not None:
            self._need_renew(self.engine)
        self.state.acknowledge(record, kind, release_terms(record, kind, delay, counted=counted))

    @staticmethod
    def _need_renew(engine: ConsumerEngine) -> None:
        if not engine.versions.knows_renew:
            raise UnsupportedVersionError("the cluster does not know RENEW: upgrade its processes")

    def acknowledge_batch(
        self, columns: RecordColumns, kind: AcknowledgeType, offsets: Iterable[int] | None
    ) -> None:
        """Decide on records of the last ``poll_batches`` (spec CL-31)."""
        self._check_open()
        self.state.acknowledge_batch(columns, acknowledge_type(kind), offsets)

    def acknowledge_offset(
        self, topic: str, partition: int, offset: int, kind: AcknowledgeType
    ) -> None:
        """Override what is done with a record that made poll raise (spec CL-12)."""
        self._check_open()
        self.state.acknowledge_offset(topic, partition, offset, acknowledge_type(kind))

    def commit_sync(self, timeout_ms: int | None) -> Steps[CommitResult]:
        """Send acknowledgements and wait for the results (spec CL-15)."""
        self._check_open()
        limit_ms = self.config.number("default.api.timeout.ms")
        timeout_ms = limit_ms if timeout_ms is None else check_timeout_ms(timeout_ms)
        self.state.settle_outcomes()
        sent = self.state.collect(
            accept_all=not self.state.is_explicit,
            deadline_ms=self._clock.now_ms() + timeout_ms,
            commit=True,
        )
        if sent and self.engine is not None:
            yield self._commit(self.engine, sent, timeout_ms)
        result = self.state.finish_commit(sent, timeout_ms)
        self.state.settle_outcomes()
        return result

    async def _commit(
        self, engine: ConsumerEngine, sent: Sequence[PartitionAcknowledgements], timeout_ms: int
    ) -> None:
        engine.acknowledgements.send(sent)
        await engine.settle(self.state.commit_pending, timeout_ms=timeout_ms)

    def commit_async(self) -> Steps[None]:
        """Send acknowledgements without waiting (spec CL-16)."""
        self._check_open()
        self.state.settle_outcomes()
        deadline_ms = self._clock.now_ms() + self.config.number("default.api.timeout.ms")
        sent = self.state.collect(accept_all=not self.state.is_explicit, deadline_ms=deadline_ms)
        if sent and self.engine is not None:
            yield self._send(self.engine, sent)

    def set_callback(self, callback: CommitCallback | None) -> None:
        """Register the callback for results (spec CL-17)."""
        self._check_open()
        self.state.set_callback(callback)

    # ---- pausing --------------------------------------------------------------------------------

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return frozenset(map(_named, self.engine.assignment if self.engine is not None else ()))

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions (spec PAU-6)."""
        return frozenset(map(_named, self.engine.paused if self.engine is not None else ()))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return nothing of these until they are resumed (spec PAU-6); on the event loop."""
        sources = self._assigned(partitions)
        if self.engine is not None:
            self.engine.pause_partitions(sources)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these again (spec PAU-6); on the event loop."""
        sources = self._assigned(partitions)
        if self.engine is not None:
            self.engine.resume_partitions(sources)

    def _assigned(self, partitions: Iterable[TopicPartition]) -> list[TopicIdPartition]:
        self._check_open()
        assignment = self.engine.assignment if self.engine is not None else ()
        known = {_named(each): each for each in assignment}
        wanted = _partitions_of(partitions)
        strange = [str(each) for each in wanted if each not in known]
        if strange:
            raise IllegalStateError(
                f"not assigned to this consumer: {', '.join(strange)}; assignment() says what is"
            )
        return [known[each] for each in wanted]

    # ---- everything else ------------------------------------------------------------------------

    def wakeup(self) -> None:
        """Wake the poll or commit that waits, or the next one; on the event loop's thread."""
        if self.engine is None:
            self._woken = True
        else:
            self.engine.wakeup()

    def metrics(self) -> Mapping[str, int]:
        """Return counters with the names of spec MET-7; latencies in milliseconds."""
        found = {"poll-total": self._polls}
        engine = self.engine
        if engine is not None:
            found |= {
                "records-consumed-total": engine.records_received,
                "bytes-consumed-total": engine.bytes_received,
                "fetch-total": engine.fetches.count,
                "fetch-latency-avg": engine.fetches.average_ms,
                "fetch-latency-max": engine.fetches.max_ms,
                "fetch-throttle-time-avg": engine.throttled.average_ms,
                "fetch-throttle-time-max": engine.throttled.max_ms,
                "acknowledgements-send-total": engine.acknowledgements.sent,
                "acknowledgements-error-total": engine.acknowledgements.failed,
                "acknowledgements-lost-lock-total": engine.acknowledgements.lost_locks,
                "records-handed-back-total": engine.unseen.handed_back,
                "records-expired-unseen-total": engine.unseen.expired,
                "heartbeat-total": engine.heartbeats.heartbeats,
                "rebalance-total": engine.heartbeats.assignments,
            }
        return found

    def close(self, timeout_ms: int) -> Steps[None]:
        """Send explicit acknowledgements, release the rest, leave the group (spec CL-18)."""
        check_timeout_ms(timeout_ms)
        if self.closed:
            return
        self.closed = True
        engine = self.engine
        if engine is None:
            return
        outgoing = self.state.collect(accept_all=False)
        yield self._close(engine, outgoing, timeout_ms)
        self.state.drop_everything()
        self.state.settle_outcomes()

    @staticmethod
    async def _close(
        engine: ConsumerEngine, outgoing: Sequence[PartitionAcknowledgements], timeout_ms: int
    ) -> None:
        engine.acknowledgements.send(outgoing)
        await engine.close(timeout_ms=timeout_ms)

    def _check_open(self) -> None:
        if self.closed:
            raise IllegalStateError("this consumer is closed")


def _named(source: TopicIdPartition) -> TopicPartition:
    return TopicPartition(source.topic, source.partition)


def _partitions_of(given: Iterable[object]) -> list[TopicPartition]:
    """Return what an application names.

    Raises:
        IllegalArgumentError: One of them is no topic and number.
    """
    wanted = []
    for each in given:
        if not isinstance(each, tuple) or len(each) != len(TopicPartition._fields):
            raise IllegalArgumentError(
                f"{shown(each)} is no partition: give several, such as "
                '[TopicPartition("orders", 0)]'
            )
        wanted.append(TopicPartition(*each))
    return wanted
