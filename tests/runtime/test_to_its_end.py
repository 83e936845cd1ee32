"""Work of a thread that nobody can stop: what is held for it is held until it is over (BND-35)."""

import asyncio

import pytest

from sharemesh.tasks import to_its_end


async def test_bnd_35_who_is_cancelled_more_than_once_waits_for_the_end_of_the_work():
    end, ended = asyncio.Event(), []

    async def work():
        await end.wait()
        ended.append(True)

    task = asyncio.ensure_future(to_its_end(work()))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
    end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_what_the_work_returns_and_raises_is_passed_on():
    async def failing():
        raise ValueError("it failed")

    async def working():
        return 7

    assert await to_its_end(working()) == 7
    with pytest.raises(ValueError, match="it failed"):
        await to_its_end(failing())
