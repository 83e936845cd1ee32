"""Topics as other producers leave them, on Apache Kafka."""

import asyncio
import struct

import pytest
from confluent_kafka import Producer

from sharemesh.backends.kafka.record_logs.fetched_batches import whole_batches
from sharemesh.codec.batch_frame import TRANSACTIONAL
from sharemesh.domain.errors import ErrorCode, RefusedError
from sharemesh.domain.ids import TopicPartition
from sharemesh.domain.share_partition.events import AcquireMode
from sharemesh.ports.brokers import BrokerRefusedError
from tests.aborted import aborted_in
from tests.backends.kafka.real_topics import real_topics
from tests.backends.kafka.record_log_world import all_read, batch, until, values_of
from tests.share_leader.test_compacted_topics import consume
from tests.share_leader.world import world

EPOCH_MOVED = {6, 74, 75}
"""NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH."""

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]


@pytest.fixture
async def topics(kafka_broker):
    async with real_topics(kafka_broker.bootstrap) as topics:
        yield topics


async def send(topics, where, values, *, key=b"k", **settings):
    """Write with Kafka's own client, and wait until all of it is confirmed."""
    producer = Producer({"bootstrap.servers": topics.bootstrap, "linger.ms": 50, **settings})
    for value in values:
        producer.produce(where.topic, value, key=key, partition=0)
    await asyncio.to_thread(producer.flush, 30)


async def values(log, start=0):
    found = []
    while start < log.high_watermark:
        read = await log.read(start, max_bytes=1 << 20)
        found += values_of(read)
        start = read.headers[-1].last_offset + 1
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_records_of_each_codec_pass_as_they_are(topics, codec):
    """KRL-2, KRL-6."""
    where = await topics.topic()
    log = await topics.open(where)
    sent = [b"%d " % n * 40 for n in range(300)]
    await send(topics, where, sent, **{"compression.type": codec, "linger.ms": 5_000})
    await until(lambda: log.high_watermark == 300)
    read = await log.read(0, max_bytes=1 << 20)
    # A slow producer may send its first record alone, and a codec leaves that one as it is.
    largest = max(range(len(read.headers)), key=lambda n: read.headers[n].record_count)
    assert read.headers[largest].record_count > 1
    begins = sum(header.size_bytes for header in read.headers[:largest])
    attributes = struct.unpack_from(">h", read.records, begins + 21)[0]
    assert (attributes & 7 == 0) == (codec == "none")
    assert [each for each in await values(log) if each] == sent
    await log.close()


