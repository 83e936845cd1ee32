"""The port Brokers: one suite over the cluster in memory and over real brokers."""

import asyncio
import time
from contextlib import suppress

import pytest

from sharemesh.codec.batch_frame import HEADER_BYTES, Frame, frame_size, walk_frames
from sharemesh.codec.record_set import decode_records
from sharemesh.domain.ids import TopicId
from sharemesh.ports.brokers import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    AbortedRange,
    BrokerLane,
    BrokerPartition,
    BrokerRefusedError,
    BrokerUnreachableError,
    Isolation,
    NewBrokerTopic,
    WatchedPartition,
)
from tests.contract.broker_fillings import (
    SETTLED_S,
    BrokerFilling,
    MemoryFilling,
    RealFilling,
    batch_of,
    settled,
)

MIB = 1 << 20
TIMEOUT_MS = 5_000
NOBODY = TopicId(bytes(range(16)))
COMMITTED = Isolation.READ_COMMITTED
NOW_MS = int(time.time() * 1_000)
"""Records of another time begin a new segment, and a fetch ends with a segment."""


REAL = {"apache": "kafka_broker", "kfake": "kfake_bootstrap"}
PARAMS = ["memory", *(pytest.param(name, marks=pytest.mark.kafka) for name in REAL)]


@pytest.fixture(params=PARAMS)
def made(request) -> BrokerFilling:
    if request.param == "memory":
        return MemoryFilling()
    found = request.getfixturevalue(REAL[request.param])
    return RealFilling(request.param, found if isinstance(found, str) else found.bootstrap)


@pytest.fixture
async def filling(made):
    filling = made
    await filling.start()
    async with asyncio.timeout(120):
        yield filling
    await filling.stop()


@pytest.fixture
async def brokers(filling):
    client = filling.client()
    yield client
    await client.close()


@pytest.fixture
async def place(filling) -> BrokerPartition:
    return await filling.make_topic()


async def put(brokers, place, *values: bytes, **options) -> int:
    batch = batch_of(*(values or (b"x",)), **options)
    produced = await settled(lambda: brokers.produce(place, batch, timeout_ms=TIMEOUT_MS))
    return produced.base_offset


async def get(brokers, place, offset, max_bytes=MIB, **options):
    return await settled(lambda: brokers.fetch(place, offset, max_bytes=max_bytes, **options))


async def refused(call) -> int:
    with pytest.raises(BrokerRefusedError) as caught:
        await settled(call)
    assert caught.value.name in str(caught.value)
    return caught.value.code


def frames(data: bytes) -> list[Frame]:
    """Return the frames whose header is there; offsets between two batches may be missing."""
    found: list[Frame] = []
    at = 0
    while at + HEADER_BYTES <= len(data):
        size = frame_size(data[at : at + HEADER_BYTES])
        walk = walk_frames(
            data[at : at + size],
            start=at,
            limit=at + size,
            base_offset=None,
            leader_epoch=None,
            check_crc=at + size <= len(data),
        )
        assert walk.problem is None
        found += walk.frames
        at += size
    return found


def values(data: bytes) -> list[tuple[int, bytes | None]]:
    return [
        (record.offset, record.value)
        for frame in frames(data)
        for record in decode_records(data[frame.position : frame.position + frame.size_bytes])
    ]


async def end_of(brokers, place, isolation=Isolation.READ_UNCOMMITTED) -> int:
    found = await settled(lambda: brokers.list_offset(place, LATEST_TIMESTAMP, isolation=isolation))
    return found.offset


async def news_of(watch, *places, until=lambda _: True) -> dict:
    """Poll until each partition has said something; return the last word of each."""
    said: dict = {}
    end_s = asyncio.get_running_loop().time() + SETTLED_S
    while not all(place in said and until(said[place]) for place in places):
        assert asyncio.get_running_loop().time() < end_s, said
        said.update({each.partition: each for each in await watch.poll(200)})
    return said


