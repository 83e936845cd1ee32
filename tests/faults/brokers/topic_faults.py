"""Records are deleted under the readers; brokers throttle the principal, or forbid it things."""

import asyncio

from tests.faults.brokers import rights
from tests.faults.brokers.broker_load import BrokerLoad
from tests.history.journal import now_ms

DELETIONS = 10
KEPT = 20
PAUSE_S = 0.3
BYTES_A_SECOND = 4_000.0  # of each broker; the load needs about ten times as much
THROTTLED_S = 10.0
DENIED_S = 10.0
BLIPS = 8
BLIP_S = (0.2, 1.5)
CODECS = ("gzip", "zstd", "lz4", "snappy", "producer")
CODEC_S = 2.0
DENIAL = "TOPIC_AUTHORIZATION_FAILED"


async def retention_race(load: BrokerLoad) -> tuple[float, str]:
    """All but the newest records of each partition are deleted, again and again."""
    mesh = load.mesh
    gone = 0
    for _ in range(DELETIONS):
        ends = {}
        for name, newest in load.marks().items():
            end = newest - KEPT
            if end > 0:
                ends[int(name.rpartition("/")[2])] = end
                gone += end - len(mesh.deleted.get(name, ()))
                mesh.deletes_below(name, end)
        await load.admin.delete_below(load.topic, ends)
        await asyncio.sleep(PAUSE_S)
    return await load.until_fresh(now_ms(), load.marks()), f"{gone} records deleted"


async def quota_throttle(load: BrokerLoad) -> tuple[float, str]:
    """The brokers make this client wait for a tenth of what it needs, then no more."""
    client = load.mesh.load.settings.kafka_client_id
    await load.admin.throttle(client, BYTES_A_SECOND)
    try:
        await asyncio.sleep(THROTTLED_S)
    finally:
        await load.admin.throttle(client, None)
    return await load.until_fresh(now_ms(), load.marks()), "after the quota was lifted"


async def rights_revoked(load: BrokerLoad) -> tuple[float, str]:
    """The right to read records, and that to write states: each is taken away and given back.

    Counted from each return; the longest.
    """
    times: list[float] = []
    denied = ((load.topic, "READ"), (load.state_topic, "WRITE"))
    for topic, operation in denied:
        rule = (load.brokers.bootstrap, topic, operation)
        said = load.mesh.said(DENIAL)
        await asyncio.to_thread(rights.take_away, *rule)
        try:
            await asyncio.sleep(DENIED_S)
        finally:
            await asyncio.to_thread(rights.give_back, *rule)
        if load.mesh.said(DENIAL) == said:
            load.steady.violations.append(f"nobody said that {operation} on {topic} was denied")
        times.append(await load.until_fresh(now_ms(), load.marks()))
        await load.settled()
    told = ", ".join(f"{what} {ms:.0f} ms" for (_, what), ms in zip(denied, times, strict=True))
    return max(times), f"{told}; longest"


async def rights_blip(load: BrokerLoad) -> tuple[float, str]:
    """One right after the other is gone for a moment, as where rules are replaced one by one.

    Counted from the last return: nobody may take a refusal for the end of a topic.
    """
    states, records = load.state_topic, load.topic
    rights_of = [(states, each) for each in ("DESCRIBE", "READ", "WRITE")]
    rights_of += [(records, each) for each in ("DESCRIBE", "READ")]
    for _ in range(BLIPS):
        topic, operation = load.rng.choice(rights_of)
        rule = (load.brokers.bootstrap, topic, operation)
        await asyncio.to_thread(rights.take_away, *rule)
        try:
            await asyncio.sleep(load.rng.uniform(*BLIP_S))
        finally:
            await asyncio.to_thread(rights.give_back, *rule)
        await asyncio.sleep(PAUSE_S)
    return await load.until_fresh(now_ms(), load.marks()), f"{BLIPS} blips, after the last"


async def compression_switched(load: BrokerLoad) -> tuple[float, str]:
    """Somebody lets the brokers compress both topics, with each codec in turn, and stops that."""
    at_ms = now_ms()
    for codec in CODECS:
        for topic in (load.topic, load.state_topic):
            await load.admin.set_config(topic, "compression.type", codec)
        await asyncio.sleep(CODEC_S)
        await load.until_fresh(now_ms(), load.marks())
    last_ms = await load.until_fresh(now_ms(), load.marks())
    return last_ms, f"{len(CODECS)} settings in {now_ms() - at_ms:.0f} ms, after the last"
