"""What Spark reads of a shard log in Kafka is what its owner replays (STL-29)."""

import random

import pytest

from sharemesh.kafka.brokers_client import KafkaBrokers
from sharemesh.kafka.dialing import Dialing
from sharemesh.ports.brokers import BrokerLane, BrokerPartition
from sharemesh.ports.shard_log import LogRecord
from sharemesh_spark.reader.data_directory import (
    KAFKA_FILE,
    UnreadableLogError,
    cluster_file,
    read_shard,
    records,
    shard_bounds,
    shard_bytes,
    shards,
)
from sharemesh_spark.reader.kafka_log import find_place
from sharemesh_spark.reader.kafka_place import KafkaAccess, KafkaPlace, encode_place
from tests.backends.kafka.owned_logs import OwnedKafkaLogs
from tests.backends.kafka.test_real_shard_log import make_topics, until_set
from tests.clocks import LoopClock

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]


@pytest.fixture
async def client(kafka_broker):
    client = KafkaBrokers([kafka_broker.bootstrap], Dialing(LoopClock()), random.Random(1))
    yield client
    await client.close()


class Written:
    """One state topic, and the directory in which its place is noted."""

    def __init__(self, client, bootstrap, topics, folder) -> None:
        self.client = client
        self.topic = topics["state"]
        self.logs = OwnedKafkaLogs(client, topics, LoopClock())
        self.data = folder
        self.access = KafkaAccess("mesh", (bootstrap,), self.topic.topic.removesuffix("state"), {})
        self.note(self.access)

    def note(self, access: KafkaAccess) -> None:
        place = KafkaPlace(access, "kafka", self.topic.topic_id, 2)
        (self.data / KAFKA_FILE).write_text(encode_place(place))

    @property
    def place(self) -> BrokerPartition:
        return BrokerPartition(self.topic.topic_id, self.topic.topic, 0)


@pytest.fixture
async def written(client, kafka_broker, tmp_path):
    return Written(client, kafka_broker.bootstrap, await make_topics(client), tmp_path)


async def replayed(log) -> list[tuple[int, bytes, bytes | None]]:
    return [(each.offset, each.key, each.value) async for some in log.replay() for each in some]


def read(data) -> list[tuple[int, bytes, bytes | None]]:
    return [(each.offset, each.key, each.value) for each in records(read_shard(data, 0))]


async def test_stl_29_a_reader_has_what_the_owner_replays(written):
    """With late copies, a take-over, a unit that the cluster compressed, and a declared start."""
    sent: list[bytes] = []
    produce = written.client.produce

    async def recorded(partition, batch, *, timeout_ms, lane=BrokerLane.PRODUCE):
        sent.append(batch)
        return await produce(partition, batch, timeout_ms=timeout_ms, lane=lane)

    written.client.produce = recorded
    assert shard_bounds(written.data, 0) == (0, 0)
    assert read(written.data) == []
    log = await written.logs.open("state", 0, 1)
    for n in range(12):
        log.append([LogRecord(b"%d" % n, b"x" * 200), LogRecord(b"gone %d" % n, None)])
        await log.committed(log.end_offset)
        for batch in sent[-2:]:  # as requests that come after their time-out
            await produce(written.place, batch, timeout_ms=5_000)
    await log.delete_before(log.committed_end_offset - 9)  # inside a unit
    await written.client.alter_topic_configs(written.topic.topic, {"compression.type": "zstd"})
    await until_set(written.client, written.topic.topic, "zstd")
    log.append([LogRecord(b"compressed %d" % n, b"y" * 500) for n in range(8)])
    await log.committed(log.end_offset)
    expected = await replayed(log)
    assert read(written.data) == expected
    assert shard_bounds(written.data, 0) == (log.start_offset, log.committed_end_offset)
    await log.close()

    again = await written.logs.open("state", 0, 2)
    again.append([LogRecord(b"after a take-over", b"z")])
    await again.committed(again.end_offset)
    assert read(written.data) == await replayed(again)
    assert read(written.data)[:-1] == expected
    assert shard_bounds(written.data, 0) == (again.start_offset, again.committed_end_offset)
    assert shard_bytes(written.data, 0) > 0
    assert (shards(written.data), cluster_file(written.data).cluster_id) == ([0, 1], "mesh")
    await again.close()


async def test_stl_29_what_another_cluster_wrote_is_no_empty_log(written):
    log = await written.logs.open("state", 0, 1)
    log.append([LogRecord(b"k", b"v")])
    await log.committed(log.end_offset)
    await log.close()
    access = written.access
    written.note(KafkaAccess("another", access.servers, access.topic_prefix, {}))
    with pytest.raises(UnreadableLogError, match="the log of another cluster: name the settings"):
        read_shard(written.data, 0)
    with pytest.raises(UnreadableLogError, match="the log of another cluster"):
        shard_bounds(written.data, 0)


async def test_stl_29_records_that_others_removed_are_said(written):
    log = await written.logs.open("state", 0, 1)
    for n in range(10):
        log.append([LogRecord(b"%d" % n, b"v")])
        await log.committed(log.end_offset)
    await log.close()
    await written.client.delete_records(written.place, 5, timeout_ms=5_000)
    with pytest.raises(UnreadableLogError, match="records from offset 0 to 5 were removed"):
        read_shard(written.data, 0)


async def test_the_place_of_the_log_is_what_brokers_say(written):
    found = find_place(written.access)
    assert (found.topic_id, found.shards) == (written.topic.topic_id, 2)
    assert found.kafka_cluster_id
    missing = KafkaAccess("mesh", written.access.servers, "nobodys-", {})
    with pytest.raises(UnreadableLogError, match="has no topic nobodys-state"):
        find_place(missing)