# ---- produce ------------------------------------------------------------------------------------


async def test_base_offsets_follow_each_other(brokers, place):
    assert [await put(brokers, place, *[b"v"] * count) for count in (1, 3, 2)] == [0, 1, 4]
    assert await end_of(brokers, place) == 6


async def test_what_is_produced_is_fetched_with_its_place_and_nothing_else_changed(brokers, place):
    batch = batch_of(b"a", b"b")
    await put(brokers, place)
    produced = await settled(lambda: brokers.produce(place, batch, timeout_ms=TIMEOUT_MS))
    fetched = await get(brokers, place, produced.base_offset)
    assert fetched.records[16:] == batch[16:]
    assert values(fetched.records) == [(1, b"a"), (2, b"b")]
    assert (fetched.high_watermark, fetched.last_stable_offset) == (3, 3)
    assert fetched.log_start_offset == 0
    [frame] = frames(fetched.records)
    assert frame.leader_epoch >= 0


async def test_a_request_holds_exactly_one_batch(brokers, place):
    two = batch_of(b"a") + batch_of(b"b")
    assert await refused(lambda: brokers.produce(place, two, timeout_ms=TIMEOUT_MS)) in (87, 42, 2)
    assert await end_of(brokers, place) == 0


async def test_a_damaged_batch_is_refused(brokers, place):
    damaged = bytearray(batch_of(b"value"))
    damaged[-2] ^= 1
    code = await refused(lambda: brokers.produce(place, bytes(damaged), timeout_ms=TIMEOUT_MS))
    assert code in (2, 87)
    assert await end_of(brokers, place) == 0


async def test_a_batch_that_is_too_large_is_refused(filling, brokers):
    place = await filling.make_topic(configs={"max.message.bytes": "2000"})
    large = batch_of(bytes(3_000))
    assert await refused(lambda: brokers.produce(place, large, timeout_ms=TIMEOUT_MS)) == 10
    assert await put(brokers, place) == 0


async def test_lanes_of_shards_and_of_producers_write_to_the_same_log(brokers, place):
    batch = batch_of(b"s")
    await put(brokers, place)
    await settled(
        lambda: brokers.produce(place, batch, timeout_ms=TIMEOUT_MS, lane=BrokerLane.SHARD)
    )
    assert await end_of(brokers, place) == 2


async def test_a_batch_of_an_idempotent_producer_that_comes_again_is_answered_as_before(
    brokers, place
):
    producer_id, epoch = await settled(brokers.new_producer_id)
    other, _ = await brokers.new_producer_id()
    assert producer_id != other
    mine = {"producer_id": producer_id, "producer_epoch": epoch}
    assert await put(brokers, place, b"a", base_sequence=0, **mine) == 0
    assert await put(brokers, place, b"b", base_sequence=1, **mine) == 1
    assert await put(brokers, place, b"a", base_sequence=0, **mine) == 0
    assert await end_of(brokers, place) == 2
    late = batch_of(b"c", base_sequence=7, **mine)
    assert await refused(lambda: brokers.produce(place, late, timeout_ms=TIMEOUT_MS)) == 45


async def test_an_answer_that_is_lost_leaves_a_write_that_may_be_done(filling, brokers, place):
    await put(brokers, place)
    async with filling.answers_lost():
        with pytest.raises(BrokerUnreachableError, match="broker"):
            await brokers.produce(place, batch_of(b"y"), timeout_ms=TIMEOUT_MS)
    assert await end_of(brokers, place) == 2


async def test_a_write_that_is_not_replicated_in_time_may_be_done(filling, brokers, place):
    await put(brokers, place)
    async with filling.replication_held(place):
        with pytest.raises(BrokerRefusedError) as caught:
            await brokers.produce(place, batch_of(b"y"), timeout_ms=100)
        assert (caught.value.code, caught.value.may_be_done) == (7, True)
        assert await end_of(brokers, place) == 1
    waiting = await get(brokers, place, 1, max_wait_ms=5_000)
    assert values(waiting.records) == [(1, b"y")]


