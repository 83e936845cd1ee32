"""What this process knows of one partition that Kafka leads: its ends, its epoch, its records."""

import asyncio
import logging
from collections.abc import Callable

from sharemesh.backends.kafka.record_logs.cluster_words import (
    CLUSTER_ERRORS,
    NETWORK_EXCEPTION,
    OFFSET_OUT_OF_RANGE,
    error_name,
    name_of,
)
from sharemesh.backends.kafka.record_logs.epoch_starts import EpochStarts
from sharemesh.backends.kafka.record_logs.fetched_batches import FetchedBatches, whole_batches
from sharemesh.backends.kafka.record_logs.found_ends import (
    FoundEnds,
    FoundEpochs,
    KnownEpochs,
    find_epochs,
)
from sharemesh.backends.kafka.record_logs.log_access import LogAccess
from sharemesh.backends.kafka.record_logs.log_ends import TopicLogEnds
from sharemesh.backends.kafka.record_logs.partition_memory import PartitionMemory
from sharemesh.backends.kafka.record_logs.read_cache import ReadCache
from sharemesh.backoff import Backoff
from sharemesh.domain.seen_partition import SeenPartition
from sharemesh.ports.brokers import (
    BrokerPartition,
    BrokerRefusedError,
    FetchedRecords,
    WatchAnswer,
    WatchedPartition,
)
from sharemesh.tasks import first_done

_BYTES_HALVED_FROM = 1 << 26
_log = logging.getLogger(__name__)


