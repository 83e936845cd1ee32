"""Logs of brokers in memory are searched by time and cleaned as Kafka does it."""

import pytest

from tests.contract.broker_fillings import batch_of
from tests.testing.memory_bed import frames, simulated, values


def test_a_time_is_found_behind_a_log_start_in_the_middle_of_a_batch():
    async def test(bed):
        batch = batch_of(b"a", b"b", b"c", timestamp_ms=1_000)
        await bed.client.produce(bed.place, batch, timeout_ms=1_000)
        await bed.put(b"d")
        bed.cluster.trim("t", 0, 1)
        found = await bed.again(lambda: bed.client.list_offset(bed.place, 500))
        assert (found.offset, found.timestamp_ms) == (1, 1_000)

    simulated(test)


async def _produced(bed, *sizes, compression="uncompressed", **identity):
    """Write batches of so many records."""
    bed.cluster.configure("t", {"compression.type": compression})
    for number, size in enumerate(sizes):
        names = [b"%d" % each for each in range(size)]
        sequence = {"base_sequence": sum(sizes[:number])} if identity else {}
        batch = batch_of(*names, timestamp_ms=1_000 + number, **identity, **sequence)
        await bed.client.produce(bed.place, batch, timeout_ms=1_000)


@pytest.mark.parametrize("compression", ["uncompressed", "gzip", "lz4", "zstd", "snappy"])
def test_a_cleaner_leaves_offsets_of_batches_and_the_log_start_as_they_were(compression):
    """A batch keeps base and last offset, epoch, compression; one without records is gone."""

    async def test(bed):
        await _produced(bed, 3, 3, 3, 2, compression=compression)
        before = bed.cluster.brokers[bed.leader()].replicas[bed.place.topic_id, 0].log.batches(0)
        bed.cluster.compact("t", 0, [0, 2, *range(3, 6), 8, 9, 10])
        assert frames(bed) == [(0, 3, [1]), (6, 9, [6, 7]), (9, 11, [])]  # the last one stays
        log = bed.cluster.brokers[bed.leader()].replicas[bed.place.topic_id, 0].log
        assert (log.start_offset, log.end_offset) == (0, 11)
        frame = log.batches(0)[0].frame
        assert frame._replace(size_bytes=0) == before[0].frame._replace(
            size_bytes=0, record_count=1
        )
        assert await bed.read() == [b"1", b"0", b"1"]  # every checksum holds
        fetched = await bed.client.fetch(bed.place, 4, max_bytes=1 << 20)
        assert values(fetched.records) == [b"0", b"1"]  # from within a hole: what is behind it
        await bed.put(b"new")
        assert frames(bed)[-1] == (11, 12, [11])

    simulated(test)


def test_a_cleaner_keeps_the_last_batch_of_a_producer_which_says_what_is_next():
    async def test(bed):
        await _produced(bed, 2, 2, producer_id=5, producer_epoch=0)
        await bed.put(b"another's")
        bed.cluster.compact("t", 0, range(4))
        assert frames(bed) == [(2, 4, []), (4, 5, [4])]
        batch = batch_of(b"next", producer_id=5, producer_epoch=0, base_sequence=4)
        assert (await bed.client.produce(bed.place, batch, timeout_ms=1_000)).base_offset == 5

    simulated(test)


def test_a_cleaner_touches_nothing_above_the_last_stable_offset():
    async def test(bed):
        await bed.put(b"a")
        await bed.put(b"b")
        batch = batch_of(
            b"open", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        bed.cluster.append("t", 0, batch)
        await bed.put(b"c")
        bed.cluster.compact("t", 0, range(4))
        assert frames(bed) == [(1, 2, []), (2, 3, [2]), (3, 4, [3])]
        bed.cluster.end_transaction("t", 0, (5, 0), commit=True)
        await bed.put(b"d")
        bed.cluster.compact("t", 0, range(6))
        assert [base for base, _, _ in frames(bed)] == [2, 4, 5]  # the marker stays, too

    simulated(test)


def test_each_broker_cleans_for_itself_and_who_leads_next_may_have_more():
    async def test(bed):
        await _produced(bed, 2, 2)
        old = bed.leader()
        bed.cluster.compact("t", 0, [0, 1], brokers=[old])
        assert await bed.read() == [b"0", b"1"]
        assert bed.cluster.move_leader("t") != old
        assert await bed.read() == [b"0", b"1", b"0", b"1"]

    simulated(test)
