"""The end of background tasks."""

import asyncio
import gc

import pytest

from sharemesh.tasks import cancel_and_wait, wait_until_set


async def test_a_task_that_is_cancelled_while_it_ends_another_one_ends_too():
    """A heartbeat that took its own cancellation for its timer's went on until close gave up."""

    async def owner():
        timer = asyncio.ensure_future(asyncio.sleep(60))
        try:
            await asyncio.sleep(0)
        finally:
            await cancel_and_wait(timer)
        await asyncio.sleep(60)

    task = asyncio.ensure_future(owner())
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # now it awaits the end of its timer
    task.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_how_the_tasks_end_is_nobodys_matter():
    async def fails():
        raise ValueError("no")

    failing = asyncio.ensure_future(fails())
    await asyncio.sleep(0)
    await cancel_and_wait(failing, asyncio.ensure_future(asyncio.sleep(60)))
    assert failing.done()


async def fails() -> None:
    raise KeyError("fenced meanwhile")


async def test_a_task_that_failed_is_heard():
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    task = asyncio.create_task(fails())
    await asyncio.wait({task})
    await cancel_and_wait(task)
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
    await cancel_and_wait(task)
    assert task.cancelled()
    assert released == [True]


async def test_a_task_that_was_cancelled_is_left_alone():
    task = asyncio.create_task(asyncio.Event().wait())
    task.cancel()
    await asyncio.wait({task})
    await cancel_and_wait(task)
    assert task.cancelled()


async def test_a_task_that_ends_its_own_owner_is_not_cancelled_by_itself():
    async def asks():
        await cancel_and_wait(asyncio.current_task())
        return "went on"

    assert await asyncio.create_task(asks()) == "went on"


async def test_waiting_for_an_event_ends_when_it_is_set_and_without_an_error_when_it_is_not():
    event = asyncio.Event()
    await wait_until_set(event, 1)
    assert not event.is_set()
    asyncio.get_running_loop().call_soon(event.set)
    await wait_until_set(event, None)
    assert event.is_set()
