"""Futures of the producer for threads: light, and whole futures for whoever waits."""

import asyncio
import concurrent.futures
import threading

import pytest

from sharemesh.client import Producer
from sharemesh.client.errors import TopicAuthorizationFailedError
from tests.client.mini_cluster import MiniCluster, values_of

FAR_MS = 60_000


@pytest.fixture
def cluster():
    return MiniCluster(partitions=4)


def producer_of(cluster: MiniCluster, **config) -> Producer:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    return Producer({**cluster.config, **settings}, environment=cluster.environment())


def test_futures_are_those_of_concurrent_futures_before_and_after_the_outcome(cluster):
    with producer_of(cluster, linger_ms=FAR_MS) as producer:
        futures = [producer.send("t", str(n), partition=0) for n in range(10)]
        assert not any(future.done() for future in futures)
        assert not futures[0].cancel(), "what is queued cannot be called back"
        told = []
        futures[1].add_done_callback(lambda done: told.append(done.result().offset))
        waited = threading.Thread(target=lambda: told.append(futures[2].result(10).offset))
        waited.start()
        _, pending = concurrent.futures.wait(futures[:3], timeout=0)
        assert len(pending) == 3
        producer.flush(10_000)
        waited.join(10)
        assert sorted(told) == [1, 2]
        done, pending = concurrent.futures.wait(futures, timeout=10)
        assert (len(done), len(pending)) == (10, 0)
        found = [each.result(0).offset for each in concurrent.futures.as_completed(futures, 10)]
        assert sorted(found) == list(range(10))
        futures[3].add_done_callback(lambda done: told.append(done.result().offset))
        assert sorted(told) == [1, 2, 3]
        assert futures[4].exception(0) is None


async def test_a_future_can_be_awaited_when_it_is_wrapped(cluster):
    producer = producer_of(cluster, linger_ms=0)
    metadata = await asyncio.wrap_future(producer.send("t", b"x", partition=2))
    assert (metadata.partition, metadata.offset) == (2, 0)
    await asyncio.to_thread(producer.close)


def test_all_records_of_a_batch_fail_with_its_reason(cluster):
    cluster.produce_errors = [29]
    with producer_of(cluster, linger_ms=FAR_MS) as producer:
        futures = [producer.send("t", str(n), partition=0) for n in range(5)]
        futures[0].add_done_callback(lambda _: None)
        producer.flush(10_000)
        for future in futures:
            with pytest.raises(TopicAuthorizationFailedError):
                future.result(10)
            assert isinstance(future.exception(0), TopicAuthorizationFailedError)


def test_records_of_many_threads_are_confirmed_once_and_each_threads_in_order(cluster):
    threads, each = 8, 1_500
    with producer_of(cluster, batch_size=2_000, buffer_memory=50_000) as producer:
        offsets = [[] for _ in range(threads)]

        def send(thread: int) -> None:
            futures = [
                producer.send("t", f"{thread}:{n}", partition=thread % 4) for n in range(each)
            ]
            offsets[thread] = [future.result(30).offset for future in futures]

        senders = [threading.Thread(target=send, args=(n,)) for n in range(threads)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(60)
        assert producer.metrics()["record-send-total"] == threads * each
        assert producer.metrics()["buffer-used-bytes"] == 0
    for thread in range(threads):
        batches = cluster.partitions[thread % 4].batches
        stored = [value for _, _, data in batches for value in values_of(data)]
        mine = [value for value in stored if value.startswith(b"%d:" % thread)]
        assert mine == [b"%d:%d" % (thread, n) for n in range(each)]
        assert [stored[offset] for offset in offsets[thread]] == mine


def test_what_is_sent_before_the_topic_is_known_goes_first(cluster):
    with producer_of(cluster, linger_ms=0) as producer:
        futures = [producer.send("t", str(n), partition=0) for n in range(200)]
        assert [future.result(10).offset for future in futures] == list(range(200))


def test_a_batch_that_was_not_written_goes_out_again_under_a_new_identity(cluster):
    cluster.produce_errors = [59]
    with producer_of(cluster, linger_ms=FAR_MS, retry_backoff_ms=1) as producer:
        futures = [producer.send("t", str(n), partition=0) for n in range(3)]
        producer.flush(10_000)
        assert [future.result(0).offset for future in futures] == [0, 1, 2]
    ((_, _, data),) = cluster.partitions[0].batches
    assert values_of(data) == [b"0", b"1", b"2"]


def test_a_topic_that_was_made_again_gets_its_records(cluster):
    with producer_of(cluster, linger_ms=0) as producer:
        assert producer.send("t", b"1", partition=0).result(10).offset == 0
        cluster.topics["t"] = b"another topic id"
        cluster.producer_sequences.clear()
        assert producer.partitions_for("t") == 4
        assert producer.send("t", b"2", partition=0).result(10).offset == 1
        assert cluster.produced_to[-1] == b"another topic id"
