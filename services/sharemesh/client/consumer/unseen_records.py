"""Records that no poll has returned: kept as the application's pace allows (spec HBK)."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from sharemesh.client.consumer.deliveries import Delivery, PartitionAcknowledgements, runs_of
from sharemesh.client.records import TopicIdPartition
from sharemesh.domain.delivery_state import AcknowledgeType
from sharemesh.domain.share_partition.events import AcquireMode
from sharemesh.ports.clock import Clock
from sharemesh.tasks import cancel_and_wait


class RecordBuffer:
    """A queue of deliveries that is counted, and cut, by records.

    Attributes:
        records: Acquired offsets in it, gaps included.
    """

    def __init__(self) -> None:
        self._held: deque[Delivery] = deque()
        self.records = 0

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._held)

    def append(self, delivery: Delivery) -> None:
        """Put a delivery at the end."""
        self._held.append(delivery)
        self.records += delivery.record_count

    def put_back(self, delivery: Delivery) -> None:
        """Put a delivery at the beginning: it was taken too early; less what came anew since."""
        left: Delivery | None = delivery
        for later in self._held:
            if left is not None and later.source == left.source:
                left = left.without(later.runs)
        if left is not None:
            self._held.appendleft(left)
            self.records += left.record_count

    def take(self, wanted: int) -> list[Delivery]:
        """Remove and return the first ``wanted`` records, or all."""
        found: list[Delivery] = []
        while self._held and wanted > 0:
            delivery = self._held.popleft()
            count = delivery.record_count
            if count > wanted:
                delivery, rest = delivery.split(wanted)
                self._held.appendleft(rest)
                count = wanted
            found.append(delivery)
            wanted -= count
            self.records -= count
        return found

    def take_last(self, surplus: int) -> list[Delivery]:
        """Remove and return the last ``surplus`` records, or all."""
        found: list[Delivery] = []
        while self._held and surplus > 0:
            delivery = self._held.pop()
            count = delivery.record_count
            if count > surplus:
                kept, delivery = delivery.split(count - surplus)
                self._held.append(kept)
                count = surplus
            found.append(delivery)
            surplus -= count
            self.records -= count
        return found

    def drop(self, source: TopicIdPartition, runs: Sequence[range]) -> int:
        """Drop these offsets of a partition, not empty; return how many records were there."""
        first, last = min(run.start for run in runs), max(run.stop for run in runs) - 1
        if not any(each.source == source and each.overlaps(first, last) for each in self._held):
            return 0  # nearly always
        before, held = self.records, self._held
        self._held, self.records = deque(), 0
        for each in held:
            left = each.without(runs) if each.source == source else each
            if left is not None:
                self.append(left)
        return before - self.records

    def remove(self, condition: Callable[[Delivery], bool]) -> list[Delivery]:
        """Remove and return the deliveries for which ``condition`` is true."""
        found = [held for held in self._held if condition(held)]
        if found:
            self._held = deque(held for held in self._held if not condition(held))
            self.records -= sum(held.record_count for held in found)
        return found


AHEAD_MS = 1_000
"""Records are kept if the application is expected to process them within this time."""

_DECAY = 0.5
"""Weight of earlier polls against the last one."""


class Pace:
    """Estimates how many waiting records an application can begin soon.

    What a poll returned, over the time until the next poll, is the pace. While the application is
    busy it cannot have worked faster than all that it has, in the time that has passed.
    """

    def __init__(self, unknown: int) -> None:
        """``unknown`` is how many records may wait while nothing is known of the application."""
        self._unknown = unknown
        self._records = 0.0
        self._ms = 0.0
        self._taken = 0
        self._taken_ms = 0

    @property
    def busy_since_ms(self) -> int | None:
        """When the application took the records that it works on; None if it has none."""
        return self._taken_ms if self._taken else None

    @property
    def is_known(self) -> bool:
        """Whether the application is busy, and was measured before."""
        return bool(self._taken and self._ms)

    def took(self, count: int, now_ms: int) -> None:
        """Note that a poll returned ``count`` records."""
        self._taken, self._taken_ms = count, now_ms

    def came_back(self, now_ms: int) -> None:
        """Note that the application polls again, done with what it had."""
        if self._taken:
            self._records = self._records * _DECAY + self._taken
            self._ms = self._ms * _DECAY + max(now_ms - self._taken_ms, 1)
            self._taken = 0

    def workable(self, now_ms: int) -> int:
        """Return how many records behind those that it has the application can begin soon."""
        if not self._taken:
            return self._unknown  # it has nothing to do: whatever comes is begun at once
        passed_ms = max(now_ms - self._taken_ms, 1)
        known = self._records / self._ms if self._ms else None
        expected_ms = self._taken / known if known is not None else 0
        if passed_ms >= expected_ms + AHEAD_MS:
            return 0  # it hangs: when it polls again is unknown
        most = self._taken / passed_ms
        if known is None:
            return min(self._unknown, int(most * AHEAD_MS))
        rate = min(known, most)
        return max(int(rate * (AHEAD_MS + passed_ms) - self._taken), 0)


WATCH_MS = 250
"""How often waiting records are checked while the application is busy."""

KEEP_PART = 2
"""Records wait for at most 1/KEEP_PART of their lock duration before they are given back."""

MARGIN_PART = 8
"""In its last 1/MARGIN_PART a lock counts as expired: the leader's clock started earlier."""

