"""Kafka loses confirmed records, or a whole topic: found and said, never passed over in silence.

Both happen to a topic beside the load, which goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable

from tests.faults.brokers.broker_load import BrokerLoad
from tests.faults.brokers.side_topic import SideTopic
from tests.history.journal import now_ms

BEFORE, LOST, ANEW, BEYOND = 20, 20, 5, 40
WAIT_S = 30
SILENT_S = 5.0
GONE_S = 200
"""Three answers over a minute, of which the mirror asks one each 30 s."""


async def unclean_election(load: BrokerLoad) -> tuple[float, str]:
    """A replica that was left behind becomes the leader, and its log is filled up anew.

    Half of what it lacks was acknowledged. Nothing that lies in the place of lost records is
    delivered before somebody gave the loss up by moving the log start behind it.
    """
    first, second = load.rng.sample(list(load.brokers.processes), 2)
    side = SideTopic(load, f"unsure-{now_ms():.0f}")
    load.excused.append(side.name)
    unsafe = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    await side.make((first, second), unsafe)
    await side.attach()
    await side.write(BEFORE, "before")
    await side.consume(set(side.values.values()))
    load.brokers.kill(second)
    await _until(lambda: _leads_alone(load, side.name, first), f"{side.name} is led by one")
    await side.write(LOST, "lost")
    await side.consume({value for offset, value in side.values.items() if offset < LOST * 3 // 2})
    load.brokers.kill(first)
    load.brokers.start(second)
    await load.brokers.started(second)
    at_ms = now_ms()
    await _until(lambda: _leads(load, side.name, second), f"{side.name} is led by the other")
    await side.write(ANEW, "anew")
    await side.until_reason("DAMAGED", BEFORE, WAIT_S)
    said_ms = now_ms() - at_ms
    await side.consume({b"nothing that comes"}, SILENT_S)
    for offset, value in side.seen:
        if value.startswith(b"anew"):
            text = f"{side.name}@{offset} was delivered in the place of a lost record, unasked"
            load.steady.violations.append(text)
    load.brokers.start(first)
    await load.brokers.started(first)
    await side.write(BEYOND, "beyond")
    end = BEFORE + LOST
    await load.admin.delete_below(side.name, {0: end})
    wanted = {value for offset, value in side.values.items() if offset >= end}
    await side.consume(wanted, WAIT_S)
    side.lost(wanted, "behind the loss were never delivered")
    return said_ms, f"broker {second} before {first}, said after {said_ms:.0f} ms,"


async def topic_recreated(load: BrokerLoad) -> tuple[float, str]:
    """A topic is deleted and made again under its name: its records are others, all delivered."""
    side = SideTopic(load, f"again-{now_ms():.0f}")
    load.excused.append(side.name)
    brokers = list(load.brokers.processes)
    await side.make(brokers)
    await side.attach()
    await side.write(BEFORE, "first life")
    await side.consume(set(side.values.values()))
    side.lost(set(side.values.values()), "of the first life were never delivered")
    await side.remove()
    await _until(lambda: _is_gone(load, side.name), f"{side.name} is gone")
    had = len(side.seen)
    await side.make(brokers)
    side.values.clear()
    await side.write(BEFORE, "second life")
    at_ms = now_ms()
    await side.consume(set(side.values.values()), GONE_S)
    side.lost(set(side.values.values()), "of the second life were never delivered")
    for offset, value in side.seen[had:]:
        if side.values.get(offset) != value:
            text = f"{side.name}@{offset} was delivered as {value!r}, which was deleted"
            load.steady.violations.append(text)
    return now_ms() - at_ms, f"{len(side.seen) - had} records of the second life,"


async def _leads(load: BrokerLoad, topic: str, broker: int) -> bool:
    return (await load.admin.leaders(topic)).get(0) == broker


async def _leads_alone(load: BrokerLoad, topic: str, broker: int) -> bool:
    return await load.admin.in_sync(topic) == {broker}


async def _is_gone(load: BrokerLoad, topic: str) -> bool:
    return not await load.admin.leaders(topic)


async def _until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline_ms = now_ms() + WAIT_S * 1_000
    while not await condition():
        if now_ms() > deadline_ms:
            raise TimeoutError(f"not within {WAIT_S} s: {what}")
        await asyncio.sleep(0.1)
