"""Long requests and answers take turns over principals (KLS-28)."""

import asyncio
import threading

import pytest

from sharemesh.kafka_listener.long_work import LongWork

MALLORY, ALICE = "User:mallory", "User:alice"


@pytest.fixture
def long_work():
    work = LongWork()
    yield work
    work.close()


async def begun(work, principal, piece):
    """Return the task of a long piece, once it asks for its turn."""
    task = asyncio.create_task(work.done(principal, piece, is_long=True))
    await asyncio.sleep(0)
    return task


async def test_kls_28_the_long_work_of_another_principal_is_the_next(long_work):
    done, may_end = [], threading.Event()
    first = await begun(long_work, MALLORY, may_end.wait)
    many = [await begun(long_work, MALLORY, lambda: done.append(MALLORY)) for _ in range(300)]
    one = await begun(long_work, ALICE, lambda: done.append(ALICE))
    may_end.set()
    await asyncio.gather(first, one, *many)
    assert done == [ALICE, *[MALLORY] * 300]


async def test_kls_28_who_is_gone_has_its_turn_until_the_thread_has_done_its_work(long_work):
    done, begins, may_end = [], threading.Event(), threading.Event()

    def first():
        begins.set()
        may_end.wait()
        done.append("first")

    gone = await begun(long_work, MALLORY, first)
    await asyncio.to_thread(begins.wait)
    waits = [await begun(long_work, MALLORY, lambda: done.append("gone")) for _ in range(3)]
    next_one = await begun(long_work, ALICE, lambda: done.append("next"))
    for each in (gone, *waits):
        each.cancel()
    await asyncio.wait(waits)
    assert not gone.done()
    may_end.set()
    await next_one
    assert gone.cancelled()
    assert done == ["first", "next"]


async def test_kls_28_what_is_short_waits_for_nothing(long_work):
    may_end = threading.Event()
    first = await begun(long_work, MALLORY, may_end.wait)
    assert await long_work.done(MALLORY, lambda: 1, is_long=False) == 1
    may_end.set()
    assert await first
