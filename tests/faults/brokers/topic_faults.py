"""Records are deleted under the readers, and the brokers throttle the principal."""

import asyncio

from tests.faults.brokers.broker_load import BrokerLoad
from tests.history.journal import now_ms

DELETIONS = 10
KEPT = 20
PAUSE_S = 0.3
BYTES_A_SECOND = 4_000.0  # of each broker; the load needs about ten times as much
THROTTLED_S = 10.0


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
