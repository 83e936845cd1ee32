"""Row kills of part delivery: who is delayed, held and finished is the same after 100 kills.

Two members decide each record once and for good: it is accepted or rejected, released with a delay
of an hour, or held and renewed. Leaders and share coordinators are killed at random moments, so
that some hit a decision on its way. Whoever hears no answer gets the record again, and says the
same. At the end the state log must hold exactly what was decided, and the members what they hold.
"""

import asyncio
import random
import signal
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from sharemesh.client import AcknowledgeType, AsyncShareConsumer, RunOptions, connect
from sharemesh.client.errors import SharemeshError
from sharemesh.client.records import ConsumerRecord, TopicIdPartition
from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.supervise.child_process import ProcessState
from sharemesh_spark.reader.data_directory import shards
from tests.faults.trials import Outcome
from tests.history.journal import read
from tests.mesh.loaded_mesh import Load, LoadedMesh
from tests.mesh.outcome import EVERYTHING, FINAL_STATES, check_folds_are_equal
from tests.spark.reference_fold import fold_of_log

KILLS = 100
MEMBERS = 2
CONCURRENCY = 5_000
PARTITIONS = 8
PER_SECOND = 80
VICTIMS = {"share-leader": 3, "share-coordinator": 2}
GAP_S = (0.1, 1.5)
THINKS_S = (0.0, 0.4)
AGAIN_S = 0.2
DELAY_MS = 3_600_000
DELAY_SLACK_MS = 10_000
SETTLE_TIMEOUT_S = 90
LOOK_S = 2.0
TOLD_MAX = 3

Place = tuple[str, int]


class Fate(Enum):
    """What becomes of a record, for good."""

    FINISHED = auto()
    DELAYED = auto()
    HELD = auto()


SHARES = {Fate.FINISHED: 65, Fate.DELAYED: 25, Fate.HELD: 10}
REJECTED_ONE_OF = 10


@dataclass(slots=True)
class Stored:
    """What the state log says: where each record stands, and until when it is delayed."""

    fates: dict[Place, Fate] = field(default_factory=dict)
    not_before_ms: dict[Place, int] = field(default_factory=dict)


