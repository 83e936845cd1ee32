"""How handlers of ``run`` end, other than by returning in time (CL-41, CL-45 to CL-47, TOK-5)."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from sharemesh.client import BreakerPolicy, RetryPolicy, RunOptions
from sharemesh.client.consumer.daemon_threads import DaemonThreads
from sharemesh.client.errors import IllegalArgumentError
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of, until
from tests.client.test_late_handlers import on_threads


class Abort(BaseException):
    """What is no Exception."""


async def a_task_that_somebody_cancels():
    lost = asyncio.ensure_future(asyncio.Event().wait())
    lost.cancel()
    await lost


async def one_of_its_own():
    raise Abort("mine")


async def an_exit():
    sys.exit(3)


@pytest.mark.parametrize("deadline_ms", [None, 30_000])
@pytest.mark.parametrize("ends", [a_task_that_somebody_cancels, one_of_its_own, an_exit])
async def test_what_is_no_exception_fails_the_record_as_others_do_cl_41(ends, deadline_ms):
    cluster = MiniCluster()
    cluster.append(b"x")
    failed = []

    async def handler(record):
        if record.delivery_count == 1:
            await ends()

    options = RunOptions(
        deadline_ms=deadline_ms,
        retry_backoff_ms=1,
        on_failure=lambda record, error: failed.append((record.delivery_count, error)),
    )
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, options=options))
    await until(lambda: cluster.states() == ["accepted"])
    [(count, error)] = failed
    assert count == 1
    assert isinstance(error, RuntimeError)
    assert "the handler raised" in str(error)
    consumer.stop()
    await running
    await consumer.close()


async def test_cancelled_tasks_open_the_breaker_and_cost_no_attempts_cl_42():
    cluster = MiniCluster()
    cluster.append(*[b"x"] * 12, batched=False)
    tries, down = [], [True]

    async def handler(record):
        tries.append(record.offset)
        if down:
            await a_task_that_somebody_cancels()

    breaker = BreakerPolicy(window=4, least=2, open_ms=20, open_max_ms=40)
    options = RunOptions(breaker=breaker, retry_backoff_ms=1)
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, concurrency=2, options=options))
    await until(lambda: len(tries) >= 12)
    down.clear()
    await until(lambda: cluster.states() == ["accepted"] * 12, timeout_s=20)
    assert max(cluster.counts()) <= 2
    consumer.stop()
    await running
    await consumer.close()


async def test_what_a_handler_says_after_its_lock_counts_for_nothing_tok_5():
    """Not even in the moment before the next look at locks: others are acknowledged with it."""
    cluster = MiniCluster(lock_ms=200)
    cluster.append(b"slow", batched=False)
    begun = []

    async def handler(record):
        begun.append((record.offset, record.delivery_count))
        if record.value == b"slow" and record.delivery_count == 1:
            time.sleep(0.3)  # the loop stands still: nothing looks at locks meanwhile

    options = RunOptions(renew=False)
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, options=options))
    await until(lambda: cluster.states() == ["accepted"])
    assert begun == [(0, 1), (0, 2)]
    assert [types for *_, types in cluster.acknowledged] == [[1]]
    consumer.stop()
    await running
    await consumer.close()


async def test_a_record_whose_lock_ended_while_it_was_kept_comes_again_to_its_member_tok_5():
    cluster = MiniCluster(lock_ms=200)
    cluster.append(b"x")

    async def handler(record):
        if record.delivery_count == 1:
            asyncio.get_running_loop().call_soon(time.sleep, 0.3)  # retries are late by so much
            raise OSError

    options = RunOptions(renew=False, retry_backoff_ms=10_000)
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, options=options))
    await until(lambda: cluster.states() == ["accepted"])
    assert cluster.counts() == [2]
    assert [types for *_, types in cluster.acknowledged] == [[1]]
    consumer.stop()
    await running
    await consumer.close()


@pytest.mark.parametrize("handler", [None, "handle", 3])
async def test_what_cannot_be_called_is_refused_before_any_record_is_taken_cl_47(handler):
    cluster = MiniCluster()
    cluster.append(b"x")
    consumer = await consumer_of(cluster)
    with pytest.raises(IllegalArgumentError, match="not run"):
        await consumer.run(handler)
    with pytest.raises(IllegalArgumentError, match="not run"):
        async with on_threads(cluster, handler):
            pass
    await consumer.close()
    assert cluster.counts() == [0]


async def test_a_coroutine_and_a_function_without_arguments_are_refused_cl_47():
    async def handle(record):
        raise AssertionError("nobody awaits it")

    cluster = MiniCluster()
    consumer = await consumer_of(cluster)
    with pytest.raises(IllegalArgumentError, match="not run"):
        await consumer.run(handle(None))
    with pytest.raises(IllegalArgumentError, match="with one record: too many positional"):
        await consumer.run(lambda: None)
    await consumer.close()


async def test_a_thread_past_its_deadline_finds_that_its_lock_is_gone_tok_5():
    cluster = MiniCluster()
    cluster.append(b"x")
    found = threading.Event()

    def handler(record):
        if record.delivery_count > 1:
            return
        may_end = threading.Event()
        while not record.lock_lost:
            may_end.wait(0.01)
        found.set()

    options = RunOptions(deadline_ms=30, retry_backoff_ms=1, breaker=None)
    async with on_threads(cluster, handler, options, concurrency=2):
        await until(lambda: cluster.states() == ["accepted"] and found.is_set())


async def test_a_stop_leaves_a_thread_that_hangs_and_says_so_cl_46(caplog):
    cluster = MiniCluster()
    cluster.append(b"x")
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()
    lost = []

    def handler(record):
        begun.set()
        may_end.wait(60)
        lost.append(record.lock_lost)
        ended.set()

    options = RunOptions(stop_timeout_ms=50)
    async with asyncio.timeout(20):
        async with on_threads(cluster, handler, options):
            await until(begun.is_set)
    assert cluster.states() == ["available"]
    assert "the handlers of t/0@0 did not end within stop_timeout_ms (50 ms)" in caplog.text
    may_end.set()
    await until(ended.is_set)
    assert lost == [True]


async def test_a_coroutine_that_will_not_be_cancelled_holds_up_no_stop_cl_46(caplog):
    cluster = MiniCluster()
    cluster.append(b"x")
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def handler(record):
        begun.set()
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue

    consumer = await consumer_of(cluster)
    options = RunOptions(stop_timeout_ms=50)
    running = asyncio.ensure_future(consumer.run(handler, options=options))
    await begun.wait()
    consumer.stop()
    await asyncio.wait_for(running, 20)
    await until(lambda: cluster.states() == ["available"])
    assert "did not end within stop_timeout_ms (50 ms)" in caplog.text
    may_end.set()
    await consumer.close()
    assert cluster.states() == ["available"]


async def test_the_deadline_of_a_coroutine_that_will_not_be_cancelled_is_told_cl_45(caplog):
    cluster = MiniCluster()
    cluster.append(b"x")
    may_end, failed = asyncio.Event(), []

    async def handler(record):
        while record.delivery_count == 1 and not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue

    options = RunOptions(
        deadline_ms=30, retry_backoff_ms=1, on_failure=lambda _, error: failed.append(error)
    )
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, options=options))
    await until(lambda: failed)
    assert isinstance(failed[0], TimeoutError)
    await until(lambda: "all 1 handlers of run are past deadline_ms and go on" in caplog.text)
    may_end.set()
    await until(lambda: cluster.states() == ["accepted"])
    consumer.stop()
    await running
    await consumer.close()


async def test_an_exit_in_on_failure_is_a_failure_of_on_failure(caplog):
    cluster = MiniCluster()
    cluster.append(b"x")

    async def handler(record):
        if record.delivery_count == 1:
            raise OSError

    options = RunOptions(retry_backoff_ms=1, on_failure=lambda *_: sys.exit(3))
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, options=options))
    await until(lambda: cluster.states() == ["accepted"])
    assert "on_failure of run failed itself" in caplog.text
    consumer.stop()
    await running
    await consumer.close()


async def test_a_retry_policy_judges_what_cannot_be_deserialized_cl_41():
    cluster = MiniCluster()
    cluster.append(b"x")
    failed = []

    def refuse(topic, data):
        raise ValueError("no such thing")

    async def handler(record):
        raise AssertionError("it cannot be read")

    retry = RetryPolicy(attempts=2, backoff_ms=1)
    options = RunOptions(retry=retry, on_failure=lambda _, error: failed.append(error))
    consumer = await consumer_of(cluster, **{"value.deserializer": refuse})
    running = asyncio.ensure_future(consumer.run(handler, options=options))
    await until(lambda: cluster.states() == ["rejected"])
    assert cluster.counts() == [2]
    assert len(failed) == 2
    consumer.stop()
    await running
    await consumer.close()


def test_a_program_ends_although_a_thread_of_a_handler_hangs_cl_46():
    program = (
        "import threading\n"
        "from sharemesh.client.consumer.daemon_threads import DaemonThreads\n"
        "threads = DaemonThreads(1, 'handler')\n"
        "begun = threading.Event()\n"
        "threads.submit(lambda: (begun.set(), threading.Event().wait()))\n"
        "begun.wait()\n"
        "threads.close()\n"
    )
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


def test_threads_are_begun_when_no_other_is_free_and_end_with_the_rest():
    threads = DaemonThreads(2, "handler")
    gate = threading.Event()
    running = [threads.submit(gate.wait) for _ in range(3)]
    assert len(threads._threads) == 2
    gate.set()
    assert all(each.result(10) for each in running)
    assert threads.submit(divmod, 7, 2).result(10) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        threads.submit(divmod, 7, 0).result(10)
    threads.close()
    for each in threads._threads:
        each.join(10)
        assert not each.is_alive()


def test_what_has_not_begun_is_left_out_of_a_close():
    threads = DaemonThreads(1, "handler")
    gate = threading.Event()
    first, second = threads.submit(gate.wait), threads.submit(gate.wait)
    threads.close()
    assert second.cancelled()
    gate.set()
    assert first.result(10)