async def test_too_few_replicas_in_sync_refuse_a_write(filling, brokers):
    place = await filling.make_topic(configs={"min.insync.replicas": "2"})
    await put(brokers, place)
    await filling.too_few_in_sync(place)
    with pytest.raises(BrokerRefusedError) as caught:
        await brokers.produce(place, batch_of(b"y"), timeout_ms=TIMEOUT_MS)
    assert (caught.value.code, caught.value.may_be_done) == (19, False)
    assert values((await get(brokers, place, 0)).records) == [(0, b"x")]


async def test_log_append_time_is_the_brokers(filling, brokers):
    filling.need("append time")
    place = await filling.make_topic(configs={"message.timestamp.type": "LogAppendTime"})
    batch = batch_of(b"a", timestamp_ms=1_000)
    produced = await settled(lambda: brokers.produce(place, batch, timeout_ms=TIMEOUT_MS))
    [frame] = frames((await get(brokers, place, 0)).records)
    assert frame.max_timestamp_ms == produced.log_append_time_ms > 1_000_000_000_000


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
async def test_a_topic_that_compresses_keeps_offsets_and_records(filling, brokers, codec):
    filling.need("compression of topics")
    place = await filling.make_topic()
    await put(brokers, place, b"plain")
    await settled(lambda: brokers.alter_topic_configs(place.topic, {"compression.type": codec}))
    await _until_compressed(brokers, place)
    end = await end_of(brokers, place)
    assert await put(brokers, place, b"a" * 100, b"b") == end
    fetched = await get(brokers, place, end)
    assert frames(fetched.records)[0].attributes & 7
    assert values(fetched.records) == [(end, b"a" * 100), (end + 1, b"b")]


async def test_a_topic_that_takes_compression_off_keeps_offsets_and_records(filling, brokers):
    filling.need("compression of topics")
    place = await filling.make_topic(configs={"compression.type": "uncompressed"})
    assert await put(brokers, place, b"a" * 100, compression=1) == 0
    fetched = await get(brokers, place, 0)
    assert not frames(fetched.records)[0].attributes & 7
    assert values(fetched.records) == [(0, b"a" * 100)]


async def _until_compressed(brokers, place) -> None:
    """Write until the broker has heard of the topic's setting."""
    for _ in range(200):
        offset = await put(brokers, place, b"?")
        if frames((await get(brokers, place, offset)).records)[0].attributes & 7:
            return
        await asyncio.sleep(0.05)
    pytest.fail("the topic never compressed")


# ---- fetch --------------------------------------------------------------------------------------


async def test_a_fetch_from_the_middle_of_a_batch_returns_the_whole_batch(brokers, place):
    await put(brokers, place, b"a", b"b", b"c")
    fetched = await get(brokers, place, 2)
    assert values(fetched.records) == [(0, b"a"), (1, b"b"), (2, b"c")]


