"""Producers, consumers of every mode in two groups, administration, and faults all the while."""

import asyncio
import math
from collections.abc import Sequence
from random import Random
from typing import ClassVar

from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.admin_results import GroupOffset, TopicPartition
from sharemesh.client.errors import SharemeshError
from sharemesh.domain.group_config.cluster_definitions import SESSION_DEFAULT_MS
from tests.simulation.checkers.log_starts import LogStartChecker
from tests.simulation.checkers.state_log import StateHistory
from tests.simulation.clients import MODES, ConsumerApplication, Pace, ProducerApplication
from tests.simulation.faults import GAP_S as FAULT_GAP_S
from tests.simulation.faults import Faults
from tests.simulation.generations import GenerationJob
from tests.simulation.invariants import PROGRESS
from tests.simulation.journal import SimJournal
from tests.simulation.loop import Process
from tests.simulation.patching import Patches
from tests.simulation.workloads.administration import Administration
from tests.simulation.world import DELIVERY_COUNT_LIMIT, LOCK_DURATION_MS, World

TOPIC = "flights"
TRIMMED = "notices"
GROUPS = ("tower", "ar:chive")  # the colon is on purpose (KAFKA-20183)
RESET_GROUP = "replay"
PARTITIONS = 3
ACTIVE_S = 600.0
FINISH_S = 300.0
STOP_S = 120.0
GAP_S = (1.0, 16.0)
EARLIEST = -2
LOOK_S = 3.0
SETTLED_S = 5.0
ACKNOWLEDGEMENTS_MIN = 2_000
EXTRA_S = 300.0
STEER_S, STEER_AHEAD_S = 5.0, 20.0
STRETCH = (0.3, 4.0)
RETENTION_S = 60.0
STALLS_S = (3.0, 10.0, 20.0, 40.0, 70.0, math.inf)  # locks last for 15 s, sessions for 45 s


