"""A Kafka cluster that breaks its promise: unclean elections lose records that it had confirmed."""

import asyncio
import contextlib
import re
from collections import defaultdict

from sharemesh.backends.kafka.record_logs.partition_log import KafkaPartitionLog
from sharemesh.client.admin_results import TopicPartition
from sharemesh.client.errors import SharemeshError
from sharemesh.ports.brokers import BrokerRefusedError
from sharemesh.ports.shard_log import CorruptLogError
from sharemesh.testing.memory_brokers.client_watch import MemoryWatch
from tests.simulation.checkers.durable import AUDIT_EPOCH
from tests.simulation.engines.engine import STATE_SHARDS
from tests.simulation.invariants import STATE_IS_REPLAY
from tests.simulation.loop import Process, SimClock
from tests.simulation.patching import Patches
from tests.simulation.workloads.administration import trim
from tests.simulation.workloads.mixed import PARTITIONS, TOPIC, TRIMMED
from tests.simulation.workloads.special import SpecialWorkload
from tests.simulation.world import World

LAST_S = 25.0  # before the end: producers must still pass what was lost
AGAIN_S = 0.5
FOUND_IN_S = 30.0
SHOWN_IN_S = 10.0
BEHIND_S = (3.5, 7.0)  # so long a replica copies nothing, and is in sync no more
GAP_S = (1.0, 4.0)
AGAIN = 0.4
OWN_TAIL = 0.3
"""So often whoever leads again has records of its own that were never confirmed (KRL-9)."""
SILENT = 0.3
STILL_SILENT_S = 0.5
"""So often, and so long after a loss, no watch has heard of what was written before it (KRL-3)."""
FOUND = re.compile(
    r"partition (\S+): (Kafka lost the records from offset|Kafka's log ends at offset)"
)
GIVE_UP = re.compile(r"partition (\S+): Kafka lost .* once the partition has reached offset (\d+),")


