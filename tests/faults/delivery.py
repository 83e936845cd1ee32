"""Part delivery of `make faults`: outages of what handlers need, and kills between decisions.

In an outage each handler fails for a minute, under ``run`` with its defaults; records go on coming
all the while. No record may be archived, none acknowledged finally twice, and what had come until
the end of the outage must be finished soon after it.
"""

import asyncio
import contextlib
import random
import signal
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sharemesh.client.admin_results import GroupOffset
from sharemesh.client.errors import SharemeshError
from sharemesh.serve.settings.settings import ServeSettings
from tests.faults.kept_records import kills_between_decisions
from tests.faults.trials import Fault, Outcome
from tests.history.journal import now_ms, read
from tests.mesh.dependency import Dependency
from tests.mesh.loaded_mesh import Load, LoadedMesh

POLL_S = 0.2
LEADERS = 3
FLOW_TIMEOUT_S = 60
FINISH_TIMEOUT_S = 60
ROW = b"a,b,c"


@dataclass(frozen=True, slots=True)
class OutageSize:
    """How long and under how much load: the shipped figures, or less for the integration tests."""

    outage_s: float = 60.0
    before_s: float = 5.0
    drain_s: float = 30.0
    per_second: int = 1_000
    workers: int = 4
    partitions: int = 8
    kill_every_s: tuple[float, float] = (4.0, 12.0)


SHORT = OutageSize(outage_s=8.0, before_s=2.0, per_second=200, workers=2, partitions=4)


