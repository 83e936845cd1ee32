"""One consumer in a process of its own; it journals what it sees, then acts.

Behaviours: ``steady`` accepts, and rejects rows with too few fields; ``slow`` renews every record
once before it accepts it; ``greedy`` holds what it got for a while, so that a kill finds it with
records in its hands; ``holder`` holds each record for ``--hold-ms`` by itself, and goes on
receiving meanwhile; ``dependent`` asks a service for each record, which may be down.
"""

import argparse
import asyncio
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path

from sharemesh.client import AcknowledgeType, ShareConsumer, connect
from sharemesh.client.errors import SharemeshError
from sharemesh.client.records import ConsumerRecord, TopicIdPartition
from tests.history.journal import Journal
from tests.mesh.dependency import DependencyClient

GREEDY_HOLD_S = 0.5
HOLDER_RECORDS = 4_000
HOLDER_AGAIN_S = 0.2
DEPENDENT_RECORDS = 100
SLOW_RECORDS = 50
KINDS = {
    AcknowledgeType.ACCEPT: "accept",
    AcknowledgeType.REJECT: "reject",
    AcknowledgeType.RELEASE: "release",
    AcknowledgeType.RENEW: "renew",
}
Grant = tuple[str, int, int, int]  # partition, offset, leader epoch, delivery count