class LossyWorkload(SpecialWorkload):
    """Tails of topics are lost under load; who hears of a loss gives up what it names (KRL-9).

    No leader is killed: what one saw in its last seconds may be lost unnoticed (KRL-18).
    """

    fault_kinds = ("drain", "leaders_moved", "client_killed", "resets", "network_slow")
    fault_gap_s = (2.0, 8.0)
    active_s = 90.0
    finish_s = 150.0
    producer_gap_s = (0.1, 0.8)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._told: set[str] = set()
        self._to_give_up: dict[TopicPartition, int] = {}
        self._lost: dict[str, list[range]] = defaultdict(list)
        self._open: dict[KafkaPartitionLog, None] = {}
        self._silent_until_s = 0.0
        self._named_end = 0  # by answers under an epoch, before the newest loss
        world.is_expected = self._is_loss

    def install(self, patches: Patches) -> None:
        """Know which logs are open, with what they show, and let watches be silent."""
        super().install(patches)
        real_init, real_close = KafkaPartitionLog.__init__, KafkaPartitionLog.close
        real_poll, opened, workload = MemoryWatch.poll, self._open, self

        def init(log, *words, **named):
            real_init(log, *words, **named)
            opened[log] = None

        async def close(log):
            opened.pop(log, None)
            await real_close(log)

        async def poll(watch, max_wait_ms):
            if workload.world.now_s < workload._silent_until_s:
                await asyncio.sleep(max_wait_ms / 1_000)
                return []
            return await real_poll(watch, max_wait_ms)

        patches.setattr(MemoryWatch, "poll", poll)
        patches.setattr(KafkaPartitionLog, "__init__", init)
        patches.setattr(KafkaPartitionLog, "close", close)

    def _note_named(self, where: TopicPartition) -> None:
        """Note what leaders knew to be confirmed; none has heard of the loss yet."""
        logs = (log._log for log in self._open)
        ends = [
            each._epoch_end
            for each in logs
            if (each.where.topic, each.where.partition) == (where.topic, where.partition)
        ]
        self._named_end = max(ends, default=0)

    def _beyond(self, where: TopicPartition, end: int) -> int:
        """Return the highest end that a leader shows above where Kafka's log ends; 0: none does."""
        shown = 0
        for log in self._open:
            place = log._log.where
            if (place.topic, place.partition) == (where.topic, where.partition):
                ends = log._log.ends
                if ends.newest_end > max(end, ends.log_start_offset):
                    shown = max(shown, ends.newest_end)
        return shown

    async def _shown_end(self, where: TopicPartition) -> None:
        """Complain if an end that Kafka does not have any more is shown for long (KRL-3)."""
        cluster = self.world.kafka.cluster

        def is_right() -> bool:
            return not self._beyond(where, cluster.high_watermark(where.topic, where.partition))

        with contextlib.suppress(BrokerRefusedError):  # nobody leads it for the moment
            if not await self.world.until(is_right, SHOWN_IN_S):
                end = cluster.high_watermark(where.topic, where.partition)
                text = f"{where} is said to end at {self._beyond(where, end)}, and ends at {end}"
                self.world.event_log.violation(self.world.now_s, text)

    def was_lost(self, partition: str, offset: int) -> bool:
        return any(offset in lost for lost in self._lost[partition])

    def _is_loss(self, text: str) -> bool:
        """Note the line that tells of a loss: an operator reads it, and does what it says."""
        said = FOUND.match(text)
        if said is None:
            return "Kafka lost the records from offset" in text  # of a shard, or of a read
        self.world.event_log.counters["losses that were said"] += 1
        self._told.add(said[1])
        told = GIVE_UP.match(text)
        if told is not None:
            topic, _, partition = told[1].rpartition("-")
            self._to_give_up[TopicPartition(topic, int(partition))] = int(told[2])
        return True

    async def after_judgement(self) -> None:
        """Cut the tails of state shards: whoever comes next may not take one over (STL-25)."""
        world = self.world
        cut = [shard for shard in range(STATE_SHARDS) if world.kafka.cut_states(shard)]
        process = Process(world.loop, "successor")
        logs = await process.start(world.kafka.logs_of_auditor(process, SimClock(world.loop)))
        for shard in cut:
            try:
                await process.start(logs.shards.open("state", shard, AUDIT_EPOCH + 1))
            except CorruptLogError:
                world.event_log.counters["shards refused after a loss"] += 1
            else:
                text = f"state shard {shard} lost its newest units, and was taken over"
                world.event_log.violation(world.now_s, STATE_IS_REPLAY.broken(text))

    async def run(self) -> None:
        """Have an operator from the beginning to the end."""
        context = self.world.loop.world.context()
        self.world.loop.create_task(self._give_up(), context=context)
        await super().run()

    async def _administer(self, end_s: float) -> None:
        while self.world.now_s < end_s - LAST_S:
            await asyncio.sleep(self.rng.uniform(*GAP_S))
            topic, partitions = self.rng.choice(((TOPIC, PARTITIONS), (TRIMMED, 1)))
            await self._lose(TopicPartition(topic, self.rng.randrange(partitions)), end_s - LAST_S)

    async def _lose(self, where: TopicPartition, last_s: float) -> None:
        """Let a replica lead that lacks what the others confirmed; some leader says so.

        Of what only answers to Produce had named, it can be that nobody does: what was written
        since may have filled its place before the next comparison (KRL-3).
        """
        world = self.world
        name = f"{where.topic}-{where.partition}"
        self._told.discard(name)
        lost = await self._elect_unclean(where)
        if lost is None:
            return
        await self._shown_end(where)
        is_said = await world.until(lambda: name in self._told, FOUND_IN_S)
        if not is_said and lost.start >= self._named_end:
            world.event_log.counters["losses that nobody had seen"] += 1
        elif not is_said:
            text = f"Kafka lost {where}@{lost.start} to {lost.stop - 1}, and nobody says so"
            world.event_log.violation(world.now_s, text)
            return
        if self.rng.random() < AGAIN and world.now_s < last_s:
            await self._elect_unclean(where)  # above what was lost already, or deeper
            await self._shown_end(where)
        await world.until(lambda: where not in self._to_give_up, self.finish_s)

    async def _give_up(self) -> None:
        """Do what the lines of losses say, as an operator does who reads them all."""
        while True:
            await asyncio.sleep(AGAIN_S)
            for where, before in list(self._to_give_up.items()):
                with contextlib.suppress(SharemeshError):
                    await trim(self.admin, self.journal, where, before)
                    if self._to_give_up[where] == before:  # no further one was told meanwhile
                        del self._to_give_up[where]

    async def _elect_unclean(self, where: TopicPartition) -> range | None:
        behind_s = self.rng.uniform(*BEHIND_S)
        if self.rng.random() < SILENT:
            self._silent_until_s = self.world.now_s + behind_s + STILL_SILENT_S
        losses = self.world.kafka.losses
        lose = losses.lead_with_own_tail if self.rng.random() < OWN_TAIL else losses.lose_tail
        lost = await lose(where.topic, where.partition, behind_s)
        self._note_named(where)
        if lost is not None:
            text = f"Kafka lost {where} from {lost.start} to {lost.stop - 1}"
            self.world.tell(text, count="losses")
            self._lost[str(where)].append(lost)
        return lost
