"""What goes wrong is told: a dead cluster, a missing topic, lost locks, wrong units, time-outs."""

import asyncio
import logging
import time

import pytest

from sharemesh.client import AsyncShareConsumer
from sharemesh.client.admin.client import AsyncAdminClient
from sharemesh.client.background_loop import BackgroundLoop
from sharemesh.client.errors import (
    ConnectionFailedError,
    IllegalArgumentError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from sharemesh.client.metadata.metadata_cache import nobody_answered
from sharemesh.client.producer.producer import Producer
from sharemesh.client.repeated_warnings import RepeatedWarnings
from sharemesh.ports.network import CallFailedError, Failure
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of, explicit_of, until
from tests.clocks import ManualClock

NOBODY = {"bootstrap.servers": "c:1,d:1"}


def lines(caplog, words: str) -> list[str]:
    return [each.message for each in caplog.records if words in each.message]


async def test_a_consumer_says_that_no_process_of_its_cluster_answers(caplog):
    settings = {**NOBODY, "group.id": "g", "retry.backoff.ms": 10}
    async with AsyncShareConsumer(settings, environment=MiniCluster().environment()) as consumer:
        await consumer.subscribe(["t"])
        assert await consumer.poll(1_500) == []
    (said,) = set(lines(caplog, "no process of the cluster answered"))
    assert "connection refused; is the cluster running, and is the port right?" in said
    assert [said.count(address) for address in ("c:1", "d:1")] == [1, 1]
    assert len(lines(caplog, "no process of the cluster")) <= 2  # two tasks look for it


async def test_a_join_under_the_id_of_another_principals_member_is_said_and_repeated_bnd_26(caplog):
    cluster = MiniCluster()
    cluster.heartbeat_errors = [25, 25]
    async with await consumer_of(cluster) as consumer:
        cluster.append(b"x")
        assert await consumer.poll(5_000)
    assert lines(caplog, "group g cannot be joined now")


async def test_an_administrator_is_told_at_once_that_every_connection_is_refused():
    began = time.monotonic()
    async with AsyncAdminClient(NOBODY, environment=MiniCluster().environment()) as admin:
        with pytest.raises(ConnectionFailedError, match=r"c:1.*connection refused"):
            await admin.list_topics()
    assert time.monotonic() - began < 5  # the API time-out is a minute


async def test_an_administrator_waits_for_a_cluster_that_answered_before():
    cluster = MiniCluster()
    settings = {**cluster.config, "retry.backoff.ms": 10}
    async with AsyncAdminClient(settings, environment=cluster.environment()) as admin:
        await admin.list_topics()
        for host in cluster.network.hosts():
            host.listening = False
        asking = asyncio.ensure_future(admin.list_topics())
        await asyncio.sleep(0.1)
        assert not asking.done()
        for host in cluster.network.hosts():
            host.listening = True
        assert await asking


async def test_a_consumer_says_which_topic_does_not_exist(caplog):
    settings = {**MiniCluster().config, "group.id": "g"}
    async with AsyncShareConsumer(settings, environment=MiniCluster().environment()) as consumer:
        await consumer.subscribe(["t", "typo"])
        assert await consumer.poll(1_500) == []
    (said,) = lines(caplog, "does not exist")
    assert "topic typo" in said
    assert "sharemesh topics create typo; with storage kafka create it in Kafka" in said


async def test_acceptances_whose_lock_was_lost_are_logged_and_counted(caplog):
    cluster = MiniCluster()
    cluster.append(b"x", b"y")
    async with await consumer_of(cluster) as consumer:
        assert len(await consumer.poll(5_000)) == 2
        cluster.refuse_acknowledge = [121]
        await consumer.poll(100)
        await until(lambda: consumer.metrics()["acknowledgements-lost-lock-total"] == 2)
        await consumer.poll(10)
    (said,) = lines(caplog, "were refused")
    assert said.startswith("2 acknowledgements of t/0 were refused (")
    assert "max.poll.records" in said


async def test_what_a_commit_or_a_callback_tells_is_not_logged(caplog):
    caplog.set_level(logging.WARNING)
    cluster = MiniCluster()
    cluster.append(b"x")
    cluster.append(b"y")
    cluster.refuse_acknowledge = [121, 121]
    async with await explicit_of(cluster, max_poll_records=1) as consumer:
        (record,) = await consumer.poll(5_000)
        consumer.acknowledge(record)
        assert any((await consumer.commit_sync()).values())
        told = []
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append(error))
        (record,) = await consumer.poll(5_000)
        consumer.acknowledge(record)
        await consumer.commit_async()
        await until(lambda: consumer.metrics()["acknowledgements-lost-lock-total"] == 2)
        await consumer.poll(10)
        assert len(told) == 1
    assert lines(caplog, "were refused") == []


