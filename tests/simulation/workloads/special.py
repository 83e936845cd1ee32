"""Short runs in which one kind of trouble is common, for bugs that ``mixed`` meets now and then."""

import asyncio
import contextlib
from dataclasses import replace
from typing import ClassVar

from sharemesh.client.admin_results import TopicPartition
from sharemesh.client.errors import SharemeshError
from sharemesh.domain import packed_batches
from sharemesh.ports.cluster import Role
from sharemesh.serve.roles import share_coordinator
from sharemesh.serve.settings import room_settings
from sharemesh.share_leader.requests.delayed_share_fetch import DelayedShareFetch
from tests.simulation.checkers.committed_reads import CommittedReadChecker
from tests.simulation.checkers.delays import DelayChecker
from tests.simulation.checkers.stalls import StallChecker
from tests.simulation.checkers.tokens import GuardedStore, TokenChecker
from tests.simulation.checkers.window_of_locks import WindowChecker
from tests.simulation.clients import ConsumerApplication, Pace
from tests.simulation.foreign_clients import ForeignConsumer
from tests.simulation.generations import GenerationJob
from tests.simulation.hard_clients import HARD, DelayingConsumer, HoldingConsumer, StoringConsumer
from tests.simulation.journal import SimJournal
from tests.simulation.late_copies import LateCopies
from tests.simulation.loop import PROCESS
from tests.simulation.patching import Patches
from tests.simulation.unary_member import UnaryMember
from tests.simulation.workloads.administration import closes, end_of, trim
from tests.simulation.workloads.mixed import PARTITIONS, TOPIC, TRIMMED, MixedWorkload
from tests.simulation.world import World

REBORN = "to"
RESET_AT_A_POKE = 0.1
GENERATIONS_S = (1.0, 4.0)
OFTEN = {
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "share.coordinator.state.topic.prune.interval.ms": "2000",
    "share.coordinator.cold.partition.snapshot.interval.ms": "2000",
}


class SpecialWorkload(MixedWorkload):
    """One group under load for less than a minute, and what goes wrong all the time."""

    groups = ("to:wer",)  # KAFKA-20183: the colon, and beside it a group that is its beginning
    active_s = 45.0
    finish_s = 90.0
    acknowledgements_min = 0
    producer_gap_s = (0.2, 2.0)
    fault_gap_s = (0.5, 4.0)
    consumer_kinds: ClassVar[dict[str, type[ConsumerApplication]]] = HARD
    modes: tuple[str, ...] = ("explicit", "partial", "late")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._retains = False
        self.stalls = StallChecker(world)

    def install(self, patches: Patches) -> None:
        super().install(patches)
        self.stalls.install(patches)

    async def run(self) -> None:
        context = self.world.loop.world.context()
        self.world.loop.create_task(self.stalls.run(), context=context)
        await super().run()

    async def _steer(self, begun_s: float) -> None:
        await asyncio.sleep(self.active_s)

    def _modes(self) -> list[str]:
        return list(self.modes)

    def _modes_of_successors(self) -> tuple[str, ...]:
        return self.modes

    def _start_generations(self) -> None:
        """No generations."""

    async def _administer(self, end_s: float) -> None:
        """No administration."""


class CrowdedWorkload(SpecialWorkload):
    """Members that come late, renew, decide in parts, and die with locks in their hands."""

    fault_kinds = ("client_killed", "client_killed", "resets", "network_slow")
    modes = ("explicit", "partial", "late", "renewing", "renewing", "late")
    group_settings: ClassVar[dict[str, str]] = {
        "share.in.flight.limit.type": "span",
        "share.partition.max.record.locks": "100",
    }

    def install(self, patches: Patches) -> None:
        super().install(patches)
        real, workload = DelayedShareFetch.poke, self

        def poke(wait):
            if wait._ready is not None and not wait._ready.done():
                workload.fetch_is_poked()
            real(wait)

        patches.setattr(DelayedShareFetch, "poke", poke)

    def fetch_is_poked(self) -> None:
        """Lose half of a leader's connections at the moment when a fetch may get its locks."""
        if self.rng.random() < RESET_AT_A_POKE:
            process = PROCESS.get()
            self.world.tell(f"connections of {process} are reset as a fetch goes on")
            for connection in list(self.world.network._connections.values()):
                if connection.server is process and self.rng.random() < 0.5:
                    connection.reset("the connection was reset")
                    connection._lost_at_server()  # it learns of it at once


class StalledWorkload(SpecialWorkload):
    """Applications that hang for longer than locks and sessions, or for ever; foreign clients."""

    fault_kinds = (
        "application_stalls",
        "application_stalls",
        "client_frozen",
        "client_frozen",
        "network_slow",
    )
    fault_gap_s = (1.0, 6.0)
    active_s = 90.0
    finish_s = 150.0
    modes = ("explicit", "implicit", "runner", "foreign")
    consumer_kinds: ClassVar[dict[str, type[ConsumerApplication]]] = {"foreign": ForeignConsumer}


