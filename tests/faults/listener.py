"""Part listener of `make faults`: Kafka's own clients, while what they are connected to fails.

Three clients (Java's kafka-clients, librdkafka and franz-go) consume the same records of one mesh,
each as a share group of five members on four partitions, through a proxy. A row is a fault under
one client; rows of one fault share their meshes. Its time is from the fault, or from the end of
trouble with frames, until every partition delivered to that client what was produced later and had
an acknowledgement confirmed. A partition or member that does not go on within a minute is a
violation, as is whatever the history of the group breaks.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial

from sharemesh.client.errors import SharemeshError
from tests.faults.brokers.frame_proxy import Mishap
from tests.faults.failover import busiest_state_leader, group_leader
from tests.faults.kafka_clients.client_load import BOUND_S, ClientLoad, client_load
from tests.faults.kafka_clients.programs import PROGRAMS
from tests.faults.trials import Outcome, SharedSeries
from tests.history.journal import now_ms

GOAL_MS = 20_000.0
GRACE_MS = 20  # answers that were on their way
TROUBLE_S = 5.0
CUT_SHARE = 0.04
LATE_SHARE = 0.1
LATE_S = (0.2, 3.0)
CUTS = 4
MOVED_S = 40.0
POLL_S = 0.1
KEYS = frozenset({3, 10, 18, 76, 78, 79})
"""What share consumers ask: Metadata, FindCoordinator, ApiVersions, the three of share groups."""

Trial = Callable[[ClientLoad], Awaitable[tuple[float, str]]]


async def leader_killed(load: ClientLoad) -> tuple[float, str]:
    """SIGKILL of the share leader that leads most partitions."""
    index, led = await load.loaded.busiest_leader()
    return load.kill("share-leader", index), f"{len(led)} partitions"


async def share_coordinator_killed(load: ClientLoad) -> tuple[float, str]:
    """SIGKILL of the share coordinator that leads most shards."""
    index, led, shards = await busiest_state_leader(load.loaded)
    return load.kill("share-coordinator", index), f"{led} of {shards} shards"


async def group_coordinator_killed(load: ClientLoad) -> tuple[float, str]:
    """SIGKILL of the coordinator of one of the groups.

    Members read on meanwhile: what counts is that each has a heartbeat answered again.
    """
    group = load.rng.choice(load.groups)
    index = await group_leader(load.loaded, group.group)
    at_ms = load.kill("group-coordinator", index)
    deadline_ms = at_ms + BOUND_S * 1_000
    while silent := [each for each in group.members if load.heartbeat_ms(each) < at_ms + GRACE_MS]:
        if now_ms() > deadline_ms:
            group.violations.append(f"no heartbeat for {BOUND_S:.0f} s: {', '.join(silent)}")
            break
        await asyncio.sleep(POLL_S)
    took_ms = max(load.heartbeat_ms(each) for each in group.members) - at_ms
    return at_ms, f"heartbeats of {group.kind} after {took_ms:.0f} ms"


async def partitions_moved(load: ClientLoad) -> tuple[float, str]:
    """SIGTERM of the busiest leader: its partitions are handed over, and come back later.

    What counts is what is delivered after the last of them has moved.
    """
    index, led = await load.loaded.busiest_leader()
    at_ms = load.kill("share-leader", index, signal.SIGTERM)
    async with asyncio.timeout(MOVED_S):
        while await _leads(load, f"share-leader-{index}"):
            await asyncio.sleep(POLL_S)
    return at_ms, f"{len(led)} partitions, moved after {now_ms() - at_ms:.0f} ms"


async def _leads(load: ClientLoad, node_id: str) -> bool:
    try:
        return bool(await load.loaded.partitions_led_by(node_id))
    except SharemeshError:  # whoever was asked ends just now
        return True


async def connections_cut(load: ClientLoad) -> tuple[float, str]:
    """All connections end at once, wherever their frames are, some times in a row."""
    ended = load.proxy.cut()
    for _ in range(CUTS - 1):
        await asyncio.sleep(load.rng.uniform(0.1, 1.5))
        ended += load.proxy.cut()
    return now_ms(), f"{ended} connections"


async def frames_cut(load: ClientLoad) -> tuple[float, str]:
    """Requests and answers end in their middle, answers are lost, each with its connection."""
    return await _troubled(
        load, (Mishap.REQUEST_CUT, Mishap.ANSWER_CUT, Mishap.ANSWER_LOST), CUT_SHARE
    )


async def frames_late(load: ClientLoad) -> tuple[float, str]:
    """Answers, and what is behind them, come late; of some one half long before the other."""
    return await _troubled(load, (Mishap.ANSWER_LATE, Mishap.ANSWER_HALVED), LATE_SHARE)


async def _troubled(
    load: ClientLoad, mishaps: tuple[Mishap, ...], share: float
) -> tuple[float, str]:
    proxy = load.proxy
    before = proxy.happened.copy()
    proxy.keys, proxy.mishaps, proxy.share, proxy.late_s = KEYS, mishaps, share, LATE_S
    try:
        await asyncio.sleep(TROUBLE_S)
    finally:
        proxy.mishaps = ()
    happened = proxy.happened - before
    if not happened:
        load.violations.append(f"none of {[each.value for each in mishaps]} happened")
    told = ", ".join(f"{times} {name}" for name, times in sorted(happened.items()))
    return now_ms(), told


async def series(
    trial: Trial, names: Sequence[str], count: int, seed: int
) -> AsyncIterator[tuple[str, Outcome]]:
    """Run one fault ``count`` times on one mesh; judge the history of each client in it."""
    what = trial.__name__
    kinds = [name.removeprefix(f"{what}_") for name in names]
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    notes = []
    async with client_load(kinds, seed, f"listener-{what}") as load:
        for _ in range(count):
            at_ms, note = await trial(load)
            for kind, took_ms in (await load.until_fresh(at_ms)).items():
                times[kind].append(took_ms)
            notes.append(note)
            await load.flowing()
    for group in load.groups:
        violations = (*load.violations, *group.violations)
        told = "; ".join([*notes, group.told])
        outcome = Outcome(violations, tuple(times[group.kind]), told, trials=count)
        yield f"{what}_{group.kind}", outcome


def rows(trial: Trial, goal_ms: float = GOAL_MS) -> SharedSeries:
    """Return the rows of one fault: one for each client."""
    names = tuple(f"{trial.__name__}_{kind}" for kind in PROGRAMS)
    return SharedSeries(names, 20, partial(series, trial), goal_ms=goal_ms)


FAULTS = (
    rows(leader_killed),
    rows(share_coordinator_killed),
    rows(group_coordinator_killed),
    rows(partitions_moved),
    rows(connections_cut),
    rows(frames_cut),
    rows(frames_late),
)
