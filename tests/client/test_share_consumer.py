"""ShareConsumer: thread rules, over real sockets to a small cluster of its own thread."""

import _thread
import asyncio
import os
import random
import signal
import sys
import threading
import time
import uuid

import pytest

from sharemesh.backends.local.clock import SystemClock
from sharemesh.client import Producer, ShareConsumer, background_loop
from sharemesh.client.background_loop import BackgroundLoop
from sharemesh.client.consumer.share_consumer import ThreadHandlers
from sharemesh.client.environment import ClientEnvironment
from sharemesh.client.errors import (
    ConcurrentModificationError,
    IllegalArgumentError,
    IllegalStateError,
    WakeupError,
)
from sharemesh.rpc.channels import GrpcCaller


def environment() -> ClientEnvironment:
    clock = SystemClock()
    return ClientEnvironment(
        lambda: GrpcCaller(clock), clock, random.Random(1), lambda: str(uuid.uuid4())
    )


def consumer_to_nowhere(**config) -> ShareConsumer:
    return ShareConsumer(
        {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", **config}, environment=environment()
    )


def test_a_second_thread_is_refused_and_wakeup_is_not():
    consumer = consumer_to_nowhere()
    consumer.subscribe(["t"])
    raised = []

    def poll():
        try:
            consumer.poll(30_000)
        except WakeupError as error:
            raised.append(error)

    thread = threading.Thread(target=poll)
    thread.start()
    deadline = time.monotonic() + 5
    refused = False
    while not refused and time.monotonic() < deadline:
        try:
            consumer.poll(0)
        except ConcurrentModificationError:
            refused = True
    assert refused
    consumer.wakeup()
    thread.join(5)
    assert len(raised) == 1
    consumer.close(500)


def test_close_keeps_its_timeout_with_the_cluster_dead():
    for timeout_ms in (0, 300):
        consumer = consumer_to_nowhere()
        consumer.subscribe(["t"])
        consumer.poll(50)
        began = time.monotonic()
        consumer.close(timeout_ms)
        assert time.monotonic() - began < (timeout_ms + 100) / 1_000


def test_a_closed_consumer_refuses_and_close_may_be_repeated():
    consumer = consumer_to_nowhere()
    with pytest.raises(IllegalArgumentError):
        consumer.close(-1)
    consumer.close()
    consumer.close()
    with pytest.raises(IllegalStateError, match="closed"):
        consumer.poll(0)


def test_a_wakeup_before_the_first_use_is_kept():
    consumer = consumer_to_nowhere()
    consumer.wakeup()
    consumer.subscribe(["t"])
    with pytest.raises(WakeupError):
        consumer.poll(1_000)
    consumer.close(200)


def own_threads() -> list[str]:
    """Return what our threads are called; gRPC has one of its own for the whole process."""
    return sorted(t.name for t in threading.enumerate() if t.name.startswith("sharemesh-"))


def test_background_threads_end_with_close():
    before = own_threads()
    consumer = consumer_to_nowhere()
    consumer.subscribe(["t"])
    producer = Producer({"bootstrap.servers": "127.0.0.1:1"}, environment=environment())
    assert own_threads() == sorted([*before, "sharemesh-consumer", "sharemesh-producer"])
    consumer.close(100)
    producer.close(100)
    deadline = time.monotonic() + 5
    while own_threads() != before:
        assert time.monotonic() < deadline
        asyncio.run(asyncio.sleep(0.01))


@pytest.mark.parametrize(
    "raised", [StopIteration(), SystemExit(2), KeyboardInterrupt(), asyncio.CancelledError()]
)
async def test_whatever_a_handler_raises_is_a_failure_of_its_record(raised):
    """An exit would end the consumer's loop; of a StopIteration no future would hear."""

    def handler(_):
        raise raised

    with ThreadHandlers(handler, 1) as threads:
        async with asyncio.timeout(10):
            with pytest.raises(RuntimeError, match=type(raised).__name__):
                await threads.handle(None)


def test_work_that_lasts_longer_than_a_look_has_its_result_and_its_time_out(monkeypatch):
    monkeypatch.setattr(background_loop, "_LOOK_UP_S", 0.001)
    loop = BackgroundLoop("looks")
    try:
        assert loop.run(asyncio.sleep(0.05, "done")) == "done"
        assert loop.run(asyncio.sleep(0.05, "in time"), timeout_ms=10_000) == "in time"
        with pytest.raises(TimeoutError):
            loop.run(asyncio.sleep(10), timeout_ms=20)

        async def fails():
            raise TimeoutError("its own")

        with pytest.raises(TimeoutError, match="its own"):
            loop.run(fails())
    finally:
        loop.stop()


@pytest.mark.parametrize(
    "wait",
    [
        lambda loop, work: loop.run(work),
        lambda loop, work: loop.run_until_stopped(work, lambda: None),
    ],
)
@pytest.mark.parametrize(
    "send",
    [lambda number: os.kill(os.getpid(), number), _thread.interrupt_main],
    ids=["signal", "signal-that-ends-no-wait"],
)
def test_work_ends_when_a_signal_handler_raises_in_who_waits_for_it(wait, send):
    """``sys.exit`` in a handler of SIGTERM, or a test's time-out: nobody would hear of the work.

    A signal that comes just before the wait does not end it, as ``interrupt_main`` never does.
    """
    loop = BackgroundLoop("ends")
    began, ended = threading.Event(), threading.Event()

    async def lasts():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def leave(*_):
        raise SystemExit(3)

    def send_signal():
        began.wait(10)
        send(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, leave)
    sender = threading.Thread(target=send_signal)
    try:
        sender.start()
        with pytest.raises(SystemExit):
            wait(loop, lasts())
        assert ended.is_set()
    finally:
        sender.join(10)
        signal.signal(signal.SIGUSR1, before)
        loop.stop()


@pytest.mark.parametrize("without", [(), ("uvloop",)])
def test_what_comes_for_a_loop_that_is_closed_is_dropped(monkeypatch, without):
    """gRPC tells a call's loop, on the thread of another client's, what it hears after a close."""
    for name in without:
        monkeypatch.setitem(sys.modules, name, None)  # as where it is not installed
    loop = BackgroundLoop("ends")
    told = []

    async def inner():
        return asyncio.get_running_loop()

    running = loop.run(inner())
    loop.stop()
    deadline = time.monotonic() + 5
    while not running.is_closed():
        assert time.monotonic() < deadline
        asyncio.run(asyncio.sleep(0.01))
    assert running.call_soon_threadsafe(told.append, 1).cancelled()
    assert not told


def test_cl_46_a_stop_before_run_begins_ends_it():
    consumer = consumer_to_nowhere()
    consumer.subscribe(["t"])
    consumer.stop()
    running = threading.Thread(target=consumer.run, args=(lambda _: None,), daemon=True)
    running.start()
    running.join(20)
    ended = not running.is_alive()
    consumer.stop()
    running.join(20)
    consumer.close(0)
    assert ended
