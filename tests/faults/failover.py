"""Part failover of `make faults`: who dies, freezes, drains or is cut off, and how soon it heals.

Each time is the worst over all partitions concerned: from the fault until the last of them
delivers again, under a new leader epoch where the leader changed.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from random import SystemRandom

from sharemesh.backends.etcd.coordination import EtcdCoordination
from sharemesh.backends.local.clock import SystemClock
from sharemesh.client.errors import SharemeshError
from tests.faults.cut_off import leader_cut_off
from tests.faults.draining import drain, rolling_restart
from tests.faults.steady import Size, SteadyLoad, steady_load
from tests.faults.trials import Fault, Outcome, Series
from tests.history.journal import now_ms
from tests.mesh.loaded_mesh import LoadedMesh

RECOVERY_TIMEOUT_S = 30
ATTEMPTS = 3
PROBE_S = 0.05
PROBE_TIMEOUT_S = 5
FROZEN_UNDER_LOAD_S = 1.0
GRACE_MS = 20
GRACE_S = GRACE_MS / 1_000
Trial = Callable[[SteadyLoad], Awaitable[tuple[float, str]]]


async def series(trial: Trial, count: int, seed: int, *, size: Size | None = None) -> Outcome:
    """Run a fault ``count`` times on one mesh under load; judge the history of all of it."""
    times: list[float] = []
    notes: list[str] = []
    async with steady_load(size or Size(), seed) as load:
        for _ in range(count * ATTEMPTS):
            await load.flowing()
            load.counts = True
            took_ms, note = await trial(load)
            if load.counts:
                times.append(took_ms)
            notes.append(note if load.counts else f"not counted: {note}")
            if len(times) == count:
                break
        else:
            load.violations.append(f"only {len(times)} of {count} trials hit enough locks")
        await load.flowing()
    return Outcome(tuple(load.violations), tuple(times), "; ".join(notes), trials=count)


async def in_turn(trials: Sequence[Trial], seed: int, *, size: Size) -> Outcome:
    """Run several faults once each, one after the other on one mesh; judge all of it."""
    times: list[float] = []
    notes: list[str] = []
    async with steady_load(size, seed) as load:
        for trial in trials:
            await load.flowing()
            took_ms, note = await trial(load)
            times.append(took_ms)
            notes.append(f"{getattr(trial, '__name__', trial)}: {took_ms:.0f} ms, {note}")
        await load.flowing()
    return Outcome(tuple(load.violations), tuple(times), "; ".join(notes), trials=len(trials))


async def until_led_anew(load: SteadyLoad, led: Mapping[str, int], at_ms: float) -> float:
    """Wait until each partition delivered above the leader epoch given; return ms since the fault.

    The epochs are those under which the failed node led: one that had just taken a partition over
    may not have delivered under its own epoch yet.
    """
    return await load.until_each(
        led,
        lambda name: load.tail.first_delivery_ms(name, at_ms, above=led[name]),
        at_ms,
        RECOVERY_TIMEOUT_S,
        "partitions deliver under a new leader epoch",
    )


def check_held(load: SteadyLoad, partitions: Collection[str], at_ms: float) -> int:
    """Return locks held at the fault; with too few of them the trial does not count."""
    load.tail.read()
    held = load.locks(partitions, at_ms)
    if held < load.size.held_min:
        load.counts = False
    return held


def check_unmoved(load: SteadyLoad, epochs: dict[str, int]) -> None:
    """Do not count a trial of others than leaders in which partitions moved for the balance.

    Those wait for their holders, whatever was killed.
    """
    load.tail.read()
    now = load.tail.epochs()
    if any(now.get(name, epoch) > epoch for name, epoch in epochs.items()):
        load.counts = False


async def leader_kill(load: SteadyLoad) -> tuple[float, str]:
    """SIGKILL of the share leader that leads most partitions."""
    index, led = await load.busiest_leader()
    at_ms = load.loaded.kill_role("share-leader", index)
    held = check_held(load, led, at_ms)
    took_ms = await until_led_anew(load, led, at_ms)
    return took_ms, f"{len(led)} partitions, {held} locks"


async def lease_revoked(load: SteadyLoad) -> tuple[float, str]:
    """The lease of a live leader is revoked by hand."""
    index, led = await load.busiest_leader()
    lease_id = load.loaded.cluster.status("share-leader", index).lease_ids[-1]
    store = EtcdCoordination(
        load.loaded.cluster.etcd_endpoints, clock=SystemClock(), rng=SystemRandom()
    )
    try:
        at_ms = now_ms()
        await store.revoke(lease_id)
    finally:
        await store.close()
    held = check_held(load, led, at_ms)
    took_ms = await until_led_anew(load, led, at_ms)
    return took_ms, f"{len(led)} partitions, {held} locks"


async def leader_frozen(load: SteadyLoad) -> tuple[float, str]:
    """SIGSTOP of a leader past its lease, then SIGCONT under load."""
    index, led = await load.busiest_leader()
    at_ms = now_ms()
    load.loaded.cluster.kill("share-leader", index, signal.SIGSTOP)
    try:
        held = check_held(load, led, at_ms)
        took_ms = await until_led_anew(load, led, at_ms)
        await asyncio.sleep(FROZEN_UNDER_LOAD_S)
    finally:
        load.loaded.cluster.kill("share-leader", index, signal.SIGCONT)
    await asyncio.sleep(FROZEN_UNDER_LOAD_S)
    return took_ms, f"{len(led)} partitions, {held} locks"


async def share_coordinator_kill(load: SteadyLoad) -> tuple[float, str]:
    """SIGKILL of a share coordinator: until each partition has delivered and had acks confirmed.

    The one that leads most shards: one that was killed lately may lead nothing yet.
    """
    index, led, shards = await busiest_state_leader(load.loaded)
    load.tail.read()
    epochs = load.tail.epochs()
    at_ms = load.loaded.kill_role("share-coordinator", index)
    held = check_held(load, load.names, at_ms)
    await asyncio.sleep(GRACE_S)  # answers that were on their way

    def done_ms(name: str) -> float | None:
        confirmed = [t for t in load.tail.partitions[name].confirmed_ms if t > at_ms + GRACE_MS]
        delivered = load.tail.first_delivery_ms(name, at_ms)
        return max(min(confirmed), delivered) if confirmed and delivered is not None else None

    took_ms = await load.until_each(
        load.names,
        done_ms,
        at_ms,
        RECOVERY_TIMEOUT_S,
        "partitions deliver and acknowledgements are confirmed",
    )
    check_unmoved(load, epochs)
    return took_ms, f"{led} of {shards} shards, {held} locks"


async def busiest_state_leader(loaded: LoadedMesh) -> tuple[int, int, int]:
    """Return the index of the share coordinator that leads most shards, how many, and of all."""
    shards = (await loaded.admin.describe_cluster()).shards
    leaders = Counter(each.leader_id for each in shards if each.election.startswith("state-"))
    leader, led = leaders.most_common(1)[0]
    return int(leader.rsplit("-", 1)[1]), led, leaders.total()


async def group_coordinator_kill(load: SteadyLoad) -> tuple[float, str]:
    """SIGKILL of the group's coordinator: until it is described again and all is delivered."""
    group = load.loaded.load.group
    index = await group_leader(load.loaded, group)
    at_ms = load.loaded.kill_role("group-coordinator", index)
    held = check_held(load, load.names, at_ms)
    answered_ms = await _described_ms(load) - at_ms
    delivered_ms = await load.until_each(
        load.names,
        lambda name: load.tail.first_delivery_ms(name, at_ms),
        at_ms,
        RECOVERY_TIMEOUT_S,
        "every partition delivers",
    )
    note = f"{held} locks, delivered after {delivered_ms:.0f} ms"
    return max(answered_ms, delivered_ms), note


