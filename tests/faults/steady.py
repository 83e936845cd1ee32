"""Steady load on a whole mesh, over several faults: 64 partitions, 2,000 records/s, 8 consumers.

Consumers hold each record for two seconds, so that a fault finds thousands of locks and writes
under way. The history of the whole series is judged once, at its end.
"""

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sharemesh.client.errors import SharemeshError
from sharemesh.serve.settings.settings import ServeSettings, UpSettings
from tests.faults.tail import Tail
from tests.history.journal import now_ms
from tests.mesh.loaded_mesh import Load, LoadedMesh

FIELDS = 4
POLL_S = 0.05
SETTLE_TIMEOUT_S = 60
FINISH_TIMEOUT_S = 90
KEEP_MS = 10_000  # what is asked of the journals at a fault is not to hold up this process
BAD_SHARE = 0.02
TOLD_MAX = 3


@dataclass(frozen=True, slots=True)
class Size:
    """How much load: the shipped figures, or less for `make test`."""

    partitions: int = 64
    per_second: int = 2_000
    workers: int = 8
    hold_ms: int = 2_000
    held_min: int = 500
    drain_held_min: int = 1_000


SMALL = Size(partitions=8, per_second=250, workers=2, hold_ms=800, held_min=40, drain_held_min=50)


def rows_while(going: Callable[[], bool], rng: random.Random) -> Iterator[tuple[bytes, bytes]]:
    """Yield rows while the load goes on; a few have a field too many and are to be rejected."""
    number = 0
    while going():
        fields = [b"%08d" % number, b"x" * 60, b"y", b"z"]
        if rng.random() < BAD_SHARE:
            fields.append(b"bad")
        yield b"%d" % number, b",".join(fields)
        number += 1


