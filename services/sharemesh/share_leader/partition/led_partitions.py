"""Topic-partitions led here (log, epoch, share partitions of each), and where others are led."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial

from sharemesh.cluster.membership import node_message
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import GroupId, MemberId, SharePartitionKey, TopicPartition
from sharemesh.domain.share_session import SessionKey
from sharemesh.ports.cluster import ClusterView, NodeInfo
from sharemesh.ports.record_log import PartitionLog
from sharemesh.ports.shard_log import FencedError, LogFailedError
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.partition.read_barrier import ReadBarrier
from sharemesh.share_leader.partition.share_partition_runner import Phase, SharePartitionRunner
from sharemesh.share_leader.partition.state_requests import StatePrefetch
from sharemesh.v1.common_pb2 import CurrentLeader, Node

REDIRECTING = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Refusals that name the leader (KIP-951): after others a client has nowhere to be sent."""
_log = logging.getLogger(__name__)


class Redirects:
    """Collects, for one response, the leaders that it points to."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._nodes: dict[str, NodeInfo] = {}

    def leader_of(self, partition: TopicPartition, error: int) -> CurrentLeader | None:
        """Return the current leader if ``error`` sends the client there and one is known."""
        if error not in REDIRECTING:
            return None
        leader = self._view.leader(partition)
        if leader is None:
            return None
        self._nodes[leader.node.node_id] = leader.node
        return CurrentLeader(leader_id=leader.node.node_id, leader_epoch=leader.leader_epoch)

    def endpoints(self) -> list[Node]:
        """Return the nodes named so far, each once."""
        return [node_message(node) for node in self._nodes.values()]


def not_led(view: ClusterView, partition: TopicPartition) -> tuple[ErrorCode, str]:
    """Return why this node cannot answer for a partition (spec REQ-5, INI-1)."""
    topic = view.topic(partition.topic_id)
    if topic is None:
        return (
            ErrorCode.UNKNOWN_TOPIC_ID,
            f"no topic has id {partition.topic_id.hex()}; refresh metadata",
        )
    if not 0 <= partition.partition < topic.partitions:
        return (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic.name!r} has partitions 0..{topic.partitions - 1}, "
            f"not {partition.partition}",
        )
    leader = view.leader(partition)
    if leader is None:
        where = "it has no leader now; retry"
    else:
        where = f"{leader.node.node_id} at {leader.node.address} leads it; ask there"
    return (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        f"this node does not lead {topic.name}-{partition.partition}: {where}",
    )


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
        self.log_closed = False  # nothing is produced any more; acknowledged is until ``closed``
        self.closed = False  # nothing is acknowledged any more either
        self.on_fenced: Callable[[int], None] = lambda _: None  # with the epoch that fences it
        self.shares: dict[GroupId, SharePartitionRunner] = {}
        self._environment = environment
        self._early_reads = early_reads
        self._stepped = asyncio.Event()
        self._served: dict[GroupId, None] = {}
        self._handing_over: asyncio.Event | None = None
        self._watching: dict[Callable[[], None], None] = {}
        log.on_advance(self._advanced)

    @property
    def leader_epoch(self) -> int:
        """The epoch under which this process leads."""
        return self.log.leader_epoch

    @property
    def serves_log(self) -> bool:
        """Whether the record log may be read and appended to."""
        return not (self.closed or self.log_closed)

    @property
    def is_handing_over(self) -> bool:
        """Whether the last step of the drain has begun: what members ask for waits (HND-4)."""
        return self._handing_over is not None

    def share(self, group_id: GroupId) -> SharePartitionRunner:
        """Return the group's share partition; the first fetch creates it (spec INI-1)."""
        runner = self.shares.get(group_id)
        if runner is None:
            key = SharePartitionKey(group_id, self.partition.topic_id, self.partition.partition)
            runner = SharePartitionRunner(
                key,
                self.log,
                self._environment,
                self._share_ended,
                state=self._early_reads.take(group_id),
                on_fenced=self.on_fenced,
                takes_locks=self.takes_locks(group_id),
                handing_over=self._early_reads.handing_over,
            )
            self.shares[group_id] = runner
            if self.draining:
                runner.stop_acquiring(self._stepped.set)
        return runner

    def takes_locks(self, group_id: GroupId) -> bool:
        """Whether a group has had no life here: its first one gets what was handed over (HND-7)."""
        return group_id not in self._served

    def watch(self, moved: Callable[[], None]) -> None:
        """Call back whenever the log moves, and at its end here (FET-4)."""
        self._watching[moved] = None

    def unwatch(self, moved: Callable[[], None]) -> None:
        """Call back no more; repeating it is fine."""
        self._watching.pop(moved, None)

    def stop_acquiring(self) -> None:
        """Begin the drain: acquired records may still be acknowledged, none are acquired."""
        self.draining = True
        for runner in self.shares.values():
            runner.stop_acquiring(self._stepped.set)

    async def until_unlocked(self, limit_ms: int) -> None:
        """Return once a partition that acquires no more holds no locks, or after the limit."""
        await self._while(lambda: any(each.holds_locks for each in self.shares.values()), limit_ms)

    async def until_held_by_none(
        self, is_awaited: Callable[[GroupId, MemberId], bool], limit_ms: int
    ) -> None:
        """Return once no awaited member holds a record, or after the limit (HND-4)."""
        await self._while(lambda: any(self.holders(is_awaited)), limit_ms)

    async def until_not_fetched(self, limit_ms: int) -> None:
        """Return once nobody acquires here, and what was acquired waits to be sent."""
        await self._while(lambda: any(each.is_fetched for each in self.shares.values()), limit_ms)

    async def until_read(self, limit_ms: int) -> None:
        """Return once all states that were asked for are here, with their locks (HND-13)."""
        for group_id in self._early_reads.untaken:
            self.share(group_id)
        await self._while(
            lambda: any(each.phase is Phase.INITIALIZING for each in self.shares.values()), limit_ms
        )

    def holders(
        self, among: Callable[[GroupId, MemberId], bool] = lambda *_: True
    ) -> Iterator[SessionKey]:
        """Yield the members of groups, among some, that hold a record here."""
        for group_id, runner in self.shares.items():
            for member_id in runner.machine.holders(partial(among, group_id)):
                yield SessionKey(group_id, member_id)

    def look_again(self) -> None:
        """Something that a drain waits for may have come."""
        self._stepped.set()

    async def _while(self, condition: Callable[[], bool], limit_ms: int) -> None:
        """Return once a condition that steps may end is false, or after the limit."""
        clock = self._environment.clock
        deadline_ms = clock.now_ms() + limit_ms
        alarm = self._environment.alarms.at(deadline_ms, self._stepped.set)
        try:
            while condition() and clock.now_ms() < deadline_ms:
                self._stepped.clear()
                await self._stepped.wait()
        finally:
            alarm.cancel()

    @property
    def sends_all_last_writes(self) -> bool:
        """Whether each share partition that was read here can send its last write (HND-13)."""
        is_active = all(
            each.phase is Phase.ACTIVE and not each.is_fetched for each in self.shares.values()
        )
        is_there = all(group_id in self.shares for group_id in self._served)
        return is_active and is_there and not self._early_reads.untaken

    async def close_log(self) -> None:
        """Let nothing be appended any more; share partitions may still decide."""
        if self.log_closed:
            return
        self.log_closed = True
        for moved in self._watching:
            moved()
        try:
            await self.log.close()
        except (FencedError, LogFailedError, OSError) as failure:
            _log.warning("closing the log of %s failed: %s", self.partition, failure)

    def begin_hand_over(self) -> None:
        """Let acknowledgements that come from now on wait for ``until_handed_over`` (HND-4)."""
        self._handing_over = asyncio.Event()

    async def hand_over(
        self, goes_on: Callable[[GroupId, MemberId], str], *, is_awaited: bool = False
    ) -> None:
        """Leave the locks of members that go on to the next leader; see ``newly_handed_over``."""
        runners = list(self.shares.items())
        await asyncio.gather(
            *(
                runner.hand_over(partial(goes_on, group_id), is_awaited=is_awaited)
                for group_id, runner in runners
            )
        )

    def newly_handed_over(self) -> Iterator[tuple[GroupId, dict[MemberId, None]]]:
        """Yield, once a group, whose locks the share coordinators keep for the next leader."""
        for group_id, runner in self.shares.items():
            members, runner.handed_over = runner.handed_over, {}
            if members:
                yield group_id, members

    async def until_handed_over(self) -> None:
        """Return at once unless the hand-over is under way; then once it is over."""
        if self._handing_over is not None:
            await self._handing_over.wait()

    def end_hand_over(self) -> None:
        """Let what waited for the hand-over go on: it is refused."""
        self.closed = True
        if self._handing_over is not None:
            self._handing_over.set()

    def end(self, error: ErrorCode, message: str) -> None:
        """Fence every share partition; waiters are woken and see the error (spec PER-10)."""
        self.draining = True
        self.end_hand_over()
        for runner in list(self.shares.values()):
            runner.fence(error, message)
        for moved in self._watching:
            moved()

    async def settle_writes(self) -> None:
        """Return once no state write of any group is under way."""
        for runner in list(self.shares.values()):
            await runner.settle_writes()

    def _advanced(self) -> None:
        for runner in self.shares.values():
            runner.wake_soon()
        for moved in self._watching:
            moved()

    def _share_ended(self, runner: SharePartitionRunner) -> None:
        if self.shares.get(runner.key.group_id) is runner:
            del self.shares[runner.key.group_id]
            if runner.was_active:
                self._served[runner.key.group_id] = None
            self._stepped.set()


