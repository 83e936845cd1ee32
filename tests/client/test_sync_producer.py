"""The producer for threads: linger, callbacks, futures, flush, close, fork."""

import asyncio
import os
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest

from sharemesh.client import Producer
from sharemesh.client.background_loop import BackgroundLoop
from sharemesh.client.errors import (
    BufferExhaustedError,
    IllegalStateError,
    RequestTimedOutError,
    SharemeshError,
    TopicAuthorizationFailedError,
)
from sharemesh.client.producer.engine import ProducerEngine
from sharemesh.codec.client_batches import BatchWriter
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


def test_what_comes_while_a_producer_closes_fails_and_does_not_wait_forever(cluster):
    """A sender that waits for room gets it when the others fail; nobody would send its record."""
    cluster.produce_errors = [6] * 10_000
    producer = producer_of(cluster, buffer_memory=200, retry_backoff_ms=10)
    caller_closes = threading.Event()
    producer.send("t", b"x" * 150)
    producer.partitions_for("t")
    engine = producer._engine
    close_caller = engine._caller.close

    async def close_late():
        await asyncio.to_thread(caller_closes.wait, 10)
        await close_caller()

    engine._caller.close = close_late
    waits, wait_for_room = threading.Event(), producer._wait_for_room

    def wait(size_bytes):
        waits.set()
        wait_for_room(size_bytes)

    producer._wait_for_room = wait
    late = []
    blocked = threading.Thread(target=lambda: late.append(producer.send("t", b"y" * 150)))
    blocked.start()
    assert waits.wait(10)
    closing = threading.Thread(target=lambda: producer.close(50))
    closing.start()
    blocked.join(10)
    with pytest.raises(RequestTimedOutError, match="closed"):
        late[0].result(5)
    caller_closes.set()
    closing.join(10)


def test_senders_wait_for_room_no_longer_than_max_block_ms_however_many_they_are(cluster):
    release = cluster.hold_produce[0] = threading.Event()
    with producer_of(cluster, buffer_memory=200, linger_ms=0, max_block_ms=500) as producer:
        producer.send("t", b"x" * 150)
        assert cluster.produce_came.wait(10)

        def send():
            with pytest.raises(BufferExhaustedError, match=r"max\.block\.ms = 500"):
                producer.send("t", b"y" * 150)

        began_s = time.monotonic()
        with ThreadPoolExecutor(10) as threads:
            waits = [threads.submit(send) for _ in range(10)]
        for each in waits:
            each.result()
        assert time.monotonic() - began_s < 3  # one after the other: 5
        release.set()
        producer.flush(10_000)
        assert producer.send("t", b"z" * 150).result(10).offset == 1


def test_a_callback_that_sends_while_others_wait_for_room_is_refused_at_once(cluster):
    release = cluster.hold_produce[0] = threading.Event()
    told, waits = [], threading.Event()

    def callback(*_):
        try:
            producer.send("t", b"z" * 150)
        except BufferExhaustedError as error:
            told.append(str(error))

    with producer_of(cluster, buffer_memory=200, linger_ms=0, max_block_ms=10_000) as producer:
        wait_for_room = producer._wait_for_room

        def wait(size_bytes):
            waits.set()
            wait_for_room(size_bytes)

        producer._wait_for_room = wait
        producer.send("t", b"x" * 150, callback=callback)
        assert cluster.produce_came.wait(10)
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(producer.send, "t", b"y" * 150)
            assert waits.wait(10)
            release.set()
            assert waiting.result().result(10).offset == 1
    assert len(told) == 1
    assert "send it from another thread" in told[0]


def test_a_callback_may_send_what_has_room(cluster):
    sent = []

    def callback(*_):
        sent.append(producer.send("t", b"y" * 300))

    with producer_of(cluster, buffer_memory=1_000, linger_ms=0) as producer:
        producer.send("t", b"x" * 300, callback=callback).result(10)
        producer.flush(10_000)
        assert sent[0].result(10).offset == 1


@pytest.mark.parametrize("raised", [SystemExit(1), asyncio.CancelledError(), ValueError("x")])
def test_whatever_a_callback_raises_is_logged_and_stops_nothing(cluster, caplog, raised):
    def leave(*_):
        raise raised

    with producer_of(cluster, linger_ms=60_000) as producer:
        producer.send("t", b"1", callback=leave)
        producer.send("t", b"2").add_done_callback(leave)
        producer.flush(10_000)
        last = producer.send("t", b"3")
        producer.flush(10_000)
        assert last.result(0).offset == 2
    assert "the callback of a produced record failed" in caplog.messages


def test_a_callback_may_look_at_every_future_that_is_done(cluster):
    cluster.produce_errors = [29]
    with producer_of(cluster, linger_ms=60_000) as producer:
        futures = [producer.send("t", b"x") for _ in range(3)]
        found = []

        def look(_):
            found.extend(type(each.exception(0)) for each in futures if each.done())
            with pytest.raises(TopicAuthorizationFailedError):
                futures[-1].result()

        for each in futures:
            each.add_done_callback(look)
        producer.flush(10_000)
        with pytest.raises(TopicAuthorizationFailedError):
            futures[-1].result(10)
    assert found == [TopicAuthorizationFailedError] * 9


