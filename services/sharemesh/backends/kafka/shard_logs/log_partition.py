"""One partition that holds a stamped log: requests repeated until they are answered (STL-15)."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from sharemesh.backends.kafka.shard_logs.log_counts import StampedLogCounts
from sharemesh.backends.kafka.shard_logs.settings import StampedLogSettings
from sharemesh.backoff import Backoff
from sharemesh.codec.batch_frame import walk_frames
from sharemesh.codec.log_stamp import read_stamped_batch
from sharemesh.codec.record_set import RecordSetError
from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.stamped_log.judgement import ForwardReading, Judgement, OwnFence
from sharemesh.domain.stamped_log.stamp import BrokenLogError, StampedBatch
from sharemesh.ports.brokers import (
    EARLIEST_TIMESTAMP,
    NO_TOPIC_ID,
    BrokerLane,
    BrokerPartition,
    BrokerRefusedError,
    Brokers,
    BrokerUnreachableError,
    UnsupportedRequestError,
)
from sharemesh.ports.clock import Clock
from sharemesh.ports.shard_log import CorruptLogError, LogFailedError
from sharemesh.tasks import cancel_and_wait, first_done

Result = TypeVar("Result")
_log = logging.getLogger(__name__)

OFFSET_OUT_OF_RANGE = 1
REFUSED_FOR_GOOD = frozenset({2, 10, 18, 29, 31, 32, 43, 44, 58, 87})
"""CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED,
CLUSTER_AUTHORIZATION_FAILED, INVALID_TIMESTAMP, UNSUPPORTED_FOR_MESSAGE_FORMAT, POLICY_VIOLATION,
SASL_AUTHENTICATION_FAILED, INVALID_RECORD."""
WRITTEN_PERHAPS_AGAIN = frozenset({7, 20})
"""REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND: each try appends the bytes once more."""
ANOTHER_TOPIC_PERHAPS = frozenset({3, 100, 103})
"""UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID."""
_NO_END = 1 << 62
_WAY_OUT = (
    "let a broker lead that still has them, restore the topic with its id, or begin with another "
    "cluster_id"
)
_REFUSED = f"the shard is refused, for nothing tells what these records said: {_WAY_OUT}"


def _name_of(code: int) -> str:
    known = {each.value: each.name for each in ErrorCode}
    return known.get(code, f"error {code}")


class LogStartMovedError(Exception):
    """What is to be read was deleted: the log begins at ``start``."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start


class JudgedBatch(NamedTuple):
    """One whole batch as it was fetched, and what it is."""

    header: StampedBatch
    judgement: Judgement
    data: memoryview


@dataclass(slots=True)
class Outage:
    """Requests of one kind are not answered: since when, and why."""

    since_ms: int = -1
    why: str = ""
    is_said: bool = False


@dataclass(slots=True)
class _Patience:
    """How long one request is repeated, and when it was last asked whether the shard is ours."""

    began_ms: int
    looked_ms: int
    limit_ms: int


