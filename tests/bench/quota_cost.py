"""What quotas and fairness cost a leader: processor time of the same work, with and without them.

Every quota there is binds the caller and the group, far above what they use: each is looked up,
counted and kept, and nobody waits. One leader does short blocks of the same work over the same
connections, streams and sessions, in rounds of four: without, with, with, without, and the next
round the other way round. So what drifts cancels; the median of the rounds' ratios counts. Only the
work is measured, not what prepares it. ``same`` compares the two blocks without quotas with each
other, and ``told`` is how far from the truth the median may be (19 times of 20): this machine can
tell a difference that is larger than both.
"""

import asyncio
import math
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import uvloop

from sharemesh import methods
from sharemesh.client.quotas import EntityType, QuotaEntity, QuotaName, alteration_of
from sharemesh.domain.quota.values import COUNTS
from sharemesh.v1 import admin_pb2
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import TopicPartitions
from tests.bench.ack import acknowledge
from tests.bench.figures import Figure, write
from tests.bench.mesh import ROOT, Node, batch, caller, fill
from tests.bench.mesh_node import GROUP, TOPIC

ROUNDS = 60
PARTITIONS = 4
CALLERS = 16
CALLS = 16  # of each caller in a block
FLOOR = 0.97  # of the throughput without them
FAR_ABOVE = {True: 1e6, False: 1e12}  # counts, rates
ENTITIES = {
    EntityType.USER: QuotaEntity(EntityType.USER, "User:ANONYMOUS"),
    EntityType.GROUP: QuotaEntity(EntityType.GROUP, GROUP),
}


class Producing:
    """Small Produce calls."""

    name, unit, count = "produce", "us/call", 240

    def __init__(self, address):
        self._address = address

    async def prepare(self):
        pass

    async def run(self):
        await fill(self._address, PARTITIONS, batch(1, 100), self.count)

    async def close(self):
        pass


class Consuming:
    """Records over one Consume stream, each acknowledged there."""

    unit = "us/record"

    def __init__(self, address, name, batches, requests, count):
        self._address = address
        self.name = name
        self.count = count
        self._batches, self._requests = batches, requests
        self._client = caller()
        self._stream = None
        self._number = 0

    async def prepare(self):
        """Put the records into the log while the stream has no credit."""
        if self._stream is None:
            self._stream = await self._client.stream(methods.CONSUME, to=self._address)
            await self._stream.send(
                pb.ConsumeRequest(
                    start=pb.ConsumeStart(group_id=GROUP, member_id=self.name, max_records=500),
                    add=[TopicPartitions(topic_id=TOPIC, partitions=range(PARTITIONS))],
                )
            )
        await fill(self._address, PARTITIONS, self._batches, self._requests)

    async def run(self):
        await self._stream.send(pb.ConsumeRequest(credit_records=self.count))
        left = self.count
        async for message in self._stream:
            for done in message.acknowledged:
                assert all(p.error_code == 0 for t in done.topics for p in t.partitions), done
            entries = [acknowledged(part) for each in message.responses for part in each.partitions]
            if entries:
                self._number += 1
                topic = pb.AcknowledgeTopic(topic_id=TOPIC, partitions=[e for e, _ in entries])
                said = pb.ConsumeAcknowledge(acknowledge_id=self._number, topics=[topic])
                await self._stream.send(pb.ConsumeRequest(acknowledgements=[said]))
                left -= sum(count for _, count in entries)
            if left <= 0 and any(d.acknowledge_id == self._number for d in message.acknowledged):
                return

    async def close(self):
        await self._stream.close()
        await self._client.close()


def acknowledged(part):
    """Return the acknowledgement of what a partition brought, and of how many records."""
    assert part.error_code == 0, part
    entry = pb.AcknowledgePartition(partition=part.partition, leader_epoch=part.leader_epoch)
    count = 0
    for one in part.acquired_records:
        entry.acknowledgement_batches.add(
            first_offset=one.first_offset, last_offset=one.last_offset, acknowledge_types=[1]
        )
        count += one.last_offset - one.first_offset + 1
    return entry, count


class Acknowledging:
    """Small ShareAcknowledge calls of sessions that stay open, over connections of their own."""

    name, unit, count = "acknowledge", "us/call", CALLERS * CALLS

    def __init__(self, address):
        self._address = address
        self._clients = [caller() for _ in range(CALLERS)]
        self._epochs = [0] * CALLERS
        self._first = [0] * CALLERS

    async def prepare(self):
        """Fetch what will be acknowledged."""
        await fill(self._address, PARTITIONS, batch(CALLS, 100), CALLERS)
        for number, client in enumerate(self._clients):
            topic = pb.AcknowledgeTopic(topic_id=TOPIC)
            topic.partitions.add(partition=number % PARTITIONS)
            asked = pb.ShareFetchRequest(
                group_id=GROUP,
                member_id=f"m{number}",
                share_session_epoch=self._epochs[number],
                max_wait_ms=5_000,
                max_bytes=1 << 20,
                max_records=CALLS,
                batch_size=CALLS,
                topics=[topic] if not self._epochs[number] else [],
            )
            answer = await client.call(methods.SHARE_FETCH, asked, to=self._address)
            (part,) = answer.responses[0].partitions
            (acquired,) = part.acquired_records
            assert acquired.last_offset - acquired.first_offset + 1 == CALLS, part
            self._first[number] = acquired.first_offset
            self._epochs[number] += 1

    async def run(self):
        await asyncio.gather(*(self._calls(number) for number in range(CALLERS)))

    async def _calls(self, number):
        for count in range(CALLS):
            offset = self._first[number] + count
            asked = acknowledge(
                f"m{number}", self._epochs[number], number % PARTITIONS, offset, offset
            )
            answer = await self._clients[number].call(
                methods.SHARE_ACKNOWLEDGE, asked, to=self._address
            )
            assert answer.responses[0].partitions[0].error_code == 0, answer
            self._epochs[number] += 1

    async def close(self):
        for client in self._clients:
            await client.close()