@pytest.mark.parametrize("timeout_ms", [1.0, "1000", None])
async def test_a_time_out_that_is_no_whole_number_is_refused(timeout_ms):
    async with await consumer_of(MiniCluster()) as consumer:
        for call in (consumer.poll, consumer.close):
            with pytest.raises(IllegalArgumentError, match="milliseconds"):
                await call(timeout_ms)


def test_a_result_that_is_late_says_what_it_waits_for():
    loop = BackgroundLoop("cluster")
    try:
        cluster = loop.run(_made())
        producer = Producer(NOBODY, environment=cluster.environment())
        with pytest.raises(TimeoutError, match=r"metadata of topic t; no process of the cluster"):
            producer.send("t", b"x").result(0.5)
        producer.close(0)
        cluster.produce_errors = [5] * 1_000
        producer = Producer(cluster.config, environment=cluster.environment())
        sent = producer.send("t", b"x", partition=0)
        with pytest.raises(TimeoutError, match=r"t/0: leader a at a:1; its last answer was: t/0"):
            sent.result(0.5)
        with pytest.raises(TimeoutError, match=r"not confirmed within 0\.1 s"):
            sent.exception(0.1)
        producer.close(0)
        with pytest.raises(RequestTimedOutError):
            sent.result(5)
    finally:
        loop.stop()


async def _made() -> MiniCluster:
    return MiniCluster()


def test_what_stays_wrong_is_said_ever_more_seldom():
    clock = ManualClock(0)
    seldom = RepeatedWarnings(clock)
    said = []
    for second in range(200):
        clock._now_ms = second * 1_000
        if seldom.is_due("x"):
            said.append(second)
    assert said == [0, 1, 3, 7, 15, 31, 61, 91, 121, 151, 181]
    clock._now_ms = 400_000
    assert seldom.is_due("x")
    clock._now_ms += 1_000
    assert seldom.is_due("x")


def test_each_address_is_named_once_with_its_reason():
    refused = CallFailedError(Failure.UNAVAILABLE, "x", unreachable="connection refused")
    late = CallFailedError(Failure.DEADLINE_EXCEEDED, "Metadata to c:1: overdue")
    said = nobody_answered([("a:1", refused), ("b:1", refused), ("c:1", late)], ["a:1"])
    assert "at a:1, b:1: connection refused; c:1: no answer in time; is the cluster" in said


def test_a_producer_says_which_topic_does_not_exist_and_what_nobody_looked_at(caplog):
    loop = BackgroundLoop("cluster")
    try:
        cluster = loop.run(_made())
        with Producer(cluster.config, environment=cluster.environment()) as producer:
            producer.send("t", b"x", partition=99)
        (said,) = lines(caplog, "not confirmed")
        assert said.startswith("topic t: a record was not confirmed, and nobody read")
        assert "partition 99: the topic has" in said
        caplog.clear()
        settings = {**cluster.config, "max.block.ms": 1_500, "retry.backoff.ms": 50}
        with Producer(settings, environment=cluster.environment()) as producer:
            for _ in range(3):
                producer.send("typo", b"x")
        (waits,) = lines(caplog, "is produced to (3 records wait)")
        assert "sharemesh topics create typo;" in waits
        assert "with storage kafka create it in Kafka" in waits
        assert "sharemesh topics attach typo)" in waits
        told = [each.split(" not confirmed")[0] for each in lines(caplog, "not confirmed")]
        assert told in (  # what was sent in one millisecond is told as one
            ["topic typo: 3 records were"],
            ["topic typo: a record was", "topic typo: 2 records were"],
            ["topic typo: 2 records were", "topic typo: a record was"],
        )
    finally:
        loop.stop()


def test_a_failed_record_is_not_told_to_those_who_look_at_it(caplog):
    loop = BackgroundLoop("cluster")
    try:
        cluster = loop.run(_made())
        told: list[Exception | None] = []
        with Producer(cluster.config, environment=cluster.environment()) as producer:
            producer.send("t", b"x", partition=99, callback=lambda _, error: told.append(error))
            with pytest.raises(UnknownTopicOrPartitionError):
                producer.send("t", b"x", partition=99).result(5)
            assert producer.send("t", b"x", partition=99).exception(5)
            producer.send("t", b"x", partition=99).add_done_callback(
                lambda done: told.append(done.exception())
            )
        assert len(told) == 2
    finally:
        loop.stop()
    assert lines(caplog, "not confirmed") == []