class Decisions:
    """What members decided and heard, all together, and what they hold now."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.fates: dict[Place, Fate] = {}
        self.confirmed: set[Place] = set()
        self.held: Counter[Place] = Counter()
        self.deliveries = 0
        self.violations: list[str] = []

    async def handle(self, record: ConsumerRecord) -> AcknowledgeType:
        """Decide about a record, or hold it until its lock is lost or the trial ends."""
        place = str(record.topic_id_partition), record.offset
        self.deliveries += 1
        if place in self.confirmed:
            self.violations.append(
                f"{place[0]}@{place[1]} came again after it was confirmed to be "
                f"{self.fates[place].name} (delivery {record.delivery_count})"
            )
        if place not in self.fates:
            [self.fates[place]] = self._rng.choices(list(SHARES), list(SHARES.values()))
        fate = self.fates[place]
        if fate is Fate.HELD:
            self.held[place] += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.held[place] -= 1
        await asyncio.sleep(self._rng.uniform(*THINKS_S))
        if fate is Fate.DELAYED:
            return AcknowledgeType.RELEASE
        is_good = record.offset % REJECTED_ONE_OF
        return AcknowledgeType.ACCEPT if is_good else AcknowledgeType.REJECT

    def committed(
        self, offsets: Mapping[TopicIdPartition, Collection[int]], error: SharemeshError | None
    ) -> None:
        """Take note of answers (acknowledgement commit callback)."""
        if error is None:
            self.confirmed |= {
                (str(where), offset) for where, some in offsets.items() for offset in some
            }

    def problems(self, produced: set[Place], stored: Stored, now_ms: int) -> list[str]:
        """Return in what the state log and the members differ from what was decided."""
        wanted: dict[Fate, set[Place]] = defaultdict(set)
        for place in produced:
            fate = self.fates.get(place)
            wanted[Fate.HELD if fate is None else fate].add(place)  # undecided: it is missed
        found: dict[Fate, set[Place]] = defaultdict(set)
        for place, fate in stored.fates.items():
            found[fate].add(place)
        found[Fate.HELD] = {place for place, number in self.held.items() if number}
        problems = []
        for fate in Fate:
            problems += _difference(
                f"{fate.name}, and not there as such", wanted[fate] - found[fate]
            )
            problems += _difference(f"there as {fate.name}, wrongly", found[fate] - wanted[fate])
        twice = {place for place, number in self.held.items() if number > 1}
        problems += _difference("held by two", twice)
        early_ms, late_ms = now_ms + DELAY_MS // 2, now_ms + DELAY_MS + DELAY_SLACK_MS
        odd = {p for p, until in stored.not_before_ms.items() if not early_ms < until < late_ms}
        return problems + _difference("delayed until another time", odd)


def _difference(what: str, places: set[Place]) -> list[str]:
    if not places:
        return []
    named = ", ".join(f"{name}@{offset}" for name, offset in sorted(places)[:TOLD_MAX])
    return [f"{len(places)} records {what}: {named}"]


class DecidingMember:
    """One member, which runs again whenever its membership ends."""

    def __init__(self, loaded: LoadedMesh, decisions: Decisions) -> None:
        self._decisions = decisions
        self._loaded = loaded
        self._consumer: AsyncShareConsumer | None = None
        self._over = False

    async def run(self) -> None:
        """Decide about records until stopped."""
        load = self._loaded.load
        self._consumer = consumer = connect(self._loaded.bootstrap).async_share_consumer(load.group)
        consumer.set_acknowledgement_commit_callback(self._decisions.committed)
        await consumer.subscribe([load.topic])
        while not self._over:
            try:
                await consumer.run(
                    self._decisions.handle,
                    concurrency=CONCURRENCY,
                    options=RunOptions(stop_timeout_ms=0),
                )
            except SharemeshError:
                await asyncio.sleep(AGAIN_S)
        await consumer.close(timeout_ms=1_000)

    def stop(self) -> None:
        """Let what is held go."""
        self._over = True
        if self._consumer is not None:
            self._consumer.stop()


def stored_state(loaded: LoadedMesh, produced: Collection[Place]) -> Stored:
    """Fold the state log on disk, and return where it says that each record stands."""
    load, stored = loaded.load, Stored()
    starts: dict[str, int] = {}
    for shard in shards(loaded.data):
        for key, state in fold_of_log(loaded.data, shard, EVERYTHING).states.items():
            if key.group_id != load.group or key.topic_id != loaded.topic_id:
                continue
            name = f"{load.topic}/{key.partition}"
            starts[name] = state.start_offset
            for batch in state.batches:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    if batch.delivery_state in FINAL_STATES:
                        stored.fates[name, offset] = Fate.FINISHED
                    elif batch.not_before_ms:
                        stored.fates[name, offset] = Fate.DELAYED
                        stored.not_before_ms[name, offset] = batch.not_before_ms
    for name, offset in produced:
        if offset < starts.get(name, 0):
            stored.fates[name, offset] = Fate.FINISHED
    return stored


class KillTrial:
    """One trial: a mesh, its members, and a producer that goes on all the while."""

    def __init__(self, loaded: LoadedMesh, rng: random.Random) -> None:
        self._loaded = loaded
        self._rng = rng
        self._decisions = Decisions(random.Random(rng.getrandbits(64)))
        self._producing = True

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows until told to stop."""
        number = 0
        while self._producing:
            number += 1
            yield str(number).encode(), b"a,b,c"

    async def run(self, kills: int) -> Outcome:
        """Kill so often, let everything settle, and compare."""
        loaded, decisions = self._loaded, self._decisions
        await loaded.admin.alter_group_configs(
            loaded.load.group,
            {
                "share.in.flight.limit.type": "locks",
                "share.retry.backoff.ms": str(DELAY_MS),
                "share.retry.backoff.max.ms": str(DELAY_MS),
                "share.retry.backoff.jitter": "0",
            },
        )
        members = [DecidingMember(loaded, decisions) for _ in range(MEMBERS)]
        running = [asyncio.create_task(member.run()) for member in members]
        producing = asyncio.create_task(
            loaded.produce(self.rows(), per_second=PER_SECOND, spread=True)
        )
        killed: Counter[str] = Counter()
        try:
            for _ in range(kills):
                await asyncio.sleep(self._rng.uniform(*GAP_S))
                killed[await self._kill_one()] += 1
            began_s = time.monotonic()
            self._producing = False
            await producing
            problems = await self._settled()
            took_ms = (time.monotonic() - began_s) * 1_000
        finally:
            self._producing = False
            producing.cancel()
            for member in members:
                member.stop()
            await asyncio.gather(producing, *running, return_exceptions=True)
        await asyncio.to_thread(check_folds_are_equal, loaded.data)
        fates = Counter(fate.name.lower() for fate in decisions.fates.values())
        notes = [f"{number} {name}" for name, number in sorted((fates + killed).items())]
        notes.append(f"{decisions.deliveries} deliveries")
        return Outcome((*decisions.violations, *problems), (took_ms,), ", ".join(notes))

    async def _kill_one(self) -> str:
        """Kill a leader or share coordinator that is ready; return the role."""
        while True:
            role = self._rng.choices(list(VICTIMS), list(VICTIMS.values()))[0]
            index = self._rng.randrange(VICTIMS[role])
            if self._loaded.cluster.status(role, index).state is ProcessState.READY:
                with suppress(ProcessLookupError):
                    self._loaded.cluster.kill(role, index, signal.SIGKILL)
                    return role
            await asyncio.sleep(self._rng.uniform(0, 0.1))

    async def _settled(self) -> list[str]:
        """Return in what is left a difference once all that is under way had time to end."""
        if not await self._loaded.all_ready():
            return ["a killed process was not ready again within 60 s"]
        produced = {
            (entry.fields["p"], offset)
            for entry in read([self._loaded.journals / "producer.jsonl"])
            for first, last in entry.fields["r"]
            for offset in range(first, last + 1)
        }
        deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
        while True:
            await asyncio.sleep(LOOK_S)
            stored = await asyncio.to_thread(stored_state, self._loaded, produced)
            now_ms = time.time_ns() // 1_000_000
            problems = self._decisions.problems(produced, stored, now_ms)
            if not problems or time.monotonic() > deadline_s:
                return problems


async def kills_between_decisions(number: int, seed: int, *, kills: int = KILLS) -> Outcome:
    """Run one trial; its time is from the last kill until all is settled."""
    with tempfile.TemporaryDirectory(prefix="sharemesh-kept-") as folder:
        work = Path(folder)
        load = Load(
            topic="orders",
            group="billing",
            partitions=PARTITIONS,
            settings=ServeSettings(data_directory=work / "data", cluster_id="kept"),
        )
        async with LoadedMesh(work, load) as loaded:
            await loaded.prepare()
            return await KillTrial(loaded, random.Random(seed)).run(kills)
