"""Followers copy from leaders; leaders learn how far they are, and who still counts as in sync."""

from collections.abc import Callable, Mapping
from functools import partial

from sharemesh.testing.memory_brokers.broker import MemoryBroker
from sharemesh.testing.memory_brokers.replica import PartitionKey, Replica
from sharemesh.testing.memory_brokers.replica_log import UNDEFINED_EPOCH_END, ReplicaLog

InSync = Callable[[MemoryBroker, Replica, tuple[int, ...]], None]


class Replication:
    """Copies when there is something to copy, after a delay.

    Attributes:
        delay_ms: Returns how long the next copy takes.
        lag_max_ms: A follower that had not everything for so long is in sync no more.
        paused: Brokers that copy nothing now.
        change_in_sync: Asks the controller for other in-sync replicas.
    """

    def __init__(self, brokers: Mapping[int, MemoryBroker], change_in_sync: InSync) -> None:
        self._brokers = brokers
        self.change_in_sync = change_in_sync
        self.delay_ms: Callable[[], float] = lambda: 0.0
        self.lag_max_ms = 3_000.0
        self.paused: dict[int, None] = {}
        self._pending: dict[tuple[int, PartitionKey], None] = {}
        self._reviews: dict[tuple[int, PartitionKey], None] = {}

    def appended(self, leader: MemoryBroker, replica: Replica) -> None:
        """A leader has something new for its followers."""
        for other, broker in self._brokers.items():
            if other != leader.broker_id and replica.key in broker.replicas:
                self.kick(broker, replica.key)
        if replica.advance():
            self.appended(leader, replica)

    def kick(self, follower: MemoryBroker, key: PartitionKey) -> None:
        """Let a follower copy soon."""
        place = (follower.broker_id, key)
        if place not in self._pending:
            self._pending[place] = None
            follower.schedule.later(self.delay_ms(), partial(self._copy_soon, follower, key))

    def kick_all(self) -> None:
        """Something was mended: let every follower try."""
        for broker in self._brokers.values():
            for key in broker.replicas:
                self.kick(broker, key)

    def _copy_soon(self, follower: MemoryBroker, key: PartitionKey) -> None:
        self._pending.pop((follower.broker_id, key), None)
        replica = follower.replicas.get(key)
        if replica is None or replica.is_leader:
            return
        leader = self._brokers.get(replica.leader)
        source = None if leader is None else leader.replicas.get(key)
        if leader is None or source is None or not leader.runs:
            return
        if not self._reaches(follower, leader) or not self._copy(leader, source, follower, replica):
            self._review_later(leader, source)

    def _reaches(self, follower: MemoryBroker, leader: MemoryBroker) -> bool:
        cut = follower.isolated or leader.isolated or follower.broker_id in self.paused
        return follower.runs and not cut

    def _copy(
        self, leader: MemoryBroker, source: Replica, follower: MemoryBroker, replica: Replica
    ) -> bool:
        if not source.is_leader or source.epoch != replica.epoch:
            return source.epoch < replica.epoch  # whoever is behind hears of it, and tries again
        if replica.must_truncate:
            _truncate(replica, source.log)
            replica.must_truncate = False
        end, start = replica.log.end_offset, source.log.start_offset
        # A tail of its own may end where the leader's log starts, in the middle of a batch.
        if end < start or source.log.first_offset < end == start:
            replica.log.restart_at(source.log.first_offset)
        for batch in source.log.batches(replica.log.end_offset):
            replica.log.append(batch)
        replica.log.advance_start(source.log.start_offset)
        known = max(replica.high_watermark, source.high_watermark)
        replica.high_watermark = min(known, replica.log.end_offset)
        self._heard(leader, source, follower.broker_id, replica.log)
        return True

    def _heard(
        self, leader: MemoryBroker, source: Replica, follower_id: int, log: ReplicaLog
    ) -> None:
        source.ends[follower_id] = log.end_offset
        source.caught_up_ms[follower_id] = leader.schedule.now_ms()
        starts_before = source.starts.get(follower_id)
        source.starts[follower_id] = log.start_offset
        if follower_id not in source.in_sync and log.end_offset >= source.high_watermark:
            self.change_in_sync(leader, source, (*source.in_sync, follower_id))
        if source.advance():
            self.appended(leader, source)
        elif starts_before != log.start_offset:
            source.notify()

    def _review_later(self, leader: MemoryBroker, source: Replica) -> None:
        place = (leader.broker_id, source.key)
        if source.is_leader and place not in self._reviews:
            self._reviews[place] = None
            leader.schedule.later(self.lag_max_ms, partial(self._review, leader, source))

    def _review(self, leader: MemoryBroker, source: Replica) -> None:
        self._reviews.pop((leader.broker_id, source.key), None)
        if not leader.runs or not source.is_leader:
            return
        end, now_ms = source.log.end_offset, leader.schedule.now_ms()
        behind = [
            each
            for each in source.in_sync
            if each != leader.broker_id and source.ends.get(each, -1) < end
        ]
        gone = [
            each
            for each in behind
            if now_ms - source.caught_up_ms.get(each, 0.0) >= self.lag_max_ms
        ]
        if gone:
            left = tuple(each for each in source.in_sync if each not in gone)
            self.change_in_sync(leader, source, left)
        if behind:
            self._review_later(leader, source)


def _truncate(replica: Replica, leader_log: ReplicaLog) -> None:
    """Cut off what the leader does not have, by leader epochs (KIP-101, KIP-279)."""
    log = replica.log
    while (last := log.last_epoch) >= 0:
        epoch, end_offset = leader_log.end_of_epoch(last)
        if (epoch, end_offset) == UNDEFINED_EPOCH_END:
            log.truncate(replica.high_watermark)
            break
        own_end = log.end_of_epoch(epoch)[1]
        log.truncate(min(end_offset, own_end) if own_end >= 0 else end_offset)
        if last in (epoch, log.last_epoch):
            break
    replica.high_watermark = min(replica.high_watermark, log.end_offset)
