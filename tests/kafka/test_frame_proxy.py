"""The proxy of the fault trials handles frames as it says; a stamped log survives each of them."""

import asyncio
import random

import pytest

from sharemesh.backends.kafka.shard_logs.coordinator_topics import (
    CoordinatorTopic,
    coordinator_topic_configs,
)
from sharemesh.backends.kafka.shard_logs.settings import StampedLogSettings
from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.ports.brokers import NewBrokerTopic
from sharemesh.ports.shard_log import LogRecord
from tests.backends.kafka.owned_logs import OwnedKafkaLogs
from tests.clocks import LoopClock
from tests.faults.brokers.frame_proxy import FETCH_KEY, PRODUCE_KEY, FrameProxy, Mishap
from tests.free_ports import free_port
from tests.kafka.real_broker import real_brokers

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

UNITS = 40
QUICK = StampedLogSettings(produce_timeout_ms=500, retry_max_ms=200, slow_retry_max_ms=200)


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    between = [free_port()]
    advertised = {"PROXIED": between}
    folder = tmp_path_factory.mktemp("proxied")
    with real_brokers(folder, listeners=("PROXIED",), advertised=advertised) as kafka:
        yield kafka


@pytest.mark.parametrize("mishap", list(Mishap), ids=lambda each: each.value.replace(" ", "-"))
async def test_stl_15_units_count_once_whatever_happens_to_frames(proxied, mishap):
    rng = random.Random(mishap.value)
    between = [int(proxied.addresses("PROXIED").split(":")[1])]
    async with FrameProxy(rng, between, proxied.ports["PROXIED"]) as proxy:
        proxy.keys, proxy.late_s = frozenset({PRODUCE_KEY, FETCH_KEY}), (0.2, 1.5)
        brokers = KafkaBrokers(
            [proxied.addresses("PROXIED")], Dialing(LoopClock()), random.Random(2)
        )
        name = f"state-{mishap.name.lower()}"
        topic = NewBrokerTopic(name, 1, 1, coordinator_topic_configs(1))
        await brokers.create_topic(topic, timeout_ms=30_000)
        (made,) = (await brokers.metadata([name])).topics
        while made.error:
            (made,) = (await brokers.metadata([name])).topics
        where = {"state": CoordinatorTopic(name, made.topic_id)}
        logs = OwnedKafkaLogs(brokers, where, LoopClock(), QUICK)
        log = await logs.open("state", 0, 1)
        proxy.mishaps, proxy.share = (mishap,), 0.2
        async with asyncio.timeout(200):
            for number in range(UNITS):
                log.append([LogRecord(b"%d" % number, b"")])
                await log.committed(log.end_offset)
        proxy.mishaps = ()
        await proxy.settled()
        await log.close()
        again = await logs.open("state", 0, 2)
        keys = [record.key async for chunk in again.replay() for record in chunk]
        assert keys == [b"%d" % number for number in range(UNITS)]
        assert proxy.happened[mishap.value]
        await again.close()
        await brokers.close()