SURPLUS_FACTOR = 2
"""Records beyond this multiple of what the application can begin soon are given back."""

_FINAL = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)

_log = logging.getLogger(__name__)


class UnseenRecords:
    """What waits for the application, on the event loop, so that a busy one need do nothing.

    Attributes:
        buffer: The records that wait.
        handed_back: Records that were given back, not counted as delivered.
        expired: Records that were dropped: their locks had ended unseen.
        by_handlers: Whether ``run`` works, and not a loop of polls.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        at_once: int,
        kept: int,
        give_back: Callable[[Sequence[Delivery]], None],
        hold_back: Callable[[], None],
        acquire: Callable[[AcquireMode], None],
    ) -> None:
        """``kept`` records may always wait, ``at_once`` while the application's pace is unknown.

        ``hold_back`` lets leaders deliver no more until the next fetch; it goes with each
        ``give_back``, or the records would come again at once. ``acquire`` says
        whether leaders may deliver more than they are asked for, to keep batches whole.
        """
        self._clock = clock
        self._kept = kept
        self._pace = Pace(at_once)
        self._give_back = give_back
        self._hold_back = hold_back
        self._acquire = acquire
        self._too_many = 0  # so many came in whole batches that these are not taken any more
        self._watching: asyncio.Task[None] | None = None
        self._fetching = False
        self._holding = False  # no leader delivers until the next fetch
        self._quiet_since_ms = clock.now_ms()
        self._lock_ms = 0
        self._returned = 0  # since the last fetch
        self._warned = False
        self._epochs: dict[TopicIdPartition, int] = {}  # of what came last
        self._ends: dict[TopicIdPartition, int] = {}  # one past the highest offset that came
        self._came_again: set[TopicIdPartition] = set()  # records of these, some time
        self.buffer = RecordBuffer()
        self.handed_back = 0
        self.expired = 0
        self.by_handlers = False

    # ---- what the application does --------------------------------------------------------------

    def fetch_begins(self) -> None:
        """Note that the application is there, and waits."""
        self._fetching = True
        self._pace.came_back(self._clock.now_ms())
        self._returned, self._warned = 0, False
        self._holding = False

    def take(self, wanted: int) -> list[Delivery]:
        """Return at most ``wanted`` records whose locks last long enough to work on them."""
        self._give_back_old()
        return self.buffer.take(wanted)

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Let these be the next ones: they were taken and not handed out."""
        before = self.buffer.records
        for delivery in reversed(deliveries):
            self.buffer.put_back(delivery)
        taken = sum(delivery.record_count for delivery in deliveries)
        self.expired += before + taken - self.buffer.records
        self._watch()

    def fetch_ends(self, handed_out: int) -> None:
        """Note that a poll returned this many records to the application."""
        self._fetching = False
        self._quiet_since_ms = now_ms = self._clock.now_ms()
        self._pace.took(handed_out, now_ms)
        if self._pace.is_known and 0 < self._too_many <= self._pace.workable(now_ms):
            self._too_many = 0
            self._acquire(AcquireMode.BATCH_OPTIMIZED)
        self._watch()

    def polled(self) -> None:
        """Note a poll that fetches nothing."""
        self.fetch_begins()
        self.fetch_ends(0)

    def workable(self) -> int:
        """Return how many records may wait for the application now."""
        return max(self._pace.workable(self._clock.now_ms()), self._kept)

    # ---- what leaders do ------------------------------------------------------------------------

    def arrived(self, delivery: Delivery) -> None:
        """Let records wait; the end of them goes back at once if the application is known busy."""
        if not self._is_of_latest(delivery):
            self.expired += delivery.record_count
            return
        self._drop_what_comes_anew(delivery)
        self.buffer.append(delivery)
        self._lock_ms = delivery.lock_timeout_ms
        since_ms = self._pace.busy_since_ms
        if self._fetching:
            return
        if since_ms is not None and self._clock.now_ms() - since_ms >= WATCH_MS:
            self._look()
        self._watch()

    def _is_of_latest(self, delivery: Delivery) -> bool:
        """Whether no later leader has sent; what earlier ones sent goes: its locks have ended.

        Else a record would wait twice, and be handed out twice by one poll. Locks that were handed
        over live on, unless the later leader has delivered their records again (HND-9).
        """
        source, epoch = delivery.source, delivery.leader_epoch
        latest = self._epochs.get(source, epoch)
        if epoch > latest:
            old = self.buffer.remove(
                lambda held: held.source == source and not _lives_on(held, delivery)
            )
            self.expired += sum(held.record_count for held in old)
        self._epochs[source] = max(epoch, latest)
        return epoch >= latest or (
            all(_lives_on(delivery, held) for held in self.buffer if held.source == source)
            and delivery.route.may_live_on(source, epoch)
        )

    def _drop_what_comes_anew(self, delivery: Delivery) -> None:
        """Let no record wait twice: the lock of the one that waits has ended (HBK-22).

        Else one poll would return both, and the later one would not be given back for the earlier.
        """
        source, runs = delivery.source, delivery.runs
        end = self._ends.get(source, 0)
        if min(run.start for run in runs) < end:
            self._came_again.add(source)
            self.expired += self.buffer.drop(source, runs)
        self._ends[source] = max(end, *(run.stop for run in runs))

    def confirmed(self, asked: PartitionAcknowledgements) -> None:
        """Drop what is finished: a word on an earlier delivery may end the one that waits."""
        if asked.source in self._came_again and self.buffer.records:
            final = [offset for offset, kind in asked.types.items() if kind in _FINAL]
            if final:
                self.expired += self.buffer.drop(asked.source, runs_of(sorted(final)))

    def refused(self, source: TopicIdPartition) -> None:
        """Drop what a leader that has gone did not hand over, if a later one has sent."""
        latest = self._epochs.get(source, 0)
        old = self.buffer.remove(
            lambda held: (
                held.source == source
                and held.leader_epoch < latest
                and not held.route.may_live_on(source, held.leader_epoch)
            )
        )
        self.expired += sum(held.record_count for held in old)

    async def close(self) -> None:
        """Stop watching; the records of open sessions were given back before."""
        if self._watching is not None:
            await cancel_and_wait(self._watching)

    # ---- watching -------------------------------------------------------------------------------

    def _watch(self) -> None:
        if self._is_to_look() and (self._watching is None or self._watching.done()):
            self._watching = asyncio.ensure_future(self._keep_looking())

    def _is_to_look(self) -> bool:
        """Whether records wait, more may come for an application that hangs, or a stall is new."""
        may_come = self._pace.busy_since_ms is not None and not self._holding
        return bool(self.buffer.records or may_come or (self._returned and not self._warned))

    async def _keep_looking(self) -> None:
        while self._is_to_look():
            await self._clock.sleep_ms(WATCH_MS)
            if not self._fetching:
                self._look()

    def _look(self) -> None:
        """Give back what the application cannot begin soon, the last first; warn of a stall."""
        self._give_back_old()
        workable = self.workable()
        if self.buffer.records > SURPLUS_FACTOR * workable:
            if not self._too_many:
                self._acquire(AcquireMode.RECORD_LIMIT)
            self._too_many = max(self._too_many, self.buffer.records)
            self._return(self.buffer.take_last(self.buffer.records - workable))
        elif not workable:
            self._hold()
        quiet_ms = self._clock.now_ms() - self._quiet_since_ms
        if self._returned and not self._warned and quiet_ms >= self._lock_ms // KEEP_PART:
            self._warned = True
            self._warn_of_stall(quiet_ms)

    def _warn_of_stall(self, quiet_ms: int) -> None:
        if self.by_handlers:  # nothing is lost: ``run`` renews the locks that it needs
            _log.info(
                "all handlers have been busy for %.1f s: what none of them has seen was given back "
                "to the group (%d)",
                quiet_ms / 1_000,
                self._returned,
            )
            return
        _log.warning(
            "the application has not polled for %.1f s: what it has not seen was given back to the "
            "group (%d); locks of records that it has end after %.0f s. Poll more "
            "often, take fewer at a time (max.poll.records), or let run() renew locks",
            quiet_ms / 1_000,
            self._returned,
            self._lock_ms / 1_000,
        )

    def _give_back_old(self) -> None:
        now_ms = self._clock.now_ms()
        lost = self.buffer.remove(
            lambda held: not held.route.is_open_for(held.source, held.leader_epoch)
        )
        self.expired += sum(held.record_count for held in lost)
        old = self.buffer.remove(
            lambda held: held.expires_ms - now_ms < held.lock_timeout_ms // KEEP_PART
        )
        if old:
            self._return(old)

    def _return(self, deliveries: Sequence[Delivery]) -> None:
        """Release records, except those whose locks may be over: they may be ours again."""
        now_ms = self._clock.now_ms()
        sure = [
            held
            for held in deliveries
            if held.expires_ms - now_ms > held.lock_timeout_ms // MARGIN_PART
        ]
        count = sum(held.record_count for held in sure)
        lost = sum(held.record_count for held in deliveries) - count
        if lost:
            self.expired += lost
            _log.warning(
                "%d records that were sent ahead of poll are dropped: the event loop stood still, "
                "or the machine slept, until their locks ended; others may have got them",
                lost,
            )
        self.handed_back += count
        self._returned += count
        self._hold()
        self._give_back(sure)

    def _hold(self) -> None:
        if not self._fetching and not self._holding:
            self._holding = True
            self._hold_back()


def _lives_on(earlier: Delivery, later: Delivery) -> bool:
    """Whether locks go on that a leader hands over: they are not those of a later delivery."""
    return earlier.route.may_live_on(earlier.source, earlier.leader_epoch) and not any(
        earlier.overlaps(run.first_offset, run.last_offset) for run in later.acquired
    )
