"""The quiet tenant, in a process of its own: produces, consumes, asks, and writes what it waited.

Requests begin at fixed moments whether or not those before were answered, so a stall is seen by
all that begin in it. One line a tenth of a second: samples that ended (kind, beginning, seconds),
and the beginning of the oldest that has not.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import cycle

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

from sharemesh.client import connect
from sharemesh.client.errors import SharemeshError

PRODUCE_EVERY_S = 0.025
ASK_EVERY_S = 0.025
FLUSH_EVERY_S = 0.1
OPEN_MAX = 2_000
"""Requests that may be open; a stall of so many is seen already."""

MARK = b"quiet"
"""Key of the records whose way is timed."""


class QuietTenant:
    """Samples of one tenant's calls; times are of the machine's monotonic clock."""

    def __init__(self, config: dict[str, str], topic: str, group: str) -> None:
        self._cluster = connect(**config)
        self._processes = [
            connect(**{**config, "bootstrap_servers": each})
            for each in config["bootstrap_servers"].split(",")
        ]
        self._topic, self._group = topic, group
        self._ended: list[tuple[str, float, float]] = []
        self._open: dict[tuple[str, float], None] = {}
        self._errors: list[str] = []

    async def run(self) -> None:
        """Go on until cancelled, or until nobody reads any more."""
        async with (
            AsyncExitStack() as open_clients,
            self._cluster.async_producer() as producer,
            self._cluster.async_admin() as admin,
            self._cluster.async_share_consumer(self._group) as consumer,
        ):
            looking = cycle(
                [
                    await open_clients.enter_async_context(each.async_admin())
                    for each in self._processes
                ]
            )
            await consumer.subscribe([self._topic])

            async def produce() -> None:
                began = time.monotonic()
                self._open["deliver", began] = None
                await producer.send_and_wait(self._topic, repr(began).encode(), key=MARK)

            async def describe() -> None:
                await admin.describe_groups([self._group])

            async def look() -> None:
                await next(looking).describe_topics([self._topic])  # each process in its turn

            async with asyncio.TaskGroup() as group:
                group.create_task(self._every(PRODUCE_EVERY_S, "produce", produce))
                group.create_task(self._every(ASK_EVERY_S * 2, "describe group", describe))
                group.create_task(self._every(ASK_EVERY_S * 2, "describe topic", look))
                group.create_task(self._flush())
                while True:
                    records = await consumer.poll(1_000)
                    now = time.monotonic()
                    for record in records:
                        if record.key != MARK:
                            continue
                        began = float(record.value or b"0")
                        if self._open.pop(("deliver", began), 0) is None:
                            self._ended.append(("deliver", began, now - began))
                    if records:
                        await consumer.commit_async()

    async def _every(self, pause_s: float, kind: str, ask: Callable[[], Awaitable[None]]) -> None:
        due = time.monotonic()
        asking: set[asyncio.Task[None]] = set()
        while True:
            due = max(due + pause_s, time.monotonic() - 1.0)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if len(asking) < OPEN_MAX:
                task = asyncio.ensure_future(self._timed(kind, ask))
                asking.add(task)
                task.add_done_callback(asking.discard)

    async def _timed(self, kind: str, ask: Callable[[], Awaitable[None]]) -> None:
        began = time.monotonic()
        self._open[kind, began] = None
        try:
            await ask()
        except SharemeshError as error:
            self._errors.append(f"{kind}: {error}")
        del self._open[kind, began]
        self._ended.append((kind, began, time.monotonic() - began))

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_EVERY_S)
            now = time.monotonic()
            oldest = min((began for _, began in self._open), default=now)
            line = {"now": now, "oldest": oldest, "ended": self._ended, "errors": self._errors}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
            self._ended, self._errors = [], []


if __name__ == "__main__":
    asyncio.run(QuietTenant(json.loads(sys.argv[1]), *sys.argv[2:4]).run())