async def test_a_producer_of_transactions_is_read_as_it_committed(topics):
    """KRL-12."""
    where = await topics.topic()
    log = await topics.open(where)
    producer = Producer(
        {"bootstrap.servers": topics.bootstrap, "transactional.id": f"t-{where.topic}"}
    )
    await asyncio.to_thread(producer.init_transactions, 30)
    for number, ends in enumerate((producer.commit_transaction, producer.abort_transaction) * 2):
        producer.begin_transaction()
        for each in range(3):
            producer.produce(where.topic, b"%d-%d" % (number, each), partition=0)
        await asyncio.to_thread(producer.flush, 30)
        await asyncio.to_thread(ends, 30)
    await until(lambda: log.last_stable_offset == 16)
    assert await all_read(log) == [*range(16)]
    read = await log.read(0, max_bytes=1 << 20, committed=True)
    assert {each.first_offset for each in read.aborted} == {4, 12}
    markers = [header.is_abort_marker for header in read.headers if header.is_control]
    assert markers == [False, True, False, True]
    assert await aborted_in(log, 8, 12) == []
    assert len(await aborted_in(log, 12)) == 1
    producer.begin_transaction()
    producer.produce(where.topic, b"open", partition=0)
    await asyncio.to_thread(producer.flush, 30)
    await until(lambda: log.high_watermark == 17)
    assert log.last_stable_offset == 16
    assert (await log.read(16, max_bytes=100, committed=True)).headers == ()
    await asyncio.to_thread(producer.abort_transaction, 30)
    await until(lambda: log.last_stable_offset == 18)
    refused = batch(1, producer_id=3, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert struct.unpack_from(">h", refused, 21)[0] & TRANSACTIONAL
    with pytest.raises(RefusedError, match="with a Kafka producer"):
        await log.append(refused)
    await log.close()


async def test_a_compacted_topic_is_read_over_its_holes(topics):
    """KRL-6."""
    where = await topics.topic(
        **{
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "100",
            "min.compaction.lag.ms": "0",
            "delete.retention.ms": "0",
        }
    )
    for number in range(4):
        await send(topics, where, [b"%d-%d" % (number, each) for each in range(5)])
        await asyncio.sleep(0.2)  # segments roll by their age: there is no state to wait for
    log = await topics.open(where)
    found = await values(log)
    assert found[-1] == b"3-4"
    offsets = await all_read(log)
    assert offsets[-1] == log.high_watermark - 1
    with pytest.raises(RefusedError, match=r"cleanup\.policy") as refused:
        await log.delete_records(-1)
    assert refused.value.error is ErrorCode.INVALID_REQUEST
    await log.close()


async def test_ranges_that_others_delete_are_passed(topics):
    """KRL-7, KRL-15."""
    where = await topics.topic()
    log = await topics.open(where)
    for _ in range(4):
        await log.append(batch(3))
    await topics.brokers.delete_records(where, 7, timeout_ms=5_000)
    await until(lambda: log.log_start_offset == 7)
    with pytest.raises(RefusedError) as refused:
        await log.read(6, max_bytes=1)
    assert refused.value.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert [*range(7, 12)] == (await all_read(log, 7))[-5:]
    assert await log.delete_records(-1) == 12
    await log.close()


async def test_a_batch_larger_than_every_bound_comes_whole(topics):
    """KRL-5, KRL-6."""
    where = await topics.topic(**{"max.message.bytes": str(12 << 20)})
    log = await topics.open(where)
    large = b"x" * (10 << 20)
    await send(topics, where, [large, b"small"], **{"message.max.bytes": 12 << 20})
    await until(lambda: log.high_watermark == 2)
    read = await log.read(0, max_bytes=1)
    assert len(read.headers) == 1
    assert len(read.records) > 10 << 20
    assert await values(log) == [large, b"small"]
    await log.close()


async def test_a_group_that_wants_one_record_at_a_time_passes_a_hole_of_compaction(topics):
    """KRL-6: a gap of 600 offsets, wider than what any fetch asks for."""
    where = await topics.topic(
        **{
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "100",
            "min.compaction.lag.ms": "0",
        }
    )
    await send(topics, where, [b"first"], key=b"another key")
    await send(topics, where, [b"%d" % n for n in range(700)], **{"batch.num.messages": 100})
    await asyncio.sleep(0.2)  # segments roll by their age: there is no state to wait for
    await send(topics, where, [b"last"])
    async with asyncio.timeout(90):  # the cleaner looks each 15 s
        while (await first_batch(topics, where, 1)).base_offset == 1:
            await asyncio.sleep(0.3)
    async with world(manual=False, record_logs=topics.logs) as w:
        partition = TopicPartition(where.topic_id, 0)
        await w.create_topic(where.topic_id, where.topic, 1)
        await w.lead(partition)
        client = w.client()
        await client.join(partition)
        found = await consume(client, partition, 3, 1, AcquireMode.RECORD_LIMIT)
        assert found == [0, 601, 602]


async def first_batch(topics, where, offset):
    """Return the first batch from an offset on, as the broker has it now.

    A broker that is starved is fenced, and leads under a higher epoch when it comes back.
    """
    while True:
        try:
            fetched = await topics.brokers.fetch(where, offset, max_bytes=1)
            break
        except BrokerRefusedError as error:
            if error.code not in EPOCH_MOVED:
                raise
    part, problem = whole_batches(fetched.records, offset)
    assert not problem
    return part.frames[0]
