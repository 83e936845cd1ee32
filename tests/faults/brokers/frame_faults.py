"""Frames between Sharemesh and its brokers are late, doubled, cut or lost, alone and with kills."""

import asyncio

from tests.faults.brokers.broker_load import BrokerLoad
from tests.faults.brokers.frame_proxy import FETCH_KEY, PRODUCE_KEY, Mishap
from tests.history.journal import now_ms

TROUBLE_S = 5.0
SHARE = 0.05
MOST = 0.5
BEFORE_KILL_S = 0.3


async def _troubled(
    load: BrokerLoad, mishaps: tuple[Mishap, ...], keys: tuple[int, ...]
) -> tuple[float, str]:
    proxy = load.proxy
    assert proxy is not None
    before = proxy.happened.copy()
    proxy.keys, proxy.mishaps, proxy.share = frozenset(keys), mishaps, SHARE
    try:
        await asyncio.sleep(TROUBLE_S)
    finally:
        proxy.mishaps = ()
    took_ms = await load.until_fresh(now_ms(), load.marks())
    happened = proxy.happened - before
    if not happened:
        load.steady.violations.append(f"none of {[each.value for each in mishaps]} happened")
    return took_ms, f"{sum(happened.values())} frames"


async def late_request(load: BrokerLoad) -> tuple[float, str]:
    """Writes to the own topics arrive after their senders gave them up, or twice."""
    return await _troubled(load, (Mishap.LATE, Mishap.DOUBLED), (PRODUCE_KEY,))


async def answer_lost(load: BrokerLoad) -> tuple[float, str]:
    """Answers to writes and reads are lost with their connections, or late."""
    mishaps = (Mishap.ANSWER_LOST, Mishap.ANSWER_LATE)
    return await _troubled(load, mishaps, (PRODUCE_KEY, FETCH_KEY))


async def frame_cut(load: BrokerLoad) -> tuple[float, str]:
    """Requests and answers end in their middle."""
    mishaps = (Mishap.REQUEST_CUT, Mishap.ANSWER_CUT)
    return await _troubled(load, mishaps, (PRODUCE_KEY, FETCH_KEY))


async def late_after_take_over(load: BrokerLoad) -> tuple[float, str]:
    """Most writes are held, their coordinator dies, and they arrive when another one leads."""
    proxy = load.proxy
    assert proxy is not None
    index = load.rng.randrange(2)
    proxy.keys, proxy.mishaps, proxy.share = frozenset({PRODUCE_KEY}), (Mishap.LATE,), MOST
    try:
        await asyncio.sleep(BEFORE_KILL_S)
    finally:
        proxy.mishaps = ()
    marks, at_ms = load.marks(), now_ms()
    load.mesh.kill_role("share-coordinator", index)
    return await load.until_fresh(at_ms, marks), f"share-coordinator-{index}"
