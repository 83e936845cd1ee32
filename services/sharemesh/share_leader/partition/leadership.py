"""Takes partitions over, drains them and relinquishes them (fills ``PartitionHost``)."""

import asyncio
import logging
from collections.abc import Callable

from sharemesh.domain.errors import ErrorCode
from sharemesh.domain.ids import TopicPartition
from sharemesh.domain.share_session import SessionKey, ShareSession, ShareSessions
from sharemesh.ports.cluster import GiveOn
from sharemesh.ports.record_log import RecordLogs
from sharemesh.share_leader.environment import LeaderEnvironment
from sharemesh.share_leader.partition.hand_over_notices import HandOverNotices
from sharemesh.share_leader.partition.leader_gauges import topic_name
from sharemesh.share_leader.partition.led_partitions import LedPartition, LedPartitions
from sharemesh.share_leader.partition.open_streams import OpenStreams
from sharemesh.share_leader.partition.state_requests import StatePrefetch
from sharemesh.tasks import cancel_and_wait
from sharemesh.telemetry import names
from sharemesh.telemetry.spans import Span

_log = logging.getLogger(__name__)


class PartitionLeadership:
    """One change at a time for each partition; different partitions do not wait for another."""

    def __init__(
        self,
        environment: LeaderEnvironment,
        partitions: LedPartitions,
        record_logs: RecordLogs,
        streams: OpenStreams,
        sessions: ShareSessions,
    ) -> None:
        self._environment = environment
        self._partitions = partitions
        self._record_logs = record_logs
        self._streams = streams
        self._sessions = sessions
        self._changes: dict[TopicPartition, asyncio.Lock] = {}

    async def start(
        self, partition: TopicPartition, leader_epoch: int, handing_over: int = 0
    ) -> None:
        """Take over the log and serve; a lower epoch of this process ends first.

        The leader of epoch ``handing_over`` may still be sending its last writes (HND-13).

        Raises:
            FencedError: A fence at or above ``leader_epoch`` exists.
            CorruptLogError: Committed bytes cannot be read.
        """
        async with self._change(partition):
            before = self._partitions.get(partition)
            if before is not None:
                if before.leader_epoch >= leader_epoch:
                    return
                await self._stop(before, 0)
            self._partitions.check_fence(partition, leader_epoch)
            began_ns = self._environment.telemetry.spans.now_ns()
            groups = self._streams.groups_awaiting(partition)
            reads = StatePrefetch(self._environment, partition, leader_epoch, groups, handing_over)
            log = await self._record_logs.open(partition, leader_epoch)
            self._partitions.add(LedPartition(partition, log, self._environment, reads))
            self._streams.notify_led(partition)
            self._tell(partition, leader_epoch, began_ns)

    def _tell(self, partition: TopicPartition, leader_epoch: int, began_ns: int) -> None:
        """Count and trace a take-over that succeeded."""
        telemetry = self._environment.telemetry
        now_ns = telemetry.spans.now_ns()
        telemetry.registry.counter(names.LEADER_CHANGES).add()
        took_s = (now_ns - began_ns) / 1e9
        _log.debug(
            "partition %s epoch %d: taken over in %d ms",
            partition,
            leader_epoch,
            took_s * 1_000,
        )
        telemetry.registry.histogram(names.LEADER_CHANGE_DURATION).record(took_s)
        if telemetry.spans.enabled:
            topic = topic_name(self._environment.view, partition.topic_id)
            attributes = {
                names.DESTINATION: topic,
                names.PARTITION_ID: str(partition.partition),
                names.LEADER_EPOCH: leader_epoch,
            }
            context = telemetry.spans.context()
            name = f"{names.LEADER_CHANGE} {topic}"
            telemetry.spans.end(Span(name, context, None, began_ns, now_ns, attributes))

    async def stop(
        self, partition: TopicPartition, drain_ms: int, give_on: GiveOn | None = None
    ) -> None:
        """Drain, then stop leading; returns when nothing can be confirmed any more.

        ``give_on`` gives the claim on, while the last state writes are under way (HND-13).
        """
        async with self._change(partition):
            led = self._partitions.get(partition)
            if led is not None:
                await self._stop(led, drain_ms, give_on)

    async def delete(self, partition: TopicPartition) -> None:
        """Stop and free the directories of a deleted topic's partition."""
        async with self._change(partition):
            led = self._partitions.get(partition)
            if led is not None:
                await self._stop(led, 0, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            await self._record_logs.delete(partition)

    def on_ended(self, callback: Callable[[TopicPartition], None]) -> None:
        """Register what is called when an epoch ended by itself."""
        self._partitions.on_ended(callback)

    def _change(self, partition: TopicPartition) -> asyncio.Lock:
        lock = self._changes.get(partition)
        if lock is None:
            lock = self._changes[partition] = asyncio.Lock()
        return lock

    async def _stop(
        self,
        led: LedPartition,
        drain_ms: int,
        give_on: GiveOn | None = None,
        *,
        error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ) -> None:
        """Stop leading; a drain of ``drain_ms`` comes first. The order of the six steps matters."""
        began_ms = self._environment.clock.now_ms()
        led.stop_acquiring()  # 1. nothing new is granted
        giving: list[asyncio.Future[None]] = []
        try:
            if drain_ms > 0:
                self._streams.notify_draining(frozenset({led.partition}))  # 2. clients are notified
                await self._part_with_holders(led, drain_ms, give_on, giving)  # 3. they go on
            led.end_hand_over()  # 4. later acknowledgements are answered not-leader
            closed_ms = self._environment.clock.now_ms()
            try:
                async with asyncio.timeout(self._environment.settings.drain_write_ms / 1_000):
                    await led.settle_writes()  # 5. what was accepted becomes durable
            except TimeoutError:
                _log.warning("state writes of %s did not end within the drain", led.partition)
            self._tell_handed_over(led)  # what was answered late
            led.end(error, "this node no longer leads the partition; refresh metadata")  # 6.
            self._partitions.remove(led.partition)
            await asyncio.gather(*giving)
            await led.close_log()
        finally:
            await cancel_and_wait(*giving)
        now_ms = self._environment.clock.now_ms()
        _log.debug(
            "partition %s epoch %d: given up; holders %d ms, writes and log %d ms",
            led.partition,
            led.leader_epoch,
            closed_ms - began_ms,
            now_ms - closed_ms,
        )

    async def until_told(self) -> None:
        """Return once all members know what was handed over, or after a limit (HND-9)."""
        try:
            async with asyncio.timeout(self._environment.settings.hand_over_ms / 1_000):
                await self._streams.until_told()
        except TimeoutError:
            _log.warning("some members have not heard yet that their locks were handed over")

    async def _part_with_holders(
        self,
        led: LedPartition,
        drain_ms: int,
        give_on: GiveOn | None,
        giving: list[asyncio.Future[None]],
    ) -> None:
        """Wait for holders that must acknowledge here, and hand the locks of others over (HND-4).

        Without a successor there is nobody to hand over to, and all are waited for. The claim is
        given on meanwhile, if the next leader may wait for the locks: then ``giving`` has that.
        """
        if self._environment.view.next_leader(led.partition) is None:
            await led.until_unlocked(drain_ms)
            return
        limit_ms = self._environment.settings.hand_over_ms
        await led.until_read(limit_ms)
        await led.until_not_fetched(limit_ms)
        self._streams.take_back(led.partition)
        ready: dict[SessionKey, ShareSession] = {}
        holders = dict.fromkeys(led.holders())
        asked = [
            asyncio.ensure_future(self._hear(led, notices, ready))
            for notices in self._streams.following()
            if notices.session.key in holders
        ]
        try:
            await led.until_held_by_none(
                lambda *member: self._is_awaited(SessionKey(*member), ready), drain_ms
            )
        finally:
            await cancel_and_wait(*asked)
        led.begin_hand_over()
        if give_on is not None and led.sends_all_last_writes:
            giving.append(asyncio.ensure_future(self._give_on(led, give_on)))
        try:
            async with asyncio.timeout(limit_ms / 1_000):
                await led.hand_over(
                    lambda *member: self._goes_on(SessionKey(*member), ready),
                    is_awaited=bool(giving),
                )
        except TimeoutError:
            _log.warning(
                "locks of %s may lapse: they could not be handed over in time", led.partition
            )
        self._tell_handed_over(led)

    @staticmethod
    async def _give_on(led: LedPartition, give_on: GiveOn) -> None:
        """Close the log, then give the claim on: the next leader waits for the last writes."""
        await led.close_log()
        await give_on()

    def _tell_handed_over(self, led: LedPartition) -> None:
        """Tell members whose locks the share coordinator keeps, each group once (HND-9)."""
        for group_id, members in led.newly_handed_over():
            self._streams.notify_handed_over(led.partition, led.leader_epoch, group_id, members)

    @staticmethod
    async def _hear(
        led: LedPartition, notices: HandOverNotices, ready: dict[SessionKey, ShareSession]
    ) -> None:
        """Note a member as soon as it has all that was sent to it."""
        await notices.until_received()
        ready[notices.session.key] = notices.session
        led.look_again()

    def _is_awaited(self, key: SessionKey, ready: dict[SessionKey, ShareSession]) -> bool:
        """Whether a member may acknowledge here yet, and does not go on at the next leader."""
        return key not in ready and self._sessions.get(key) is not None

    def _goes_on(self, key: SessionKey, ready: dict[SessionKey, ShareSession]) -> str:
        """Return the principal of a member whose session is that of which it has all."""
        session = ready.get(key)
        is_open = session is not None and self._sessions.get(key) is session
        return session.principal if session is not None and is_open else ""