WORKS = (
    lambda address: Consuming(address, "batches", batch(500, 1024), 20, 10_000),
    lambda address: Consuming(address, "records", batch(1, 100) * 500, 8, 4_000),
    Acknowledging,
    Producing,  # the last one: nobody consumes these records
)


def cpu_ns(process):
    """Return the processor time that all threads of a process have used."""
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in tasks)


async def bind(client, address, *, bound):
    """Set every quota of the caller and of the group, or remove them all."""
    values = {
        entity: {
            name.value: FAR_ABOVE[name in COUNTS] if bound else None
            for name in QuotaName
            if name.entity_type is kind
        }
        for kind, entity in ENTITIES.items()
    }
    entries = [alteration_of(entity, changes) for entity, changes in values.items()]
    request = admin_pb2.AlterClientQuotasRequest(entries=entries)
    await client.call(methods.ALTER_CLIENT_QUOTAS, request, to=address)


class Round(NamedTuple):
    """Processor time for one thing, in microseconds, in the order of the blocks."""

    free: tuple[float, float]
    bound: tuple[float, float]

    @property
    def ratio(self):
        """Throughput with them over that without."""
        return sum(self.free) / sum(self.bound)


async def measured(leader, work, rounds):
    """Return the rounds of one kind of work."""
    client = caller()
    done = []

    async def spent_us(*, bound):
        await bind(client, leader.address, bound=bound)
        await work.prepare()
        before = cpu_ns(leader.process)
        await work.run()
        return (cpu_ns(leader.process) - before) / 1_000 / work.count

    for number in range(-2, rounds):
        outer = number % 2 == 1  # which of them is first and last
        first, *inner, last = [
            await spent_us(bound=each) for each in (outer, not outer, not outer, outer)
        ]
        pairs = {outer: (first, last), not outer: tuple(inner)}
        if number >= 0:  # the first ones warm up
            done.append(Round(pairs[False], pairs[True]))
    await work.close()
    await client.close()
    return done


def uncertainty(values):
    """Return how far from the median of all the median of so many may be, 19 times of 20."""
    ordered, middle = sorted(values), statistics.median(values)
    aside = math.ceil(0.98 * math.sqrt(len(ordered)))
    low = ordered[max(0, (len(ordered) - 1) // 2 - aside)]
    high = ordered[min(len(ordered) - 1, len(ordered) // 2 + aside)]
    return max(high - middle, middle - low)


def compared(work, rounds):
    """Return the figures of one kind of work: its cost, and how well it can be told."""
    free = statistics.median(sum(each.free) / 2 for each in rounds)
    bound = statistics.median(sum(each.bound) / 2 for each in rounds)
    ratios = [each.ratio for each in rounds]
    same = statistics.median(each.free[0] / each.free[1] for each in rounds)
    told, name = 100 * uncertainty(ratios), f"quota_cost.{work.name}"
    if max(told, 100 * abs(1 - same)) > 100 * (1 - FLOOR):
        print(f"{name}: this machine is not quiet enough to tell {100 * (1 - FLOOR):.0f} %")
    return [
        Figure(name, bound, work.unit, free, statistics.median(ratios), FLOOR),
        Figure(f"{name}_same", free, work.unit, free, same),
        Figure(f"{name}_told", told, "%", goal=100 * (1 - FLOOR), at_most=True),
    ]


def figures(rounds=ROUNDS):
    """Return the figures of what quotas and fairness cost."""
    with (
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        tempfile.TemporaryDirectory(dir=ROOT / "build") as directory,
    ):
        state = Node("coordinator", f"{directory}/state")
        try:
            leader = Node("bounded", f"{directory}/records", PARTITIONS, state.port)
            try:
                works = [make(leader.address) for make in WORKS]
                return [
                    figure
                    for work in works
                    for figure in compared(work, runner.run(measured(leader, work, rounds)))
                ]
            finally:
                leader.stop()
        finally:
            state.stop()


def main():
    """Measure, write build/bench/quota-cost.json, return the exit code."""
    return write("quota-cost", figures())


if __name__ == "__main__":
    sys.exit(main())
