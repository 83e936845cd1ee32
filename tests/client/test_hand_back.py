"""Records that poll never returned are given back in time, and not counted (spec HBK-20..)."""

import asyncio
import logging
import time

from sharemesh.v1 import share_leader_pb2 as pb
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of, explicit_of, until

LOCK_MS = 2_000


def alone(count: int, **scene) -> MiniCluster:
    """Return a cluster with records that were each sent alone."""
    cluster = MiniCluster(lock_ms=LOCK_MS, **scene)
    cluster.append(*[b"%d" % n for n in range(count)], batched=False)
    return cluster


async def handed_out_one(consumer) -> int:
    """Poll until there is something; return how many records came."""
    return len(await consumer.poll(5_000))


async def test_what_a_hanging_application_has_not_seen_goes_back_before_its_locks_end():
    cluster = alone(20)
    async with await consumer_of(cluster) as consumer:
        seen = await handed_out_one(consumer)
        began = time.monotonic()
        await until(lambda: cluster.states().count("acquired") == seen)
        assert time.monotonic() - began < LOCK_MS / 1_000
        assert cluster.states().count("available") == 20 - seen
        assert cluster.counts() == [1] * seen + [0] * (20 - seen)


async def test_nothing_is_sent_to_an_application_that_hangs():
    """HBK-24."""
    cluster = alone(20)
    async with await consumer_of(cluster) as consumer:
        seen = await handed_out_one(consumer)
        await until(lambda: cluster.states().count("available") == 20 - seen)
        delivered = consumer.metrics()["records-consumed-total"]
        cluster.append(*[b"new"] * 5)
        await asyncio.sleep(LOCK_MS / 1_000)  # several rounds of the leader
        assert consumer.metrics()["records-consumed-total"] == delivered
        assert cluster.counts()[seen:] == [0] * (25 - seen)


async def test_records_whose_locks_a_hanging_application_lost_do_not_come_again_to_it():
    cluster = alone(1)
    async with await consumer_of(cluster) as consumer:
        assert await handed_out_one(consumer) == 1
        await asyncio.sleep(1.5 * LOCK_MS / 1_000)
        assert cluster.counts() == [1]
        assert consumer.metrics()["records-consumed-total"] == 1


async def test_an_application_that_wakes_gets_the_rest_as_a_first_delivery():
    cluster = alone(20)
    async with await consumer_of(cluster) as consumer:
        records = await consumer.poll(5_000)
        await until(lambda: cluster.states().count("available") == 20 - len(records))
        while len(records) < 20:
            records += await consumer.poll(5_000)
        assert [record.offset for record in records] == list(range(20))
        assert {record.delivery_count for record in records} == {1}


async def test_a_stall_is_told_once_and_counted(caplog):
    """HBK-25."""
    caplog.set_level(logging.WARNING)
    cluster = alone(20)
    async with await consumer_of(cluster) as consumer:
        seen = await handed_out_one(consumer)
        await until(lambda: "has not polled" in caplog.text)
        await asyncio.sleep(1)
        assert consumer.metrics()["records-handed-back-total"] == 20 - seen
    assert caplog.text.count("has not polled") == 1
    assert f"was given back to the group ({20 - seen})" in caplog.text
    assert "max.poll.records" in caplog.text


async def test_records_that_nobody_asked_for_yet_wait_for_half_of_their_lock():
    """HBK-22: an application that polls seldom and does not wait gets what came meanwhile."""
    cluster = MiniCluster(lock_ms=LOCK_MS)
    async with await consumer_of(cluster) as consumer:
        assert await consumer.poll(100) == []
        cluster.append(b"x")
        await asyncio.sleep(LOCK_MS / 4_000)
        assert len(await consumer.poll(0)) == 1


async def test_a_thread_of_the_event_loop_that_stood_still_hands_out_no_lost_lock(caplog):
    cluster = alone(20)
    async with await consumer_of(cluster, prefetch_records=100) as consumer:
        await handed_out_one(consumer)
        await until(lambda: consumer.metrics()["records-consumed-total"] == 20)
        time.sleep(LOCK_MS / 1_000)
        records = await consumer.poll(5_000)
        assert {record.delivery_count for record in records} == {2}
        assert consumer.metrics()["records-expired-unseen-total"] > 0
    assert "are dropped: the event loop stood still" in caplog.text


async def test_closing_gives_back_what_waits_without_counting_it():
    cluster = alone(20)
    consumer = await consumer_of(cluster)
    seen = await handed_out_one(consumer)
    await until(lambda: consumer.metrics()["records-consumed-total"] == 20)
    await consumer.close()
    assert cluster.states() == ["available"] * 20
    assert cluster.counts() == [1] * seen + [0] * (20 - seen)


async def test_unsubscribing_gives_back_what_waits_without_counting_it():
    cluster = alone(20)
    async with await consumer_of(cluster) as consumer:
        seen = await handed_out_one(consumer)
        await until(lambda: consumer.metrics()["records-consumed-total"] == 20)
        await consumer.unsubscribe()
        assert cluster.counts() == [1] * seen + [0] * (20 - seen)


async def test_what_lies_behind_a_failure_waits_where_it_can_be_given_back():
    cluster = MiniCluster(lock_ms=LOCK_MS)
    cluster.append(b"1", b"2", b"bad", b"4", b"5")

    def read(value: bytes) -> int:
        return int(value)

    async with await explicit_of(cluster, value_deserializer=read) as consumer:
        records = await consumer.poll(5_000)
        assert [record.value for record in records] == [1, 2]
        await until(lambda: cluster.states() == ["acquired"] * 2 + ["available"] * 3)
        assert cluster.counts() == [1, 1, 0, 0, 0]


async def test_only_a_release_of_unseen_records_says_that_it_does_not_count():
    cluster = alone(20)
    told: list[pb.AcknowledgementBatch] = []
    cluster.on_acknowledgement = told.append
    async with await consumer_of(cluster) as consumer:
        seen = await handed_out_one(consumer)
        await until(lambda: cluster.states().count("available") == 20 - seen)
        assert await consumer.poll(5_000)
        await until(lambda: "accepted" in cluster.states())
    assert {tuple(each.acknowledge_types) for each in told if each.uncounted} == {(2,)}
    assert {tuple(each.acknowledge_types) for each in told if not each.uncounted} == {(1,)}
