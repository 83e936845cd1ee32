"""Networks part: a broker is cut off from the others, or from everybody, and let back in."""

import asyncio
from collections.abc import Callable

from tests.faults.brokers.broker_load import BrokerLoad
from tests.history.journal import now_ms

CUT_S = 15.0


async def zombie_broker(load: BrokerLoad) -> tuple[float, str]:
    """The broker that leads most of a topic is cut off from the others; clients still reach it.

    It goes on answering reads with old ends, takes writes that never commit, and names itself as
    the leader, while the others have elected another one.
    """
    topic = load.rng.choice((load.topic, load.state_topic))
    victim = await load.admin.busiest(topic)
    net, places = load.net, load.brokers.places
    assert net is not None
    name, _ = places[victim - 1]
    others = [address for found, address in places if found != name]
    took_ms = await _parted(load, lambda: net.part(name, others), lambda: net.join(name, others))
    return took_ms, f"broker {victim} of {topic},"


async def broker_cut_off(load: BrokerLoad) -> tuple[float, str]:
    """The broker that leads most of a topic is cut off from everybody without a word."""
    topic = load.rng.choice((load.topic, load.state_topic))
    victim = await load.admin.busiest(topic)
    net = load.net
    assert net is not None
    name, _ = load.brokers.places[victim - 1]
    took_ms = await _parted(load, lambda: net.cut(name), lambda: net.heal(name))
    return took_ms, f"broker {victim} of {topic},"


async def _parted(load: BrokerLoad, part: Callable[[], None], join: Callable[[], None]) -> float:
    marks, at_ms = load.marks(), now_ms()
    part()
    try:
        took_ms = await load.until_fresh(at_ms, marks)
        await asyncio.sleep(max(0.0, CUT_S - (now_ms() - at_ms) / 1_000))
    finally:
        join()
    await load.until_fresh(now_ms(), load.marks())
    return took_ms
