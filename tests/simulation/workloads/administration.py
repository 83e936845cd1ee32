"""What administrators do meanwhile: trim, reset, add partitions, change settings, delete."""

import asyncio
from random import Random

from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.admin_results import TopicPartition
from sharemesh.client.errors import SharemeshError
from tests.simulation.clients import ConsumerApplication, Pace, ProducerApplication
from tests.simulation.invariants import NEVER_BACK, PROGRESS
from tests.simulation.journal import SimJournal
from tests.simulation.world import World

GAP_S = (20.0, 90.0)
LAST_S = 60.0
CLOSED_S = 120.0
TEMPORARY_GAP_S = (1.0, 16.0)
LATEST = -1


async def end_of(admin: AsyncAdminClient, where: TopicPartition) -> int:
    """Return the end of a partition; an error is raised."""
    found = (await admin.list_offsets({where: LATEST}))[where]
    if isinstance(found, SharemeshError):
        raise found
    return found.offset


async def trim(
    admin: AsyncAdminClient, journal: SimJournal, where: TopicPartition, offset: int
) -> None:
    """Delete records below an offset; a call that fails may have done it nevertheless."""
    journal.trims(str(where), offset)
    result = (await admin.delete_records({where: offset}))[where]
    if isinstance(result, SharemeshError):
        raise result


async def closes(world: World, consumer: ConsumerApplication) -> None:
    """Wait for a consumer that was asked to stop: it does, whatever goes wrong meanwhile."""
    PROGRESS.judged(world.event_log.counters)
    if not await world.until(lambda: consumer.done, CLOSED_S):
        text = f"{consumer.name} did not stop in {CLOSED_S:.0f} s"
        world.event_log.violation(world.now_s, PROGRESS.broken(text))


class Administration:
    """One action after the other; ``topic`` is reset, ``grown`` is trimmed and gets partitions."""

    def __init__(
        self,
        world: World,
        admin: AsyncAdminClient,
        journal: SimJournal,
        *,
        topic: str,
        grown: str,
        groups: list[str],
    ) -> None:
        self.world = world
        self.admin = admin
        self.journal = journal
        self.rng = Random(world.rng.getrandbits(64))
        self.topic, self.grown = topic, grown
        self.groups = groups
        self.partitions: dict[str, int] = {}
        self.partitions_max = 3
        self._count = 0
        self._actions = {
            "trim": self._trim,
            "reset": self._reset,
            "temporary topic": self._temporary_topic,
            "new partition": self._new_partition,
            "group settings": self._group_settings,
        }

    async def run(self, end_s: float) -> None:
        """Go on until a minute before ``end_s``."""
        while True:
            await asyncio.sleep(self.rng.uniform(*GAP_S))
            if self.world.now_s >= end_s - LAST_S:
                return
            self._count += 1
            name = self.rng.choice(sorted(self._actions))
            try:
                await self._actions[name]()
            except SharemeshError as error:
                self.world.tell(f"admin: {name} failed: {error}", count=f"admin {name} failed")
            else:
                self.world.tell(f"admin: {name} done", count=f"admin {name}")

    async def _trim(self) -> None:
        where = TopicPartition(self.grown, self.rng.randrange(self.partitions[self.grown]))
        end_offset = await end_of(self.admin, where)
        await trim(self.admin, self.journal, where, self.rng.randint(0, max(0, end_offset)))

    async def _new_partition(self) -> None:
        """Add one; a call that timed out may have added it nevertheless."""
        total = min(self.partitions[self.grown] + 1, self.partitions_max)
        if total == self.partitions[self.grown]:
            return
        self.partitions[self.grown] = total
        await self.admin.add_partitions(self.grown, total)

    async def _group_settings(self) -> None:
        """Change what the checkers need not know of a group that is in use."""
        group = self.rng.choice(self.groups)
        locks = self.rng.choice(("100", "500", "2000"))
        limit_type = self.rng.choice(("locks", "span"))
        interval_ms = self.rng.choice(("0", "1000", "3000"))
        if interval_ms == "0":
            self.world.hurried_groups.add(group)
        await self.admin.alter_group_configs(
            group,
            {
                "share.partition.max.record.locks": locks,
                "share.in.flight.limit.type": limit_type,
                "share.assignment.interval.ms": interval_ms,
            },
        )

    async def _reset(self) -> None:
        """Read everything with a short-lived group, after its offsets were set back."""
        group = self.groups[-1]
        numbers = range(self.partitions[self.topic])
        asked = {TopicPartition(self.topic, n): self.rng.randint(0, 20) for n in numbers}
        problems = await self.admin.alter_share_group_offsets(group, asked)
        offsets = {str(where): offset for where, offset in asked.items()}
        for problem in problems.values():
            if problem is not None:
                raise problem
        pace = Pace()
        own = SimJournal(self.world)  # nobody judges it: that group is not owed every record
        name = f"{group}-{self._count}"
        mode = self.rng.choice(("explicit", "implicit", "record_limit"))
        consumer = ConsumerApplication(self.world, own, name, mode, pace)
        consumer.start(group, [self.topic])
        await asyncio.sleep(self.rng.uniform(5, 30))
        pace.finishing = pace.stopping = True
        await closes(self.world, consumer)
        for partition, offset in own.delivered_values:
            if offset < offsets[partition]:
                text = f"{group}: {partition}@{offset} came after a reset to {offsets[partition]}"
                self.world.event_log.violation(self.world.now_s, NEVER_BACK.broken(text))

    async def _temporary_topic(self) -> None:
        name = f"temporary-{self._count}"
        await self.admin.create_topic(name, 2)
        pace = Pace()
        own = SimJournal(self.world)
        producer = ProducerApplication(self.world, own, f"{name}-producer", pace)
        producer.start([name], TEMPORARY_GAP_S)
        consumer = ConsumerApplication(self.world, own, f"{name}-consumer", "explicit", pace)
        consumer.start(self.rng.choice(self.groups), [name])
        await asyncio.sleep(self.rng.uniform(3, 20))
        if self.rng.random() < 0.5:
            pace.finishing = True
            await self.world.until(lambda: producer.done, 30)
        problems = await self.admin.delete_topics([name])
        pace.finishing = pace.stopping = True
        producer.kill()
        await closes(self.world, consumer)
        consumer.kill()
        for problem in problems.values():
            if problem is not None:
                raise problem
