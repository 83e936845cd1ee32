"""The network's side of a producer: metadata, requests by leader, retries, confirmation."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

from sharemesh.client.config import ClientConfig
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.errors import (
    ConnectionFailedError,
    NetworkError,
    RequestTimedOutError,
    SharemeshError,
    UnknownTopicOrPartitionError,
    error_for,
)
from sharemesh.client.metadata.metadata_cache import MetadataCache, nobody_answered
from sharemesh.client.metadata.missing_topics import ProducedMissing, how_to_have
from sharemesh.client.producer.accumulator import RecordAccumulator, UnplacedRecords
from sharemesh.client.producer.batches import Batch, PartitionQueue
from sharemesh.client.producer.delivery import OutgoingRecord, Reports, SentRecords
from sharemesh.client.producer.leader_discovery import LeaderDiscovery, awaited, awaited_of_all
from sharemesh.client.throttle_times import ThrottleTimes
from sharemesh.client.warm_heap import keep_pages
from sharemesh.domain.errors import Ends, ErrorCode, policy_of
from sharemesh.methods import INIT_PRODUCER_ID, PRODUCE
from sharemesh.ports.network import CallFailedError
from sharemesh.tasks import cancel_and_wait, wait_until_set
from sharemesh.v1 import record_log_pb2

_IDLE_WAIT_MS = 1_000
_REFRESH_TIMEOUT_MS = 10_000

_LASTING = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_ID})
"""Retriable elsewhere; the same bytes, or the same id of a deleted topic, are refused again."""


def not_in_time() -> SharemeshError:
    """Return why records fail that were not confirmed when their producer was closed."""
    return RequestTimedOutError("the producer was closed before it was confirmed")


class ProducerEngine:
    """Everything of a producer that lives on the event loop; ``run`` is its owner task."""

    def __init__(
        self,
        config: ClientConfig,
        environment: ClientEnvironment,
        *,
        reports: Reports,
        on_settled: Callable[[int], None],
        hand_over: Callable[[], Iterable[SentRecords]] = tuple,
    ) -> None:
        """``hand_over`` returns, once, what senders on other threads have sent since.

        ``on_settled`` is told how many bytes of records are confirmed or have failed.
        """
        keep_pages()
        self._config = config
        self._accumulator = RecordAccumulator(
            config,
            environment.clock,
            environment.chance,
            reports=reports,
            on_settled=on_settled,
        )
        self._hand_over = hand_over
        self._clock = environment.clock
        self._caller = environment.open_caller()
        self.leaders = MetadataCache(environment, config, self._caller)
        self._request_bytes = config.number("max.request.size")
        self._linger_ms = config.number("linger.ms")
        self._delivery_ms = config.number("delivery.timeout.ms")
        self._first_wait_ms = config.number("retry.backoff.ms")
        self._stale: set[str] = set()
        self._missing = ProducedMissing(self._clock)
        self._broken: SharemeshError | None = None
        self._refresh_at_ms = 0
        self._refreshing: asyncio.Task[None] | None = None
        self._identity: tuple[int, int] | None = None
        self._work = asyncio.Event()
        self._news = LeaderDiscovery(self.leaders, self._clock, self._work.set, self._ended)
        self._requests: dict[asyncio.Task[None], None] = {}
        self._flushing = 0
        self._settling = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.records_sent = 0
        self.records_failed = 0
        self.requests = 0
        self.throttled = ThrottleTimes(self._clock)

    # ---- what the application asks --------------------------------------------------------------

    def start(self) -> None:
        """Begin sending; on the event loop."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
            self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Fail all records if sending died, so that no caller waits forever."""
        self._requests.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break_down(error)

    def _break_down(self, error: BaseException) -> None:
        for request in tuple(self._requests):
            request.cancel()
        self._broken = SharemeshError(f"the producer broke down: {error!r}")
        self.fail_all(self._broken)

    def add(self, record: OutgoingRecord) -> None:
        """Queue a record; its outcome is told once it is confirmed or has failed."""
        try:
            if self._accumulator.add(record):
                self._work.set()
        except Exception as error:  # else nobody would hear what became of the others
            self._break_down(error)
        if self._broken is not None:
            self.fail_all(self._broken)

    def take_in(self) -> None:
        """Queue what senders on other threads have sent."""
        try:
            if self._accumulator.add_all(self._hand_over()):
                self._work.set()
        except Exception as error:
            self._break_down(error)
        if self._broken is not None:
            self.fail_all(self._broken)

    async def flush(self, *, is_last: bool = False) -> None:
        """Return when what was sent before is confirmed or has failed; ``is_last``: since, too."""
        self._flushing += 1
        self.take_in()
        mark = self._accumulator.mark()
        self._work.set()
        try:
            while self._accumulator.unsettled if is_last else self._accumulator.holds(mark):
                self._settling.clear()
                await self._settling.wait()
        finally:
            self._flushing -= 1

    async def close(self, *, timeout_ms: int) -> None:
        """Flush for at most ``timeout_ms``, fail what is left, close the connections."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self.flush(is_last=True)
        except TimeoutError:
            pass
        finally:
            owned = [task for task in (self._task, self._refreshing) if task is not None]
            try:
                await cancel_and_wait(*self._requests, *owned)
                await self._news.close()
            finally:
                self._broken = not_in_time()  # of those too that come while connections close
                self.fail_all(self._broken)
                await self._caller.close()

    async def partitions_for(self, topic: str, *, timeout_ms: int) -> int:
        """Return the number of partitions of a topic.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            ConnectionFailedError: No process answered in time.
        """
        await self.leaders.refresh([topic], timeout_ms=timeout_ms)
        self._look()
        found = self.leaders.topic(topic)
        if found is None:
            raise UnknownTopicOrPartitionError("does not exist", about=f"topic {topic}")
        return found.partitions

    def awaited(self, topic: str, partition: int | None) -> str:
        """Return in words what records of a topic wait for; from any thread."""
        return awaited(self.leaders, self._accumulator.queues, topic, partition)

    def awaited_of_all(self) -> str:
        """Return in words what records wait for; from any thread."""
        found = self._accumulator
        return awaited_of_all(self.leaders, found.queues, found.unknown_topics())

    # ---- records that are settled ----------------------------------------------------------------

    def _drop(self, unplaced: Iterable[UnplacedRecords], error: Exception) -> None:
        for each in unplaced:
            self._accumulator.drop(each, error)
            self.records_failed += len(each.contents)
        self._settling.set()

    def _settled(self, count: int, size_bytes: int) -> None:
        self._accumulator.settle(count, size_bytes)
        self._settling.set()

    def fail_all(self, error: Exception) -> None:
        """Fail everything that is not confirmed; nothing of it may be under way any more."""
        self._fail_unplaced(error)
        for queue in self._accumulator.queues:
            while queue.batches:
                self._fail(queue, error)
        self.records_failed += self._accumulator.refuse(self._hand_over(), error)
        self._settling.set()

    def _fail_unplaced(self, error: Exception) -> None:
        """Fail what waits for metadata: without a change it will not come."""
        for name, unplaced in self._accumulator.overdue(self._clock.now_ms(), 0).items():
            self._stale.discard(name)
            self._drop(unplaced, error)

    # ---- sending --------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._work.clear()
            await wait_until_set(self._work, await self._turn())

    async def _turn(self) -> int:
        """Send what is due; return ms until the next turn."""
        now_ms = self._clock.now_ms()
        self._look()
        self._expire(now_ms)
        self._refresh_if_due(now_ms)
        wait_ms = _IDLE_WAIT_MS
        if self._stale:
            wait_ms = max(min(wait_ms, self._refresh_at_ms - now_ms), 1)
        due: dict[str, list[PartitionQueue]] = {}
        for queue in self._accumulator.queues:
            queue_wait_ms = queue.due_in_ms(
                linger_ms=self._linger_ms, now_ms=now_ms, flushing=self._flushing > 0
            )
            if queue_wait_ms is None:
                continue
            if queue_wait_ms > 0:
                wait_ms = min(wait_ms, queue_wait_ms)
                continue
            address = self._address(queue)
            if address is not None and (left_ms := self.throttled.left_ms(address)):
                wait_ms = min(wait_ms, left_ms)
                queue.last_refusal = queue.last_refusal or "wait: a produce quota is used up"
            elif address is not None:
                due.setdefault(address, []).append(queue)
        if due and await self._identified():
            for address, queues in due.items():
                self._send(address, queues)
        return wait_ms

    def _look(self) -> None:
        """Take in what was added, and what metadata shows of its topics."""
        self.take_in()
        accumulator = self._accumulator
        try:
            for name in accumulator.topics():
                accumulator.learn(name, self.leaders.topic(name))
        except Exception as error:
            self._break_down(error)
        self._stale.update(accumulator.unknown_topics())
        self._settling.set()

    def _address(self, queue: PartitionQueue) -> str | None:
        leader = queue.asked = self.leaders.leader(*queue.key)
        address = None if leader is None else self.leaders.address(leader.node_id)
        if address is None:
            if leader is not None:
                self._stale.add(queue.topic)
            self._back_off(queue)
        return address

    def _refresh_if_due(self, now_ms: int) -> None:
        """Read metadata concurrently: one lost leader does not delay the others."""
        known = self.leaders.known_topics()
        self._stale.update(name for name in known if self.leaders.fresh_ms(name) == 0)
        running = self._refreshing is not None and not self._refreshing.done()
        if self._stale and not running and now_ms >= self._refresh_at_ms:
            self._refresh_at_ms = now_ms + self._first_wait_ms
            self._refreshing = asyncio.ensure_future(self._refresh(sorted(self._stale)))
            self._refreshing.add_done_callback(self._ended)

    async def _refresh(self, names: Sequence[str]) -> None:
        try:
            await self.leaders.refresh(names, timeout_ms=_REFRESH_TIMEOUT_MS)
        except SharemeshError as error:
            if not getattr(error, "retriable", True):
                self._fail_unplaced(error)
            return
        finally:
            self._work.set()
        self._stale.difference_update(names)
        self._look()
        for name in self._accumulator.unknown_topics():
            if name in names:
                self._missing.wanted(name, *self._accumulator.waits(name))
        self._work.set()

    async def _identified(self) -> bool:
        """Get a producer id if idempotence wants one; False: not now, tried again soon."""
        if not self._config.flag("enable.idempotence") or self._identity is not None:
            return True
        request = record_log_pb2.InitProducerIdRequest(producer_id=-1, producer_epoch=-1)
        for address in self._leader_addresses():
            try:
                answer = await self._caller.call(INIT_PRODUCER_ID, request, to=address)
            except CallFailedError:
                continue
            if answer.error_code == ErrorCode.NONE:
                self._identity = (answer.producer_id, answer.producer_epoch)
                return True
            if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                self._fail_unauthorized(answer.error_message)
                return False
        now_ms = self._clock.now_ms()
        for queue in self._accumulator.queues:
            queue.retry_at_ms = max(queue.retry_at_ms, now_ms + self._first_wait_ms)
            self._stale.add(queue.topic)
        return False

    def _fail_unauthorized(self, why: str) -> None:
        """Fail the topics: without WRITE on any topic there is no producer id.

        What is under way has one, and its own answer.
        """
        for queue in self._accumulator.queues:
            if queue.in_flight:
                continue
            error = error_for(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED, why, about=f"topic {queue.topic}"
            )
            while queue.batches:
                self._fail(queue, error)

    def _leader_addresses(self) -> Sequence[str]:
        found: dict[str, None] = {}
        for queue in self._accumulator.queues:
            leader = self.leaders.leader(*queue.key)
            address = None if leader is None else self.leaders.address(leader.node_id)
            if address is not None:
                found[address] = None
        return list(found)

    def _send(self, address: str, queues: Sequence[PartitionQueue]) -> None:
        """Send one request to a leader, with as many partitions as fit."""
        room = self._request_bytes
        group: list[tuple[PartitionQueue, Collection[Batch]]] = []
        for queue in queues:
            batches = self._accumulator.take(
                queue, self._request_bytes, all_of_it=self._flushing > 0
            )
            for batch in batches:
                if not batch.is_sealed:
                    batch.finish(
                        None
                        if self._identity is None
                        else queue.next_sequence(self._identity, batch.count)
                    )
            size = sum(len(batch.encoded) for batch in batches)
            if group and size > room:
                self._dispatch(address, group)
                group, room = [], self._request_bytes
            queue.in_flight = True
            group.append((queue, batches))
            room -= size
        self._dispatch(address, group)

    def _dispatch(
        self, address: str, group: Sequence[tuple[PartitionQueue, Collection[Batch]]]
    ) -> None:
        task = asyncio.ensure_future(self._exchange(address, group))
        self._requests[task] = None
        task.add_done_callback(self._ended)

    async def _exchange(
        self, address: str, group: Sequence[tuple[PartitionQueue, Collection[Batch]]]
    ) -> None:
        timeout_ms = self._config.number("request.timeout.ms")
        request = record_log_pb2.ProduceRequest(timeout_ms=timeout_ms)
        for queue, batches in group:
            request.partitions.add(
                topic_id=queue.topic_id,
                partition=queue.partition,
                records=b"".join(batch.encoded for batch in batches),
            )
        self.requests += 1
        try:
            response = await self._caller.call(PRODUCE, request, to=address, timeout_ms=timeout_ms)
        except CallFailedError as error:
            for queue, batches in group:
                self._refused(queue, batches, NetworkError(str(error), about=address))
        else:
            self.leaders.learn_nodes(response.node_endpoints)
            self.throttled.told(address, response.throttle_time_ms)
            answers = {(each.topic_id, each.partition): each for each in response.partitions}
            for queue, batches in group:
                self._answered(queue, batches, answers.get((queue.topic_id, queue.partition)))
        finally:
            for queue, _ in group:
                queue.in_flight = False
            self._work.set()

    def _answered(
        self,
        queue: PartitionQueue,
        batches: Collection[Batch],
        answer: record_log_pb2.ProducePartitionResult | None,
    ) -> None:
        about = f"{queue.topic}/{queue.partition}"
        if answer is None:
            self._refused(queue, batches, NetworkError("the leader gave no answer", about=about))
            return
        if answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            queue.backoff.reset()
            queue.last_refusal = ""
            self._news.settled(queue)
            duplicate = answer.error_code != ErrorCode.NONE
            offset = -1 if duplicate else answer.base_offset
            for batch in batches:
                self._accumulator.pop(queue)
                batch.outcome.confirm(offset)
                self.records_sent += batch.count
                self._settled(batch.count, batch.buffered_bytes)
                offset = -1 if offset < 0 else offset + batch.count
            return
        if answer.current_leader.leader_id:
            self.leaders.learn_leader(*queue.key, answer.current_leader)
        error = error_for(answer.error_code, answer.error_message, about=about)
        self._refused(queue, batches, error)

    def _refused(
        self, queue: PartitionQueue, batches: Collection[Batch], error: SharemeshError
    ) -> None:
        code = getattr(error, "code", ErrorCode.NETWORK_EXCEPTION)
        queue.last_refusal = str(error)
        if code == ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            # Nothing was appended; the throttle time, which is longer as a rule, counts beside it.
            queue.retry_at_ms = self._clock.now_ms() + self._first_wait_ms
            return
        first = not any(batch.attempts for batch in batches)
        for batch in batches:
            batch.attempts += 1
        if policy_of(code).ends is Ends.PRODUCER_ID:
            self._identity = None
            if first:  # nothing of it was written: it may go out under the new identity
                self._encode_again(queue)
                self._back_off(queue)
                return
        if policy_of(code).retriable and code not in _LASTING:
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._stale.add(queue.topic)
            self._back_off(queue)
            return
        for _ in batches:
            self._fail(queue, error)

    def _encode_again(self, queue: PartitionQueue) -> None:
        """Encode the batches of a partition again, without the old identity."""
        for batch in list(queue.batches):
            if batch.is_sealed:
                batch.reopen_identity()

    def _back_off(self, queue: PartitionQueue) -> None:
        """Try again later, or as soon as another leader is known."""
        queue.retry_at_ms = self._clock.now_ms() + queue.backoff.next_ms()
        self._news.lost(queue)

    def _fail(self, queue: PartitionQueue, error: Exception) -> None:
        """Fail the oldest batch; a sequence that is lost needs a new identity."""
        batch = self._accumulator.pop(queue)
        if batch.producer is not None:
            self._identity = None
        batch.outcome.fail(error)
        self.records_failed += batch.count
        self._settled(batch.count, batch.buffered_bytes)

    def _expire(self, now_ms: int) -> None:
        """Fail what was not confirmed in time."""
        block_ms = self._config.number("max.block.ms")
        overdue = self._accumulator.overdue(now_ms, min(block_ms, self._delivery_ms))
        for name, unplaced in overdue.items():
            self._stale.discard(name)
            self._drop(unplaced, self._no_topic(name))
        for queue in self._accumulator.queues:
            while (
                queue.batches
                and not queue.in_flight
                and now_ms - queue.batches[0].created_ms >= self._delivery_ms
            ):
                about = f"{queue.topic}/{queue.partition}"
                message = f"not confirmed within delivery.timeout.ms = {self._delivery_ms}"
                if queue.last_refusal:
                    message += f"; the last answer was: {queue.last_refusal}"
                self._fail(queue, RequestTimedOutError(message, about=about))

    def _no_topic(self, name: str) -> Exception:
        if not self.leaders.cluster_id:
            return ConnectionFailedError(
                self.leaders.trouble or nobody_answered((), self.leaders.addresses())
            )
        return UnknownTopicOrPartitionError(
            f"does not exist; {how_to_have(name)}", about=f"topic {name}"
        )
