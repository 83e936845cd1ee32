"""What a take-over of a shard log on Kafka finds and refuses (STL-3, STL-4, STL-9 to STL-12)."""

import pytest

from sharemesh.codec.batch_frame import COMPRESSION_MASK
from sharemesh.codec.hashes import crc32c
from sharemesh.codec.log_stamp import (
    HEADER_NAME,
    build_stamped_batch,
    encode_stamp,
)
from sharemesh.codec.record_set import build_batch, decode_records
from sharemesh.domain.ids import TopicId
from sharemesh.domain.stamped_log.stamp import StampKind, WriterIdentity
from sharemesh.ports.brokers import (
    BrokerRefusedError,
)
from sharemesh.ports.shard_log import CorruptLogError, FencedError, LogFailedError
from tests.backends.kafka.shard_log_bench import LOG, LOST, Bench, junk, keys_of, put


@pytest.fixture
def bench():
    return Bench()


async def test_stl_9_a_take_over_writes_a_fence_with_epoch_and_name(bench):
    log = await bench.open(3)
    (fence,) = bench.stamps()
    assert fence.stamp.kind is StampKind.FENCE
    assert (fence.stamp.epoch, fence.stamp.log) == (3, LOG)
    (written,) = decode_records(bench.brokers.log().batches[0])
    assert (written.key, written.value) == (None, b"node-1")
    assert log.end_offset == 1


async def test_stl_9_another_topic_under_the_name_is_corruption_and_gets_no_fence(bench):
    bench.brokers.topic_ids["state"] = TopicId(bytes(16)[:-1] + b"\1")
    with pytest.raises(CorruptLogError, match="topic state partition 0: the topic was deleted and"):
        await bench.open()
    assert bench.brokers.produced == []


async def test_stl_9_the_fence_is_repeated_until_it_is_answered(bench):
    bench.brokers.topic_errors = [5]
    bench.brokers.script = [LOST, "answer lost", BrokerRefusedError(6, "NOT_LEADER_OR_FOLLOWER")]
    log = await bench.open(3)
    assert len({bytes(each) for each in bench.brokers.produced}) == 1
    assert [each.stamp.epoch for each in bench.stamps()] == [3, 3]
    assert log.end_offset == 2


async def test_stl_10_windows_below_the_fence_are_read_until_a_unit_is_found(bench):
    log = await bench.open(1)
    await put(bench, log, "a", "b")
    await log.close()
    for _ in range(300):
        bench.write(junk(7))
    again = await bench.open(2)
    assert await keys_of(bench, again) == [b"a", b"b"]
    await put(bench, again, "c")
    numbers = [each.stamp.number for each in bench.stamps() if each.stamp]
    assert numbers == [0, 0, 0, 1]  # fences have none


async def test_stl_10_a_log_that_lost_its_beginning_is_corrupt(bench):
    log = await bench.open(1)
    await put(bench, log, "a")
    await put(bench, log, "b")
    bench.brokers.log().start = 2
    with pytest.raises(CorruptLogError, match="begins at offset 2, its writers left it from 0 on"):
        await bench.open(2)


async def test_stl_11_out_of_range_alone_is_no_loss(bench):
    log = await bench.open(1)
    await put(bench, log, "a")
    late = BrokerRefusedError(1, "OFFSET_OUT_OF_RANGE")
    bench.brokers.read_failures = [late, LOST, late]
    again = await bench.open(2)
    bench.brokers.read_failures = [late]
    assert await keys_of(bench, again) == [b"a"]


async def test_stl_11_records_that_are_deleted_during_a_load_are_corruption(bench):
    log = await bench.open(1)
    await put(bench, log, "a")
    bench.brokers.log().start = 2
    with pytest.raises(CorruptLogError, match=r"records from offset 0 to 2 were removed") as error:
        await keys_of(bench, log)
    bench.table.raise_to("state", 0, 2)  # unless a successor did it
    with pytest.raises(FencedError):
        await keys_of(bench, log)
    assert (error.value.file, error.value.offset) == ("topic state partition 0", 0)


async def test_stl_10_records_that_are_deleted_while_a_fence_is_read_back_begin_it_anew(bench):
    log = await bench.open(1)
    await put(bench, log, "a")
    await bench.run(log.delete_before(log.committed_end_offset))
    bench.brokers.deletions.clear()
    bench.brokers.log().start = 0  # a broker that led until a moment ago says so
    asked = bench.brokers.list_offset

    async def deleted_since(partition, timestamp_ms):
        found = await asked(partition, timestamp_ms)
        bench.brokers.log().start = 2
        return found

    bench.brokers.list_offset = deleted_since
    again = await bench.open(2)
    assert again.start_offset == 2


