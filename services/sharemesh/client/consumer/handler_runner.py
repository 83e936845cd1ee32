"""``run(handler)``: records to handlers, each acknowledged on its own, locks renewed meanwhile."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Collection, Iterable

from sharemesh.client.argument_checks import check_instance
from sharemesh.client.consumer.calls import ConsumerCalls
from sharemesh.client.consumer.circuit_breaker import CircuitBreaker
from sharemesh.client.consumer.deliveries import (
    AcquiredIn,
    Delivery,
)
from sharemesh.client.consumer.delivery_reader import DeliveryReader
from sharemesh.client.consumer.engine import ConsumerEngine
from sharemesh.client.consumer.handled_record import HandledRecord
from sharemesh.client.consumer.handler_calls import (
    CANCEL_WAIT_MS,
    Handler,
    HandlerCalls,
    WrongHandlerError,
    check_concurrency,
    ended_late,
    raised_by_handler,
)
from sharemesh.client.consumer.handler_failures import HandlerFailures, RetryQueue, RunOptions
from sharemesh.client.consumer.lock_renewals import LockRenewals
from sharemesh.client.consumer.run_acknowledgements import RunAcknowledgements
from sharemesh.client.consumer.start_rate import StartRate
from sharemesh.client.errors import (
    CorruptRecordError,
    IllegalStateError,
    RecordDeserializationError,
    ServiceError,
    UnknownServerError,
    WakeupError,
)
from sharemesh.client.records import ConsumerRecord, TopicIdPartition
from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.tasks import cancel_and_wait, wait_until_set

FETCH_WAIT_MS = 1_000
OTHERS_WAIT_MS = 200
HELD_BACK_MAX = 100
"""While a breaker tries: how long records that failed before wait for others, and how many.