class LogPartition:
    """The partition of one shard, and how long which requests are repeated.

    Args:
        brokers: The cluster.
        place: The partition; its topic id must be the one that was recorded (STL-9).
        log: The number that stands for this log in its stamps.
        clock: Time.
        rng: Jitter of the waits.
        settings: Bounds.
        still_ours: A look (STL-18); raises FencedError.
        counts: What happens is added here.
    """

    def __init__(  # noqa: PLR0913 - all that a request needs
        self,
        brokers: Brokers,
        place: BrokerPartition,
        log: int,
        clock: Clock,
        rng: random.Random,
        settings: StampedLogSettings,
        still_ours: Callable[[], Awaitable[None]],
        *,
        counts: StampedLogCounts,
    ) -> None:
        self._brokers = brokers
        self._place = place
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._still_ours = still_ours
        self.counts = counts
        self.log = log
        self.name = f"topic {place.topic} partition {place.partition}"
        self.writes = Outage()

    async def look(self) -> None:
        """Return if the shard is still ours.

        Raises:
            FencedError: It is not.
        """
        await self._still_ours()

    async def check_topic(self) -> None:
        """Return if the topic of this name is the one that was recorded.

        Raises:
            CorruptLogError: It is another one.
            LogFailedError: No broker told.
        """
        await self._answered(self._ask_for_topic, self._settings.open_timeout_ms)

    async def produce(self, batch: bytes, limit_ms: int) -> int:
        """Append a batch until acks=all is answered with its offset: the same bytes each time.

        Raises:
            FencedError: The shard is no longer ours.
            CorruptLogError: The topic is another one.
            LogFailedError: Refused for good, or not answered in time; it may be written yet.
        """
        return await self._answered(lambda: self._produce(batch), limit_ms, self.writes)

    async def log_start(self, limit_ms: int) -> int:
        """Return where the log begins, as its leader says. Raises as ``produce``."""

        async def ask() -> int:
            found = await self._brokers.list_offset(self._place, EARLIEST_TIMESTAMP)
            return found.offset

        return await self._answered(ask, limit_ms)

    async def read(
        self, begin: int, end: int, limit_ms: int, fence: OwnFence | None = None
    ) -> AsyncIterator[list[JudgedBatch]]:
        """Yield every batch that lies in [begin, end), each answer's together.

        Waits for a high watermark that lags, for ``limit_ms`` at a time.

        Raises:
            LogStartMovedError: The log begins above what is to be read next.
            CorruptLogError: The log is not what its writers made of it.
            FencedError, LogFailedError: As ``produce``.
        """
        reading = ForwardReading(self.log, begin, fence)
        while reading.position < end:
            records = await self._fetch(reading.position, limit_ms)
            yield self._judged(records, reading, end)

    async def delete_below(self, offset: int) -> None:
        """Delete records below an offset, in one try.

        Raises:
            BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError: Perhaps not done.
        """
        await self._brokers.delete_records(
            self._place, offset, timeout_ms=self._settings.delete_timeout_ms
        )

    def corrupt(self, error: BrokenLogError, what_now: str = _REFUSED) -> CorruptLogError:
        """Return the error in words that name topic, partition and offset, and what to do."""
        return CorruptLogError(
            f"{self.name}: {error}; {what_now}", file=self.name, offset=error.offset
        )

    # ---- one try ---------------------------------------------------------------------------------

    async def _ask_for_topic(self) -> None:
        place = self._place
        answer = await self._brokers.metadata([place.topic])
        for topic in answer.topics:
            if topic.topic != place.topic:
                continue
            if topic.error:
                raise BrokerRefusedError(topic.error, _name_of(topic.error), place.topic)
            if topic.topic_id not in (place.topic_id, NO_TOPIC_ID):
                raise CorruptLogError(
                    f"{self.name}: the topic was deleted and made again: its id is "
                    f"{topic.topic_id.hex()}, not {place.topic_id.hex()}; what it held is lost: "
                    "restore it with its id, or begin with another cluster_id",
                    file=self.name,
                )
            return
        raise BrokerUnreachableError(f"the answer does not name topic {place.topic}")

    async def _produce(self, batch: bytes) -> int:
        written = await self._brokers.produce(
            self._place,
            batch,
            timeout_ms=self._settings.produce_timeout_ms,
            lane=BrokerLane.SHARD,
        )
        if written.base_offset < 0:
            raise BrokerUnreachableError("a broker wrote a batch and did not say where")
        return written.base_offset

    async def _fetch(self, offset: int, limit_ms: int) -> bytes:
        """Return at least one whole batch, from the one that holds ``offset`` on."""

        async def ask() -> bytes:
            try:
                fetched = await self._brokers.fetch(
                    self._place,
                    offset,
                    max_bytes=self._settings.read_bytes_max,
                    max_wait_ms=self._settings.read_wait_ms,
                )
            except BrokerRefusedError as error:
                if error.code != OFFSET_OUT_OF_RANGE:
                    raise
                found = await self._brokers.list_offset(self._place, EARLIEST_TIMESTAMP)
                if found.offset > offset:
                    raise LogStartMovedError(found.offset) from error
                raise  # a leader of yesterday, or a high watermark that lags
            if not fetched.records:
                raise BrokerUnreachableError(f"nothing is readable at offset {offset} yet")
            return fetched.records

        return await self._answered(ask, limit_ms)

    def _judged(self, records: bytes, reading: ForwardReading, end: int) -> list[JudgedBatch]:
        at = reading.position
        walk = walk_frames(
            records, start=0, limit=_NO_END, base_offset=None, leader_epoch=None, check_crc=True
        )
        judged: list[JudgedBatch] = []
        view = memoryview(records)
        try:
            for frame in walk.frames:
                if frame.end_offset <= at and frame.end_offset > frame.base_offset:
                    continue  # below what was asked for
                if frame.base_offset >= end and judged:  # else it shows a hole up to there
                    return judged
                data = view[frame.position : frame.position + frame.size_bytes]
                header = read_stamped_batch(frame, data)
                judged.append(JudgedBatch(header, reading.take(header), data))
                self.counts.void += judged[-1].judgement is Judgement.VOID
        except RecordSetError as error:
            broken = BrokenLogError(
                f"the batch at offset {reading.position}: {error}", reading.position
            )
            raise self.corrupt(broken, f"{_REFUSED}, or run a version that reads them") from error
        except BrokenLogError as error:
            raise self.corrupt(error) from error
        if not judged:
            why = walk.problem or "the batch there is cut"
            raise self.corrupt(BrokenLogError(f"offset {at}: {why}", at))
        return judged

    # ---- again and again -------------------------------------------------------------------------

    async def _answered(
        self,
        ask: Callable[[], Awaitable[Result]],
        limit_ms: int,
        outage: Outage | None = None,
    ) -> Result:
        began_ms = self._clock.now_ms()
        patience = _Patience(began_ms, began_ms, limit_ms)
        outage = outage or Outage()
        settings = self._settings
        usual = Backoff(settings.retry_min_ms, settings.retry_max_ms, self._rng)
        slow = Backoff(settings.retry_min_ms, settings.slow_retry_max_ms, self._rng)
        while True:
            try:
                result = await self._one_try(ask, patience, outage)
            except UnsupportedRequestError as error:
                raise LogFailedError(f"{self.name}: {error}") from error
            except BrokerUnreachableError as error:
                why, wait_ms = str(error), usual.next_ms()
            except BrokerRefusedError as error:
                if error.code in REFUSED_FOR_GOOD:
                    raise LogFailedError(f"{self.name}: the cluster refused: {error}") from error
                again = slow if error.code in WRITTEN_PERHAPS_AGAIN else usual
                why, wait_ms = str(error), again.next_ms()
                if error.code in ANOTHER_TOPIC_PERHAPS and ask != self._ask_for_topic:
                    await self._look_for_another_topic(patience, outage)
            else:
                self._is_over(outage)
                return result
            now_ms = self._clock.now_ms()
            self._goes_on(outage, began_ms, now_ms, why)
            if now_ms - began_ms + wait_ms > limit_ms:
                raise LogFailedError(f"{self.name}: no answer for {now_ms - began_ms} ms: {why}")
            await self._look_if_due(patience)
            await self._clock.sleep_ms(wait_ms)

    async def _one_try(
        self, ask: Callable[[], Awaitable[Result]], patience: _Patience, outage: Outage
    ) -> Result:
        """Ask once; one that hangs is looked after like one that fails, and ended at the limit."""
        asked = asyncio.ensure_future(ask())
        try:
            while not asked.done():
                now_ms = self._clock.now_ms()
                left_ms = patience.began_ms + patience.limit_ms - now_ms
                if left_ms <= 0:
                    raise BrokerUnreachableError("a request is not answered")
                due_ms = patience.looked_ms + self._settings.look_interval_ms - now_ms
                await first_done(asked, self._clock.sleep_ms(max(1, min(left_ms, due_ms))))
                if not asked.done():
                    why = outage.why or "no answer yet"
                    self._goes_on(outage, patience.began_ms, self._clock.now_ms(), why)
                    await self._look_if_due(patience)
            return asked.result()
        finally:
            await cancel_and_wait(asked)

    async def _look_if_due(self, patience: _Patience) -> None:
        now_ms = self._clock.now_ms()
        if now_ms - patience.looked_ms >= self._settings.look_interval_ms:
            patience.looked_ms = now_ms
            await self._still_ours()

    async def _look_for_another_topic(self, patience: _Patience, outage: Outage) -> None:
        try:
            await self._one_try(self._ask_for_topic, patience, outage)
        except (BrokerRefusedError, BrokerUnreachableError, UnsupportedRequestError):
            return  # perhaps a broker that does not know of the topic yet: ask again

    def _goes_on(self, outage: Outage, began_ms: int, now_ms: int, why: str) -> None:
        if outage.since_ms < 0:
            outage.since_ms = began_ms
        outage.why = why
        if not outage.is_said and now_ms - outage.since_ms >= self._settings.stuck_ms:
            outage.is_said = True
            _log.warning("%s: not answered for %d ms: %s", self.name, now_ms - began_ms, why)

    def _is_over(self, outage: Outage) -> None:
        if outage.is_said:
            lasted_ms = self._clock.now_ms() - outage.since_ms
            _log.info("%s: answered again after %d ms", self.name, lasted_ms)
        outage.since_ms, outage.why, outage.is_said = -1, "", False