async def test_stl_12_a_cluster_that_changes_records_is_noticed(bench):
    log = await bench.open(1)
    await put(bench, log, "a")
    bench.brokers.log().batches[0] = junk()
    with pytest.raises(CorruptLogError, match="offset 0 is not there: the cluster changes records"):
        await keys_of(bench, log)


async def test_stl_4_a_hole_past_the_end_of_what_is_read_is_corruption(bench):
    log = await bench.open(1)
    await put(bench, log, "a")
    await put(bench, log, "b")
    await log.close()
    again = await bench.open(2)
    bench.write(junk())  # others write above
    del bench.brokers.log().batches[2:4]  # unit b and the fence
    with pytest.raises(CorruptLogError, match="begins at offset 4 where 2 was expected"):
        await keys_of(bench, again)


FOREIGN = {
    "a unit of no records": WriterIdentity(0, 0, 0)
    .fence()
    ._replace(kind=StampKind.UNIT, expected=0, record_count=0),
    "a unit of more records than it has": WriterIdentity(LOG ^ 1, 9, 9)
    .fence()
    ._replace(kind=StampKind.UNIT, expected=2, record_count=7),
    "a fence of no records": WriterIdentity(LOG ^ 1, 9, 9).fence()._replace(record_count=-1),
}


@pytest.mark.parametrize("stamp", FOREIGN.values(), ids=FOREIGN)
async def test_stl_3_a_stamp_of_another_log_is_void_whatever_it_says_of_itself(bench, stamp):
    log = await bench.open(1)
    await put(bench, log, "a")
    forged = [(b"k", b"j", [(HEADER_NAME, encode_stamp(stamp))]), (b"k", b"j", [])]
    bench.write(bytes(build_batch(forged, timestamp_ms=1)))
    await put(bench, log, "b")
    await bench.run(log.close())
    again = await bench.open(2)
    assert await keys_of(bench, again) == [b"a", b"b"]
    await put(bench, again, "c")


async def test_stl_3_units_that_the_cluster_compressed_are_loaded(bench):
    own = WriterIdentity(LOG, 1, 5)
    bench.write(build_stamped_batch([(None, b"", 1)], own.fence()))
    for number, compression in enumerate((1, 2, 3, 4)):
        stamp = own.fence()._replace(kind=StampKind.UNIT, expected=number + 1, number=number)
        headers = [(HEADER_NAME, encode_stamp(stamp))]
        written = build_batch(
            [(b"%d" % number, b"v", headers)], timestamp_ms=1, compression=compression
        )
        bench.write(bytes(written))
    log = await bench.open(2)
    assert await keys_of(bench, log) == [b"0", b"1", b"2", b"3"]


async def test_stl_4_a_compression_that_cannot_be_read_is_corruption(bench):
    log = await bench.open(1)
    await put(bench, log, "a")
    broken = bytearray(junk())
    broken[22] |= COMPRESSION_MASK
    stored = bench.brokers.log()
    stored.append(with_checksum(broken))
    with pytest.raises(CorruptLogError, match=r"topic state partition 0: the batch at offset 2"):
        await bench.open(2)


def with_checksum(batch: bytearray) -> bytes:
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


async def test_stl_4_a_flipped_bit_is_corruption(bench):
    log = await bench.open(1)
    await put(bench, log, "a")
    batches = bench.brokers.log().batches
    batches[1] = batches[1][:-1] + bytes([batches[1][-1] ^ 1])
    with pytest.raises(CorruptLogError, match="offset 1: checksum of the record batch at offset 1"):
        await keys_of(bench, log, 1)


async def test_stl_15_a_take_over_that_is_not_answered_is_given_up(bench):
    bench.brokers.script = [BrokerRefusedError(19, "NOT_ENOUGH_REPLICAS", "1 of 2")] * 100
    began_ms = bench.clock.now_ms()
    with pytest.raises(LogFailedError, match=r"no answer for \d+ ms: NOT_ENOUGH_REPLICAS: 1 of 2"):
        await bench.open()
    assert bench.clock.now_ms() - began_ms <= 10_500
