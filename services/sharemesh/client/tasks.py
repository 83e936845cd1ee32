"""The end of background tasks."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def cancelled(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancel tasks and wait for their end, however it is.

    Cancelling the caller meanwhile cancels the caller: awaiting a cancelled task directly and
    suppressing its ``CancelledError`` would take the caller's for it.
    """
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
