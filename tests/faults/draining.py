"""SIGTERM under load: what was acknowledged in time never comes again, and delivery goes on.

A partition is served until its turn to leave comes; its old leader grants nothing after its notice.
So the handover gap is counted from the last delivery of the old leader (or the signal, if that
is later) to the first one under the new leader epoch, whatever holders are busy with (HND-3). The
whole time since the signal is told in the notes.
"""

import asyncio
import signal
from collections.abc import Mapping

from sharemesh.serve.settings.settings import ServeSettings
from sharemesh.serve.supervise.child_process import ProcessState
from tests.faults.steady import SteadyLoad
from tests.faults.tail import largest_gap_ms, redelivered_after_decision
from tests.history.journal import now_ms

RECOVERY_TIMEOUT_S = 40
RESTART_TIMEOUT_MS = 60_000
BETWEEN_S = 0.5
LIMIT_MS = ServeSettings().drain_timeout_ms


async def drain(load: SteadyLoad) -> tuple[float, str]:
    """SIGTERM of the leader that leads most, with many locks held."""
    index, _ = await load.busiest_leader()
    return await drain_leader(load, index)


async def drain_leader(load: SteadyLoad, index: int, *, counts: bool = True) -> tuple[float, str]:
    """Drain one share leader; return its worst handover gap.

    With ``counts`` a trial with too few locks at the notice, or too few decided within the limit,
    does not count.
    """
    epochs = await load.loaded.partitions_led_by(f"share-leader-{index}")
    process = load.loaded.cluster.status("share-leader", index)
    restarts = process.restarts
    at_ms = now_ms()
    load.loaded.cluster.kill("share-leader", index, signal.SIGTERM)
    load.tail.read()
    held = load.tail.held(epochs, at_ms)
    whole_ms = await load.until_each(
        epochs,
        lambda name: load.tail.first_delivery_ms(name, at_ms, above=epochs[name]),
        at_ms,
        RECOVERY_TIMEOUT_S,
        "drained partitions deliver under a new leader epoch",
    )
    await asyncio.sleep(BETWEEN_S)
    load.tail.read()
    _check_redeliveries(load, epochs, at_ms)
    if counts:
        _check_counts(load, held, epochs, at_ms)
    gaps = [_handover_ms(load, name, at_ms, epoch) for name, epoch in epochs.items()]
    # While it still ends it counts as ready: the next trial is to find all leaders there.
    await load.loaded.cluster.wait_for(
        lambda: process.restarts > restarts and process.state is ProcessState.READY,
        RESTART_TIMEOUT_MS,
    )
    locks = sum(map(len, held.values()))
    note = f"{len(epochs)} partitions, {locks} locks, {whole_ms:.0f} ms until all had left"
    return max(gaps, default=0.0), note


def _handover_ms(load: SteadyLoad, name: str, at_ms: float, epoch: int) -> float:
    tail = load.tail.partitions[name]
    first_ms = load.tail.first_delivery_ms(name, at_ms, above=epoch)
    if first_ms is None:
        return float("inf")
    last_ms = max((s.time_ms for s in tail.deliveries if s.epoch == epoch), default=at_ms)
    return first_ms - max(at_ms, last_ms)


def _check_redeliveries(load: SteadyLoad, epochs: Mapping[str, int], at_ms: float) -> None:
    for name, epoch in sorted(epochs.items()):
        again = redelivered_after_decision(
            load.tail.partitions[name], epoch, at_ms - load.size.hold_ms, at_ms + LIMIT_MS
        )
        if again:
            load.violations.append(
                f"{len(again)} records of {name} came again though their holder had acknowledged "
                f"them within the drain limit, first {again[0]} of epoch {epoch}"
            )


def _check_counts(
    load: SteadyLoad, held: dict[str, set[int]], epochs: Mapping[str, int], at_ms: float
) -> None:
    locks = sum(map(len, held.values()))
    decided = sum(
        len(offsets & _decided(load, name, epochs[name], at_ms)) for name, offsets in held.items()
    )
    load.counts = locks >= load.size.drain_held_min and decided * 2 >= locks


def _decided(load: SteadyLoad, name: str, epoch: int, at_ms: float) -> set[int]:
    return {
        offset
        for seen in load.tail.partitions[name].decisions
        if seen.epoch == epoch and at_ms < seen.time_ms <= at_ms + LIMIT_MS
        for offset in range(seen.first, seen.last + 1)
    }


async def rolling_restart(load: SteadyLoad) -> tuple[float, str]:
    """SIGTERM of every share leader and coordinator, one after the other; worst delivery gap."""
    worst_ms = 0.0
    notes = []
    up = load.loaded.load.up
    for index in range(up.share_leaders):
        gap_ms, note = await drain_leader(load, index, counts=False)
        worst_ms = max(worst_ms, gap_ms)
        notes.append(note)
        await load.flowing()
    for role, number in (
        ("share-coordinator", up.share_coordinators),
        ("group-coordinator", up.group_coordinators),
    ):
        for index in range(number):
            since_ms = now_ms()
            load.loaded.cluster.kill(role, index, signal.SIGTERM)
            await asyncio.sleep(BETWEEN_S)
            await load.flowing()
            gap_ms = _worst_gap_ms(load, since_ms)
            worst_ms = max(worst_ms, gap_ms)
            notes.append(f"{role} {gap_ms:.0f} ms")
    return worst_ms, ", ".join(notes)


def _worst_gap_ms(load: SteadyLoad, since_ms: float) -> float:
    load.tail.read()
    until_ms = now_ms()
    gaps = []
    for name in load.names:
        times = [seen.time_ms for seen in load.tail.partitions[name].deliveries]
        gaps.append(largest_gap_ms(times, since_ms, until_ms))
    return max(gaps)
