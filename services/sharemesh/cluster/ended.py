"""The end of a task whose outcome is no longer of interest."""

import asyncio
from typing import Any


async def ended(task: "asyncio.Task[Any]") -> None:
    """Cancel a task and wait for its end; how it ended is heard, so that asyncio does not ask."""
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    elif not task.cancelled():
        task.exception()
