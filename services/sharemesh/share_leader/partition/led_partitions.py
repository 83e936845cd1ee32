"""Topic-partitions that this process leads: log, epoch and share partitions of each."""

import asyncio
import logging
from collections.abc import Callable, Iterator

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import GroupId, SharePartitionKey, TopicPartition
from sharemesh.ports.record_log import PartitionLog
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.partition.initialization import StatePrefetch
from sharemesh.share_leader.partition.read_barrier import ReadBarrier
from sharemesh.share_leader.partition.share_partition_runner import SharePartitionRunner

_log = logging.getLogger(__name__)


class LedPartition:
    """One topic-partition under one leader epoch."""

    def __init__(
        self,
        partition: TopicPartition,
        log: PartitionLog,
        environment: LeaderEnvironment,
        early_reads: StatePrefetch,
    ) -> None:
        self.partition = partition
        self.log = log
        self.looks = ReadBarrier(log, environment.tasks)
        self.draining = False  # nothing is acquired any more
        self.closed = False  # nothing is acknowledged or produced any more
        self.shares: dict[GroupId, SharePartitionRunner] = {}
        self._environment = environment
        self._early_reads = early_reads
        self._idle = asyncio.Event()
        log.on_advance(self._advanced)

    @property
    def leader_epoch(self) -> int:
        """The epoch under which this process leads."""
        return self.log.leader_epoch

    def share(self, group_id: GroupId) -> SharePartitionRunner:
        """Return the group's share partition; the first fetch creates it (spec INI-1)."""
        shell = self.shares.get(group_id)
        if shell is None:
            key = SharePartitionKey(group_id, self.partition.topic_id, self.partition.partition)
            shell = SharePartitionRunner(
                key,
                self.log,
                self._environment,
                self._share_ended,
                state=self._early_reads.take(group_id),
            )
            self.shares[group_id] = shell
            if self.draining:
                shell.stop_acquiring(self._idle.set)
        return shell

    def stop_acquiring(self) -> None:
        """Begin the drain: what is locked may still be acknowledged, nothing is granted."""
        self.draining = True
        for shell in self.shares.values():
            shell.stop_acquiring(self._idle.set)

    async def until_unlocked(self, limit_ms: int) -> None:
        """Return once a partition that acquires no more holds no locks, or after the limit."""
        clock = self._environment.clock
        deadline_ms = clock.now_ms() + limit_ms
        alarm = self._environment.alarms.at(deadline_ms, self._idle.set)
        try:
            while self.holds_locks and clock.now_ms() < deadline_ms:
                self._idle.clear()
                await self._idle.wait()
        finally:
            alarm.cancel()

    def end(self, error: ErrorCode, message: str) -> None:
        """Fence every share partition; waiters are woken and see the error (spec PER-10)."""
        self.draining = self.closed = True
        for shell in list(self.shares.values()):
            shell.fence(error, message)

    @property
    def holds_locks(self) -> bool:
        """Whether some member of some group holds a lock or awaits an answer."""
        return any(shell.holds_locks for shell in self.shares.values())

    async def settle_writes(self) -> None:
        """Return once no state write of any group is under way."""
        for shell in list(self.shares.values()):
            await shell.settle_writes()

    def _advanced(self) -> None:
        for shell in self.shares.values():
            shell.wake_soon()

    def _share_ended(self, shell: SharePartitionRunner) -> None:
        if self.shares.get(shell.key.group_id) is shell:
            del self.shares[shell.key.group_id]
            self._idle.set()


class LedPartitions:
    """All topic-partitions that this process leads now."""

    def __init__(self, environment: LeaderEnvironment) -> None:
        self._environment = environment
        self._led: dict[TopicPartition, LedPartition] = {}
        self._on_ended: list[Callable[[TopicPartition], None]] = []

    def __iter__(self) -> Iterator[LedPartition]:
        return iter(list(self._led.values()))

    def __len__(self) -> int:
        return len(self._led)

    def get(self, partition: TopicPartition) -> LedPartition | None:
        """Return a partition that is led here and not closed."""
        led = self._led.get(partition)
        return None if led is None or led.closed else led

    def add(self, led: LedPartition) -> None:
        """Begin to serve a partition."""
        self._led[led.partition] = led

    def remove(self, partition: TopicPartition) -> LedPartition | None:
        """Stop serving a partition; it is closed by the caller."""
        return self._led.pop(partition, None)

    def shares_of(self, group_id: GroupId) -> list[SharePartitionRunner]:
        """Return all share partitions of a group at this leader."""
        return [led.shares[group_id] for led in self._led.values() if group_id in led.shares]

    def on_ended(self, callback: Callable[[TopicPartition], None]) -> None:
        """Register what is called when an epoch ended by itself."""
        self._on_ended.append(callback)

    def epoch_ended(self, led: LedPartition, reason: Exception) -> None:
        """Give a partition up whose log is fenced or failed (LOG-7)."""
        if self._led.get(led.partition) is not led:
            return
        _log.warning(
            "leader epoch %d of %s-%d ended: %s",
            led.leader_epoch,
            led.partition.topic_id.hex(),
            led.partition.partition,
            reason,
        )
        del self._led[led.partition]
        led.end(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"leader epoch {led.leader_epoch} has ended; refresh metadata",
        )
        self._environment.tasks.spawn(self._close_log(led.log))
        for callback in self._on_ended:
            callback(led.partition)

    @staticmethod
    async def _close_log(log: PartitionLog) -> None:
        await log.close()
