"""Records in bulk: columns instead of records, under the rules of poll (spec CL-31 to CL-33)."""

import asyncio
import struct
import time

import pytest

from sharemesh.client import AcknowledgeType, AsyncShareConsumer, ShareConsumer, record_columns
from sharemesh.client.background_loop import BackgroundLoop
from sharemesh.client.consumer.column_reader import ColumnReader
from sharemesh.client.consumer.deliveries import Delivery, Payload
from sharemesh.client.errors import CorruptRecordError, IllegalArgumentError, IllegalStateError
from sharemesh.client.records import AcquiredRange, TopicIdPartition
from sharemesh.codec.batch_frame import place_frame
from sharemesh.codec.client_batches import BatchWriter
from sharemesh.codec.hashes import crc32c
from sharemesh.codec.record_set import raw_columns
from tests.client.mini_cluster import MiniCluster


async def consumer_of(cluster: MiniCluster, **config) -> AsyncShareConsumer:
    settings = {**cluster.config, "group.id": "g", "retry.backoff.ms": 10}
    settings.update({name.replace("_", "."): value for name, value in config.items()})
    consumer = AsyncShareConsumer(settings, environment=cluster.environment())
    await consumer.subscribe(["t"])
    return consumer


async def explicit_of(cluster: MiniCluster, **config) -> AsyncShareConsumer:
    return await consumer_of(cluster, share_acknowledgement_mode="explicit", **config)


async def states(cluster: MiniCluster, expected: list[str]) -> None:
    async with asyncio.timeout(5):
        while cluster.states() != expected:
            await asyncio.sleep(0.005)


async def test_columns_hold_what_poll_would_return_and_are_accepted_with_the_next_poll_cl_31():
    cluster = MiniCluster()
    cluster.append(b"x", b"y")
    cluster.append(b"z")
    async with await consumer_of(cluster) as consumer:
        found = await consumer.poll_batches(5_000)
        if sum(map(len, found)) < 3:
            found += await consumer.poll_batches(5_000)
        assert [each for columns in found for each in columns.values] == [b"x", b"y", b"z"]
        assert [each for columns in found for each in columns.offsets] == [0, 1, 2]
        for columns in found:
            size = len(columns)
            assert (columns.topic, columns.partition) == ("t", 0)
            assert columns.keys == [b"k"] * size
            assert columns.timestamps_ms == [1_000] * size
            assert columns.headers == [()] * size
            assert columns.delivery_counts == [1] * size
        assert await consumer.poll_batches(50) == []
        await states(cluster, ["accepted"] * 3)


async def test_columns_become_an_arrow_table_cl_31():
    cluster = MiniCluster()
    cluster.append(b"x", b"y")
    async with await consumer_of(cluster) as consumer:
        (columns,) = await consumer.poll_batches(5_000)
        table = columns.to_arrow()
    assert table.column_names == ["offset", "timestamp", "key", "value", "delivery_count"]
    assert table["offset"].to_pylist() == [0, 1]
    assert table["value"].to_pylist() == [b"x", b"y"]
    assert table["delivery_count"].to_pylist() == [1, 1]


async def test_an_arrow_table_takes_every_delivery_count_of_the_wire_cl_31():
    cluster = MiniCluster()
    cluster.append(b"x")
    cluster.partitions[0].records[0].delivery_count = 2**31 - 2  # int32, and once more
    async with await consumer_of(cluster) as consumer:
        (columns,) = await consumer.poll_batches(5_000)
        assert columns.to_arrow()["delivery_count"].to_pylist() == [2**31 - 1]


async def test_all_or_some_records_of_columns_are_decided_in_explicit_mode_cl_31():
    cluster = MiniCluster()
    cluster.append(b"0", b"1", b"2", b"3")
    async with await explicit_of(cluster) as consumer:
        (columns,) = await consumer.poll_batches(5_000)
        with pytest.raises(IllegalStateError, match="All records must be acknowledged"):
            await consumer.poll_batches(10)
        consumer.acknowledge_batch(columns)
        consumer.acknowledge_batch(columns, AcknowledgeType.REJECT, offsets=[1, 2])
        with pytest.raises(IllegalStateError):
            consumer.acknowledge_batch(columns, AcknowledgeType.RELEASE, offsets=[0, 9])
        await consumer.commit_sync(5_000)
        assert cluster.states() == ["accepted", "rejected", "rejected", "accepted"]
        with pytest.raises(IllegalStateError):
            consumer.acknowledge_batch(columns)


