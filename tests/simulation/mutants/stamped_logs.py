"""Bugs of storage in Kafka: what counts in a stamped log, who owns it, what is read of a topic."""

import contextlib

from sharemesh.backends.kafka.record_logs import log_reads
from sharemesh.backends.kafka.record_logs.epoch_starts import EpochStarts
from sharemesh.backends.kafka.record_logs.followed_log import FollowedLog
from sharemesh.backends.kafka.record_logs.log_ends import TopicLogEnds
from sharemesh.backends.kafka.record_logs.partition_log import KafkaPartitionLog
from sharemesh.backends.kafka.shard_logs import unit_writer
from sharemesh.backends.kafka.shard_logs.confirmed_units import ConfirmedUnits
from sharemesh.backends.kafka.shard_logs.log_partition import LogPartition
from sharemesh.backends.kafka.shard_logs.shard_log import KafkaShardLog
from sharemesh.backends.kafka.shard_logs.unit_writer import UnitWriter
from sharemesh.cluster.ownership import SharedReads
from sharemesh.domain.stamped_log.judgement import Judgement
from sharemesh.domain.stamped_log.stamp import StampKind
from sharemesh.domain.stamped_log.writing import StampAnew, UnitCounts, WriterPosition
from sharemesh.ports.shard_log import CorruptLogError
from tests.simulation.patching import Patches

LOOK_KEPT_MS = 5_000
HIGHEST_EPOCH = 1 << 30


def writers_ignore_their_stamps(patch: Patches) -> None:
    """A unit is confirmed wherever it came to lie (STL-7)."""
    patch.setattr(
        unit_writer, "after_answer", lambda stamp, base: UnitCounts(base + stamp.record_count)
    )


def units_are_stamped_anew_unread(patch: Patches) -> None:
    """Whoever finds its copy void sends it again without reading what lies below (STL-6, STL-8)."""
    real = UnitWriter._settle

    async def settle(writer, stamp, base):
        if base > stamp.expected:
            return StampAnew(base + stamp.record_count)
        return await real(writer, stamp, base)

    patch.setattr(UnitWriter, "_settle", settle)


def loads_end_before_the_fence(patch: Patches) -> None:
    """An owner serves before it has read the last record below its fence (STL-12)."""
    real = LogPartition.read

    async def read(partition, begin, end, limit_ms, fence=None):
        if fence is not None and end == fence.offset + 1:
            end = max(begin, fence.offset - 1)
        async for judged in real(partition, begin, end, limit_ms, fence):
            yield [each for each in judged if each.header.base_offset < end]

    patch.setattr(LogPartition, "read", read)


def looks_are_not_renewed(patch: Patches) -> None:
    """What a look found is good for five seconds more (STL-18)."""
    real = SharedReads.after_now
    kept = {}

    async def after_now(reads):
        known = kept.get(reads)
        now_ms = reads._clock.now_ms()
        if known is None or now_ms - known[0] > LOOK_KEPT_MS:
            known = kept[reads] = (now_ms, await real(reads))
        return known[1]

    patch.setattr(SharedReads, "after_now", after_now)


def leaders_do_not_look(patch: Patches) -> None:
    """Who led a partition goes on as long as Kafka answers (KRL-1, STL-19)."""

    async def look(log):
        log._check_open()

    patch.setattr(KafkaPartitionLog, "look", look)


def the_newest_unit_is_deleted(patch: Patches) -> None:
    """Pruning takes all that is known, so that nobody can take over (STL-21)."""
    patch.setattr(WriterPosition, "prune_limit", lambda position: position.end)


def losses_are_not_looked_for(patch: Patches) -> None:
    """A new leader of Kafka is believed to hold what the one before had confirmed (KRL-8)."""

    async def take_losses(log, found, epochs):
        """Take none."""

    patch.setattr(FollowedLog, "_take_losses", take_losses)


def ends_that_only_produces_named_stay(patch: Patches) -> None:
    """What was confirmed here and lost unseen counts as the end of the log for ever (KRL-3)."""

    def falls_to(ends, newest_end, newest_stable):
        """Keep it."""

    patch.setattr(TopicLogEnds, "falls_to", falls_to)


def epochs_begin_nowhere(patch: Patches) -> None:
    """A log is taken to be the known one up to where its own last epoch ends (KRL-9)."""

    def add(starts, found):
        """Know nothing of them."""

    patch.setattr(EpochStarts, "add", add)


def lost_units_are_not_missed(patch: Patches) -> None:
    """A log that was cut is taken over as it is found (STL-25)."""

    real = ConfirmedUnits.took_over

    async def took_over(units, position):
        with contextlib.suppress(CorruptLogError):
            await real(units, position)

    patch.setattr(ConfirmedUnits, "took_over", took_over)


def reads_begin_one_too_far(patch: Patches) -> None:
    """The record at the offset that is asked for is passed over (KRL-5)."""
    real = log_reads.read_out

    def read_out(parts, offset, end_offset, max_bytes):
        last = parts[-1].end_offset - 1
        return real(parts, min(offset + 1, last), end_offset, max_bytes)

    patch.setattr(log_reads, "read_out", read_out)


def readers_ignore_stamps(patch: Patches) -> None:
    """A load takes void units as well (STL-2)."""
    real = LogPartition._judged

    def judged(partition, records, reading, end):
        return [
            each._replace(judgement=Judgement.COUNTS) if _is_unit(each) else each
            for each in real(partition, records, reading, end)
        ]

    patch.setattr(LogPartition, "_judged", judged)


def _is_unit(batch):
    stamp = batch.header.stamp
    return stamp is not None and stamp.kind is StampKind.UNIT


def units_are_confirmed_as_they_are_sent(patch: Patches) -> None:
    """Who waits for a unit hears of it before the brokers have it (STL-7)."""
    real = KafkaShardLog._write_unit

    async def write_unit(log, appends):
        sent = log._confirmed_appends + len(appends)
        while log._waiters and log._waiters[0].appends <= sent:
            future = log._waiters.popleft().future
            if not future.done():
                future.set_result(None)
        await real(log, appends)

    patch.setattr(KafkaShardLog, "_write_unit", write_unit)
