"""Part client of `make faults`: consumers under `run(handler)` while everything around them dies.

Four consumer processes; a leader, a coordinator or a consumer is killed every few seconds, drawn by
the seed. The journals of all processes are judged against the durable state: nothing lost, nothing
delivered again after its acknowledgement was confirmed. Afterwards every consumer must go on.
"""

import asyncio
import contextlib
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sharemesh.serve.settings.settings import ServeSettings
from tests.faults.trials import Fault, Outcome
from tests.history.journal import Entry, now_ms
from tests.mesh.loaded_mesh import Load, LoadedMesh

CHAOS_S = 180.0
RATE_PER_S = 400
CONSUMERS = 4
HOLD_MS = 20
KILL_EVERY_S = (2.0, 5.0)
GOES_ON_TIMEOUT_S = 60
FINISH_TIMEOUT_S = 60
POLL_S = 0.2
ROW = b"a,b,c"
ROLES = {"share-leader": 3, "share-coordinator": 2, "group-coordinator": 2}
CONSUMER = "consumer"


class Chaos:
    """One trial: a mesh, its consumers, and what was killed when."""

    def __init__(self, loaded: LoadedMesh, rng: random.Random) -> None:
        self._scene = loaded
        self._rng = rng
        self._started = 0
        self._producing = True
        self.consumers: list[str] = []
        self.kills: list[tuple[str, float]] = []
        self.violations: list[str] = []

    def start_consumer(self) -> None:
        """Start one more consumer under a name that was never used."""
        self._started += 1
        name = f"consumer-{self._started}"
        self._scene.start_worker(name, "holder")
        self.consumers.append(name)

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows until told to stop."""
        number = 0
        while self._producing:
            number += 1
            yield str(number).encode(), ROW

    async def run(self, chaos_s: float) -> None:
        """Produce and kill for so long, then see everybody go on and everything end."""
        for _ in range(CONSUMERS):
            self.start_consumer()
        producing = asyncio.ensure_future(
            self._scene.produce(self.rows(), per_second=RATE_PER_S, spread=True)
        )
        try:
            await self._all_deliver("at the start")
            await self._kill_for(chaos_s)
            if not await self._scene.all_ready():
                self.violations.append("a killed process was not ready again within 60 s")
            await self._all_deliver("after the last kill")
        finally:
            self._producing = False
            with contextlib.suppress(asyncio.CancelledError):
                await producing
        if not await self._scene.finished(FINISH_TIMEOUT_S):
            lag = await self._scene.lag()
            self.violations.append(f"lag is {lag} after {FINISH_TIMEOUT_S} s: stuck")
        await self._scene.stop_workers()
        self.violations += self._scene.verdict(self._scene.state()).violations

    async def _kill_for(self, chaos_s: float) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + chaos_s
        while (left_s := ends - loop.time()) > 0:
            await asyncio.sleep(min(self._rng.uniform(*KILL_EVERY_S), left_s))
            victim = self._rng.choice([*ROLES, CONSUMER])
            if victim == CONSUMER:
                name = self._rng.choice(self.consumers)
                self.consumers.remove(name)
                self.kills.append((victim, self._scene.kill_worker(name)))
                self.start_consumer()
            else:
                index = self._rng.randrange(ROLES[victim])
                with contextlib.suppress(ProcessLookupError):  # it is being started again
                    self.kills.append((victim, self._scene.kill_role(victim, index)))

    async def _all_deliver(self, when: str) -> None:
        """Wait until every living consumer has got a record from now on."""
        loop = asyncio.get_running_loop()
        since_ms, deadline = now_ms(), loop.time() + GOES_ON_TIMEOUT_S
        while waiting := self._without_delivery(since_ms):
            if loop.time() > deadline:
                self.violations.append(
                    f"{when}: {', '.join(sorted(waiting))} got nothing for {GOES_ON_TIMEOUT_S} s"
                )
                return
            await asyncio.sleep(POLL_S)

    def _without_delivery(self, since_ms: float) -> set[str]:
        going = {
            entry.who
            for entry in self._scene.entries()
            if entry.event == "delivered" and entry.time_ms > since_ms
        }
        return set(self.consumers) - going


async def client_chaos(number: int, seed: int, *, chaos_s: float = CHAOS_S) -> Outcome:
    """Run one trial; its times are from each kill to the next confirmed acknowledgement."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="sharemesh-client-") as folder:
        work = Path(folder)
        load = Load(
            partitions=4,
            fields=ROW.count(b",") + 1,
            hold_ms=HOLD_MS,
            settings=ServeSettings(data_directory=work / "data", cluster_id="chaos"),
        )
        async with LoadedMesh(work, load) as loaded:
            await loaded.prepare()
            chaos = Chaos(loaded, rng)
            await chaos.run(chaos_s)
            entries = loaded.entries()
    notes = f"{loaded.produced} records, kills: {', '.join(who for who, _ in chaos.kills)}"
    times = tuple(_next_confirmation(entries, at_ms) for _, at_ms in chaos.kills)
    return Outcome(tuple(chaos.violations), times, notes)


def _next_confirmation(entries: list[Entry], at_ms: float) -> float:
    for entry in entries:
        confirmed = entry.event == "acknowledged" and entry.fields["error"] is None
        if confirmed and entry.time_ms > at_ms:
            return entry.time_ms - at_ms
    return float("inf")


FAULTS = (Fault("client_chaos", 3, client_chaos),)
