"""A broker that lost the end of its logs with the power: what was confirmed is missed (STL-25)."""

import random
from pathlib import Path

import pytest

from sharemesh.backends.local.coordination_store import LocalStore
from sharemesh.cluster.store.losses import accept_loss
from sharemesh.ports.shard_log import CorruptLogError, LogRecord
from tests.backends.kafka.owned_logs import OwnedKafkaLogs
from tests.backends.kafka.test_real_shard_log import a_client, make_topics
from tests.clocks import LoopClock
from tests.kafka.jars import KafkaMissingError
from tests.kafka.real_broker import RealBrokers, real_brokers

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

UNITS, KEPT = 6, 3


async def test_stl_25_a_broker_that_lost_the_end_of_a_log_is_not_served_from(tmp_path):
    """One replica and a power cut: the broker comes back with a log that is whole and shorter."""
    try:
        with real_brokers(tmp_path / "kafka") as kafka:
            await lose_and_accept(kafka)
    except KafkaMissingError as error:
        pytest.skip(str(error))


async def lose_and_accept(kafka: RealBrokers) -> None:
    clock = LoopClock()
    store = LocalStore(clock)
    client = a_client(kafka.bootstrap)
    topics = await make_topics(client)
    [segment] = Path(kafka.directory / "data1").glob(f"{topics['state'].topic}-0/*.log")
    logs = OwnedKafkaLogs(client, topics, clock, store=store)
    log = await logs.open("state", 0, 1)
    for n in range(UNITS):
        log.append([LogRecord(b"%d" % n, random.randbytes(200))])
        await log.committed(log.end_offset)
        if n == KEPT - 1:
            kept_bytes = segment.stat().st_size
    await log.close()
    await client.close()
    kafka.kill(1)
    with segment.open("r+b") as file:
        file.truncate(kept_bytes)
    kafka.start(1)
    await kafka.started(1)
    client = a_client(kafka.bootstrap)
    try:
        await not_served_before_accepted(client, topics, clock, store)
    finally:
        await client.close()


async def not_served_before_accepted(client, topics, clock, store) -> None:
    logs = OwnedKafkaLogs(client, topics, clock, store=store, seed=2)
    for epoch in (2, 3):
        with pytest.raises(
            CorruptLogError, match="6 units up to offset 7 were confirmed, and 3 were left"
        ):
            await logs.open("state", 0, epoch)
    await accept_loss(logs.coordination, "mesh", "state-0")
    log = await logs.open("state", 0, 4)
    found = [record.key async for chunk in log.replay() for record in chunk]
    assert found == [b"0", b"1", b"2"]
    log.append([LogRecord(b"new", b"x")])
    await log.committed(log.end_offset)
    await log.close()
