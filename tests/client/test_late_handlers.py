"""Handlers of ``run`` that do not end in time, or are of the wrong kind (CL-45, CL-47, TOK-5)."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest

from sharemesh.client import AcknowledgeType, BreakerPolicy, RunOptions
from sharemesh.client.consumer.handler_runner import HandlerRunner
from sharemesh.client.consumer.share_consumer import ThreadHandlers
from sharemesh.client.errors import IllegalArgumentError
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of, until


@asynccontextmanager
async def on_threads(cluster, handler, options=None, *, concurrency=1):
    """Run a handler on threads as ``ShareConsumer.run`` does."""
    consumer = await consumer_of(cluster)
    with ThreadHandlers(handler, concurrency) as threads:
        runner = HandlerRunner(consumer._calls, threads.handle, concurrency, options, cancels=False)
        running = asyncio.ensure_future(runner.run())
        yield running
        runner.stop()
        await asyncio.wait([running])
    await consumer.close()


async def test_no_record_runs_into_its_deadline_behind_a_thread_that_hangs_cl_45(caplog):
    cluster = MiniCluster()
    cluster.append(*[b"x"] * 5, batched=False)
    may_end, begun, failed = threading.Event(), [], []

    def handler(record):
        begun.append((record.offset, record.delivery_count))
        if len(begun) == 1:
            may_end.wait(0.5)  # many deadlines

    options = RunOptions(
        deadline_ms=30,
        retry_backoff_ms=1,
        breaker=None,
        on_failure=lambda record, error: failed.append((record.offset, type(error))),
    )
    async with on_threads(cluster, handler, options):
        await until(lambda: cluster.states() == ["accepted"] * 5)
    assert failed == [(0, TimeoutError)]
    assert cluster.counts() == [2, 1, 1, 1, 1]
    assert sorted(begun) == [(0, 1), (0, 2), (1, 1), (2, 1), (3, 1), (4, 1)]
    assert "all 1 handlers of run are past deadline_ms and go on" in caplog.text


async def test_the_other_threads_go_on_beside_one_that_hangs_cl_45():
    cluster = MiniCluster()
    cluster.append(*[b"x"] * 5, batched=False)
    may_end = threading.Event()

    def handler(record):
        if record.offset == 0 and record.delivery_count == 1:
            may_end.wait(10)

    options = RunOptions(deadline_ms=30, retry_backoff_ms=1, breaker=None)
    async with on_threads(cluster, handler, options, concurrency=2):
        await until(lambda: cluster.states() == ["accepted"] * 5)
        may_end.set()
    assert cluster.counts() == [2, 1, 1, 1, 1]


async def test_no_breaker_and_no_log_hears_of_a_handler_whose_lock_is_gone_tok_5(caplog):
    cluster = MiniCluster(lock_ms=200)
    cluster.append(b"x")
    told, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def handler(record):
        if record.delivery_count > 1:
            return
        while not record.lock_lost:
            may_end.wait(0.01)
        told.set()
        may_end.wait(10)
        ended.set()
        raise ConnectionError("much too late")

    options = RunOptions(renew=False, breaker=BreakerPolicy(window=1, least=1))
    async with on_threads(cluster, handler, options, concurrency=2):
        await until(lambda: cluster.states() == ["accepted"] and told.is_set())
        may_end.set()
        await until(ended.is_set)
    assert "much too late" not in caplog.text
    assert "circuit breaker" not in caplog.text


async def test_a_coroutine_function_on_threads_ends_run_and_costs_nothing_cl_47():
    cluster = MiniCluster()
    cluster.append(b"x", b"y")

    async def handler(record):
        raise AssertionError("nobody awaits it")

    async with on_threads(cluster, handler, concurrency=2) as running:
        with pytest.raises(IllegalArgumentError, match="async_share_consumer"):
            await running
    assert cluster.states() == ["available"] * 2
    assert cluster.counts() == [0, 0]


async def test_a_plain_function_under_asyncio_ends_run_cl_47():
    cluster = MiniCluster()
    cluster.append(b"x", b"y")
    consumer = await consumer_of(cluster)
    with pytest.raises(IllegalArgumentError, match="async def"):
        await consumer.run(lambda record: None)
    await consumer.close()
    assert cluster.states() == ["available"] * 2
    assert cluster.counts() == [0, 0]


@pytest.mark.parametrize("said", [False, True, 3, "ok", AcknowledgeType.GAP, AcknowledgeType.RENEW])
async def test_what_is_no_word_on_a_record_is_a_failure_that_names_it_cl_47(said):
    cluster = MiniCluster()
    cluster.append(b"x")
    failed = []

    async def handler(record):
        return said if record.delivery_count == 1 else None

    options = RunOptions(retry_backoff_ms=1, on_failure=lambda _, error: failed.append(error))
    consumer = await consumer_of(cluster)
    running = asyncio.ensure_future(consumer.run(handler, options=options))
    await until(lambda: cluster.states() == ["accepted"])
    assert cluster.counts() == [2]
    [error] = failed
    assert isinstance(error, TypeError)
    assert repr(said) in str(error)
    consumer.stop()
    await running
    await consumer.close()