class FollowedLog:
    """A partition as answers of the cluster show it; the watch and reads bring them here."""

    def __init__(
        self,
        where: BrokerPartition,
        access: LogAccess,
        cache: ReadCache,
        found: FoundEnds,
        memory: PartitionMemory,
    ) -> None:
        self.where = where
        self.cache = cache
        self.ends = TopicLogEnds(
            found.log_start_offset, found.high_watermark, found.last_stable_offset
        )
        self.kafka_epoch = found.leader_epoch
        self._epoch_end = found.high_watermark  # the highest that answers under that epoch named
        self._produced_end = 0  # one past what Produce confirmed beside comparisons
        self.checks = 0  # how often the epoch was compared: what was asked before does not count
        self.checks_begun = 0
        self._brokers = access.brokers
        self._clock = access.clock
        self._tasks = access.tasks
        self._bounds = access.bounds
        self._starts = EpochStarts()
        self._memory = memory
        self._closed = False
        self._note()
        self._callbacks: list[Callable[[], None]] = []
        self._trouble: tuple[str, int] | None = None
        self._refused_end = 0  # the end that was known when Kafka said that it lies behind its own
        self._short_of = 0  # such an end that Kafka's log has not reached again
        self._is_told_losses = True  # by the ends of epochs, when they were last compared
        self._checking: asyncio.Task[None] | None = None
        self._backoff = Backoff(access.bounds.retry_first_ms, access.bounds.retry_most_ms)
        self._is_repeated = self._is_due = False  # a comparison, for what Produce confirmed
        self._is_in_vain = False  # nothing was heard since the last comparison that would count
        self._hot_until_ms = -1
        self._active_until_ms = access.clock.now_ms() + access.bounds.hot_ms
        self._tail = found.high_watermark
        self._bytes_seen = 0
        self._offsets_seen = 0

    # ---- what is known --------------------------------------------------------------------------

    @property
    def unavailable(self) -> str:
        """What keeps records from being read, and for how long; empty if nothing does (KRL-10)."""
        if self._trouble is None:
            return ""
        words, since_ms = self._trouble
        return f"{words}, for {(self._clock.now_ms() - since_ms) / 1_000:.0f} s"

    @property
    def bytes_an_offset(self) -> float:
        """Mean size of a record as far as records were seen, at least 1."""
        if not self._offsets_seen:
            return 1.0
        return max(1.0, self._bytes_seen / self._offsets_seen)

    @property
    def is_checking(self) -> bool:
        """Whether nothing may be delivered before the epoch of Kafka's leader is compared."""
        return self._checking is not None

    async def until_checked(self, wait_ms: int) -> None:
        """Return once the epoch is compared, repeated or not, at the latest after the wait."""
        deadline_ms = self._clock.now_ms() + wait_ms
        # One that was cancelled before its first turn stays: it is over, and nothing says so.
        while self._checking is not None and not self._checking.done() and wait_ms > 0:
            await first_done(self._checking, self._clock.sleep_ms(wait_ms))
            wait_ms = deadline_ms - self._clock.now_ms()

    def on_advance(self, callback: Callable[[], None]) -> None:
        """Call back after each move of an end, and of what is damaged."""
        self._callbacks.append(callback)

    def resume(
        self, seen: SeenPartition | None, found: FoundEnds, epochs: FoundEpochs | None
    ) -> None:
        """Take in what leaders before saw, and what this log has of the epochs that they knew."""
        lost, differs = None, 0
        if seen is not None:
            self._starts = EpochStarts(seen.epoch_starts)
            self.ends.saw(seen.start, -1, -1)
            if found.high_watermark < seen.start:
                self._say_below_start(found)
            lost, differs = seen.lost, seen.end
            if lost is not None and lost[1] <= self.ends.log_start_offset:
                lost = None
        if epochs is not None:
            differs = min(differs, self._differs(epochs, otherwise=differs))
        if seen is not None and differs < seen.end and seen.end > self.ends.log_start_offset:
            first = differs if lost is None else min(differs, lost[0])
            lost = (first, seen.end if lost is None else max(seen.end, lost[1]))
        if lost is not None:
            self.ends.lost_before(*lost)
            self._say_damage()
        self._note()

    async def leave(self) -> None:
        """Write what was noted of the ends, if that is possible soon; then nobody leads it here."""
        try:
            await self._memory.settle()
        finally:
            self._memory.forget()

    def close(self) -> None:
        """Forget everything; what is under way ends, and what comes late changes nothing."""
        self._closed = True
        if self._checking is not None:
            self._checking.cancel()
        self.cache.clear()

    # ---- what the watch asks and hears ----------------------------------------------------------

    def keep_hot(self) -> None:
        """Somebody read up to the end, and waits there: records come with the news (KRL-2)."""
        now_ms = self._clock.now_ms()
        if now_ms >= self._hot_until_ms:
            self._tail = self.ends.newest_end
        self._hot_until_ms = now_ms + self._bounds.hot_ms
        self._active_until_ms = self._hot_until_ms

    def is_active(self, now_ms: int) -> bool:
        """Return whether it was opened, read at its end, or told of lately (KRL-2)."""
        return now_ms < self._active_until_ms

    def wanted(self, now_ms: int) -> WatchedPartition:
        """Return what a watch asks for: records behind the end while it is hot, else its news."""
        if now_ms >= self._hot_until_ms:
            return self.news()
        return self._watched(self._tail, self._bounds.fetch_bytes_min)

    def news(self) -> WatchedPartition:
        """Return what asks for hardly more than the ends."""
        return self._watched(self.ends.newest_end, 1)

    def _watched(self, offset: int, max_bytes: int) -> WatchedPartition:
        # Behind the end that is known under its epoch Kafka may have nothing, and would refuse.
        asked = min(max(offset, self.ends.log_start_offset), self._epoch_end)
        return WatchedPartition(self.where, asked, max_bytes, self.kafka_epoch)

    def heard(self, answer: WatchAnswer) -> bool:
        """Take in an answer of the watch; return whether somebody waits for what it brought.

        It may answer an older question than the last one: what it holds, only it says.
        """
        now_ms = self._clock.now_ms()
        if answer.fetched is None:
            self._active_until_ms = now_ms + self._bounds.hot_ms
            self.failed_with(answer.error)
            return False
        part = self.took(answer.fetched, None)
        if part is None or not part.frames:
            return False
        is_hot = now_ms < self._hot_until_ms
        self._active_until_ms = now_ms + self._bounds.hot_ms
        self._tail = max(self._tail, part.end_offset)
        return is_hot

    # ---- answers --------------------------------------------------------------------------------

    def took(self, fetched: FetchedRecords, asked_offset: int | None) -> FetchedBatches | None:
        """Take in an answer; None: it does not count, the epoch must be compared first (KRL-8)."""
        if self._closed or not self._counts(fetched):
            return None
        self._is_in_vain = False
        self._goes_on(fetched.high_watermark)
        part, problem = whole_batches(fetched.records, asked_offset)
        if part.frames:
            self._note_size(part)
            self.cache.add(part)
        if problem and part.end_offset >= 0:
            words = self._cannot_serve(part, problem)
            if self.ends.unreadable(part.end_offset, words):
                _log.error("partition %s", words)
        self.saw_in_epoch(
            fetched.log_start_offset, fetched.high_watermark, fetched.last_stable_offset
        )
        return part

    def saw_in_epoch(
        self, log_start_offset: int, high_watermark: int, last_stable_offset: int
    ) -> None:
        """Take in ends that were named under the epoch that is known: below them all was its."""
        if self._closed:
            return
        self._epoch_end = max(self._epoch_end, high_watermark)
        if self._epoch_end >= self._produced_end:
            self._produced_end = 0
        self.saw(log_start_offset, high_watermark, last_stable_offset)

    def refreshed(self, found: FoundEnds, checks: int) -> bool:
        """Take in ends that were asked for; return whether they count, or are known since (KRL-8).

        Args:
            found: What the leader said.
            checks: How often the epoch had been compared when it was asked.
        """
        if self._closed:
            return True
        if not self.is_checking and 0 <= self.kafka_epoch < found.leader_epoch:
            self.compare()
        is_known = found.leader_epoch == self.kafka_epoch
        if min(found.leader_epoch, self.kafka_epoch) < 0:
            is_known = checks == self.checks
        if self.is_checking or not is_known:
            return False
        self.saw_in_epoch(found.log_start_offset, found.high_watermark, found.last_stable_offset)
        return True

    def was_produced(self, log_start_offset: int, base: int, end: int, checks_begun: int) -> None:
        """Take in what an answer to Produce confirmed: it names no epoch (KRL-3).

        Args:
            log_start_offset: Where the log starts, -1 is not known.
            base: Its first offset.
            end: One past its last one.
            checks_begun: How often a comparison had begun, and ended, when it was sent; -1: one
                was under way.
        """
        if self._closed or end <= self.ends.newest_end:
            return
        if self.checks_begun == checks_begun:
            is_joined = base == self.ends.newest_end == self.ends.last_stable_offset  # none is open
            self.saw(log_start_offset, end, end if is_joined else -1)
            return
        self._produced_end = max(self._produced_end, end)
        if not self._is_repeated:
            # It may be lost, and was not known when that would have been seen. Once: there may
            # always be a batch on its way.
            self._is_repeated = True
            self._begin_check()

    def saw(self, log_start_offset: int, high_watermark: int, last_stable_offset: int = -1) -> None:
        """Take in where Kafka's log starts and ends; -1 is not known (KRL-3)."""
        if self._closed:
            return
        was_damaged = self.ends.damage is not None
        if self.ends.saw(log_start_offset, high_watermark, last_stable_offset):
            if was_damaged and self.ends.damage is None:
                _log.warning(
                    "partition %s: what was damaged is deleted; records are delivered again",
                    name_of(self.where),
                )
            self._note()
            self._tell()

    def failed(self, error: Exception) -> None:
        """A request got no answer that could be used."""
        if isinstance(error, BrokerRefusedError):
            self.failed_with(error.code, str(error))
        else:
            self._note_trouble(str(error))

    def failed_with(self, code: int, words: str = "") -> None:
        """Kafka refused; an offset out of range may mean that the start moved (KRL-7)."""
        if code == OFFSET_OUT_OF_RANGE:
            self._refused_end = self.ends.newest_end
            self.compare()
        elif code == NETWORK_EXCEPTION:
            self._note_trouble("the broker that leads it in Kafka cannot be reached")
        else:
            self._note_trouble(f"Kafka answers {words or error_name(code)}")

    def compare(self) -> None:
        """Compare the epoch and ask for the ends; until that is done nothing is delivered."""
        self._is_repeated = False
        if self._checking is None:
            self._begin_check()

    def _begin_check(self) -> None:
        """Begin a comparison, after the one that is under way."""
        if self._checking is not None:
            self._is_due = True
        elif not self._closed:
            self._is_due = False
            self.checks_begun += 1
            self._checking = self._tasks.spawn(self._check())

    def _counts(self, fetched: FetchedRecords) -> bool:
        if self.is_checking:
            return False
        epoch = fetched.leader_epoch
        if fetched.diverging is not None or epoch > self.kafka_epoch >= 0:
            if fetched.diverging is not None:
                self._refused_end = self.ends.newest_end
            self.compare()
            return False
        return not 0 <= epoch < self.kafka_epoch  # else a leader of yesterday says it

    async def _check(self) -> None:
        """Ask until the leader has answered; then deliver again, or stop at what was lost."""
        if not self._is_in_vain:
            self._backoff.reset()
        try:
            while not self._closed:
                if self._is_in_vain:
                    await self._clock.sleep_ms(self._backoff.next_ms())
                self._is_in_vain = True
                try:
                    found = await self._compare()
                except CLUSTER_ERRORS as error:
                    self._note_trouble(f"Kafka answers {error}")
                else:
                    self._goes_on(found.high_watermark)
                    break
        except asyncio.CancelledError:
            self._is_due = False  # whoever ends it wants no other one
            raise
        finally:
            self._checking = None
            self.checks += 1
            if self._is_due:
                self._begin_check()
            self._tell()

    def _goes_on(self, high_watermark: int) -> None:
        """Forget what was wrong, unless Kafka's log ends below what was known of it (KRL-10)."""
        known_end = min(self._refused_end, self.ends.newest_end)
        if high_watermark < known_end and not self._is_told_losses:
            if self._short_of != known_end:
                self._short_of = known_end
                self._trouble = None  # another one begins
            self._note_trouble(
                f"Kafka's log ends at offset {high_watermark} and had ended at {known_end}: it "
                "lost records, and this cluster does not tell which; groups go on once it has "
                f"passed offset {known_end}"
            )
            return
        self._refused_end = self._short_of = 0
        self._trouble = None

    async def _compare(self) -> FoundEnds:
        produced_end = self._produced_end  # what is confirmed from now on, may lie there already
        known = KnownEpochs(self.kafka_epoch, self._epoch_end, self._starts.known)
        found, epochs = await find_epochs(self._brokers, self.where, known)
        self._is_told_losses = epochs is not None and self.kafka_epoch >= 0
        self.kafka_epoch = max(self.kafka_epoch, found.leader_epoch)
        named_end = max(self._epoch_end, self.ends.log_start_offset)
        if epochs is not None:
            await self._take_losses(found, epochs)
        end = max(found.high_watermark, self.ends.log_start_offset)
        confirmed_end = max(self.ends.newest_end, produced_end)
        if self._is_told_losses and end < confirmed_end and named_end < confirmed_end:
            self.ends.falls_to(max(end, self._epoch_end), found.last_stable_offset)
            _log.error(
                "partition %s: Kafka's log ends at offset %d, and it may have lost the records "
                "from offset %d to %d that it had confirmed to producers (unclean leader "
                "election); no group got them, so there is nothing to give up for them",
                *(name_of(self.where), found.high_watermark, named_end, confirmed_end - 1),
            )
        if self._produced_end == produced_end:
            self._produced_end = 0
        self._note()
        self.saw_in_epoch(found.log_start_offset, found.high_watermark, found.last_stable_offset)
        return found

    def _differs(self, epochs: FoundEpochs, *, otherwise: int) -> int:
        """Return from where on a log differs from the known one, and know its epochs from now on.

        ``otherwise``: what is returned where no epoch was known.
        """
        differs = otherwise
        if epochs.end_offset >= 0:
            differs = self._starts.differs_from(epochs.epoch, epochs.end_offset)
        self._starts.forget_above(epochs.epoch)
        self._starts.add(epochs.starts)
        return differs

    async def _take_losses(self, found: FoundEnds, epochs: FoundEpochs) -> None:
        """Stop where the log of Kafka's leader differs from what was confirmed (KRL-9)."""
        known_end = min(self.ends.newest_end, self._epoch_end)
        differs = self._differs(epochs, otherwise=known_end)
        if differs >= known_end:
            return
        start = self.ends.log_start_offset
        self._epoch_end = found.high_watermark
        self.cache.clear()
        if self.ends.lost(differs, found.high_watermark, found.last_stable_offset):
            self._say_damage()
            self._note()
            await self._memory.settle()
        elif known_end <= start:
            self._say_below_start(found)
        else:
            _log.error(
                "partition %s: Kafka lost the records from offset %d to %d that it had confirmed; "
                "no group got them, so there is nothing to give up for them",
                *(name_of(self.where), max(differs, start), known_end - 1),
            )
        self._tail = self.ends.newest_end

    def _seen(self) -> SeenPartition:
        ends = self.ends
        end = ends.confirmed_end
        if ends.lost_range is None:
            end = min(end, max(self._epoch_end, ends.log_start_offset))
        return SeenPartition(
            self.kafka_epoch, ends.log_start_offset, end, ends.lost_range, self._starts.known
        )

    def _note(self) -> None:
        self._memory.note(self._seen)

    def _say_damage(self) -> None:
        damage = self.ends.damage
        _log.error("partition %s: %s", name_of(self.where), damage[1] if damage else "")

    def _say_below_start(self, found: FoundEnds) -> None:
        start = self.ends.log_start_offset
        _log.error(
            "partition %s: Kafka's log ends at offset %d, and had started at %d: it lost what lay "
            "there (unclean leader election, or a disk was lost); what is written below offset %d "
            "is not delivered",
            *(name_of(self.where), found.high_watermark, start, start),
        )

    def _note_trouble(self, words: str) -> None:
        if self._closed:
            return
        if self._trouble is None:
            self._trouble = (words, self._clock.now_ms())
            _log.warning(
                "partition %s cannot be read: %s; fetches wait", name_of(self.where), words
            )
        elif self._trouble[0] != words:
            self._trouble = (words, self._trouble[1])

    def _note_size(self, part: FetchedBatches) -> None:
        self._bytes_seen += sum(frame.size_bytes for frame in part.frames)
        self._offsets_seen += part.end_offset - part.start_offset
        if self._bytes_seen > _BYTES_HALVED_FROM:  # what is newer counts for more
            self._bytes_seen //= 2
            self._offsets_seen = max(1, self._offsets_seen // 2)

    def _cannot_serve(self, part: FetchedBatches, problem: str) -> str:
        return (
            f"{name_of(self.where)}, offset {part.end_offset}: {problem}; or give the records up "
            "with `sharemesh topics delete-records TOPIC/PARTITION --before` the first offset "
            "behind them"
        )

    def _tell(self) -> None:
        if not self._closed:
            for callback in self._callbacks:
                callback()