def ranges(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Return sorted offsets as inclusive ranges."""
    found: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if found and found[-1][1] == offset - 1:
            found[-1] = (found[-1][0], offset)
        else:
            found.append((offset, offset))
    return found


class Worker:
    """Consumes until it is told to stop."""

    def __init__(self, journal: Journal, behaviour: str, fields: int) -> None:
        self._journal = journal
        self._behaviour = behaviour
        self._commas = fields - 1
        self._sent: dict[str, dict[int, AcknowledgeType]] = defaultdict(dict)
        self._seen: set[Grant] = set()
        self._renewed: set[Grant] = set()
        self.stopping = False

    def committed(
        self, offsets: Mapping[TopicIdPartition, Collection[int]], error: SharemeshError | None
    ) -> None:
        """Journal how acknowledgements ended (acknowledgement commit callback)."""
        for source, numbers in offsets.items():
            by_kind: dict[str, list[int]] = defaultdict(list)
            for offset in numbers:
                kind = self._sent[str(source)].get(offset)
                if kind is not None:
                    by_kind[KINDS[kind]].append(offset)
            for kind_name, found in by_kind.items():
                self._journal.acknowledged(
                    str(source), kind_name, ranges(found), None if error is None else str(error)
                )

    def note(self, records: list[ConsumerRecord]) -> None:
        """Journal deliveries; a renewed record that is handed out again is none."""
        fresh: dict[tuple[str, int, int], list[int]] = defaultdict(list)
        for record in records:
            partition = f"{record.topic}/{record.partition}"
            grant = (partition, record.offset, record.leader_epoch, record.delivery_count)
            if grant in self._seen and grant in self._renewed:
                continue
            self._seen.add(grant)
            fresh[partition, record.leader_epoch, record.delivery_count].append(record.offset)
        for (partition, epoch, count), found in fresh.items():
            self._journal.delivered(
                partition, epoch, [(first, last, count) for first, last in ranges(found)]
            )

    async def hold(self, record: ConsumerRecord, hold_s: float) -> None:
        """Have a record for a while."""
        self.note([record])
        await asyncio.sleep(hold_s)

    async def ask(self, record: ConsumerRecord, needed: DependencyClient) -> None:
        """Journal a record once its work is done: failures that do not count say no new count."""
        await needed.ask()
        self.note([record])

    def decide(self, record: ConsumerRecord) -> AcknowledgeType:
        """Return what to say of a record."""
        partition = f"{record.topic}/{record.partition}"
        if (record.value or b"").count(b",") != self._commas:
            return AcknowledgeType.REJECT
        grant = (partition, record.offset, record.leader_epoch, record.delivery_count)
        if self._behaviour == "slow" and grant not in self._renewed:
            self._renewed.add(grant)
            return AcknowledgeType.RENEW
        return AcknowledgeType.ACCEPT

    def run(self, bootstrap: str, group: str, topic: str) -> None:
        """Poll, decide, acknowledge; the next poll carries the acknowledgements."""
        size = SLOW_RECORDS if self._behaviour == "slow" else 500
        consumer = connect(bootstrap).share_consumer(
            group, share_acknowledgement_mode="explicit", max_poll_records=size
        )
        consumer.set_acknowledgement_commit_callback(self.committed)
        consumer.subscribe([topic])
        try:
            while not self.stopping:
                self.turn(consumer)
        finally:
            consumer.close(timeout_ms=5_000)

    def turn(self, consumer: ShareConsumer) -> None:
        """Run one round of the loop."""
        try:
            records = consumer.poll(500)
        except SharemeshError as error:
            self._journal.write("trouble", text=str(error))
            return
        self.note(records)
        if self._behaviour == "greedy" and records:
            time.sleep(GREEDY_HOLD_S)
        for record in records:
            kind = self.decide(record)
            self._sent[f"{record.topic}/{record.partition}"][record.offset] = kind
            consumer.acknowledge(record, kind)
        if records:
            consumer.commit_sync(10_000)

    async def handle(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        *,
        concurrency: int,
        work: Callable[[ConsumerRecord], Awaitable[None]],
    ) -> None:
        """Work on records under ``run`` with its defaults, many at a time, until told to stop."""
        loop = asyncio.get_running_loop()
        consumer = connect(bootstrap).async_share_consumer(group)
        consumer.set_acknowledgement_commit_callback(self.committed)
        self._journal.write("member", id=consumer.member_id)
        await consumer.subscribe([topic])

        def stop(_number: int) -> None:
            self.stopping = True
            consumer.stop()

        loop.add_signal_handler(signal.SIGTERM, stop, signal.SIGTERM)

        async def handle(record: ConsumerRecord) -> AcknowledgeType:
            await work(record)
            kind = self.decide(record)
            partition = f"{record.topic}/{record.partition}"
            self._sent[partition][record.offset] = kind
            self._journal.write(
                "decided",
                p=partition,
                le=record.leader_epoch,
                r=[[record.offset, record.offset, record.delivery_count]],
            )
            return kind

        while not self.stopping:
            try:
                await consumer.run(handle, concurrency=concurrency)
            except SharemeshError as error:
                self._journal.write("trouble", text=str(error))
                await asyncio.sleep(HOLDER_AGAIN_S)
        await consumer.close(timeout_ms=5_000)


def main() -> int:
    """Run one worker until SIGTERM."""
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--group", "--topic", "--name", "--behaviour", "--journal"):
        parser.add_argument(name, required=True)
    parser.add_argument("--fields", type=int, required=True, help="comma-separated, of a whole row")
    parser.add_argument("--hold-ms", type=int, default=0, help="how long a holder holds a record")
    parser.add_argument("--dependency", default="", help="socket of what a dependent one needs")
    args = parser.parse_args()
    journal = Journal(Path(args.journal), args.name)
    worker = Worker(journal, args.behaviour, args.fields)

    def stop(_number: int, _frame: object) -> None:
        worker.stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    journal.write("started", behaviour=args.behaviour)
    where = (args.bootstrap, args.group, args.topic)
    if args.behaviour == "holder":
        hold_s = args.hold_ms / 1_000
        hold = partial(worker.hold, hold_s=hold_s)
        asyncio.run(worker.handle(*where, concurrency=HOLDER_RECORDS, work=hold))
    elif args.behaviour == "dependent":
        ask = partial(worker.ask, needed=DependencyClient(args.dependency))
        asyncio.run(worker.handle(*where, concurrency=DEPENDENT_RECORDS, work=ask))
    else:
        worker.run(*where)
    journal.write("stopped")
    journal.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