async def group_leader(loaded: LoadedMesh, group: str) -> int:
    """Return the index of a group's coordinator."""
    described = (await loaded.admin.describe_groups([group]))[group]
    if isinstance(described, SharemeshError):
        raise described
    return int(described.coordinator_id.rsplit("-", 1)[1])


async def _described_ms(load: SteadyLoad) -> float:
    group = load.loaded.load.group
    loop = asyncio.get_running_loop()
    deadline = loop.time() + RECOVERY_TIMEOUT_S
    while loop.time() < deadline:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                found = (await load.loaded.admin.describe_groups([group]))[group]
        except (SharemeshError, TimeoutError):
            await asyncio.sleep(PROBE_S)
            continue
        if not isinstance(found, SharemeshError) and len(found.members) == load.size.workers:
            return now_ms()
        await asyncio.sleep(PROBE_S)
    load.violations.append(f"the group was not described within {RECOVERY_TIMEOUT_S} s")
    return float("inf")


async def consumer_kill(load: SteadyLoad) -> tuple[float, str]:
    """SIGKILL of a consumer: until all its partitions deliver to others."""
    load.tail.read()
    recent_ms = now_ms() - 1_000
    latest = {
        name: max(tail.deliveries, key=lambda seen: seen.time_ms)
        for name, tail in load.tail.partitions.items()
        if tail.deliveries
    }
    victim = load.rng.choice(sorted({seen.who for seen in latest.values()}))
    partitions = {
        name for name, seen in latest.items() if seen.who == victim and seen.time_ms > recent_ms
    }
    at_ms = load.loaded.kill_worker(victim)
    load.start_worker()
    check_held(load, load.names, at_ms)
    took_ms = await load.until_each(
        partitions,
        lambda name: load.tail.first_delivery_ms(name, at_ms, other_than=victim),
        at_ms,
        RECOVERY_TIMEOUT_S,
        "the partitions of a dead consumer deliver to others",
    )
    load.counts = load.counts and bool(partitions)
    return took_ms, f"{len(partitions)} partitions"


FAULTS: tuple[Fault | Series, ...] = (
    Series("leader_kill", 20, partial(series, leader_kill), at_once=10, goal_ms=5_000),
    Series(
        "group_coordinator_kill",
        20,
        partial(series, group_coordinator_kill),
        at_once=10,
        goal_ms=5_000,
    ),
    Series(
        "share_coordinator_kill",
        20,
        partial(series, share_coordinator_kill),
        at_once=10,
        goal_ms=5_000,
    ),
    Series("consumer_kill", 20, partial(series, consumer_kill), at_once=10, goal_ms=6_000),
    Series("lease_revoked", 20, partial(series, lease_revoked), at_once=10, goal_ms=5_000),
    Series("leader_frozen", 10, partial(series, leader_frozen), at_once=5, goal_ms=13_000),
    Fault("leader_cut_off", 10, leader_cut_off, goal_ms=13_000),
    Series("drain", 20, partial(series, drain), at_once=10, goal_ms=500),
    Series("rolling_restart", 20, partial(series, rolling_restart), at_once=5, goal_ms=500),
)