class CrashingWorkload(SpecialWorkload):
    """Machines that die while records are held and writes are under way."""

    fault_kinds = ("kill", "vanish", "disk_slow", "kill_in_job", "power_cut")
    fault_gap_s = (1.0, 6.0)


class DelayedRetryWorkload(SpecialWorkload):
    """Releases that wait, by delays of their own and the group's, while their leaders change."""

    fault_kinds: tuple[str, ...] = ("kill", "usurp", "client_killed", "network_slow", "resets")
    fault_gap_s = (2.0, 8.0)
    active_s = 60.0
    finish_s = 150.0
    modes = ("delaying", "delaying", "delaying", "late")
    consumer_kinds: ClassVar[dict[str, type[ConsumerApplication]]] = {
        **HARD,
        "delaying": DelayingConsumer,
    }
    group_settings: ClassVar[dict[str, str]] = {
        "share.retry.backoff.ms": "500",
        "share.retry.backoff.max.ms": "5000",
        "share.retry.backoff.on.timeout": "true",
    }

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.delays = DelayChecker(world)

    def install(self, patches: Patches) -> None:
        super().install(patches)
        self.delays.install(patches)


class StoredWorkload(SpecialWorkload):
    """Consumers that are frozen or late, and write to a store that looks at fencing tokens."""

    fault_kinds = ("client_frozen", "client_frozen", "client_killed", "kill", "drain", "resets")
    fault_gap_s = (0.5, 3.0)
    active_s = 90.0
    modes = ("storing", "storing", "storing", "explicit")
    consumer_kinds: ClassVar[dict[str, type[ConsumerApplication]]] = {
        **HARD,
        "storing": StoringConsumer,
    }

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.tokens = TokenChecker(world)
        self.store = GuardedStore(world, self.tokens)

    def install(self, patches: Patches) -> None:
        super().install(patches)
        self.tokens.install(patches)

    def _begins(self, consumer: ConsumerApplication, group: str) -> None:
        if isinstance(consumer, StoringConsumer):
            consumer.store, consumer.group = self.store, group


class HeldWorkload(SpecialWorkload):
    """One record is held and renewed while others flow by, and leaders change (WIN).

    Few batches make a state large here, so that snapshots and reads come in parts.
    """

    fault_kinds = ("kill", "usurp", "vanish", "client_killed", "network_slow")
    fault_gap_s = (1.5, 6.0)
    active_s = 60.0
    finish_s = 150.0
    producer_gap_s = (0.1, 0.8)
    modes = ("holding", "explicit", "partial")
    consumer_kinds: ClassVar[dict[str, type[ConsumerApplication]]] = {
        **HARD,
        "holding": HoldingConsumer,
    }
    group_settings: ClassVar[dict[str, str]] = {
        "share.in.flight.limit.type": "locks",
        "share.partition.max.record.locks": "100",
    }

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.window = WindowChecker(world)

    def install(self, patches: Patches) -> None:
        super().install(patches)
        self.window.install(patches)
        real = room_settings.share_coordinator_settings
        patches.setattr(
            share_coordinator,
            "share_coordinator_settings",
            lambda configs: replace(real(configs), large_batches=4, part_batches=2),
        )
        patches.setattr(packed_batches, "PACKED_MIN", 4)

    async def _prepare(self) -> None:
        await super()._prepare()
        await self.admin.alter_configs(OFTEN)


class HandedOverWorkload(SpecialWorkload):
    """Leaders that drain while records are held, renewed and acknowledged; some die of it (HND)."""

    fault_kinds = (
        *("leader_drained",) * 6,
        *("kill", "drain", "lease_lost", "client_killed", "network_slow", "resets"),
    )
    fault_gap_s = (0.5, 4.0)
    active_s = 60.0
    finish_s = 120.0
    producer_gap_s = (0.1, 1.0)
    modes = ("explicit", "partial", "renewing", "runner")


class UsurpedWorkload(SpecialWorkload):
    """Owners that are taken for dead, or sleep, and go on while others take over."""

    fault_kinds = ("usurp", "usurp", "freeze", "disk_slow")
    fault_gap_s = (1.0, 5.0)
    producer_gap_s = (0.05, 0.4)

    def install(self, patches: Patches) -> None:
        """Let successors come where they are not seen."""
        super().install(patches)
        self.world.engine.hold_commits_up(patches)


class TrimmedWorkload(SpecialWorkload):
    """Logs that are trimmed below held and finished records, and writes of states that fail."""

    fault_kinds = ("state_cut", "state_refused", "client_killed", "network_slow")
    fault_gap_s = (1.0, 8.0)
    modes = ("explicit", "partial", "late", "late")

    async def _administer(self, end_s: float) -> None:
        while self.world.now_s < end_s:
            await asyncio.sleep(self.rng.uniform(0.2, 1.5))
            topic, partitions = self.rng.choice(((TOPIC, PARTITIONS), (TRIMMED, 1)))
            where = TopicPartition(topic, self.rng.randrange(partitions))
            with contextlib.suppress(SharemeshError):
                await self._trim(where)

    async def _trim(self, where: TopicPartition) -> None:
        """Cut within the last records: some of them are held, or finished in part."""
        end_offset = await end_of(self.admin, where)
        offset = max(0, end_offset - self.rng.randint(0, 40))
        await trim(self.admin, self.journal, where, offset)
        self.world.tell(f"{where} is trimmed to {offset}", count="trims")