Beyond, the first ones are given back.
"""


class HandlerRunner:
    """One ``run`` of a consumer, on its event loop."""

    def __init__(
        self,
        calls: ConsumerCalls,
        handler: Handler,
        concurrency: int,
        options: RunOptions | None,
        *,
        cancels: bool = True,
    ) -> None:
        """``cancels``: a handler ends when its task does; one on a thread goes on."""
        check_concurrency(concurrency)
        check_instance("options", options, RunOptions, "RunOptions(...), or None")
        self._calls = calls
        self._concurrency = concurrency
        self._options = options = options or RunOptions()
        self._handlers = HandlerCalls(handler, options.deadline_ms, cancels=cancels)
        self._clock = calls.environment.clock
        self._chance = calls.environment.chance
        self._breaker = None if options.breaker is None else CircuitBreaker(options.breaker)
        rate = options.records_per_second
        self._rate = None if rate is None else StartRate(rate, self._clock.now_ms())
        self._failures = HandlerFailures(options.on_failure or options.complain)
        self._retries: RetryQueue[HandledRecord] = RetryQueue(self._clock, self._retry)
        self._engine: ConsumerEngine | None = None
        self._waiting: deque[HandledRecord] = deque()
        self._held_back: deque[HandledRecord] = deque()  # tried only if no others come (CL-42)
        self._active: dict[tuple[TopicIdPartition, int], HandledRecord] = {}
        self._running: dict[asyncio.Task[None], HandledRecord] = {}
        self._answers: RunAcknowledgements | None = None
        self._freed = asyncio.Event()
        self._stopping = False
        self._cancels_all = False
        self._wrong: WrongHandlerError | None = None

    def stop(self) -> None:
        """Begin to stop; on the event loop's thread."""
        self._stopping = True
        self._freed.set()
        if self._engine is not None:
            self._engine.wakeup()

    async def run(self) -> None:
        """Run until stopped or the membership fails.

        Raises:
            IllegalStateError: Not subscribed.
            IllegalArgumentError: The handler is of the kind that the other client takes.
            ServiceError: The membership ended, or a partition cannot be read without a change.
        """
        self._engine = engine = self._calls.engine
        if engine is None or not self._calls.state.subscription:
            raise IllegalStateError("the consumer is not subscribed to any topic")
        if "share.acquire.mode" not in self._calls.config.given:
            engine.acquire_at_most(self._concurrency)
        limit_ms = self._calls.config.number("default.api.timeout.ms")
        self._answers = RunAcknowledgements(engine.acknowledgements, self._clock, limit_ms)
        engine.unseen.by_handlers = True
        engine.on_pause = self._paused
        helpers = [
            asyncio.ensure_future(self._keep_locks(engine)),
            asyncio.ensure_future(self._retries.run()),
        ]
        try:
            while not self._stopping:
                self._start_handlers()
                self._calls.state.settle_outcomes()
                free = self._room() - len(self._running)
                if free <= 0 or self._waiting:
                    self._freed.clear()
                    await wait_until_set(self._freed, self._hold_ms())
                else:
                    await self._fetch(engine, free)
        finally:
            try:
                await self._finish(engine)
            finally:
                engine.unseen.by_handlers = False
                engine.on_pause = lambda _: None
                await cancel_and_wait(*helpers)
        if self._wrong is not None:
            raise self._wrong

    def _room(self) -> int:
        """Return how many handlers may run now."""
        if self._breaker is None:
            return self._concurrency
        return self._breaker.room(self._concurrency, self._clock.now_ms())

    def _hold_ms(self) -> int | None:
        """Return how long the breaker or the rate lets no handler start; None: until one ends."""
        if self._breaker is not None:
            open_ms = self._breaker.wait_ms(self._clock.now_ms())
            if open_ms is not None:
                return open_ms
        if self._rate is not None and self._waiting and len(self._running) < self._room():
            return self._rate.wait_ms()
        return None

    async def _fetch(self, engine: ConsumerEngine, free: int) -> None:
        ahead = self._room()
        try:
            wait_ms = OTHERS_WAIT_MS if self._held_back else FETCH_WAIT_MS
            deliveries = await engine.fetch((), wanted=free, ahead=ahead, timeout_ms=wait_ms)
        except WakeupError:
            if not self._stopping:
                raise
            return
        except ServiceError as error:
            # A partition that cannot be read now, as while a coordinator's volume is full, is
            # asked for again by its session: it must not stop the others.
            passes = error.retriable or isinstance(error, UnknownServerError)
            if engine.is_over or not passes:
                raise
            self._failures.partition_failed(error)
            return
        for delivery in deliveries:
            self._take(delivery)
        if not deliveries and not self._running:
            self._wait_for_no_others()

    def _take(self, delivery: Delivery) -> None:
        config = self._calls.config
        reader = DeliveryReader(
            delivery,
            config.function("key.deserializer"),
            config.function("value.deserializer"),
            check_crcs=config.flag("check.crcs"),
        )
        for offset in reader.gaps:
            self._say(delivery.acquired_in, offset, _GAP)
        now_ms = self._clock.now_ms()
        while not reader.is_read:
            records, failure, failed = reader.take(failures=True)
            for record in records:
                self._enqueue(delivery, record, now_ms)
            if failure is not None:
                self._failures.unreadable(failure)
                self._unread(delivery, failure, failed, now_ms)
        self._failures.say_lost(now_ms)

    def _unread(
        self,
        delivery: Delivery,
        failure: CorruptRecordError | RecordDeserializationError,
        failed: range,
        now_ms: int,
    ) -> None:
        """Reject what is corrupt; what cannot be deserialized is tried again, as if handled."""
        for offset in failed:
            if isinstance(failure, CorruptRecordError):
                self._say(delivery.acquired_in, offset, _REJECT)
                continue
            topic, partition, topic_id = delivery.source
            count = next(
                run.delivery_count
                for run in delivery.acquired
                if run.first_offset <= offset <= run.last_offset
            )
            place, epoch = (topic, partition, offset), delivery.leader_epoch
            unread = ConsumerRecord(
                *place, -1, None, None, (), count, epoch, topic_id, delivery.grant
            )
            active = self._activate(delivery, unread, now_ms)
            kind, retry_ms = self._options.after(failure, count, self._chance)
            if kind is _RELEASE:
                self._keep(active, retry_ms)
            else:
                self._finished(active, kind)

    def _enqueue(self, delivery: Delivery, record: ConsumerRecord, now_ms: int) -> None:
        active = self._active.get((delivery.source, record.offset))
        if active is not None:
            self._lose(active)  # this is the next delivery
        self._waiting.append(self._activate(delivery, record, now_ms))

    def _activate(self, delivery: Delivery, record: ConsumerRecord, now_ms: int) -> HandledRecord:
        active = self._active[delivery.source, record.offset] = HandledRecord(
            record,
            delivery.acquired_in,
            delivery.lock_timeout_ms,
            renewed_ms=now_ms,
            since_ms=now_ms,
            held_until_ms=delivery.expires_ms,
        )
        return active

    def _start_handlers(self) -> None:
        while self._waiting and len(self._running) < self._room():
            active = self._waiting[0]
            if active.is_lost or self._hold_back(active):
                self._waiting.popleft()
                continue
            if self._rate is not None and not self._rate.take(self._clock.now_ms()):
                return
            self._waiting.popleft()
            expired = self._clock.now_ms() >= active.held_until_ms
            if expired or not active.is_session_open:  # the leader delivers it again
                self._active.pop(active.key, None)
                active.acquired_in[1].speak()
                continue
            task = active.task = asyncio.ensure_future(self._handle(active))
            self._running[task] = active
            task.add_done_callback(self._ended)

    def _hold_back(self, active: HandledRecord) -> bool:
        """Leave a record that failed before for later, while a breaker tries whether others do."""
        breaker = self._breaker
        if breaker is None or active.is_tried_again or not breaker.is_suspect(active.key):
            return False
        self._held_back.append(active)
        if len(self._held_back) > HELD_BACK_MAX:
            self._give_back([self._held_back.popleft()], self._delay_ms())
        return True

    def _wait_for_no_others(self) -> None:
        """Try what was held back."""
        for active in self._held_back:
            active.is_tried_again = True
        self._waiting.extend(self._held_back)
        self._held_back.clear()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        del self._running[task]
        self._freed.set()
        if not self._stopping:
            self._start_handlers()

    async def _handle(self, active: HandledRecord) -> None:
        kind: AcknowledgeType = _RELEASE
        retry_ms = 0
        is_forgiven = False
        try:
            kind = await self._handlers.call(active)
            self._lose_if_over(active)
            self._tell_breaker(active, None)
        except asyncio.CancelledError as error:
            if active.is_lost or self._cancels_all:
                raise
            kind, retry_ms, is_forgiven = self._failed(active, raised_by_handler(error))
        except WrongHandlerError as error:
            is_forgiven, self._wrong = True, error
            self.stop()
        except Exception as error:
            kind, retry_ms, is_forgiven = self._failed(active, error)
        finally:
            if active.is_lost:
                pass  # whoever has the record now decides (spec TOK-5)
            elif is_forgiven:
                self._give_back([active], self._delay_ms(again=active.is_tried_again))
            elif retry_ms:
                self._keep(active, retry_ms)
            else:
                self._finished(active, kind)
        self._failures.say_all_late(self._running.values(), self._concurrency)
        await ended_late(active)

    def _failed(self, active: HandledRecord, error: Exception) -> tuple[AcknowledgeType, int, bool]:
        """Return what becomes of a record, the wait before, and whether the failure is forgiven."""
        self._lose_if_over(active)
        record = active.record
        kind, retry_ms = self._options.after(error, record.delivery_count, self._chance)
        is_forgiven = self._tell_breaker(active, error)
        if not is_forgiven and not active.is_lost:
            self._failures.handler_failed(record, error, kind, retry_ms)
        return kind, retry_ms, is_forgiven

    def _tell_breaker(self, active: HandledRecord, error: Exception | None) -> bool:
        """Say how a handler ended; return whether its failure does not count (spec CL-43)."""
        breaker = self._breaker
        if breaker is None or active.is_lost:
            return False
        active.is_outage = self._options.is_outage(error)
        before = breaker.state
        now_ms = self._clock.now_ms()
        breaker.ended(active.key, failed=active.is_outage, now_ms=now_ms)
        if breaker.state is not before:
            self._freed.set()
            if breaker.is_closed:
                self._failures.breaker_closed()
                self._give_back(self._held_back, breaker.policy.open_ms)  # others come first
                self._held_back.clear()
            else:
                self._failures.breaker_opened(breaker, error)
                self._take_nothing()
        return active.is_outage and not breaker.is_closed

    def _take_nothing(self) -> None:
        """Give back what no handler has, and what failed of the outage and waits for a retry."""
        if self._engine is not None:
            self._engine.pause()
        kept = [each for each in self._active.values() if each.kept and each.is_outage]
        for active in kept:
            self._retries.forget(active)
        self._give_back([*kept, *self._waiting, *self._held_back], self._delay_ms())
        self._waiting.clear()
        self._held_back.clear()

    def _paused(self, sources: Collection[TopicIdPartition]) -> None:
        """Give back what no handler has of partitions that the application paused (PAU-7)."""
        given = [
            each for each in (*self._waiting, *self._held_back) if each.acquired_in[0] in sources
        ]
        self._waiting = deque(each for each in self._waiting if each not in given)
        self._held_back = deque(each for each in self._held_back if each not in given)
        self._give_back(given)

    def _finished(self, active: HandledRecord, kind: AcknowledgeType) -> None:
        self._active.pop(active.key, None)
        self._leave(active)
        self._say(active.acquired_in, active.record.offset, kind)

    def _keep(self, active: HandledRecord, retry_ms: int) -> None:
        """Release it later; before half of its lock is over, if that is not renewed (any more)."""
        if not retry_ms or self._stopping:
            self._finished(active, _RELEASE)
            return
        active.kept = True
        now_ms = self._clock.now_ms()
        until_ms = now_ms + retry_ms
        cap_ms = self._options.renew_max_ms
        engine = self._engine
        if not self._options.renew or engine is None or not engine.versions.knows_renew:
            until_ms = min(until_ms, active.renewed_ms + active.lock_timeout_ms // 2)
        elif cap_ms is not None:
            until_ms = min(until_ms, active.since_ms + cap_ms)
        self._retries.keep(active, until_ms)

    def _retry(self, active: HandledRecord) -> None:
        """Release a kept record; its leader did if its session or its lock is over (TOK-5)."""
        is_over = self._clock.now_ms() >= active.held_until_ms
        if active.is_session_open and not is_over:
            self._finished(active, _RELEASE)
        else:
            self._active.pop(active.key, None)
            self._leave(active)
            active.acquired_in[1].speak()

    def _leave(self, active: HandledRecord) -> None:
        """Tell a handler that goes on, past its deadline or a stop, that its lock is gone."""
        if active.late is not None or self._cancels_all:
            active.record.grant.lose(active.record.offset)

    def _say(self, where: AcquiredIn, offset: int, kind: AcknowledgeType) -> None:
        if self._answers is not None:
            self._answers.say(where, offset, kind)

    def _lose(self, active: HandledRecord) -> None:
        """The lock of a record is gone: tell its handler, and take no word of it (spec TOK-5)."""
        self._active.pop(active.key, None)
        self._retries.forget(active)
        active.is_lost = True
        active.record.grant.lose(active.record.offset)
        task = active.task
        if task is not None and not task.done():
            self._failures.lock_lost(active)
            if self._handlers.cancels:
                task.cancel()

    def _lose_if_over(self, active: HandledRecord) -> None:
        """A handler ended: if its lock had ended before, take no word of it (TOK-5)."""
        if active.is_lost or self._clock.now_ms() < active.held_until_ms:
            return
        active.task = None
        self._lose(active)
        self._failures.lock_lost(active)
        active.acquired_in[1].speak()

    def _lose_ended(self) -> None:
        """Find handlers whose lock has ended, or whose session has."""
        now_ms = self._clock.now_ms()
        for active in list(self._running.values()):
            is_held = now_ms < active.held_until_ms and active.is_session_open
            if not is_held and self._active.get(active.key) is active and not active.kept:
                self._lose(active)
                active.acquired_in[1].speak()
        self._failures.say_lost(now_ms)

    async def _keep_locks(self, engine: ConsumerEngine) -> None:
        """Renew what is active and old enough, and find what is lost, again and again."""
        renewals = LockRenewals(
            self._active, self._options.renew_max_ms, self._clock, self._failures
        )
        while True:
            await self._clock.sleep_ms(renewals.pause_ms)
            self._lose_ended()
            due = renewals.due() if self._options.renew else ()
            if due and engine.versions.knows_renew:
                engine.acknowledgements.send(due)

    def _delay_ms(self, *, again: bool = False) -> int:
        """Return how long what a breaker gives back should wait: until this member tries again."""
        now_ms = self._clock.now_ms()
        return 0 if self._breaker is None else self._breaker.delay_ms(now_ms, again=again)

    def _give_back(self, given: Iterable[HandledRecord], delay_ms: int = 0) -> None:
        """Release records whose delivery does not count (spec HBK-20, CL-43)."""
        given = list(given)
        for active in given:
            self._active.pop(active.key, None)
            self._leave(active)
        if self._answers is not None:
            self._answers.give_back(given, delay_ms)

    async def _finish(self, engine: ConsumerEngine) -> None:
        """Release records not started, wait for running handlers and for the results."""
        self._stopping = True
        engine.pause()
        self._retries.release_all()
        self._give_back([*self._waiting, *self._held_back])
        self._waiting.clear()
        self._held_back.clear()
        deadline_ms = self._clock.now_ms() + self._options.stop_timeout_ms
        await self._end_handlers()
        if self._answers is not None:
            self._answers.flush()
        left_ms = max(deadline_ms - self._clock.now_ms(), 0)
        with contextlib.suppress(WakeupError):
            await engine.settle(lambda: engine.acknowledgements.unanswered > 0, timeout_ms=left_ms)
        self._calls.state.settle_outcomes()

    async def _end_handlers(self) -> None:
        """Wait for running handlers, cancel those that are left, and leave those that go on."""
        running = dict(self._running)
        try:
            if running:
                await asyncio.wait(running, timeout=self._options.stop_timeout_ms / 1_000)
        finally:
            left = {task: active for task, active in running.items() if not task.done()}
            self._cancels_all = True
            for task in left:
                task.cancel()
        if not left:
            return
        await asyncio.wait(left, timeout=CANCEL_WAIT_MS / 1_000)
        go_on = [active for task, active in left.items() if not task.done()]
        for active in go_on:
            if not active.is_lost:
                self._finished(active, _RELEASE)
                active.is_lost = True
        if go_on or not self._handlers.cancels:
            self._failures.did_not_end(go_on or left.values(), self._options.stop_timeout_ms)


_GAP = AcknowledgeType.GAP
_RELEASE = AcknowledgeType.RELEASE
_REJECT = AcknowledgeType.REJECT
