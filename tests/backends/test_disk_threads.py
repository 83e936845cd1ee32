"""The threads in which blocking calls run."""

import asyncio
import threading

import pytest

from sharemesh.backends.local.disk_threads import DiskThreads


@pytest.fixture
def threads():
    made = DiskThreads(2, "test")
    yield made
    made.close()


async def test_a_job_has_its_result_and_its_error(threads):
    assert await threads.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    assert await threads.run(threading.get_ident) != threading.get_ident()


async def test_a_job_that_raises_stop_iteration_has_an_error_too(threads):
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await threads.run(lambda: next(iter(())))


async def test_no_more_jobs_run_at_a_time_than_there_are_threads(threads):
    gate, began = threading.Semaphore(0), threading.Semaphore(0)

    def job():
        began.release()
        gate.acquire()
        return threading.current_thread().name

    jobs = [asyncio.ensure_future(threads.run(job)) for _ in range(5)]
    await asyncio.sleep(0)
    for _ in range(2):
        assert began.acquire(timeout=20)
    assert not began.acquire(blocking=False)
    for _ in jobs:
        gate.release()
    assert set(await asyncio.gather(*jobs)) == {"test_0", "test_1"}


async def test_one_thread_serves_jobs_that_come_one_after_the_other(threads):
    assert {await threads.run(threading.get_ident) for _ in range(20)} == {
        await threads.run(threading.get_ident)
    }


async def test_a_job_whose_caller_went_away_does_not_begin(threads):
    gate, ran = threading.Event(), []
    busy = [asyncio.ensure_future(threads.run(gate.wait)) for _ in range(2)]
    waiting = asyncio.ensure_future(threads.run(lambda: ran.append(1)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    gate.set()
    await asyncio.gather(*busy)
    await threads.run(lambda: None)
    assert not ran


async def test_the_result_for_a_caller_who_went_away_meanwhile_is_dropped(threads):
    gate = threading.Event()
    gone = asyncio.ensure_future(threads.run(gate.wait))
    await asyncio.sleep(0)
    gone.cancel()
    gate.set()
    assert await threads.run(lambda: 1) == 1
    assert gone.cancelled()


async def test_closing_waits_for_what_runs_and_cancels_what_waits():
    threads = DiskThreads(1, "test")
    gate, began = threading.Event(), threading.Event()

    def job():
        began.set()
        gate.wait()
        return 5

    running = asyncio.ensure_future(threads.run(job))
    waiting = asyncio.ensure_future(threads.run(job))
    await asyncio.sleep(0)
    assert began.wait(20)
    closing = threading.Thread(target=threads.close)
    closing.start()
    while not threads._closed:
        await asyncio.sleep(0)
    gate.set()
    closing.join()
    assert await running == 5
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(RuntimeError, match="have ended"):
        await threads.run(job)
    threads.close()


def test_a_job_that_ends_after_its_loop_concerns_nobody(threads):
    gate = threading.Event()

    async def leave():
        task = asyncio.ensure_future(threads.run(gate.wait))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    gate.set()

    async def next_one():
        return await threads.run(lambda: "still at work")

    assert asyncio.run(next_one()) == "still at work"


async def test_a_thread_that_could_not_be_started_is_tried_again(monkeypatch):
    threads = DiskThreads(1, "test")
    start, refusals = threading.Thread.start, [RuntimeError("can't start new thread")]

    def refused_once(thread):
        if refusals:
            raise refusals.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused_once)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        await threads.run(lambda: 1)
    async with asyncio.timeout(20):
        assert await threads.run(lambda: 2) == 2
    threads.close()