async def test_implicit_mode_refuses_acknowledge_batch_and_close_releases_cl_31():
    cluster = MiniCluster()
    cluster.append(b"0")
    consumer = await consumer_of(cluster)
    (columns,) = await consumer.poll_batches(5_000)
    with pytest.raises(IllegalStateError, match="Implicit"):
        consumer.acknowledge_batch(columns)
    await consumer.close()
    assert cluster.states() == ["available"]


async def test_polls_of_both_kinds_alternate_cl_31():
    cluster = MiniCluster()
    cluster.append(*[b"x"] * 6)
    limits = {"max_poll_records": 2, "max_poll_batches_records": 2}
    async with await consumer_of(cluster, **limits) as consumer:
        (columns,) = await consumer.poll_batches(5_000)
        records = await consumer.poll(5_000)
        (others,) = await consumer.poll_batches(5_000)
        offsets = [*columns.offsets, *[each.offset for each in records], *others.offsets]
        assert offsets == list(range(6))


@pytest.mark.parametrize(("given", "most"), [({}, 16), ({"max_poll_batches_records": 5}, 5)])
async def test_a_poll_in_bulk_returns_more_than_one_of_records_and_no_more_than_is_set_cl_31(
    given, most
):
    cluster = MiniCluster()
    cluster.append(*[b"x"] * 40)
    async with await consumer_of(cluster, max_poll_records=2, **given) as consumer:
        sizes: list[int] = []
        async with asyncio.timeout(10):
            while sum(sizes) < 40:
                sizes.append(sum(map(len, await consumer.poll_batches(200))))
    assert max(sizes) <= most
    assert max(sizes) > 2, sizes


async def test_columns_are_decoded_when_they_are_looked_at_and_once_for_all_parts_cl_31(
    monkeypatch,
):
    decoded = []

    def counted(batch: bytes, *names: str):
        decoded.append(names)
        return raw_columns(batch, *names)

    monkeypatch.setattr(record_columns, "raw_columns", counted)
    cluster = MiniCluster()
    cluster.append(*[b"%d" % number for number in range(6)])
    async with await consumer_of(cluster, max_poll_batches_records=3) as consumer:
        (first,) = await consumer.poll_batches(5_000)
        (second,) = await consumer.poll_batches(5_000)
    assert (first.offsets, second.offsets, decoded) == ([0, 1, 2], [3, 4, 5], [])
    assert first.values + second.values == [b"%d" % number for number in range(6)]
    assert decoded == [("value",)]
    assert first.to_arrow()["value"].to_pylist() == first.values
    assert decoded == [("value",), ("timestamp", "key")]
    assert second.keys == [b"k"] * 3
    assert second.headers == [()] * 3
    assert decoded[2:] == [("headers",)]


async def test_deserializers_are_not_applied_to_columns_cl_31():
    cluster = MiniCluster()
    cluster.append(b"5")
    async with await consumer_of(cluster, value_deserializer=int) as consumer:
        (columns,) = await consumer.poll_batches(5_000)
        assert columns.values == [b"5"]


async def test_offsets_without_records_are_acknowledged_as_gaps_cl_31():
    cluster = MiniCluster()
    writer = BatchWriter("none", 1_000)
    writer.append(1, b"k", b"v", ())
    control = bytearray(writer.finish(None))
    control[22] |= 0x20
    cluster.append_raw(bytes(control), 1)
    cluster.append(b"x")
    async with await consumer_of(cluster, check_crcs="false") as consumer:
        found = await consumer.poll_batches(5_000)
        assert [columns.offsets for columns in found] == [[1]]
        assert await consumer.poll_batches(50) == []
        await states(cluster, ["gap", "accepted"])


async def test_a_batch_with_missing_offsets_yields_what_is_there_cl_31():
    cluster = MiniCluster()
    writer = BatchWriter("none", 1_000)
    for value in (b"0", b"1"):
        writer.append(1, None, value, ())
    thinned = bytearray(writer.finish(None))
    struct.pack_into(">i", thinned, 23, 2)  # last offset delta: three offsets, two records
    struct.pack_into(">I", thinned, 17, crc32c(bytes(thinned[21:])))
    cluster.append_raw(bytes(thinned), 3)
    async with await consumer_of(cluster) as consumer:
        (columns,) = await consumer.poll_batches(5_000)
        assert (columns.offsets, columns.values) == ([0, 1], [b"0", b"1"])
        assert await consumer.poll_batches(50) == []
        await states(cluster, ["accepted", "accepted", "gap"])


