"""Futures of the producer for threads: light, and whole futures for whoever waits."""

import asyncio
import concurrent.futures
import contextlib
import gc
import os
import signal
import threading
import weakref
from collections import deque

import pytest

from sharemesh.client import Producer
from sharemesh.client.errors import (
    IllegalArgumentError,
    IllegalStateError,
    SharemeshError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from sharemesh.codec.client_batches import BatchWriter
from sharemesh.codec.record_set import raw_records
from tests.client.mini_cluster import MiniCluster, values_of

FAR_MS = 60_000


class InterruptedOnce(deque):
    """What a sender hands over by, with a Ctrl-C in the midst of it."""

    is_due = True

    def append(self, item):
        if self.is_due:
            self.is_due = False
            raise KeyboardInterrupt
        super().append(item)


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


def test_an_interrupt_while_a_record_is_handed_over_loses_none_behind_it(cluster):
    with producer_of(cluster, linger_ms=0) as producer:
        producer._handed = InterruptedOnce()
        producer._is_stirred = True
        with pytest.raises(KeyboardInterrupt):
            producer.send("t", "a", key="k")
        producer._is_stirred = True  # as while the loop is busy
        after = producer.send("t", "b", key="k")
        producer.flush(10_000)
        assert after.result(5).offset == 0


def failed_batch(cluster, caplog, count, look):
    """Let a batch of ``count`` records fail, ``look`` at the futures, drop them; what is said."""
    cluster.produce_errors = [29]
    with producer_of(cluster, linger_ms=FAR_MS) as producer:
        futures = [producer.send("t", str(n), partition=0) for n in range(count)]
        early = [futures[0]]
        concurrent.futures.wait(early, timeout=0)  # whole, but nobody read it
        producer.flush(10_000)
        look(futures)
        assert not [each for each in caplog.messages if "nobody read" in each]
        early.clear()
        futures.clear()
    return [each for each in caplog.messages if "nobody read" in each]


def test_failures_that_were_read_are_not_logged_and_those_of_dropped_futures_are(cluster, caplog):
    def all_but_two(futures):
        for future in futures[:-2] * 2:  # whoever reads twice has read one
            assert future.exception(5)

    (said,) = failed_batch(cluster, caplog, 6, all_but_two)
    assert said.startswith("topic t: 2 records were not confirmed")


def test_a_batch_whose_failures_were_all_read_is_not_logged(cluster, caplog):
    def everything(futures):
        for future in futures:
            with pytest.raises(TopicAuthorizationFailedError):
                future.result(5)

    assert failed_batch(cluster, caplog, 6, everything) == []


def test_a_record_that_has_a_callback_and_a_reader_is_not_counted_twice(cluster, caplog):
    cluster.produce_errors = [29]
    told = []
    with producer_of(cluster, linger_ms=FAR_MS) as producer:
        read = [producer.send("t", b"1", partition=0, callback=lambda _, why: told.append(why))]
        producer.send("t", b"2", partition=0)
        looked = threading.Thread(target=lambda: told.append(read[0].exception(10)))
        looked.start()
        producer.flush(10_000)
        looked.join(10)
        assert len(told) == 2
        assert read[0].exception(0)
        read.clear()
    (said,) = [each for each in caplog.messages if "nobody read" in each]
    assert said.startswith("topic t: a record was not confirmed")


def test_a_future_that_nobody_keeps_is_gone_when_its_record_is_in_a_batch(cluster):
    with producer_of(cluster, linger_ms=FAR_MS) as producer:
        producer.partitions_for("t")
        dropped = weakref.ref(producer.send("t", b"1", partition=0))
        kept = producer.send("t", b"2", partition=0)
        assert producer.partitions_for("t") == 4  # the loop has taken both in
        assert dropped() is None
        producer.flush(10_000)
        assert kept.result(0).offset == 1


def test_a_record_that_waits_is_no_object_for_the_search_for_cycles(cluster):
    """It walks over all of them: with a full buffer that took longer than everything else."""
    with producer_of(cluster, linger_ms=FAR_MS, batch_size=1_000_000) as producer:
        producer.partitions_for("t")
        producer.send("t", b"first")
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(4_000):
            producer.send("t", b"x")
        assert producer.partitions_for("t") == 4
        assert len(gc.get_objects()) - before < 1_000
        producer.flush(10_000)
        assert producer.metrics()["record-send-total"] == 4_001


def test_records_of_each_kind_keep_their_order_and_their_timestamps(cluster):
    """With a value only they go as a run, others one by one; both to the same batches."""
    told = []
    kinds = (
        {},
        {"headers": {"h": "1"}},
        {"timestamp_ms": 5},
        {"callback": lambda metadata, _: told.append(metadata)},
        {"value": "text"},
        {"value": None},
    )
    with producer_of(cluster, batch_size=500) as producer:
        futures = []
        for number in range(600):
            kind = {"value": b"%d" % number, **kinds[number % 13 % 6]}
            futures.append(producer.send("t", kind.pop("value"), **kind))
        producer.flush(10_000)
        places = [future.result(0) for future in futures]
    for partition in range(4):
        mine = [place for place in places if place.partition == partition]
        assert [place.offset for place in mine] == list(range(len(mine)))
        stored = [
            record
            for _, _, data in cluster.partitions[partition].batches
            for record in raw_records(data)
        ]
        assert [record.timestamp for record in stored] == [place.timestamp_ms for place in mine]
    assert {place.timestamp_ms for place in places[2::13]} == {5}
    called = [places[number] for number in range(600) if number % 13 % 6 == 3]
    for partition in range(4):  # in order in each
        assert [place for place in told if place.partition == partition] == [
            place for place in called if place.partition == partition
        ]


def test_records_of_topics_that_are_known_and_not_go_each_to_its_own(cluster):
    with producer_of(cluster, linger_ms=0, max_block_ms=300, retry_backoff_ms=10) as producer:
        producer.partitions_for("t")
        pairs = [
            (producer.send("t", b"%d" % n, key=b"k"), producer.send("no", b"x", key=b"k"))
            for n in range(50)
        ]
        assert [future.result(10).offset for future, _ in pairs] == list(range(50))
        for _, future in pairs:
            with pytest.raises(UnknownTopicOrPartitionError, match="topic no"):
                future.result(10)


def test_a_batch_stays_open_behind_others_while_a_request_is_under_way(cluster):
    cluster.hold_produce[0] = held = threading.Event()
    with producer_of(cluster, linger_ms=0, batch_size=1_000) as producer:
        futures = [producer.send("t", b"first", partition=0)]
        assert cluster.produce_came.wait(10)
        for _ in range(10):
            futures += [producer.send("t", b"x" * 100, partition=0) for _ in range(3)]
            producer.partitions_for("t")  # the loop has taken them in
        held.set()
        assert [future.result(10).offset for future in futures] == list(range(31))
    counts = [last - first + 1 for first, last, _ in cluster.partitions[0].batches]
    assert counts[0] == 1
    assert min(counts[1:-1]) == 8, "full, but for the last one"


@pytest.mark.parametrize("headers", [{}, {"kind": "not a value only"}])
def test_records_go_to_another_partition_while_a_batch_is_under_way_that_was_not_full(
    cluster, headers
):
    """Else a slow producer fed one partition, and the members of a group that have others none."""
    held = threading.Event()
    cluster.hold_produce = dict.fromkeys(range(4), held)
    with producer_of(cluster, linger_ms=0) as producer:
        first = producer.send("t", b"1", headers=headers)
        assert cluster.produce_came.wait(10)
        second = producer.send("t", b"2", headers=headers)
        assert producer.partitions_for("t") == 4  # the loop has taken it in
        held.set()
        assert first.result(10).partition != second.result(10).partition


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


def test_records_with_and_without_a_partition_keep_their_order_in_each(cluster):
    count = 2_000
    with producer_of(cluster, batch_size=1_000) as producer:
        producer.partitions_for("t")
        futures = [
            producer.send("t", str(n), partition=n % 4 if n % 3 == 1 else None)
            for n in range(count)
        ]
        producer.flush(10_000)
        places = [(each.result(0).partition, each.result(0).offset) for each in futures]
    for number in range(4):
        stored = [v for _, _, data in cluster.partitions[number].batches for v in values_of(data)]
        sent = [n for n, (partition, _) in enumerate(places) if partition == number]
        assert stored == [b"%d" % n for n in sent]
        assert [places[n][1] for n in sent] == list(range(len(sent)))
    assert all(places[n][0] == n % 4 for n in range(count) if n % 3 == 1)


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"headers": [(b"k", b"v")]},
        {"headers": {"k": 5}},
        {"headers": {"\ud800": b"v"}},
        {"timestamp_ms": 2**63},
        {"timestamp_ms": 1.5},
        {"partition": -1},
        {"partition": 1.0},
        {"partition": "0"},
    ],
)
def test_what_cannot_be_encoded_is_refused_and_leaves_nothing_behind(cluster, wrong):
    with producer_of(cluster, linger_ms=0) as producer:
        with pytest.raises(IllegalArgumentError):
            producer.send("t", b"x", **wrong)
        assert producer.send("t", b"y", partition=0).result(10).offset == 0
        producer.flush(5_000)
        assert producer.metrics()["buffer-used-bytes"] == 0


