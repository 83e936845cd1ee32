"""Runs in a pod: produces and consumes at a steady rate, and says on stdout what it saw.

The lines are those of tests/history/journal.py. A file ``stop`` in /tmp ends producing; then the
program waits until each confirmed record has had its acknowledgement confirmed, says so, and ends.
It stands alone: it is mounted into an image that holds nothing of the tests.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from sharemesh.client import AcknowledgeType, connect
from sharemesh.client.errors import SharemeshError

STOP = Path("/tmp/stop")
TICK_S = 0.05
POLL_MS = 500
AGAIN_S = 0.1


def say(who: str, event: str, **fields: Any) -> None:
    """Print one line of the journal."""
    line = {"t": time.monotonic_ns() / 1e6, "w": who, "e": event, **fields}
    print(json.dumps(line, separators=(",", ":")), flush=True)


def ranges(offsets: Iterable[int]) -> list[list[int]]:
    """Return sorted offsets as inclusive ranges."""
    found: list[list[int]] = []
    for offset in sorted(offsets):
        if found and found[-1][1] == offset - 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return found


class Load:
    """One producer and some consumers on one loop."""

    def __init__(self, settings: dict[str, str], topic: str, group: str, per_second: int) -> None:
        self._mesh = connect(settings.pop("bootstrap.servers"), **settings)
        self._topic = topic
        self._group = group
        self._per_second = per_second
        self._confirmed: set[tuple[str, int]] = set()
        self._accepted: set[tuple[str, int]] = set()
        self._unsure: set[tuple[str, int]] = set()  # sent, but whoever took it died unheard
        self._over = asyncio.Event()

    async def produce(self) -> None:
        """Send until the file ``stop`` is there; partitions take turns."""
        sending: set[asyncio.Task[None]] = set()
        async with self._mesh.async_producer() as producer:
            partitions = await self._partitions(producer)
            started, sent = time.monotonic(), 0
            while not STOP.exists():
                due = int((time.monotonic() - started) * self._per_second)
                for number in range(sent, due):
                    task = asyncio.create_task(self._send(producer, number, partitions))
                    sending.add(task)
                    task.add_done_callback(sending.discard)
                sent = max(sent, due)
                await asyncio.sleep(TICK_S)
            await asyncio.gather(*sending)

    async def _partitions(self, producer: Any) -> int:
        while True:
            try:
                return int(await producer.partitions_for(self._topic))
            except SharemeshError as error:
                say("producer", "trouble", text=str(error))
                await asyncio.sleep(AGAIN_S)

    async def _send(self, producer: Any, number: int, partitions: int) -> None:
        try:
            where = await producer.send_and_wait(
                self._topic, b"record-%d" % number, partition=number % partitions
            )
        except SharemeshError as error:  # not confirmed: nothing was promised
            say("producer", "trouble", text=str(error))
            return
        partition = f"{where.topic}/{where.partition}"
        self._confirmed.add((partition, where.offset))
        say("producer", "produced", p=partition, r=[[where.offset, where.offset]])

    async def consume(self, name: str) -> None:
        """Take, accept, commit, until the end."""

        def committed(offsets: Mapping[Any, Collection[int]], error: SharemeshError | None) -> None:
            for source, numbers in offsets.items():
                text = None if error is None else str(error)
                say(name, "acknowledged", p=str(source), k="accept", r=ranges(numbers), error=text)
                where = self._accepted if error is None else self._unsure
                where.update((str(source), number) for number in numbers)

        consumer = self._mesh.async_share_consumer(
            self._group, share_acknowledgement_mode="explicit", max_poll_records=100
        )
        consumer.set_acknowledgement_commit_callback(committed)
        await consumer.subscribe([self._topic])
        while not self._over.is_set():
            try:
                records = await consumer.poll(POLL_MS)
                self._delivered(name, records)
                for record in records:
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT)
                if records:
                    await consumer.commit_sync(10_000)
            except SharemeshError as error:
                say(name, "trouble", text=f"{type(error).__name__}: {error}")
                await asyncio.sleep(AGAIN_S)
        await consumer.close()

    def _delivered(self, name: str, records: list[Any]) -> None:
        grants: dict[tuple[str, int, int], list[int]] = defaultdict(list)
        for record in records:
            partition = f"{record.topic}/{record.partition}"
            grants[partition, record.leader_epoch, record.delivery_count].append(record.offset)
        for (partition, epoch, count), offsets in grants.items():
            found = [[first, last, count] for first, last in ranges(offsets)]
            say(name, "delivered", p=partition, le=epoch, r=found)

    async def _left(self) -> set[tuple[str, int]]:
        """Return the confirmed records that are not finished.

        One whose acknowledgement went unanswered is finished if the mesh says that its partition
        has nothing left to deliver, and that it was not lost on the way is what the mesh counts.
        """
        left = self._confirmed - self._accepted
        if not left or not left <= self._unsure:
            return left
        try:
            async with self._mesh.async_admin() as admin:
                offsets = await admin.list_share_group_offsets(self._group)
        except SharemeshError as error:
            say("load", "trouble", text=str(error))
            return left
        done = {str(where) for where, found in offsets.items() if getattr(found, "lag", -1) == 0}
        finished = {record for record in left if record[0] in done}
        for partition, offset in finished:
            say("load", "finished", p=partition, r=[[offset, offset]])
        self._accepted |= finished
        return left - finished

    async def run(self, consumers: int, drain_s: float) -> int:
        """Run until told to stop, then until all is acknowledged; return the exit code."""
        tasks = [asyncio.create_task(self.consume(f"consumer-{n}")) for n in range(consumers)]
        await self.produce()
        deadline = time.monotonic() + drain_s
        while (left := await self._left()) and time.monotonic() < deadline:
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(TICK_S)
        self._over.set()
        await asyncio.gather(*tasks)
        say("load", "end", confirmed=len(self._confirmed), open=len(left), first=sorted(left)[:5])
        return 1 if left else 0


def main() -> int:
    """Read the flags and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE of the client")
    parser.add_argument("--per-second", type=int, default=40)
    parser.add_argument("--consumers", type=int, default=2)
    parser.add_argument("--drain-s", type=float, default=90)
    args = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in args.set)

    async def run() -> int:
        load = Load(settings, args.topic, args.group, args.per_second)
        return await load.run(args.consumers, args.drain_s)

    return asyncio.run(run())


if __name__ == "__main__":
    sys.exit(main())