async def test_the_first_batch_comes_whole_and_the_last_may_be_cut(brokers, place):
    for _ in range(4):
        await put(brokers, place, bytes(1_000))
    size = len(batch_of(bytes(1_000)))
    alone = (await get(brokers, place, 1, max_bytes=1)).records
    assert [frame.base_offset for frame in frames(alone)] == [1]
    assert len(alone) == size
    cut = (await get(brokers, place, 0, max_bytes=size * 2 + size // 2)).records
    assert len(cut) in (size * 2, size * 2 + size // 2)
    whole = [frame for frame in frames(cut) if frame.position + frame.size_bytes <= len(cut)]
    assert [frame.base_offset for frame in whole] == [0, 1]


async def test_at_the_end_nothing_comes_and_the_ends_are_told(brokers, place):
    await put(brokers, place, b"a", b"b")
    fetched = await get(brokers, place, 2)
    assert (fetched.records, fetched.high_watermark) == (b"", 2)
    assert (fetched.diverging, fetched.aborted) == (None, ())


async def test_an_offset_outside_the_log_is_refused_on_both_sides(brokers, place):
    await put(brokers, place, b"a", b"b", b"c")
    assert await refused(lambda: brokers.fetch(place, 4, max_bytes=MIB)) == 1
    await settled(lambda: brokers.delete_records(place, 2, timeout_ms=TIMEOUT_MS))
    assert await refused(lambda: brokers.fetch(place, 1, max_bytes=MIB)) == 1
    assert (2, b"c") in values((await get(brokers, place, 2)).records)


async def test_a_long_poll_ends_with_the_first_record_or_with_its_time(brokers, place):
    clock = asyncio.get_running_loop()
    await put(brokers, place)
    began_s = clock.time()
    nothing = await get(brokers, place, 1, max_wait_ms=300)
    assert nothing.records == b""
    assert clock.time() - began_s > 0.25
    waiting = asyncio.create_task(get(brokers, place, 1, max_wait_ms=30_000))
    await put(brokers, place, b"new")
    async with asyncio.timeout(SETTLED_S):
        assert values((await waiting).records) == [(1, b"new")]


async def test_records_that_compaction_removed_leave_holes(filling, brokers, place):
    for value in (b"a", b"b", b"c"):
        await put(brokers, place, value, value)
    await filling.remove_records(place, [1, 2, 3])
    assert values((await get(brokers, place, 0)).records) == [(0, b"a"), (4, b"c"), (5, b"c")]
    assert [each for each, _ in values((await get(brokers, place, 2)).records)] == [4, 5]


# ---- transactions -------------------------------------------------------------------------------


async def test_an_aborted_transaction_is_listed_for_committed_reads(filling, brokers, place):
    await put(brokers, place, timestamp_ms=NOW_MS)
    producer_id, first = await filling.write_transaction(place, [b"no"], commit=False)
    await filling.write_transaction(place, [b"yes"], commit=True)
    end = await end_of(brokers, place, COMMITTED)
    assert end == await end_of(brokers, place) == 5
    fetched = await get(brokers, place, 0, isolation=COMMITTED)
    assert fetched.aborted == (AbortedRange(producer_id, first),)
    assert [frame.end_offset for frame in frames(fetched.records)][-1] == 5
    assert (await get(brokers, place, 3, isolation=COMMITTED)).aborted == ()
    assert (await get(brokers, place, 0)).aborted == ()


async def test_an_open_transaction_holds_the_last_stable_offset(filling, brokers, place):
    await put(brokers, place, timestamp_ms=NOW_MS)
    await filling.write_transaction(place, [b"open"], commit=None)
    await put(brokers, place, b"behind", timestamp_ms=NOW_MS)
    fetched = await get(brokers, place, 0, isolation=COMMITTED)
    assert (fetched.high_watermark, fetched.last_stable_offset) == (3, 1)
    assert [offset for offset, _ in values(fetched.records)] == [0]
    assert await end_of(brokers, place, COMMITTED) == 1
    assert [offset for offset, _ in values((await get(brokers, place, 0)).records)] == [0, 1, 2]


# ---- offsets, times, the log start --------------------------------------------------------------


async def test_offsets_are_found_by_time(brokers, place):
    for time_ms in (1_000, 2_000, 3_000):
        await put(brokers, place, b"v", b"w", timestamp_ms=time_ms)

    async def found(time_ms):
        return await settled(lambda: brokers.list_offset(place, time_ms))

    assert (await found(1_500)).offset == 2
    assert (await found(2_000)).timestamp_ms == 2_000
    assert (await found(3_001)).offset == -1
    assert (await found(EARLIEST_TIMESTAMP)).offset == 0
    assert (await found(LATEST_TIMESTAMP)).offset == 6


async def test_records_are_deleted_up_to_an_offset_or_to_the_end(filling, brokers, place):
    filling.need("deletion below the log start")
    await put(brokers, place, *[b"v"] * 5)
    assert await settled(lambda: brokers.delete_records(place, 3, timeout_ms=TIMEOUT_MS)) == 3
    assert (await get(brokers, place, 3)).log_start_offset == 3
    found = await settled(lambda: brokers.list_offset(place, EARLIEST_TIMESTAMP))
    assert found.offset == 3
    assert await refused(lambda: brokers.delete_records(place, 6, timeout_ms=TIMEOUT_MS)) == 1
    assert await settled(lambda: brokers.delete_records(place, 2, timeout_ms=TIMEOUT_MS)) == 3
    assert await settled(lambda: brokers.delete_records(place, -1, timeout_ms=TIMEOUT_MS)) == 5
    assert await put(brokers, place) == 5


async def test_records_of_a_topic_that_is_only_compacted_are_not_deleted(filling, brokers):
    filling.need("cleanup policies")
    place = await filling.make_topic(configs={"cleanup.policy": "compact"})
    assert await refused(lambda: brokers.delete_records(place, 0, timeout_ms=TIMEOUT_MS)) == 44


# ---- leaders ------------------------------------------------------------------------------------


async def test_after_a_leader_change_offsets_go_on_under_a_higher_epoch(filling, brokers, place):
    await put(brokers, place, b"a")
    before = await get(brokers, place, 0)
    await filling.move_leader(place)
    assert await put(brokers, place, b"b") == 1
    after = await get(brokers, place, 0)
    assert [offset for offset, _ in values(after.records)] == [0, 1]
    first, second = (frame.leader_epoch for frame in frames(after.records))
    assert first == before.leader_epoch < second == after.leader_epoch


async def test_a_leader_that_was_deposed_refuses_once_and_the_next_try_finds_the_other(
    filling, brokers, place
):
    await put(brokers, place, b"a")
    await get(brokers, place, 0)
    await filling.move_leader(place)
    with pytest.raises(BrokerRefusedError) as caught:
        await _until_heard(brokers, place)
    assert caught.value.code in (6, 74, 75)
    assert values((await get(brokers, place, 0)).records) == [(0, b"a")]


async def _until_heard(brokers, place) -> None:
    """Fetch until the leader that is known here has heard that it is none."""
    for _ in range(200):
        await brokers.fetch(place, 0, max_bytes=MIB)
        await asyncio.sleep(0.05)


async def test_ends_of_leader_epochs(filling, brokers, place):
    await put(brokers, place, b"a", b"b")
    old = (await get(brokers, place, 0)).leader_epoch
    await filling.move_leader(place)
    await put(brokers, place, b"c")
    new = (await get(brokers, place, 0)).leader_epoch

    async def end(epoch):
        return await settled(lambda: brokers.end_offset_of_epoch(place, epoch))

    assert await end(old) == (old, 2)
    assert await end(new) == (new, 3)
    assert await end(new + 5) == (-1, -1)


async def test_a_reader_of_records_that_are_lost_is_told_where_the_log_diverges(
    filling, brokers, place
):
    await put(brokers, place, b"kept")
    epoch = (await get(brokers, place, 0)).leader_epoch
    lost = await filling.lose_newest(place, batch_of(b"lost"))
    assert lost == 1
    fetched = await get(brokers, place, 2, last_fetched_epoch=epoch)
    assert (fetched.records, fetched.diverging) == (b"", (epoch, 1))
    assert (await get(brokers, place, 1, last_fetched_epoch=epoch)).diverging is None
    assert await put(brokers, place, b"anew") == 1
    watch = brokers.watch()
    watch.set([WatchedPartition(place, 2, MIB, last_fetched_epoch=epoch)])
    said = await news_of(watch, place, until=lambda each: each.fetched is not None)
    assert said[place].fetched.diverging == (epoch, 1)
    await watch.close()


async def test_a_throttled_request_is_answered_later(filling, brokers, place):
    await put(brokers, place)
    await filling.throttle(300)
    began_s = asyncio.get_running_loop().time()
    for _ in range(2):  # the answer or the next request waits
        await get(brokers, place, 0)
    assert asyncio.get_running_loop().time() - began_s > 0.2


# ---- the watch ----------------------------------------------------------------------------------


def hot(place, offset=0) -> WatchedPartition:
    return WatchedPartition(place, offset, MIB)


def cold(place, end) -> WatchedPartition:
    return WatchedPartition(place, end, 1)


async def part(filling, brokers, count=2) -> list[BrokerPartition]:
    place = await filling.make_topic(partitions=count)
    return [BrokerPartition(place.topic_id, place.topic, number) for number in range(count)]


async def test_the_first_answer_tells_the_ends_of_every_partition_and_later_ones_what_moved(
    filling, brokers
):
    places = await part(filling, brokers)
    await put(brokers, places[0], b"a", b"b")
    watch = brokers.watch()
    watch.set([cold(places[0], 2), cold(places[1], 0)])
    said = await news_of(watch, *places, until=lambda each: each.fetched is not None)
    assert [said[each].fetched.high_watermark for each in places] == [2, 0]
    assert await watch.poll(200) == []
    await put(brokers, places[1], b"c")
    said = await news_of(watch, places[1])
    assert list(said) == [places[1]]
    assert said[places[1]].fetched.high_watermark == 1
    await watch.close()


async def test_cold_partitions_tell_that_their_end_moved_and_at_most_one_batch_comes_along(
    filling, brokers
):
    places = await part(filling, brokers, 3)
    watch = brokers.watch()
    watch.set([cold(each, 0) for each in places])
    await news_of(watch, *places, until=lambda each: each.fetched is not None)
    for each in places:
        await put(brokers, each, b"a", b"b")
    said = await news_of(
        watch, *places, until=lambda each: each.fetched and each.fetched.high_watermark == 2
    )
    for each in said.values():
        assert len(frames(each.fetched.records)) <= 1
    watch.set([cold(each, 2) for each in places])
    await _quiet(watch)
    await watch.close()


async def _quiet(watch) -> None:
    for _ in range(20):
        if not await watch.poll(200):
            return
    pytest.fail("a watch over partitions in which nothing happens has news each time")


async def test_a_hot_partition_gets_records_as_they_come(brokers, place):
    await put(brokers, place, b"a")
    watch = brokers.watch()
    watch.set([hot(place)])
    said = await news_of(watch, place, until=lambda each: each.fetched and each.fetched.records)
    assert values(said[place].fetched.records) == [(0, b"a")]
    watch.set([hot(place, 1)])
    polled = asyncio.create_task(
        news_of(watch, place, until=lambda each: each.fetched and each.fetched.records)
    )
    await put(brokers, place, b"b")
    said = await polled
    assert values(said[place].fetched.records) == [(1, b"b")]
    await watch.close()


async def test_a_lost_session_costs_nothing_but_a_new_one(filling, brokers, place):
    watch = brokers.watch()
    watch.set([hot(place)])
    await news_of(watch, place, until=lambda each: each.fetched is not None)
    await filling.evict_sessions()
    await put(brokers, place, b"a")
    answers = []
    while not any(each.fetched and each.fetched.records for each in answers):
        answers += await watch.poll(500)
    assert not [each for each in answers if each.error]
    await watch.close()


async def test_what_is_no_longer_watched_is_not_heard_of(filling, brokers):
    places = await part(filling, brokers)
    watch = brokers.watch()
    watch.set([hot(each) for each in places])
    await news_of(watch, *places, until=lambda each: each.fetched is not None)
    watch.set([hot(places[1])])
    for each in places:
        await put(brokers, each)
    said = await news_of(watch, places[1], until=lambda each: each.fetched and each.fetched.records)
    assert list(said) == [places[1]]
    await watch.close()


async def test_a_watched_partition_that_does_not_exist_is_told_and_the_others_go_on(
    filling, brokers, place
):
    unknown = BrokerPartition(NOBODY, "nobody", 0)
    await put(brokers, place)
    watch = brokers.watch()
    watch.set([hot(place), hot(unknown)])
    said = await news_of(watch, place, unknown)
    assert said[unknown].error in (100, 3)
    assert said[unknown].fetched is None
    if not said[place].fetched:
        await news_of(watch, place, until=lambda each: each.fetched is not None)
    await watch.close()


async def test_a_watch_follows_the_leader(filling, brokers, place):
    await put(brokers, place)
    watch = brokers.watch()
    watch.set([hot(place, 1)])
    await news_of(watch, place, until=lambda each: each.fetched is not None)
    await filling.move_leader(place)
    await put(brokers, place, b"b")
    said = await news_of(watch, place, until=lambda each: each.fetched and each.fetched.records)
    assert values(said[place].fetched.records) == [(1, b"b")]
    await watch.close()


# ---- topics -------------------------------------------------------------------------------------


async def test_an_unknown_topic_is_refused_by_id_and_never_created(brokers):
    unknown = BrokerPartition(NOBODY, "nobody", 0)
    assert await _final(lambda: brokers.fetch(unknown, 0, max_bytes=1)) in (100, 3)
    assert await _final(
        lambda: brokers.produce(unknown, batch_of(b"x"), timeout_ms=TIMEOUT_MS)
    ) in (100, 3)
    answer = await brokers.metadata(["nobody"], topic_ids=[])
    assert [each.error for each in answer.topics] == [3]
    answer = await brokers.metadata(topic_ids=[NOBODY])
    assert [each.error for each in answer.topics] == [100]


async def _final(call) -> int:
    with pytest.raises(BrokerRefusedError) as caught:
        await call()
    return caught.value.code


async def test_an_unknown_partition_of_a_topic_is_refused(brokers, place):
    beyond = BrokerPartition(place.topic_id, place.topic, 7)
    await put(brokers, place)
    assert await _final(lambda: brokers.fetch(beyond, 0, max_bytes=1)) in (3, 5)


async def test_a_topic_made_again_is_another_one(filling, brokers, place):
    await put(brokers, place, b"old")
    await settled(lambda: brokers.delete_topic(place.topic, timeout_ms=15_000))
    again = await settled(lambda: _made_again(filling, place.topic))
    assert again.topic_id != place.topic_id
    assert await end_of(brokers, again) == 0
    await put(brokers, again, b"new")
    with suppress(BrokerRefusedError):  # the leader that was known
        await brokers.fetch(place, 0, max_bytes=MIB)
    assert await _final(lambda: brokers.fetch(place, 0, max_bytes=MIB)) in (100, 3)
    assert await _final(lambda: brokers.produce(place, batch_of(b"x"), timeout_ms=TIMEOUT_MS)) in (
        100,
        3,
    )


async def _made_again(filling, name):
    try:
        return await filling.make_topic(name=name)
    except BrokerRefusedError as error:
        if error.code != 36:
            raise
        raise BrokerRefusedError(5, "NOT_GONE_YET") from error


async def test_metadata_tells_brokers_leaders_and_ids(filling, brokers):
    places = await part(filling, brokers, 3)
    answer = await brokers.metadata([places[0].topic])
    assert answer.cluster_id
    assert answer.brokers
    [topic] = answer.topics
    assert (topic.topic, topic.topic_id, topic.error) == (places[0].topic, places[0].topic_id, 0)
    assert sorted(each.partition for each in topic.partitions) == [0, 1, 2]
    known = {each.broker_id for each in answer.brokers}
    for each in topic.partitions:
        assert each.leader in known
        assert each.leader_epoch >= 0
        assert each.leader in each.in_sync
    by_id = await brokers.metadata(topic_ids=[places[0].topic_id])
    assert by_id.topics[0].topic == places[0].topic
    assert (await brokers.metadata()).topics == ()


async def test_topics_are_made_grown_and_deleted(filling, brokers, place):
    again = NewBrokerTopic(place.topic, 1, -1)
    assert await _final(lambda: brokers.create_topic(again, timeout_ms=15_000)) == 36
    await brokers.create_partitions(place.topic, 3, timeout_ms=15_000)
    last = BrokerPartition(place.topic_id, place.topic, 2)
    assert await put(brokers, last) == 0
    assert await _final(lambda: brokers.create_partitions(place.topic, 2, timeout_ms=15_000)) == 37
    await brokers.delete_topic(place.topic, timeout_ms=15_000)
    for _ in range(400):
        if (await brokers.metadata([place.topic])).topics[0].error == 3:
            break
        await asyncio.sleep(0.05)
    else:
        pytest.fail("the topic is still there")


async def test_settings_of_a_topic_are_read_and_changed(filling, brokers):
    filling.need("unknown settings")
    place = await filling.make_topic(configs={"retention.ms": "-1"})
    configs = await settled(lambda: brokers.topic_configs(place.topic))
    assert (configs["retention.ms"], configs["cleanup.policy"]) == ("-1", "delete")
    await brokers.alter_topic_configs(place.topic, {"retention.ms": None, "retention.bytes": "5"})
    for _ in range(400):
        configs = await settled(lambda: brokers.topic_configs(place.topic))
        if configs["retention.bytes"] == "5":
            break
        await asyncio.sleep(0.05)
    assert (configs["retention.ms"], configs["retention.bytes"]) == ("604800000", "5")
    assert await _final(
        lambda: brokers.alter_topic_configs(place.topic, {"no.such.setting": "1"})
    ) in (40, 42)


# ---- rights, connections ------------------------------------------------------------------------


async def test_what_the_cluster_does_not_allow_is_refused_in_words(filling, brokers, place):
    await put(brokers, place)
    await filling.deny(place.topic)
    for call in (
        lambda: brokers.fetch(place, 0, max_bytes=1),
        lambda: brokers.produce(place, batch_of(b"x"), timeout_ms=TIMEOUT_MS),
        lambda: brokers.list_offset(place, LATEST_TIMESTAMP),
    ):
        assert await refused(call) == 29
    answer = await brokers.metadata([place.topic])
    assert [each.error for each in answer.topics] == [29]
    await filling.allow(place.topic)
    assert await _allowed_again(brokers, place) == 1


async def _allowed_again(brokers, place) -> int:
    for _ in range(400):
        with suppress(BrokerRefusedError):
            return (await brokers.list_offset(place, LATEST_TIMESTAMP)).offset
        await asyncio.sleep(0.05)
    pytest.fail("still refused")


async def test_clients_see_each_others_records(filling, brokers, place):
    other = filling.client()
    assert await put(other, place, b"theirs") == 0
    assert await put(brokers, place, b"mine") == 1
    assert [each for _, each in values((await get(other, place, 0)).records)] == [
        b"theirs",
        b"mine",
    ]
    await other.close()


async def test_closing_ends_what_is_under_way(filling, place):
    client = filling.client()
    await put(client, place)
    waiting = asyncio.create_task(client.fetch(place, 1, max_bytes=1, max_wait_ms=30_000))
    await get(client, place, 0)
    await client.close()
    with pytest.raises(BrokerUnreachableError):
        await waiting
    with pytest.raises(BrokerUnreachableError):
        await client.metadata()
    await client.close()


def test_what_some_brokers_cannot_do_is_tried_in_memory():
    """Fillings leave verbs out, and their tests are skipped there: never everywhere."""
    verbs = {
        name
        for name, verb in vars(BrokerFilling).items()
        if "_cannot" in getattr(getattr(verb, "__wrapped__", verb), "__code__", _NO_CODE).co_names
    }
    assert len(verbs) > len(("move_leader", "throttle"))
    assert verbs <= set(vars(MemoryFilling))
    assert not MemoryFilling.gaps


_NO_CODE = compile("", "", "exec")
