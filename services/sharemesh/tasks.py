"""The end of background tasks whose outcome is no longer of interest."""

import asyncio
from typing import Any


async def cancel_and_wait(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel tasks and wait for their end, however it is; the one that asks is left out.

    How they ended is heard, also of those that are done already, so that asyncio does not complain.
    Cancelling the caller meanwhile cancels the caller: awaiting a cancelled task directly and
    suppressing its ``CancelledError`` would take the caller's for it.
    """
    asking = asyncio.current_task()
    running = [task for task in tasks if not task.done() and task is not asking]
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
