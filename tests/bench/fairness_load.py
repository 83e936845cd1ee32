"""The load of one group in a process of its own: several members that take all they can get.

    python -m tests.bench.fairness_load ADDRESS GROUP FIRST_PARTITION LOAD

LOAD is a rate in single records a second, each acknowledged by itself; or ``flood``: all that the
leader takes, in single records, large batches and unary requests; or ``large``: requests with an
acknowledgement batch for each of 3,000 records, one after the other. Reads ``go`` and ``stop``
from its standard input; answers ``stop`` with the records acknowledged since ``go`` and, of a rate,
the p99 of how late they were produced in ms: one that is late produces several at a time.
"""

import asyncio
import os
import sys
import time

import uvloop

from sharemesh import methods
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import TopicPartitions
from tests.bench.ack import percentile
from tests.bench.mesh import batch, caller, produce_request
from tests.bench.mesh_node import TOPIC

SINGLE, WHOLE, UNARY = 0, 1, 2  # partitions from the first one on, one for each kind of member
BACKLOG = 4_000  # records of a partition that are produced ahead of its member
LOCKS = 2_000  # of a share partition
ACKNOWLEDGES = 32  # of single records, under way at a time


class Load:
    """Members and producers, all of which wait while ``on`` is clear."""

    def __init__(self, address, group, first_partition, load):
        self.address, self.group, self.first = address, group, first_partition
        self.load = load
        self.on = asyncio.Event()
        self.records = 0
        self.late_ms = []
        self.ahead = [0, 0, 0]

    def forever(self):
        if self.load == "large":
            return [
                *(self.produce(kind, batch(500, 100), 500) for kind in (SINGLE, WHOLE, UNARY)),
                self.unary((SINGLE, WHOLE, UNARY), LOCKS),
            ]
        if self.load != "flood":
            return [
                *(self.produce_steadily(kind) for kind in (SINGLE, WHOLE, UNARY)),
                *(self.stream(SINGLE, self.first + kind) for kind in (SINGLE, WHOLE, UNARY)),
            ]
        return [
            self.produce(SINGLE, batch(1, 100), 1),
            self.produce(SINGLE, batch(50, 100), 50),
            self.produce(WHOLE, batch(500, 200), 500),
            self.produce(UNARY, batch(100, 200), 100),
            self.stream(SINGLE, self.first),
            self.stream(WHOLE, self.first + WHOLE),
            self.unary((UNARY,), 100),
        ]

    async def produce(self, kind, one, records):
        client = caller()
        while True:
            await self.on.wait()
            if self.ahead[kind] > BACKLOG:
                await asyncio.sleep(0.005)
                continue
            self.ahead[kind] += records
            request = produce_request(self.first + kind, one)
            answer = await client.call(methods.PRODUCE, request, to=self.address)
            assert not answer.partitions[0].error_code, answer

    async def produce_steadily(self, kind):
        """Produce a third of the rate, several at a time if the leader is behind."""
        client, pause, free = caller(), 3 / int(self.load), asyncio.Semaphore(ACKNOWLEDGES)
        request = produce_request(self.first + kind, batch(1, 100))

        async def one():
            answer = await client.call(methods.PRODUCE, request, to=self.address)
            assert not answer.partitions[0].error_code, answer
            free.release()

        running = set()
        while True:
            await self.on.wait()
            due = time.perf_counter()
            while self.on.is_set():
                await free.acquire()
                self.late_ms.append(1_000 * (time.perf_counter() - due))
                task = asyncio.create_task(one())
                running.add(task)
                task.add_done_callback(running.discard)
                due += pause
                await asyncio.sleep(max(0, due - time.perf_counter()))

    def taken(self, kind, records):
        self.ahead[kind] -= records
        self.records += records

    async def stream(self, kind, partition):
        """Acknowledge each record by itself (SINGLE), or each offset's own type in one (WHOLE)."""
        stream = await caller().stream(methods.CONSUME, to=self.address)
        await stream.send(
            pb.ConsumeRequest(
                start=pb.ConsumeStart(
                    group_id=self.group, member_id=f"m{partition}", max_records=500
                ),
                add=[TopicPartitions(topic_id=TOPIC, partitions=[partition])],
                credit_records=2_000,
            )
        )
        number = 0
        free = asyncio.Semaphore(ACKNOWLEDGES)
        offsets = asyncio.Queue()

        async def acknowledge():
            nonlocal number
            while True:
                first, last = await offsets.get()
                await free.acquire()
                await self.on.wait()
                number += 1
                types = [1] * (last - first + 1) if kind == WHOLE else [1]
                answered = pb.ConsumeAcknowledge(
                    acknowledge_id=number, topics=[acknowledged(partition, [(first, last)], types)]
                )
                credit = last - first + 1
                await stream.send(
                    pb.ConsumeRequest(credit_records=credit, acknowledgements=[answered])
                )
                self.taken(kind, credit)

        task = asyncio.create_task(acknowledge())
        async for message in stream:
            for _ in message.acknowledged:
                free.release()
            for part in (part for topic in message.responses for part in topic.partitions):
                assert not part.error_code, part
                for one in part.acquired_records:
                    if kind == WHOLE:
                        offsets.put_nowait((one.first_offset, one.last_offset))
                        continue
                    for offset in range(one.first_offset, one.last_offset + 1):
                        offsets.put_nowait((offset, offset))
        task.cancel()

    async def unary(self, kinds, records):
        """Fetch, acknowledge every second record by itself in one request, then the others."""
        client, epoch = caller(), 0
        listed = pb.AcknowledgeTopic(topic_id=TOPIC)
        for kind in kinds:
            listed.partitions.add(partition=self.first + kind)
        while True:
            await self.on.wait()
            request = pb.ShareFetchRequest(
                group_id=self.group,
                member_id="unary",
                share_session_epoch=epoch,
                max_wait_ms=500,
                max_bytes=1 << 20,
                max_records=records * len(kinds),
                batch_size=records,
                topics=[listed],
            )
            answer = await client.call(methods.SHARE_FETCH, request, to=self.address)
            assert not answer.error_code, answer
            epoch += 1
            held = {
                part.partition: [
                    (offset, offset)
                    for one in part.acquired_records
                    for offset in range(one.first_offset, one.last_offset + 1)
                ]
                for topic in answer.responses
                for part in topic.partitions
            }
            for odd in (0, 1):
                topics = [acknowledged(each, held[each][odd::2], [1]) for each in held]
                request = pb.ShareAcknowledgeRequest(
                    group_id=self.group,
                    member_id="unary",
                    share_session_epoch=epoch,
                    topics=topics,
                )
                answer = await client.call(methods.SHARE_ACKNOWLEDGE, request, to=self.address)
                assert not answer.error_code, answer
                epoch += 1
            for each, offsets in held.items():
                self.taken(each - self.first, len(offsets))


def acknowledged(partition, batches, types):
    topic = pb.AcknowledgeTopic(topic_id=TOPIC)
    entry = topic.partitions.add(partition=partition)
    for first, last in batches:
        entry.acknowledgement_batches.add(
            first_offset=first, last_offset=last, acknowledge_types=types
        )
    return topic


async def main(address, group, first_partition, load_name):
    os.nice(19)
    load = Load(address, group, int(first_partition), load_name)
    tasks = [asyncio.create_task(each) for each in load.forever()]
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        for task in tasks:
            if task.done():
                task.result()
        if line.strip() == "go":
            load.records = 0
            load.late_ms.clear()
            load.on.set()
        else:
            load.on.clear()
            late_ms = percentile(sorted(load.late_ms) or [0.0], 0.99)
            print(load.records, late_ms, flush=True)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
    os._exit(0)