def test_a_record_that_turns_out_not_to_be_encodable_fails_alone(cluster, monkeypatch):
    append = BatchWriter.append

    def choosy(writer, timestamp_ms, key, value, headers):
        if value == b"bad":
            raise TypeError("not like this")
        return append(writer, timestamp_ms, key, value, headers)

    monkeypatch.setattr(BatchWriter, "append", choosy)
    with producer_of(cluster, linger_ms=0) as producer:
        futures = [producer.send("t", value, partition=0) for value in (b"1", b"bad", b"2")]
        assert [futures[0].result(10).offset, futures[2].result(10).offset] == [0, 1]
        with pytest.raises(SharemeshError, match="not like this"):
            futures[1].result(10)
        producer.flush(5_000)


@contextlib.contextmanager
def handling(handler):
    """Let ``handler`` be what SIGUSR1 calls, on the main thread (SIGALRM is pytest-timeout's)."""
    before = signal.signal(signal.SIGUSR1, lambda *_: handler())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def signal_after(seconds):
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()


def test_close_in_a_signal_handler_amid_a_send_ends_and_loses_nothing(cluster):
    """The handler runs on the thread that it interrupts, with whatever that holds."""
    producer = producer_of(cluster, linger_ms=0)
    futures = []

    def send_without_end():
        signal_after(0.05)
        while True:
            futures.append(producer.send("t", b"x", partition=0))

    closing = pytest.raises(IllegalStateError, match="closed")
    with handling(lambda: producer.close(10_000)), closing:
        send_without_end()
    _, pending = concurrent.futures.wait(futures, timeout=10)
    assert not pending
    failed = [each for each in futures[:-2] if each.exception(0) is not None]
    assert not failed  # all but those in whose sends it came


