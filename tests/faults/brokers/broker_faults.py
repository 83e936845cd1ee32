"""Brokers die, freeze, leave, lose their majority or hand partitions over, under load."""

import asyncio
from contextlib import suppress
from pathlib import Path

from tests.faults.brokers.broker_load import BrokerLoad
from tests.history.journal import now_ms

FROZEN_S = 15.0
DOWN_S = 5.0
FULL_S = 20
RESTART_S = (0.1, 5.0)


async def _killed(load: BrokerLoad, topic: str) -> tuple[float, str]:
    victim = await load.admin.busiest(topic)
    marks, at_ms = load.marks(), now_ms()
    load.brokers.kill(victim)
    took_ms = await load.until_fresh(at_ms, marks)
    await asyncio.sleep(load.rng.uniform(*RESTART_S))
    load.brokers.start(victim)
    await load.brokers.started(victim)
    return took_ms, f"broker {victim}"


async def record_broker_killed(load: BrokerLoad) -> tuple[float, str]:
    """SIGKILL of the broker that leads most partitions of the records; it comes back."""
    return await _killed(load, load.topic)


async def state_broker_killed(load: BrokerLoad) -> tuple[float, str]:
    """SIGKILL of the broker that leads most partitions of the state topic; it comes back."""
    return await _killed(load, load.state_topic)


async def broker_and_coordinator_killed(load: BrokerLoad) -> tuple[float, str]:
    """Both at once: shards are taken over while their partitions have no leader."""
    victim = await load.admin.busiest(load.state_topic)
    index = load.rng.randrange(2)
    marks, at_ms = load.marks(), now_ms()
    load.brokers.kill(victim)
    load.mesh.kill_role("share-coordinator", index)
    took_ms = await load.until_fresh(at_ms, marks)
    load.brokers.start(victim)
    await load.brokers.started(victim)
    return took_ms, f"broker {victim}, share-coordinator-{index}"


async def broker_frozen(load: BrokerLoad) -> tuple[float, str]:
    """SIGSTOP far beyond its session, then SIGCONT: a leader of yesterday under load."""
    topic = load.rng.choice((load.topic, load.state_topic))
    victim = await load.admin.busiest(topic)
    marks, at_ms = load.marks(), now_ms()
    load.brokers.freeze(victim)
    try:
        took_ms = await load.until_fresh(at_ms, marks)
        await asyncio.sleep(max(0.0, FROZEN_S - (now_ms() - at_ms) / 1_000))
    finally:
        load.brokers.thaw(victim)
    marks = load.marks()
    thawed_ms = await load.until_fresh(now_ms(), marks)
    return took_ms, f"broker {victim} of {topic}, thawed {thawed_ms:.0f} ms,"


async def disk_full(load: BrokerLoad) -> tuple[float, str]:
    """The disk of a broker fills to the last byte under the writes, and gets space again."""
    victim = len(load.brokers.processes)
    filler = load.brokers.data(victim) / "filler"
    marks, at_ms = load.marks(), now_ms()
    await asyncio.to_thread(_fill, filler)
    try:
        took_ms = await load.until_fresh(at_ms, marks)
        ended = await load.brokers.ended(victim, FULL_S)
    finally:
        filler.unlink()
    if ended:
        load.brokers.start(victim)
        await load.brokers.started(victim)
    return took_ms, f"broker {victim} {'ended' if ended else 'went on'},"


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as filler:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while filler.write(bytes(size)):
                    pass


async def leaders_moved(load: BrokerLoad) -> tuple[float, str]:
    """Reassignment and preferred election of all partitions of both topics."""
    marks, at_ms = load.marks(), now_ms()
    moved = await load.admin.move_leaders(load.topic)
    moved += await load.admin.move_leaders(load.state_topic)
    took_ms = await load.until_fresh(at_ms, marks)
    if not moved:
        load.steady.violations.append("no leader moved")
    return took_ms, f"{moved} leaders"


async def broker_left(load: BrokerLoad) -> tuple[float, str]:
    """A broker stops in order, as in a rolling restart, and comes back."""
    victim = load.rng.choice(list(load.brokers.processes))
    marks, at_ms = load.marks(), now_ms()
    await asyncio.to_thread(load.brokers.stop, victim)
    took_ms = await load.until_fresh(at_ms, marks)
    load.brokers.start(victim)
    await load.brokers.started(victim)
    return took_ms, f"broker {victim}"


async def _down(load: BrokerLoad, victims: list[int]) -> tuple[float, str]:
    for each in victims:
        load.brokers.kill(each)
    await asyncio.sleep(DOWN_S)
    for each in victims:
        load.brokers.start(each)
    await load.brokers.started(*victims)
    took_ms = await load.until_fresh(now_ms(), load.marks())
    return took_ms, f"brokers {victims}, after their start"


async def majority_down(load: BrokerLoad) -> tuple[float, str]:
    """Two of three die and come back: nothing can be written or elected meanwhile."""
    return await _down(load, load.rng.sample(list(load.brokers.processes), 2))


async def all_down(load: BrokerLoad) -> tuple[float, str]:
    """Every broker dies at once and comes back."""
    return await _down(load, list(load.brokers.processes))
