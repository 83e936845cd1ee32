"""Runs a blocking handler on threads, so that the event loop never waits for it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from sharemesh.client.records import ConsumerRecord
from sharemesh.domain.delivery_state import AcknowledgeType


class ThreadHandlers:
    """A handler on up to ``concurrency`` threads; leaving the context waits for them."""

    def __init__(
        self, handler: Callable[[ConsumerRecord], AcknowledgeType | None], concurrency: int
    ) -> None:
        self._handler = handler
        self._pool = ThreadPoolExecutor(max(concurrency, 1), thread_name_prefix="sharemesh-handler")

    async def handle(self, record: ConsumerRecord) -> AcknowledgeType | None:
        """Return what the handler says."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._handler, record)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