class RefusedWorkload(SpecialWorkload):
    """Writes of states that fail for good, while the locks of their records go on."""

    fault_kinds = ("state_full", "network_slow")
    fault_gap_s = (2.0, 10.0)
    lock_duration_ms = 40_000
    active_s = 90.0
    finish_s = 150.0
    modes = ("explicit", "partial", "renewing")


class LeaderlessWorkload(SpecialWorkload):
    """A coordination store that loses its leader, and answers of it that are lost."""

    fault_kinds = ("store_down", "answers_lost", "answers_lost", "kill", "drain", "lease_lost")
    fault_gap_s = (1.0, 6.0)
    finish_s = 120.0


class _LivesWorkload(SpecialWorkload):
    """A group beside the others that is deleted and begins again, over and over."""

    async def _administer(self, end_s: float) -> None:
        settings = {
            "share.auto.offset.reset": self.offset_reset,
            "share.record.lock.duration.ms": str(self.lock_duration_ms),
        }
        await self.admin.alter_group_configs(REBORN, settings)
        number = 0
        while self.world.now_s < end_s:
            number += 1
            await self._live(f"{REBORN}-{number}")
            problem = await self._delete()
            count = "" if problem else "groups deleted"
            self.world.tell(f"group {REBORN} deleted: {problem}", count=count)

    async def _live(self, name: str) -> None:
        pace = Pace()
        own = SimJournal(self.world)  # nobody judges it: its lives end at any moment
        consumer = ConsumerApplication(self.world, own, name, "explicit", pace)
        consumer.start(REBORN, [TOPIC, TRIMMED])
        await asyncio.sleep(self.rng.uniform(1, 6))
        pace.finishing = pace.stopping = True
        await closes(self.world, consumer)
        consumer.kill()

    async def _delete(self) -> object:
        try:
            return (await self.admin.delete_groups([REBORN]))[REBORN]
        except SharemeshError as error:
            return error


class DelayedWorkload(_LivesWorkload):
    """Requests of share states that come again later, over changes of leaders and of lives."""

    fault_kinds = ("kill", "resets", "client_killed", "lease_lost")
    fault_gap_s = (1.0, 6.0)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._copies = LateCopies(world)

    async def run(self) -> None:
        context = self.world.loop.world.context()
        self.world.loop.create_task(self._copies.run(), context=context)
        await super().run()


class PrunedWorkload(_LivesWorkload):
    """A state log that is read, folded into generations and pruned every few seconds."""

    fault_kinds = ("kill", "kill_in_job", "kill_in_job", "power_cut", "disk_slow")
    fault_gap_s = (1.0, 6.0)
    modes = ("explicit", "implicit", "partial")

    def install(self, patches: Patches) -> None:
        super().install(patches)
        if self.world.engine.has_generations:
            CommittedReadChecker(self.world).install(patches)

    def _start_generations(self) -> None:
        if self.world.engine.has_generations:
            GenerationJob(self.world, GENERATIONS_S).start()

    async def _prepare(self) -> None:
        await super()._prepare()
        await self.admin.alter_configs(OFTEN)
        await asyncio.sleep(1)
        for node in self.world.role_nodes(Role.SHARE_COORDINATOR):
            node.crash()  # these settings are read at a start


class LatestWorkload(SpecialWorkload):
    """A group that begins at the end of each log, and partitions that are added under load."""

    offset_reset = "latest"
    fault_kinds = ("network_slow", "resets", "client_killed", "kill")

    def begins_at(self, partition: str, first_start_offset: int) -> int:
        known = {f"{TOPIC}/{number}" for number in range(PARTITIONS)} | {f"{TRIMMED}/0"}
        return first_start_offset if partition in known else 0

    async def _administer(self, end_s: float) -> None:
        await asyncio.sleep(10)
        for total in (2, 3):
            with contextlib.suppress(SharemeshError):
                await self.admin.add_partitions(TRIMMED, total)
            for _ in range(3):
                self._new_producer(total)
            await asyncio.sleep(self.rng.uniform(5, 12))


class UnreadableWorkload(_LivesWorkload):
    """Leaders that cannot read their logs for a moment, while groups look up where they begin.

    Beside the others members fetch by unary calls, with partitions in their sessions that are led
    elsewhere, or by nobody.
    """

    offset_reset = "by_duration:PT2H"
    fault_kinds = ("reads_fail", "reads_fail", "reads_fail", "kill", "network_slow")
    fault_gap_s = (0.5, 3.0)
    modes = ("explicit", "partial", "late")

    async def _administer(self, end_s: float) -> None:
        for node in self.world.role_nodes(Role.SHARE_LEADER):
            partitions = {TOPIC: PARTITIONS, TRIMMED: 1}
            UnaryMember(self.world, REBORN, node.address, partitions).start()
        await super()._administer(end_s)