@pytest.mark.parametrize("call", [Producer.flush, Producer.close])
def test_a_callback_that_would_wait_for_itself_is_refused(cluster, call):
    told = []

    def callback(*_):
        try:
            call(producer)
        except IllegalStateError as error:
            told.append(str(error))

    with producer_of(cluster, linger_ms=0) as producer:
        producer.send("t", b"1", callback=callback)
        producer.flush(10_000)
        assert producer.send("t", b"2").result(10).offset == 1
    assert "call it on another thread" in told[0]


@pytest.mark.parametrize("timeout", [None, 60])
def test_a_callback_that_would_wait_for_what_it_sent_is_refused(cluster, timeout):
    """The outcome comes on the thread that would wait: nothing would ever be confirmed again."""
    told, looked = [], []

    def callback(*_):
        later = producer.send("t", b"2")
        with pytest.raises(TimeoutError):
            later.result(0)  # a look waits for nothing
        looked.append(later)
        try:
            later.result(timeout)
        except IllegalStateError as error:
            told.append(str(error))

    with producer_of(cluster, linger_ms=0) as producer:
        producer.send("t", b"1", callback=callback)
        producer.flush(10_000)
        assert "call it on another thread" in told[0]
        assert looked[0].result(10).offset == 1


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("key", [None, b"k"])
def test_an_error_that_nobody_thought_of_fails_every_record(cluster, monkeypatch, is_known, key):
    real = {"append": BatchWriter.append, "extend": BatchWriter.extend}
    broken = threading.Event()

    def breaks(name):
        def call(writer, *content):
            if broken.is_set() and writer.count:
                raise RuntimeError("a bug")
            return real[name](writer, *content)

        return call

    for name in real:
        monkeypatch.setattr(BatchWriter, name, breaks(name))
    broken.set()
    with producer_of(cluster, linger_ms=60_000) as producer:
        if is_known:
            producer.partitions_for("t")
        futures = [producer.send("t", b"%d" % n, key=key, timestamp_ms=n + 1) for n in range(5)]
        for batch in range(3):
            futures += [producer.send("t", b"%d" % n, key=key) for n in range(5)]
            producer.send("t", b"x", headers={"batch": str(batch)})
        producer.flush(10_000)
        broken.clear()
        futures.append(producer.send("t", b"later"))
        for each in futures:
            with pytest.raises(SharemeshError, match=r"broke down: RuntimeError\('a bug'\)"):
                each.result(5)
        assert producer.metrics()["buffer-used-bytes"] == 0
    assert cluster.partitions[0].batches == []


def test_an_error_that_nobody_thought_of_in_a_request_fails_every_record(cluster, monkeypatch):
    def broken(*_):
        raise RuntimeError("nobody thought of it")

    monkeypatch.setattr(ProducerEngine, "_answered", broken)
    with producer_of(cluster, linger_ms=0) as producer:
        for _ in range(2):
            with pytest.raises(SharemeshError, match="nobody thought of it"):
                producer.send("t", b"1").result(10)
        producer.flush(10_000)


def test_a_flush_that_takes_too_long_says_what_is_waited_for(cluster):
    cluster.produce_errors = [6] * 10_000
    producer = producer_of(cluster, retry_backoff_ms=10)
    producer.send("t", b"1")
    producer.send("missing", b"1")
    with pytest.raises(TimeoutError, match=r"within 200 ms.*topic missing; .*t/0: leader a at a:1"):
        producer.flush(200)
    producer.close(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_producer_says_after_a_fork_that_it_stayed_in_the_other_process(cluster):
    with producer_of(cluster, linger_ms=0) as producer:
        producer.send("t", b"1").result(10)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            said = []
            for call in (producer.flush, producer.close, lambda: producer.send("t", b"2")):
                try:
                    call()
                except IllegalStateError as error:
                    said.append(str(error))
            os.write(writing, "\n".join(said).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            lines = pipe.read().splitlines()
        os.waitpid(child, 0)
        assert ["before the process forked" in each for each in lines] == [True] * 3
        assert producer.send("t", b"3").result(10).offset == 1


def test_work_that_is_begun_while_its_loop_ends_has_an_end_too():
    loop = BackgroundLoop("ends")
    begun = threading.Event()

    async def lasts():
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.3)

    def run_first():
        with pytest.raises(CancelledError):
            loop.run(lasts())

    first = threading.Thread(target=run_first)
    first.start()
    assert begun.wait(10)
    loop.stop()
    with pytest.raises((IllegalStateError, CancelledError)):
        loop.run(asyncio.Event().wait(), timeout_ms=10_000)
    first.join(10)
