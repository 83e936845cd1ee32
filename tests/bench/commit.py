"""Processor time of one record that comes alone: produced, delivered, acknowledged, confirmed.

What is measured is the processor time of each process, all threads together, so that neighbours on
the machine move it little; the bound is a multiple of what one bare gRPC call costs its server in
the same run.
"""

import asyncio
import statistics
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import uvloop

from sharemesh import methods
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import TopicPartitions
from tests.bench.ack import acknowledge
from tests.bench.figures import Figure, write
from tests.bench.mesh import batch, by_itself, caller, fill, processes, produce_request
from tests.bench.mesh_node import GROUP, TOPIC

RECORDS = 600  # of one round of each kind
ROUNDS = 3
MEMBERS = 8
PARTITIONS = 2 + MEMBERS


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one record in one process: microseconds of processor time, threads that had to wait."""

    busy_us: float
    waits: float


def spent(process):
    """Return (ns of processor time, voluntary switches) of all threads that live."""
    busy_ns = switches = 0
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        busy_ns += int((thread / "schedstat").read_text().split()[0])
        status = (thread / "status").read_text()
        switches += int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return busy_ns, switches


async def costs(nodes, work, records):
    """Do the work; return what each process spent for one of its records."""
    before = [spent(node.process) for node in nodes]
    await work
    after = [spent(node.process) for node in nodes]
    return [
        Cost((now[0] - then[0]) / records / 1e3, (now[1] - then[1]) / records)
        for then, now in zip(before, after, strict=True)
    ]


class Member:
    """One member on a stream, which acknowledges each record by itself and waits for the answer."""

    def __init__(self, address, name, partition):
        self.address, self.name, self.partition = address, name, partition
        self.client = caller()
        self.stream = None
        self.offsets = []

    async def join(self):
        self.stream = await self.client.stream(methods.CONSUME, to=self.address)
        await self.stream.send(
            pb.ConsumeRequest(
                start=pb.ConsumeStart(group_id=GROUP, member_id=self.name, max_records=500),
                add=[TopicPartitions(topic_id=TOPIC, partitions=[self.partition])],
                credit_records=1 << 30,
            )
        )

    async def hear(self):
        """Take the next message; return how many acknowledgements it confirms."""
        message = await anext(self.stream)
        for part in (part for topic in message.responses for part in topic.partitions):
            assert not part.error_code, part
            for one in part.acquired_records:
                self.offsets.extend(range(one.first_offset, one.last_offset + 1))
        for each in message.acknowledged:
            assert not each.topics[0].partitions[0].error_code, each
        return len(message.acknowledged)

    async def settle(self):
        """Acknowledge one record."""
        while not self.offsets:
            await self.hear()
        offset = self.offsets.pop(0)
        topics = acknowledge("", 0, self.partition, offset, offset).topics
        await self.stream.send(
            pb.ConsumeRequest(
                acknowledgements=[pb.ConsumeAcknowledge(acknowledge_id=offset + 1, topics=topics)]
            )
        )
        while not await self.hear():
            pass


async def lives(address, member, count):
    """Produce, get, acknowledge one record after the other."""
    one = produce_request(member.partition, batch(1, 100))
    for _ in range(count):
        answer = await member.client.call(methods.PRODUCE, one, to=address)
        assert not answer.partitions[0].error_code, answer
        await member.settle()


async def acknowledgements(member, count):
    """Acknowledge records that the member has, one after the other."""
    for _ in range(count):
        await member.settle()


async def unary(address, count):
    """Fetch records, then acknowledge one after the other by ShareAcknowledge."""
    client = caller()
    await fill(address, 1, batch(count, 100), 1)
    topic = pb.AcknowledgeTopic(topic_id=TOPIC)
    topic.partitions.add(partition=0)
    fetch = pb.ShareFetchRequest(
        group_id=GROUP,
        member_id="unary",
        max_wait_ms=5_000,
        max_bytes=1 << 20,
        max_records=count,
        batch_size=count,
        topics=[topic],
    )
    answer = await client.call(methods.SHARE_FETCH, fetch, to=address)
    (part,) = answer.responses[0].partitions
    first = part.acquired_records[0].first_offset

    async def one_by_one():
        for number in range(count):
            request = acknowledge("unary", number + 1, 0, first + number, first + number)
            answer = await client.call(methods.SHARE_ACKNOWLEDGE, request, to=address)
            assert not answer.responses[0].partitions[0].error_code, answer

    async def leave():
        request = acknowledge("unary", -1, 0, first, first)
        request.ClearField("topics")
        await client.call(methods.SHARE_ACKNOWLEDGE, request, to=address)
        await client.close()

    return one_by_one(), leave


async def bare_calls(address, count):
    client = caller()
    request = acknowledge("m", 1, 0, 0, 0)
    bare_acknowledge = by_itself(methods.SHARE_ACKNOWLEDGE)
    for _ in range(count):
        await client.call(bare_acknowledge, request, to=address)
    await client.close()


async def measured(leader, coordinator, bare):
    """Return the costs of all rounds, by kind: [(leader, coordinator), …]."""
    found = {}
    address = leader.address
    alone = Member(address, "alone", 1)
    await alone.join()
    several = [Member(address, f"m{number}", 2 + number) for number in range(MEMBERS)]
    for member in several:
        await member.join()
    await lives(address, alone, 20)
    client = caller()
    for _ in range(ROUNDS):
        [cost] = await costs([bare], bare_calls(bare.address, RECORDS), RECORDS)
        found.setdefault("bare", []).append((cost,))
        nodes = [leader, coordinator]
        found.setdefault("life", []).append(
            await costs(nodes, lives(address, alone, RECORDS), RECORDS)
        )
        for member in (alone, *several):
            request = produce_request(member.partition, batch(RECORDS, 100))
            await client.call(methods.PRODUCE, request, to=address)
            while len(member.offsets) < RECORDS:
                await member.hear()
        found.setdefault("ack", []).append(
            await costs(nodes, acknowledgements(alone, RECORDS), RECORDS)
        )
        work = asyncio.gather(*(acknowledgements(member, RECORDS) for member in several))
        found.setdefault("ack8", []).append(await costs(nodes, work, RECORDS * MEMBERS))
        one_by_one, leave = await unary(address, RECORDS)
        found.setdefault("unary", []).append(await costs(nodes, one_by_one, RECORDS))
        await leave()
    return found


def figures():
    """Return the figures of single records."""
    with (
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        processes(PARTITIONS) as (coordinator, leader, bare),
    ):
        found = runner.run(measured(leader, coordinator, bare))
    medians = Counter()
    for kind, rounds in found.items():
        for role, of_role in zip(
            ("leader", "coordinator"), zip(*rounds, strict=True), strict=False
        ):
            medians[kind, role] = statistics.median(each.busy_us for each in of_role)
            medians[kind, role, "waits"] = statistics.median(each.waits for each in of_role)
    call_us = medians["bare", "leader"]
    rows = [Figure("commit.bare_call", call_us, "us")]
    for kind in ("life", "ack", "ack8", "unary"):
        for role in ("leader", "coordinator"):
            busy_us = medians[kind, role]
            rows.append(Figure(f"commit.{kind}.{role}", busy_us, "us", call_us, busy_us / call_us))
            rows.append(
                Figure(f"commit.{kind}.{role}.waits", medians[kind, role, "waits"], "switches")
            )
    return rows


def main():
    """Measure, write build/bench/commit.json, return the exit code."""
    return write("commit", figures())


if __name__ == "__main__":
    sys.exit(main())
