"""The producer: batching, idempotence, retries, futures, back-pressure, time-outs."""

import asyncio
import threading

import pytest

from sharemesh.client.errors import (
    BufferExhaustedError,
    ConnectionFailedError,
    IllegalArgumentError,
    IllegalStateError,
    MessageTooLargeError,
    RequestTimedOutError,
    SharemeshError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from sharemesh.client.producer.async_producer import AsyncProducer
from sharemesh.codec.client_batches import BatchWriter
from tests.client.mini_cluster import MiniCluster, values_of


def producer_of(cluster: MiniCluster, **config) -> AsyncProducer:
    settings = {**cluster.config, "retry.backoff.ms": 10, "linger.ms": 1}
    settings.update({name.replace("_", "."): value for name, value in config.items()})
    return AsyncProducer(settings, environment=cluster.environment())


def stored(cluster: MiniCluster, partition: int = 0) -> list[bytes]:
    return [v for _, _, data in cluster.partitions[partition].batches for v in values_of(data)]


async def test_records_are_confirmed_with_their_offsets_in_order():
    cluster = MiniCluster()
    async with producer_of(cluster, batch_size=200) as producer:
        futures = [await producer.send("t", f"v{n}") for n in range(50)]
        await producer.flush()
        assert [f.result().offset for f in futures] == list(range(50))
    assert stored(cluster) == [f"v{n}".encode() for n in range(50)]
    assert len(cluster.partitions[0].batches) > 1


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_flush_waits_only_for_what_was_sent_before_it(is_known):
    cluster = MiniCluster(partitions=2)
    cluster.partitions[1].leader = "b"
    release = cluster.hold_produce[1] = threading.Event()
    async with producer_of(cluster, linger_ms=60_000) as producer:
        if is_known:
            await producer.partitions_for("t")
        before = await producer.send("t", b"1", partition=0)
        flushing = asyncio.ensure_future(producer.flush())
        await asyncio.sleep(0)
        since = await producer.send("t", b"2", partition=1)
        try:
            async with asyncio.timeout(5):
                await flushing
            assert before.done()
            assert not since.done()
        finally:
            release.set()
        await producer.flush()
        assert since.done()


async def test_an_error_that_nobody_thought_of_fails_the_record_and_those_before(monkeypatch):
    cluster = MiniCluster()
    async with producer_of(cluster, linger_ms=60_000) as producer:
        first = await producer.send("t", b"1")
        async with asyncio.timeout(10):
            while producer._engine._accumulator.unknown_topics():
                await asyncio.sleep(0)

        def breaks(*_):
            raise RuntimeError("a bug")

        with monkeypatch.context() as patched:
            patched.setattr(BatchWriter, "append", breaks)
            second = await producer.send("t", b"2")
        for each in (first, second, await producer.send("t", b"3")):
            with pytest.raises(SharemeshError, match=r"broke down: RuntimeError\('a bug'\)"):
                await each
        await producer.flush()
        assert producer.metrics()["buffer-used-bytes"] == 0
    assert stored(cluster) == []


async def test_a_close_waits_also_for_those_who_waited_for_room():
    cluster = MiniCluster()
    producer = producer_of(cluster, buffer_memory=200, linger_ms=60_000)
    await producer.send("t", b"x" * 150)
    waiting = asyncio.ensure_future(producer.send("t", b"y" * 150))
    await asyncio.sleep(0)
    await producer.close()
    assert (await (await waiting)).offset == 1


async def test_a_key_decides_the_partition_and_an_explicit_one_wins():
    cluster = MiniCluster(partitions=4)
    async with producer_of(cluster) as producer:
        first = await producer.send_and_wait("t", b"1", key="k")
        second = await producer.send_and_wait("t", b"2", key="k")
        assert first.partition == second.partition
        third = await producer.send_and_wait("t", b"3", key="k", partition=3)
        assert third.partition == 3
        with pytest.raises(UnknownTopicOrPartitionError, match="partition 4"):
            await producer.send_and_wait("t", b"3", partition=4)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_compression_can_be_read_back(compression):
    cluster = MiniCluster()
    async with producer_of(cluster, compression_type=compression) as producer:
        await producer.send_and_wait("t", b"value" * 100, headers={"h": "1"})
    assert stored(cluster) == [b"value" * 100]


async def test_passing_refusals_are_tried_again_without_duplicates():
    cluster = MiniCluster()
    cluster.produce_errors = [6, -1, 5, -1]  # -1: written, yet answered with a time-out
    async with producer_of(cluster) as producer:
        for n in range(5):
            await producer.send_and_wait("t", f"{n}")
    assert stored(cluster) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_refusal_that_does_not_pass_fails_the_future():
    cluster = MiniCluster()
    cluster.produce_errors = [29]
    async with producer_of(cluster) as producer:
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("t", b"x")
        assert (await producer.send_and_wait("t", b"y")).offset == 0
    assert stored(cluster) == [b"y"]


async def test_a_moved_leader_is_followed():
    cluster = MiniCluster()
    async with producer_of(cluster) as producer:
        await producer.send_and_wait("t", b"1")
        await cluster.network.listener("a:1").stop()
        cluster.move(0, "b")
        assert (await producer.send_and_wait("t", b"2")).offset == 1


async def test_the_next_leader_is_awaited_with_one_request_and_not_polled_for():
    cluster = MiniCluster()
    patient = {"retry_backoff_ms": 5_000, "retry_backoff_max_ms": 10_000}
    async with producer_of(cluster, **patient) as producer:
        await producer.send_and_wait("t", b"1")
        reads = cluster.metadata_reads
        cluster.produce_errors = [6]
        waiting = await producer.send("t", b"2")
        async with asyncio.timeout(10):
            while cluster.metadata_reads == reads:
                await asyncio.sleep(0.001)
        began = asyncio.get_running_loop().time()
        cluster.move(0, "b")
        assert (await waiting).offset == 1
        assert asyncio.get_running_loop().time() - began < 4  # its back-off is five seconds
        assert cluster.metadata_reads - reads <= 2


async def test_an_unknown_topic_fails_after_max_block_ms():
    cluster = MiniCluster()
    async with producer_of(cluster, max_block_ms=50) as producer:
        with pytest.raises(UnknownTopicOrPartitionError, match="topic no"):
            await producer.send_and_wait("no", b"x")


async def test_a_cluster_that_is_down_is_named():
    cluster = MiniCluster()
    for node in ("a", "b"):
        await cluster.network.listener(f"{node}:1").stop()
    async with producer_of(cluster, max_block_ms=50) as producer:
        with pytest.raises(ConnectionFailedError, match="is the cluster running"):
            await producer.send_and_wait("t", b"x")


async def test_delivery_timeout_fails_what_cannot_be_sent():
    cluster = MiniCluster()
    async with producer_of(cluster, delivery_timeout_ms=100, request_timeout_ms=50) as producer:
        await producer.send_and_wait("t", b"1")
        cluster.produce_errors = [6] * 1_000
        with pytest.raises(RequestTimedOutError, match=r"delivery\.timeout\.ms"):
            await producer.send_and_wait("t", b"2")
        cluster.produce_errors = []
        assert (await producer.send_and_wait("t", b"3")).offset == 1


async def test_a_full_buffer_blocks_and_then_refuses():
    cluster = MiniCluster()
    cluster.produce_errors = [6] * 10_000
    async with producer_of(cluster, buffer_memory=200, max_block_ms=500) as producer:
        first = await producer.send("t", b"x" * 150)
        with pytest.raises(BufferExhaustedError):
            await producer.send("t", b"x" * 150)
        cluster.produce_errors = []
        await producer.send("t", b"x" * 150)
        await first


async def test_close_confirms_what_it_can_and_fails_the_rest_in_time():
    cluster = MiniCluster()
    producer = producer_of(cluster)
    sent = await producer.send("t", b"1")
    await producer.close()
    assert sent.result().offset == 0
    with pytest.raises(IllegalStateError):
        await producer.send("t", b"2")
    producer = producer_of(cluster)
    cluster.produce_errors = [6] * 10_000
    sent = await producer.send("t", b"1")
    began = asyncio.get_running_loop().time()
    await producer.close(100)
    assert asyncio.get_running_loop().time() - began < 0.2
    with pytest.raises(RequestTimedOutError, match="closed"):
        await sent


async def test_wrong_arguments_are_refused_before_anything_is_queued():
    cluster = MiniCluster()
    async with producer_of(cluster, max_request_size=1_000) as producer:
        with pytest.raises(IllegalArgumentError):
            await producer.send(" ", b"x")
        with pytest.raises(IllegalArgumentError):
            await producer.send("t", b"x", partition=-1)
        with pytest.raises(IllegalArgumentError, match="neither bytes nor text"):
            await producer.send("t", 5)
        with pytest.raises(MessageTooLargeError):
            await producer.send("t", b"x" * 2_000)
        assert producer.metrics() == {}


async def test_records_requests_and_failures_are_counted():
    cluster = MiniCluster()
    async with producer_of(cluster, linger_ms=0) as producer:
        await producer.send_and_wait("t", b"x")
        cluster.produce_errors.append(29)
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("t", b"y")
        assert producer.metrics() == {
            "record-send-total": 1,
            "record-error-total": 1,
            "request-total": 2,
            "produce-throttle-time-avg": 0,
            "produce-throttle-time-max": 0,
            "buffer-used-bytes": 0,
        }


async def test_who_may_write_no_topic_is_told_at_once():
    cluster = MiniCluster()
    cluster.init_producer_errors = [31]
    async with producer_of(cluster) as producer:
        with pytest.raises(TopicAuthorizationFailedError, match="topic t"):
            await producer.send_and_wait("t", b"x")
        assert (await producer.send_and_wait("t", b"y")).offset == 0


async def test_a_closed_producer_opens_no_connection_again():
    cluster = MiniCluster()
    producer = producer_of(cluster)
    await producer.send_and_wait("t", b"1")
    await producer.close()
    await producer.close()
    await producer.flush()
    assert producer.metrics()["record-send-total"] == 1
    with pytest.raises(IllegalStateError, match="closed"):
        await producer.partitions_for("t")


async def test_partitions_that_failed_together_are_not_retried_together():
    cluster = MiniCluster(partitions=20)
    cluster.produce_errors = [6] * 20
    async with producer_of(cluster, retry_backoff_ms=500) as producer:
        futures = [await producer.send("t", b"x", partition=n) for n in range(20)]
        await asyncio.gather(*futures)
        assert producer.metrics()["request-total"] > 4  # one, and one retry of all, without jitter


async def test_quo_11_nothing_is_sent_to_a_leader_before_its_throttle_time_is_over():
    cluster = MiniCluster()
    cluster.throttle_times = [300]
    loop = asyncio.get_running_loop()
    async with producer_of(cluster) as producer:
        await producer.send_and_wait("t", b"1")
        began = loop.time()
        await producer.send_and_wait("t", b"2")
        assert loop.time() - began >= 0.29
        counted = producer.metrics()
    assert counted["produce-throttle-time-max"] == 300
    assert counted["produce-throttle-time-avg"] == 150


async def test_quo_11_a_refusal_by_a_quota_is_repeated_in_order_after_the_throttle_time():
    cluster = MiniCluster()
    cluster.produce_errors = [89]
    cluster.throttle_times = [100]
    async with producer_of(cluster, batch_size=100) as producer:
        futures = [await producer.send("t", f"v{n}") for n in range(20)]
        await producer.flush()
        assert [each.result().offset for each in futures] == list(range(20))
    assert stored(cluster) == [f"v{n}".encode() for n in range(20)]


async def test_quo_11_a_record_that_a_quota_kept_for_too_long_says_so():
    cluster = MiniCluster()
    cluster.throttle_times = [30_000]
    limits = {"delivery_timeout_ms": 300, "request_timeout_ms": 200}
    async with producer_of(cluster, **limits) as producer:
        await producer.send_and_wait("t", b"1")
        with pytest.raises(RequestTimedOutError, match="quota"):
            await producer.send_and_wait("t", b"2")
