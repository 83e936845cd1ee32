"""SIGTERM ends ``run`` gracefully, unless the program handles it itself (spec CL-46)."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import pytest

from sharemesh.client.consumer.stop_signal import stopped_by_sigterm
from tests.client.mini_cluster import MiniCluster
from tests.client.test_async_share_consumer import consumer_of, until


@pytest.fixture(autouse=True)
def _as_a_program_begins():
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


async def test_cl_46_what_was_not_begun_is_given_back_uncounted_and_what_runs_is_finished():
    cluster = MiniCluster()
    cluster.append(*[b"x"] * 10)
    started, go = asyncio.Event(), asyncio.Event()

    async def handler(record):
        started.set()
        await go.wait()

    consumer = await consumer_of(cluster, share_acquire_mode="batch_optimized")
    running = asyncio.ensure_future(consumer.run(handler))
    await started.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await until(lambda: cluster.states().count("available") == 9)
    assert cluster.counts() == [1] + [0] * 9
    go.set()
    await running
    assert sorted(cluster.states()) == ["accepted"] + ["available"] * 9
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    await consumer.close()


def test_cl_46_each_run_of_the_process_is_stopped_and_then_the_default_is_back():
    stopped = []
    with stopped_by_sigterm(lambda: stopped.append(1)):
        with stopped_by_sigterm(lambda: stopped.append(2)):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert stopped == [1, 2, 1]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_cl_46_a_worker_that_a_handler_forks_is_ended_by_sigterm():
    stopped = []
    with stopped_by_sigterm(lambda: stopped.append(1)):
        worker = multiprocessing.get_context("fork").Process(target=signal.pause, daemon=True)
        worker.start()
        worker.terminate()
        worker.join(20)
        ended = worker.exitcode
        worker.kill()
        os.kill(os.getpid(), signal.SIGTERM)
    assert (ended, stopped) == (-signal.SIGTERM, [1])


WITHOUT_LOOP = """
import asyncio, os, signal
from sharemesh.client.consumer.stop_signal import stopped_by_sigterm

loop = asyncio.new_event_loop()
loop.close()
with stopped_by_sigterm(lambda: loop.call_soon_threadsafe(print)):
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
"""


def test_cl_46_a_run_whose_event_loop_was_closed_does_not_keep_the_process():
    program = [sys.executable, "-c", WITHOUT_LOOP]
    assert subprocess.run(program, timeout=60, check=False).returncode == -signal.SIGTERM


def test_cl_46_a_run_whose_event_loop_was_closed_does_not_keep_another_from_its_stop():
    loop, stopped = asyncio.new_event_loop(), []
    loop.close()
    with (
        stopped_by_sigterm(lambda: loop.call_soon_threadsafe(print)),
        stopped_by_sigterm(lambda: stopped.append(1)),
    ):
        os.kill(os.getpid(), signal.SIGTERM)
    assert stopped == [1]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_cl_46_a_handler_of_the_program_is_left_alone():
    heard, stopped = [], []
    signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    with stopped_by_sigterm(lambda: stopped.append(1)):
        os.kill(os.getpid(), signal.SIGTERM)
    assert (heard, stopped) == ([1], [])


def test_cl_46_another_thread_than_the_main_one_leaves_the_signal_alone():
    seen = []

    def elsewhere():
        with stopped_by_sigterm(lambda: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]