class MixedWorkload:
    """One run: ``run`` returns when everything is finished, or when its time is over."""

    fault_kinds: tuple[str, ...] = ()
    fault_gap_s = FAULT_GAP_S
    producer_gap_s = GAP_S
    groups: tuple[str, ...] = GROUPS
    offset_reset = "earliest"
    lock_duration_ms = LOCK_DURATION_MS
    group_settings: ClassVar[dict[str, str]] = {}
    active_s = ACTIVE_S
    finish_s = FINISH_S
    acknowledgements_min = ACKNOWLEDGEMENTS_MIN
    consumer_kinds: ClassVar[dict[str, type[ConsumerApplication]]] = {}

    def __init__(self, world: World) -> None:
        self.world = world
        world.lock_duration_ms = self.lock_duration_ms
        self.journal = SimJournal(world)
        self.state_history = StateHistory(world)
        self.rng = Random(world.rng.getrandbits(64))
        self.pace = Pace()
        self.faults = Faults(world, kinds=self.fault_kinds, gap_s=self.fault_gap_s)
        self.faults.kill_client = self._kill_client
        self.faults.stall_client = self._stall_client
        self.faults.client = self._any_consumer
        self.producers: list[ProducerApplication] = []
        self.consumers: list[tuple[ConsumerApplication, str]] = []
        self.topic_ids = world.topic_names
        self._numbers = 0
        self._deleted_since_s: dict[str, float] = {}
        self._retains = self.rng.random() < 0.5
        self._admin_process, environment = world.new_client("admin")
        self.admin = AsyncAdminClient(
            {"bootstrap.servers": world.bootstrap, "default.api.timeout.ms": 20_000},
            environment=environment,
        )

    async def run(self) -> None:
        """Run it all."""
        world = self.world
        await world.begin()
        await self.as_admin(self._prepare())
        for number in range(2):
            self._new_producer(number)
        for group in self.groups:
            for mode in self._modes():
                self._new_consumer(group, mode)
        self._start_generations()
        begun_s = world.now_s
        faults = world.loop.create_task(self.faults.run(), context=world.loop.world.context())
        admin = self._admin_process.start(self._administer(begun_s + self.active_s))
        await self._steer(begun_s)
        self.pace.finishing = True
        await self.faults.heal()
        self._end_what_hangs()
        await asyncio.wait([faults, admin], timeout=120)
        if not await world.until(lambda: all(n.ready for n in world.nodes.values()), 90):
            names = [n.name for n in world.nodes.values() if not n.ready]
            text = f"never ready again: {names}"
            world.event_log.violation(world.now_s, PROGRESS.broken(text))
        for group in self.groups:
            self._new_consumer(group, "explicit")
        await self._finish()

    # ---- what other workloads do otherwise ------------------------------------------------------

    def may_be_deleted(self, partition: str, offset: int, value: bytes) -> bool:
        """Return whether a confirmed record was trimmed, or is old enough for retention."""
        if offset < self.journal.trimmed_to.get(partition, 0):
            return True
        age_s = self.world.now_s - self.journal.sent_s[value]
        return self._retains and partition.startswith(f"{TRIMMED}/") and age_s >= RETENTION_S

    def was_lost(self, partition: str, offset: int) -> bool:
        """Return whether storage lost a confirmed record, and may have written another there."""
        return False

    def was_compacted(self, partition: str, offset: int) -> bool:
        """Return whether compaction removed a record, which need not be delivered any more."""
        return False

    async def after_judgement(self) -> None:
        """Do what ruins the logs, now that nobody needs them."""

    def install(self, patches: Patches) -> None:
        """Add what looks on in this workload."""
        self.state_history.install(patches)
        LogStartChecker(self.world, self.journal, self.may_be_deleted).install(patches)

    def begins_at(self, partition: str, first_start_offset: int) -> int:
        """Return the offset from which on a group must get all records of a partition.

        ``first_start_offset`` is the first one that its share partition had at a leader.
        """
        return 0

    def _modes(self) -> list[str]:
        """Return the modes of a group's first consumers."""
        return self.rng.sample(MODES, 3)

    def _modes_of_successors(self) -> Sequence[str]:
        """Return what a consumer in the place of a killed one may be."""
        return MODES

    def _is_named(self, consumer: str) -> None:
        """A consumer of this name begins; workloads with access rules say who it is."""

    def _begins(self, consumer: ConsumerApplication, group: str) -> None:
        """A consumer is about to start; workloads may give it more."""

    def _start_generations(self) -> None:
        if self.world.engine.has_generations:
            GenerationJob(self.world).start()

    async def _administer(self, end_s: float) -> None:
        administration = Administration(
            self.world,
            self.admin,
            self.journal,
            topic=TOPIC,
            grown=TRIMMED,
            groups=[*GROUPS, RESET_GROUP],
        )
        administration.partitions = {TOPIC: PARTITIONS, TRIMMED: 1}
        await administration.run(end_s)

    # ---- its course -----------------------------------------------------------------------------

    async def _steer(self, begun_s: float) -> None:
        """Keep producers at a pace that gives each seed enough to do, and none too much."""
        counters = self.world.event_log.counters
        while (passed_s := self.world.now_s - begun_s) < self.active_s or (
            counters["acknowledgements"] < self.acknowledgements_min
            and passed_s < self.active_s + EXTRA_S
        ):
            plan = self.acknowledgements_min * min(1.0, (passed_s + STEER_AHEAD_S) / self.active_s)
            ahead = counters["acknowledgements"] / plan
            self.pace.stretch = min(max(ahead * ahead, STRETCH[0]), STRETCH[1])
            await asyncio.sleep(STEER_S)

    async def _prepare(self) -> None:
        for name, partitions in ((TOPIC, PARTITIONS), (TRIMMED, 1)):
            await self.admin.create_topic(name, partitions)
        if self._retains:
            await self.admin.alter_configs(self.world.engine.retention, topic=TRIMMED)
        for group in (*self.groups, RESET_GROUP):
            await self.admin.alter_group_configs(
                group,
                {
                    "share.auto.offset.reset": self.offset_reset,
                    "share.record.lock.duration.ms": str(self.lock_duration_ms),
                    "share.delivery.count.limit": str(DELIVERY_COUNT_LIMIT),
                    **self.group_settings,
                },
            )
        for name, found in (await self.admin.describe_topics([TOPIC, TRIMMED])).items():
            assert not isinstance(found, SharemeshError), found
            self.topic_ids[bytes.fromhex(found.topic_id)] = name

    async def _finish(self) -> None:
        world = self.world
        end_s = world.now_s + self.finish_s
        lags: dict[str, int | None] = {}
        while world.now_s < end_s:
            lags = {group: await self.as_admin(self._lag(group)) for group in self.groups}
            if all(lag == 0 for lag in lags.values()) and all(p.done for p in self._living()):
                break
            await asyncio.sleep(LOOK_S)
        else:
            text = f"not finished {self.finish_s} s after healing: {lags}"
            world.event_log.violation(world.now_s, PROGRESS.broken(text))
        PROGRESS.judged(world.event_log.counters, len(lags))
        world.tell(f"finished: lags {lags}")
        self.pace.stopping = True
        consumers = [each for each, _ in self.consumers if each.process.alive]

        def going_on() -> list[str]:
            return [each.name for each in consumers if each.process.alive and not each.done]

        if not await world.until(lambda: not going_on(), STOP_S):
            stuck = going_on()
            text = f"consumers never stopped: {stuck}"
            world.event_log.violation(world.now_s, PROGRESS.broken(text))

    def _living(self) -> list[ProducerApplication]:
        return [each for each in self.producers if each.process.alive]

    async def as_admin(self, work):
        """Return what a task of the administrator's process returns."""
        return await self._admin_process.start(work)

    async def _lag(self, group: str) -> int | None:
        try:
            offsets = await self.admin.list_share_group_offsets(group)
        except SharemeshError:
            return None
        known = {
            where: found
            for where, found in offsets.items()
            # A temporary topic that could not be deleted has lost its only consumer.
            if where.topic in (TOPIC, TRIMMED) and isinstance(found, GroupOffset)
        }
        if len(known) < PARTITIONS + 1 or min(found.lag for found in known.values()) < 0:
            return None
        behind = {where: found for where, found in known.items() if found.lag}
        lag = sum(found.lag for found in behind.values())
        left = lag - await self._deleted(behind)
        if left or not lag:
            self._deleted_since_s.pop(group, None)
            return left
        # What was deleted may have been finished before: then what is left is counted for it. It
        # comes to a living member once the session of a killed one has ended, within the time of a
        # lock, and the write that ends it moves the start.
        since_s = self._deleted_since_s.setdefault(group, self.world.now_s)
        settled_s = (self.lock_duration_ms + SESSION_DEFAULT_MS) / 1_000 + SETTLED_S
        return lag if self.world.now_s - since_s < settled_s else 0

    async def _deleted(self, behind: dict[TopicPartition, GroupOffset]) -> int:
        """Return how much of a lag was deleted: it counts from the stored start offset (GC-41)."""
        try:
            earliest = await self.admin.list_offsets(dict.fromkeys(behind, EARLIEST))
        except SharemeshError:
            return 0
        deleted = 0
        for where, found in behind.items():
            log_start = earliest[where]
            if not isinstance(log_start, SharemeshError):
                deleted += min(found.lag, max(0, log_start.offset - found.start_offset))
        return deleted

    # ---- clients --------------------------------------------------------------------------------

    def _new_producer(self, number: int) -> None:
        self._numbers += 1
        name = f"producer-{number}.{self._numbers}"
        producer = ProducerApplication(self.world, self.journal, name, self.pace)
        producer.start([TOPIC, TOPIC, TOPIC, TRIMMED], self.producer_gap_s)
        self.producers.append(producer)

    def _new_consumer(self, group: str, mode: str) -> None:
        self._numbers += 1
        name = f"{group}-{mode}.{self._numbers}"
        self._is_named(name)
        kind = self.consumer_kinds.get(mode, ConsumerApplication)
        consumer = kind(self.world, self.journal, name, mode, self.pace)
        self._begins(consumer, group)
        consumer.start(group, [TOPIC, TRIMMED])
        self.consumers.append((consumer, group))

    def _stall_client(self, rng: Random) -> str:
        """Let an application hang; another one begins beside one that never comes back."""
        found = [pair for pair in self.consumers if pair[0].process.alive]
        awake = [pair for pair in found if not pair[0].is_stalled]
        if not awake:
            return ""
        consumer, group = rng.choice(awake)
        duration_s = rng.choice(STALLS_S)
        consumer.stall(duration_s)
        if consumer.hangs:
            self._new_consumer(group, rng.choice(self._modes_of_successors()))
        return f"the application of {consumer.name} stalls for {duration_s} s"

    def _end_what_hangs(self) -> None:
        """Kill members whose applications never come back: their partitions go to others."""
        for each, _ in self.consumers:
            if each.process.alive and each.hangs:
                each.kill()

    def _any_consumer(self, rng: Random) -> Process | None:
        living = [each.process for each, _ in self.consumers if each.process.alive]
        return rng.choice(living) if living else None

    def _kill_client(self, rng: Random) -> str:
        """Kill a client; another one begins in its place."""
        consumers = [pair for pair in self.consumers if pair[0].process.alive]
        if rng.random() < 0.3 or not consumers:
            producer = rng.choice(self._living())
            producer.kill()
            if not self.pace.finishing:
                self._new_producer(self._numbers)
            return producer.name
        consumer, group = rng.choice(consumers)
        consumer.kill()
        self._new_consumer(group, rng.choice(self._modes_of_successors()))
        return consumer.name


class ShortWorkload(MixedWorkload):
    """The same for one virtual minute and a half: for tests of the simulator itself."""

    active_s = 90.0
    acknowledgements_min = 300