@dataclass(slots=True)
class SteadyLoad:
    """A mesh with running producer and consumers; ``violations`` collects what must not be.

    ``late`` is how many acknowledgements changed nothing any more, though they were confirmed, and
    ``repeated`` how many records the producer wrote once more.
    """

    loaded: LoadedMesh
    size: Size
    rng: random.Random
    tail: Tail
    violations: list[str] = field(default_factory=list)
    counts: bool = True
    late: int = 0
    repeated: int = 0
    producing: "asyncio.Task[None] | None" = None
    _stop: bool = False
    _workers: int = 0

    @property
    def names(self) -> set[str]:
        """All partitions."""
        topic = self.loaded.load.topic
        return {f"{topic}/{number}" for number in range(self.size.partitions)}

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows until the load ends."""
        return rows_while(lambda: not self._stop, self.rng)

    def start_worker(self) -> str:
        """Start one more consumer and return its name."""
        self._workers += 1
        name = f"worker-{self._workers}"
        self.loaded.start_worker(name, "holder")
        return name

    async def start(self) -> None:
        """Create topic and group, start consumers and producer, wait until everything flows."""
        await self.loaded.prepare()
        for _ in range(self.size.workers):
            self.start_worker()
        self.producing = asyncio.create_task(
            self.loaded.produce(self.rows(), per_second=self.size.per_second, spread=True)
        )
        await self.flowing()

    async def until_each(
        self,
        names: Collection[str],
        happened_ms: Callable[[str], float | None],
        since_ms: float,
        timeout_s: float,
        what: str,
    ) -> float:
        """Poll the journals until something happened on each partition.

        Return how long after ``since_ms`` it did on the last. A partition on which it never does
        is a violation, and the time is infinite.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            self.tail.read()
            times = {name: happened_ms(name) for name in names}
            missing = sorted(name for name, time_ms in times.items() if time_ms is None)
            if not missing:
                found_ms = [time_ms for time_ms in times.values() if time_ms is not None]
                return max(found_ms, default=since_ms) - since_ms
            if self.producing is not None and self.producing.done():
                self.producing.result()
            if loop.time() > deadline:
                await self._tell_missing(missing, f"not within {timeout_s:.0f} s: {what}")
                return float("inf")
            await asyncio.sleep(POLL_S)

    async def _tell_missing(self, missing: list[str], what: str) -> None:
        try:
            leaders = await self.loaded.leaders()
        except SharemeshError as error:
            leaders = dict.fromkeys(missing, f"nobody who is known: {error}")
        told = [
            f"{name} (led by {leaders[name]}, delivered under epoch "
            f"{self.tail.partitions[name].epoch})"
            for name in missing[:TOLD_MAX]
        ]
        self.violations.append(f"{what}: {len(missing)} partitions, first {', '.join(told)}")

    async def flowing(self) -> None:
        """Wait until all processes are ready and every partition delivers and holds enough."""
        if not await self.loaded.all_ready():
            self.violations.append("not every process was ready again within 60 s")
        since_ms = now_ms()
        self.tail.forget_before(since_ms - KEEP_MS)

        await self.until_each(
            self.names,
            lambda name: self.tail.first_delivery_ms(name, since_ms),
            since_ms,
            SETTLE_TIMEOUT_S,
            "every partition delivers",
        )
        await asyncio.sleep(self.size.hold_ms / 1_000)  # then as many locks are held as will be

    async def busiest_leader(self) -> tuple[int, dict[str, int]]:
        """Return (index, leader epoch by partition) of the share leader that leads most."""
        return await self.loaded.busiest_leader()

    def locks(self, partitions: Collection[str], at_ms: float) -> int:
        """Return how many locks are held on partitions at a time just gone by."""
        return sum(map(len, self.tail.held(partitions, at_ms).values()))

    async def end(self) -> None:
        """Stop producing, let everything finish, judge the history of the series."""
        self._stop = True
        assert self.producing is not None
        await self.producing
        loaded = self.loaded
        if not await loaded.finished(FINISH_TIMEOUT_S):
            self.violations.append(f"lag is {await loaded.lag()} after {FINISH_TIMEOUT_S} s: stuck")
        await loaded.stop_workers()
        state = await asyncio.to_thread(loaded.state)
        report = await asyncio.to_thread(loaded.verdict, state)
        self.violations += report.violations
        self.late = report.late_acknowledgements
        ended = len(state.acknowledged | state.archived)
        produced = report.produced + loaded.unplaced
        if ended != produced:
            self.repeated = await asyncio.to_thread(loaded.repeated)
        if ended != produced + self.repeated:
            self.violations.append(
                f"{ended} of {produced} records ended, {self.repeated} of them lie there twice"
            )
        if self.violations:
            await asyncio.to_thread(loaded.keep, self.violations)


@asynccontextmanager
async def steady_load(
    size: Size,
    seed: int,
    *,
    serve: ServeSettings | None = None,
    up: UpSettings | None = None,
    extra: Callable[[LoadedMesh], AbstractAsyncContextManager[None]] | None = None,
    mesh: Callable[[Path, Load], LoadedMesh] = LoadedMesh,
) -> AsyncIterator[SteadyLoad]:
    """Run a mesh under load; leaving it judges the history, an error drops everything.

    ``extra`` adds to the cluster before the load begins; ``mesh`` makes it.
    """
    with tempfile.TemporaryDirectory(prefix="sharemesh-faults-") as folder:
        work = Path(folder)
        settings = serve or ServeSettings(data_directory=work / "data", cluster_id="faults")
        load = Load(
            topic="orders",
            group="billing",
            partitions=size.partitions,
            fields=FIELDS,
            hold_ms=size.hold_ms,
            settings=settings,
            up=up or UpSettings(base_port=0),
        )
        async with mesh(work, load) as loaded, AsyncExitStack() as stack:
            if extra is not None:
                await stack.enter_async_context(extra(loaded))
            running = SteadyLoad(loaded, size, random.Random(seed), Tail(loaded.journals))
            try:
                await running.start()
                yield running
                await running.end()
            finally:
                if running.producing is not None:
                    running.producing.cancel()
                    await asyncio.gather(running.producing, return_exceptions=True)
