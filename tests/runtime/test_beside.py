"""Work beside a body: each ends with the other, and no error of the work is lost."""

import asyncio

import pytest

from sharemesh.tasks import beside


async def forever():
    await asyncio.Event().wait()


async def test_the_end_of_the_body_ends_the_work():
    ended = asyncio.Event()

    async def work():
        try:
            await forever()
        finally:
            ended.set()

    async with beside(work, quiet=KeyError):
        await asyncio.sleep(0)
    assert ended.is_set()


async def test_an_error_of_the_work_ends_the_body():
    async def work():
        raise ValueError("broken")

    async with asyncio.timeout(5):
        with pytest.raises(ValueError, match="broken"):
            async with beside(work, quiet=KeyError):
                await forever()
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(0)  # it is not cancelled any more


async def test_a_quiet_error_and_the_end_of_the_work_leave_the_body_alone():
    async def work():
        raise KeyError

    async def done():
        pass

    async with beside(work, quiet=KeyError), beside(done, quiet=KeyError):
        for _ in range(5):
            await asyncio.sleep(0)


async def test_an_error_of_the_body_and_a_cancellation_pass():
    with pytest.raises(ValueError, match="body"):
        async with beside(forever, quiet=KeyError):
            raise ValueError("body")

    async def body():
        async with beside(forever, quiet=KeyError):
            await forever()

    task = asyncio.ensure_future(body())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_body_that_is_cancelled_while_the_work_fails_is_cancelled():
    fails = asyncio.Event()

    async def work():
        await fails.wait()
        raise ValueError("broken")

    async def body():
        async with beside(work, quiet=KeyError):
            await forever()

    task = asyncio.ensure_future(body())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    fails.set()
    await asyncio.sleep(0)  # the work fails
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_the_work_raises_when_it_is_cancelled_is_nobodys():
    async def work():
        try:
            await forever()
        except asyncio.CancelledError:
            raise ValueError("late") from None

    async with beside(work, quiet=KeyError):
        await asyncio.sleep(0)
    await asyncio.sleep(0)