class OutageTrial:
    """One trial: a mesh, its consumers, and the service that their handlers need."""

    def __init__(self, loaded: LoadedMesh, needed: Dependency, size: OutageSize) -> None:
        self._loaded = loaded
        self._needed = needed
        self._size = size
        self._producing = True
        self.violations: list[str] = []
        self.notes: list[str] = []

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows until told to stop."""
        number = 0
        while self._producing:
            number += 1
            yield str(number).encode(), ROW

    async def run(self, kills: random.Random | None) -> float:
        """Return ms from the end of the outage until all that had come before is finished.

        ``kills`` draws when which leader is killed, in the outage and just after it; None: none is.
        """
        size, loaded = self._size, self._loaded
        for number in range(size.workers):
            loaded.start_worker(f"worker-{number}", "dependent")
        producing = asyncio.create_task(
            loaded.produce(self.rows(), per_second=size.per_second, spread=True)
        )
        killing: asyncio.Task[int] | None = None
        try:
            await self._flowing()
            await asyncio.sleep(size.before_s)
            await self._needed.stop()
            if kills is not None:
                killing = asyncio.create_task(self._kill(kills))
            answered = self._needed.answered
            await asyncio.sleep(size.outage_s)
            if self._needed.answered != answered:
                self.violations.append("the dependency answered while it was down")
            back_ms = now_ms()
            await self._needed.start()
            took_ms = await self._until_finished(self._produced_by(back_ms), back_ms)
            if killing is not None:
                self.notes.append(f"{await killing} leaders killed")
        finally:
            self._producing = False
            if killing is not None:
                killing.cancel()
                await asyncio.gather(killing, return_exceptions=True)
            with contextlib.suppress(asyncio.CancelledError):
                await producing
        await self._judge()
        return took_ms

    async def _flowing(self) -> None:
        """Wait until handlers get a second's worth of answers."""
        async with asyncio.timeout(FLOW_TIMEOUT_S):
            while self._needed.answered < self._size.per_second:
                await asyncio.sleep(POLL_S)

    async def _kill(self, rng: random.Random) -> int:
        """Kill leaders in the outage, and one as records flow again; return how many."""
        size, killed = self._size, 0
        left_s = size.outage_s
        while (pause_s := rng.uniform(*size.kill_every_s)) < left_s:
            left_s -= pause_s
            await asyncio.sleep(pause_s)
            killed += self._kill_one(rng)
        await asyncio.sleep(left_s + rng.uniform(0, 2))
        return killed + self._kill_one(rng)

    def _kill_one(self, rng: random.Random) -> bool:
        with contextlib.suppress(ProcessLookupError):  # it is being started again
            self._loaded.cluster.kill("share-leader", rng.randrange(LEADERS), signal.SIGKILL)
            return True
        return False

    def _produced_by(self, time_ms: float) -> dict[str, int]:
        """Return, by partition, the offset behind the last record that was confirmed by then."""
        ends: dict[str, int] = defaultdict(int)
        for entry in read([self._loaded.journals / "producer.jsonl"]):
            if entry.time_ms <= time_ms:
                end = entry.fields["r"][-1][1] + 1
                ends[entry.fields["p"]] = max(ends[entry.fields["p"]], end)
        return ends

    async def _until_finished(self, ends: dict[str, int], since_ms: float) -> float:
        """Wait until the group's start offsets have reached these; return how long it took."""
        open_records = await self._open_below(ends)
        while open_records != 0:
            passed_ms = now_ms() - since_ms
            if passed_ms > self._size.drain_s * 1_000:
                self.violations.append(
                    f"{open_records} records of before are not finished {passed_ms:.0f} ms after "
                    "the end of the outage"
                )
                return float("inf")
            await asyncio.sleep(POLL_S)
            open_records = await self._open_below(ends)
        return now_ms() - since_ms

    async def _open_below(self, ends: dict[str, int]) -> int | None:
        """Return how many offsets lie between start offsets and these; None if nobody can say."""
        try:
            offsets = await self._loaded.admin.list_share_group_offsets(self._loaded.load.group)
        except SharemeshError:  # whoever was asked may just have been killed
            return None
        starts = {
            str(where): found.start_offset
            for where, found in offsets.items()
            if isinstance(found, GroupOffset)
        }
        if not ends.keys() <= starts.keys():
            return None
        return sum(max(end - starts[name], 0) for name, end in ends.items())

    async def _judge(self) -> None:
        """Let everything finish, and hold what consumers saw against the state log."""
        loaded = self._loaded
        if not await loaded.finished(FINISH_TIMEOUT_S):
            self.violations.append(f"lag is {await loaded.lag()} after {FINISH_TIMEOUT_S} s: stuck")
        await loaded.stop_workers()
        state = await asyncio.to_thread(loaded.state)
        report = await asyncio.to_thread(loaded.verdict, state)
        self.violations += report.violations
        if state.archived:
            named = ", ".join(f"{name}@{offset}" for name, offset in sorted(state.archived)[:3])
            self.violations.append(f"{len(state.archived)} records were archived, first {named}")
        ended = len(state.acknowledged)
        if ended != report.produced + loaded.unplaced:
            produced = report.produced + loaded.unplaced
            self.violations.append(f"{ended} of {produced} records ended acknowledged")
        highest = max(
            count
            for entry in loaded.entries()
            if entry.event == "delivered"
            for _, _, count in entry.fields["r"]
        )
        self.notes.append(
            f"{report.produced} records, {report.delivered + report.redelivered} deliveries, "
            f"highest delivery count {highest}"
        )


async def outage(
    number: int, seed: int, *, kills: bool = False, size: OutageSize | None = None
) -> Outcome:
    """Run one trial; its time is from the end of the outage until its records are finished."""
    size = size or OutageSize()
    with tempfile.TemporaryDirectory(prefix="sharemesh-delivery-") as folder:
        work = Path(folder)
        load = Load(
            topic="orders",
            group="billing",
            partitions=size.partitions,
            fields=ROW.count(b",") + 1,
            dependency=work / "dependency",
            settings=ServeSettings(data_directory=work / "data", cluster_id="delivery"),
        )
        needed = Dependency(work / "dependency")
        await needed.start()
        try:
            async with LoadedMesh(work, load) as loaded:
                await loaded.prepare()
                trial = OutageTrial(loaded, needed, size)
                took_ms = await trial.run(random.Random(seed) if kills else None)
        finally:
            await needed.stop()
    return Outcome(tuple(trial.violations), (took_ms,), "; ".join(trial.notes))


FAULTS = (
    Fault("outage", 20, outage, goal_ms=30_000),
    Fault("outage_kill", 20, partial(outage, kills=True), goal_ms=30_000),
    Fault("kills", 20, kills_between_decisions),
)