def test_the_loss_of_a_right_fails_what_waits_and_not_what_is_under_way(cluster):
    cluster.partitions[1].leader = "b"
    with producer_of(cluster, linger_ms=0, retry_backoff_ms=1) as producer:
        for partition in (0, 1):
            producer.send("t", b"first", partition=partition).result(10)
        held = threading.Event()
        cluster.hold_produce[1] = held
        under_way = producer.send("t", b"under way", partition=1)
        assert cluster.produce_came.wait(10)
        cluster.produce_errors = [45]  # the identity is lost
        cluster.init_producer_errors = [31] * 3
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("t", b"refused", partition=0).result(10)
        assert not under_way.done()
        cluster.init_producer_errors = []
        after = producer.send("t", b"after", partition=1)
        held.set()
        assert under_way.result(10).offset == 1
        assert after.result(10).offset == 2
    stored = [v for _, _, data in cluster.partitions[1].batches for v in values_of(data)]
    assert stored == [b"first", b"under way", b"after"]


def test_each_result_of_a_failed_batch_has_a_traceback_of_its_own(cluster):
    cluster.produce_errors = [29]
    with producer_of(cluster, linger_ms=FAR_MS) as producer:
        futures = [producer.send("t", b"x", partition=0) for _ in range(50)]
        producer.flush(10_000)
        depths = []
        for future in futures:
            with pytest.raises(TopicAuthorizationFailedError) as caught:
                future.result(10)
            depths.append(len(caught.traceback))
        assert len(set(depths)) == 1
