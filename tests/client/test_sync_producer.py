"""The producer for threads: linger, callbacks, futures, flush."""

import threading

import pytest

from sharemesh.client import Producer
from sharemesh.client.errors import TopicAuthorizationFailedError
from tests.client.mini_cluster import MiniCluster


@pytest.fixture
def cluster():
    return MiniCluster()


def producer_of(cluster: MiniCluster, **config) -> Producer:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    return Producer({**cluster.config, **settings}, environment=cluster.environment())


def test_records_within_the_linger_share_a_batch_and_flush_does_not_wait_for_it(cluster):
    with producer_of(cluster, linger_ms=60_000) as producer:
        futures = [producer.send("t", str(number)) for number in range(10)]
        producer.flush(10_000)
        assert [future.result(0).offset for future in futures] == list(range(10))
    assert len(cluster.partitions[0].batches) == 1


def test_without_a_linger_a_record_goes_at_once(cluster):
    with producer_of(cluster, linger_ms=0) as producer:
        for number in range(3):
            assert producer.send("t", str(number)).result(10).offset == number
    assert len(cluster.partitions[0].batches) == 3


def test_the_callback_gets_the_place_or_the_error(cluster):
    told = []
    called = threading.Event()

    def callback(metadata, error):
        told.append((metadata and metadata.offset, type(error)))
        called.set()

    with producer_of(cluster, linger_ms=0) as producer:
        producer.send("t", b"x", callback=callback).result(10)
        assert called.wait(10)
        called.clear()
        cluster.produce_errors.append(29)
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("t", b"y", callback=callback).result(10)
        assert called.wait(10)
    assert told == [(0, type(None)), (None, TopicAuthorizationFailedError)]
