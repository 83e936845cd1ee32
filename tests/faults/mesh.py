"""Kill -9 of each role in turn, in the whole mesh under load: nothing lost, nothing twice."""

import asyncio
import random
import tempfile
from pathlib import Path

from examples.demo import flights

from sharemesh.serve.settings.settings import ServeSettings
from tests.faults.trials import Fault, Outcome
from tests.history.journal import Entry
from tests.mesh.loaded_mesh import Load, LoadedMesh
from tests.mesh.outcome import held_at

RECORDS = 45_000
RATE_PER_S = 2_500
HELD_MIN = 500
HELD_TIMEOUT_S = 15
FINISH_TIMEOUT_S = 60
WORKERS = {"anna": "greedy", "bert": "greedy", "carl": "greedy", "dora": "steady"}
ROLES = {
    "share-leader": 3,
    "share-coordinator": 2,
    "group-coordinator": 2,
    "controller": 1,
}


async def kill_each_role(number: int, seed: int) -> Outcome:
    """Run the mesh under load and kill one process of each role, in an order drawn by the seed."""
    rng = random.Random(seed)
    rows = [(row.key, row.value) for row in flights.rows(RECORDS, rng)]
    with tempfile.TemporaryDirectory(prefix="sharemesh-mesh-") as folder:
        work = Path(folder)
        load = Load(
            partitions=4,
            fields=flights.field_count(),
            settings=ServeSettings(data_directory=work / "data", cluster_id="mesh"),
        )
        async with LoadedMesh(work, load) as loaded:
            return await _trial(loaded, rows, rng)


async def _trial(
    loaded: LoadedMesh, rows: list[tuple[bytes, bytes]], rng: random.Random
) -> Outcome:
    await loaded.prepare()
    for name, behaviour in WORKERS.items():
        loaded.start_worker(name, behaviour)
    producing = asyncio.ensure_future(loaded.produce(rows, per_second=RATE_PER_S))
    violations: list[str] = []
    kills: list[tuple[str, float]] = []
    try:
        order = list(ROLES)
        rng.shuffle(order)
        for role in order:
            await asyncio.sleep(1 + rng.random())
            held = await _until_held(loaded)
            if held < HELD_MIN:
                violations.append(f"only {held} locks were held before the kill of {role}")
            kills.append((role, loaded.kill_role(role, rng.randrange(ROLES[role]))))
            if not await loaded.all_ready():
                violations.append(f"{role} was not ready again within 60 s")
        await producing
    finally:
        producing.cancel()
        await asyncio.gather(producing, return_exceptions=True)
    if not await loaded.finished(FINISH_TIMEOUT_S):
        violations.append(f"lag is {await loaded.lag()} after {FINISH_TIMEOUT_S} s: stuck")
    await loaded.stop_workers()
    state = loaded.state()
    violations += loaded.verdict(state).violations
    ended = len(state.acknowledged | state.archived)
    if ended != len(rows):
        violations.append(f"{ended} of {len(rows)} records ended acknowledged or archived")
    entries = loaded.entries()
    return Outcome(
        tuple(violations),
        tuple(_next_confirmation(entries, at_ms) for _, at_ms in kills),
        notes=",".join(role for role, _ in kills),
    )


def _next_confirmation(entries: list[Entry], at_ms: float) -> float:
    for entry in entries:
        confirmed = entry.event == "acknowledged" and entry.fields["error"] is None
        if confirmed and entry.time_ms > at_ms:
            return entry.time_ms - at_ms
    return float("inf")


async def _until_held(loaded: LoadedMesh) -> int:
    """Wait until consumers hold enough locks, so that a kill hits something."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + HELD_TIMEOUT_S
    while True:
        entries = loaded.entries()
        held = sum(
            len(offsets)
            for name in WORKERS
            for offsets in held_at(entries, name, float("inf")).values()
        )
        if held >= HELD_MIN or loop.time() > deadline:
            return held
        await asyncio.sleep(0.02)


FAULTS = (Fault("kill_each_role", 10, kill_each_role),)