async def test_a_damaged_batch_is_raised_in_its_turn_and_rejected_cl_32():
    cluster = MiniCluster()
    writer = BatchWriter("none", 1_000)
    for _ in range(2):
        writer.append(1, b"k", b"v", ())
    data = bytearray(writer.finish(None))
    data[-1] ^= 1
    cluster.append(b"before")
    cluster.append_raw(bytes(data), 2)
    cluster.append(b"after")
    async with await consumer_of(cluster) as consumer:
        seen, failures = [], []
        async with asyncio.timeout(10):
            while len(seen) < 2 or not failures:
                try:
                    for columns in await consumer.poll_batches(200):
                        seen.extend(columns.values)
                except CorruptRecordError as error:
                    failures.append((error.offset, error.last_offset))
                    assert seen == [b"before"]
        assert seen == [b"before", b"after"]
        assert failures == [(1, 2)]
        assert await consumer.poll_batches(50) == []
        await states(cluster, ["accepted", "rejected", "rejected", "accepted"])


async def test_a_whole_batch_that_cannot_be_decoded_is_told_by_the_column_cl_32():
    cluster = MiniCluster()
    writer = BatchWriter("none", 1_000)
    writer.append(1, b"k", b"v", ())
    data = bytearray(writer.finish(None))
    data[61:] = b"\xff" * (len(data) - 61)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    cluster.append_raw(bytes(data), 1)
    async with await explicit_of(cluster) as consumer:
        (columns,) = await consumer.poll_batches(5_000)
        assert columns.offsets == [0]
        with pytest.raises(CorruptRecordError) as caught:
            _ = columns.values
        assert (caught.value.offset, caught.value.last_offset) == (0, 0)
        consumer.acknowledge_batch(columns, AcknowledgeType.REJECT)
        await consumer.commit_sync(5_000)
    assert cluster.states() == ["rejected"]


async def test_columns_are_not_renewed_and_wait_for_renewed_records_cl_33():
    cluster = MiniCluster()
    cluster.append(b"0", b"1")
    async with await explicit_of(cluster, max_poll_records=1) as consumer:
        (record,) = await consumer.poll(5_000)
        consumer.acknowledge(record, AcknowledgeType.RENEW)
        await consumer.commit_sync(5_000)
        with pytest.raises(IllegalStateError, match="call poll"):
            await consumer.poll_batches(10)
        (again,) = await consumer.poll(5_000)
        consumer.acknowledge(again)
        (columns,) = await consumer.poll_batches(5_000)
        with pytest.raises(IllegalArgumentError, match="renewed"):
            consumer.acknowledge_batch(columns, AcknowledgeType.RENEW)
        consumer.acknowledge_batch(columns)


def test_the_consumer_for_threads_polls_columns_too():
    loop = BackgroundLoop("cluster")
    try:

        async def made() -> MiniCluster:
            cluster = MiniCluster()
            cluster.append(b"x")
            return cluster

        cluster = loop.run(made())
        config = {**cluster.config, "group.id": "g"}
        with ShareConsumer(config, environment=cluster.environment()) as consumer:
            consumer.subscribe(["t"])
            (columns,) = consumer.poll_batches(5_000)
            assert columns.values == [b"x"]
    finally:
        loop.stop()


def test_many_small_batches_and_ranges_cost_no_more_than_their_number():
    """Each batch looks for its ranges, and not through all of them."""
    data = bytearray()
    for offset in range(1_000):
        writer = BatchWriter("none", 1_000)
        writer.append(1, None, b"v", ())
        batch = bytearray(writer.finish(None))
        place_frame(batch, offset, 0)
        data += batch
    source = TopicIdPartition("t", 0, b"id")
    runs = tuple(AcquiredRange(offset, offset, 1) for offset in range(1_000))
    delivery = Delivery(source, None, Payload(bytes(data)), runs, 0, 1_000, 1_000)
    began = time.process_time()
    reader = ColumnReader(delivery, check_crcs=True)
    columns, failure = reader.take(failures=True)
    assert failure is None
    assert columns.offsets == list(range(1_000))
    assert time.process_time() - began < 0.2  # a walk through all for each took 0.4 s
