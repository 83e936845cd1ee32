"""The end of background tasks."""

import asyncio

import pytest

from sharemesh.client.tasks import cancelled


async def test_a_task_that_is_cancelled_while_it_ends_another_one_ends_too():
    """A heartbeat that took its own cancellation for its timer's went on until close gave up."""

    async def owner():
        timer = asyncio.ensure_future(asyncio.sleep(60))
        try:
            await asyncio.sleep(0)
        finally:
            await cancelled([timer])
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
    await cancelled([failing, asyncio.ensure_future(asyncio.sleep(60))])
    assert failing.done()
