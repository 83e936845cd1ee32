"""Whoever gives a task up hears how it ended: asyncio has nothing to complain of."""

import asyncio
import gc

from sharemesh.cluster.ended import ended


async def fails() -> None:
    raise KeyError("fenced meanwhile")


async def test_a_task_that_failed_is_heard():
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    task = asyncio.create_task(fails())
    await asyncio.wait({task})
    await ended(task)
    del task
    gc.collect()
    assert complaints == []


async def test_a_task_that_runs_is_cancelled_and_waited_for():
    released = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            released.append(True)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await ended(task)
    assert task.cancelled()
    assert released == [True]


async def test_a_task_that_was_cancelled_is_left_alone():
    task = asyncio.create_task(asyncio.Event().wait())
    task.cancel()
    await asyncio.wait({task})
    await ended(task)
    assert task.cancelled()