class LedPartitions:
    """All topic-partitions that this process leads now."""

    def __init__(self, environment: LeaderEnvironment) -> None:
        self._environment = environment
        self._led: dict[TopicPartition, LedPartition] = {}
        self._on_ended: list[Callable[[TopicPartition], None]] = []
        self._fences: dict[TopicPartition, int] = {}

    def __iter__(self) -> Iterator[LedPartition]:
        return iter(list(self._led.values()))

    def __len__(self) -> int:
        return len(self._led)

    def get(self, partition: TopicPartition) -> LedPartition | None:
        """Return a partition that is led here and not closed."""
        led = self._led.get(partition)
        return None if led is None or led.closed else led

    def required(self, partition: TopicPartition) -> LedPartition:
        """Return a partition that is led here.

        Raises:
            RefusedError: NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_ID or UNKNOWN_TOPIC_OR_PARTITION.
        """
        led = self.get(partition)
        if led is None:
            raise RefusedError(*not_led(self._environment.view, partition))
        return led

    def with_log(self, partition: TopicPartition) -> LedPartition:
        """Return a partition that is led here and whose log is not closed yet; as ``required``."""
        led = self.required(partition)
        if led.log_closed:
            raise RefusedError(*not_led(self._environment.view, partition))
        return led

    def add(self, led: LedPartition) -> None:
        """Begin to serve a partition."""
        self._led[led.partition] = led
        self._fences.pop(led.partition, None)
        led.on_fenced = partial(self._fenced, led)

    def check_fence(self, partition: TopicPartition, leader_epoch: int) -> None:
        """Refuse an epoch under which state cannot be read.

        Raises:
            FencedError: The coordination store is behind what is stored: it was restored from a
                backup. The epoch that it names is the one to go above (LOG-10).
        """
        fence = self._fences.get(partition, -1)
        if fence >= leader_epoch:
            raise FencedError(
                f"state of {partition.topic_id.hex()}/{partition.partition} was read under leader "
                f"epoch {fence}, {leader_epoch} is not above it",
                fence_epoch=fence,
            )

    def _fenced(self, led: LedPartition, fence_epoch: int) -> None:
        self._fences[led.partition] = fence_epoch
        self.epoch_ended(led, FencedError(f"leader epoch {fence_epoch} has read the state"))

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
        """Relinquish a partition whose log is fenced or failed (LOG-7)."""
        if self._led.get(led.partition) is not led or led.log_closed:
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
