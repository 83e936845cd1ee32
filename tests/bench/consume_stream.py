"""Records delivered and acknowledged over Consume, against a bare stream of the same bytes."""

import asyncio
import sys
import time

import uvloop

from sharemesh import methods
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import TopicPartitions
from tests.bench.figures import Figure, alternate, write
from tests.bench.mesh import batch, caller, fill, mesh
from tests.bench.mesh_node import GROUP, TOPIC


async def consume(address, partitions, records):
    """Return seconds from the first to the last confirmed acknowledgement of ``records``."""
    client = caller()
    stream = await client.stream(methods.CONSUME, to=address)
    started = time.perf_counter()
    await stream.send(
        pb.ConsumeRequest(
            start=pb.ConsumeStart(group_id=GROUP, member_id="m", max_records=500),
            add=[TopicPartitions(topic_id=TOPIC, partitions=range(partitions))],
            credit_records=8_000,
        )
    )
    got = confirmed = number = 0
    waiting = {}
    async for message in stream:
        taken = 0
        asked = []
        for topic in message.responses:
            for part in topic.partitions:
                assert part.error_code == 0, part
                entry = pb.AcknowledgePartition(
                    partition=part.partition, leader_epoch=part.leader_epoch
                )
                for one in part.acquired_records:
                    entry.acknowledgement_batches.add(
                        first_offset=one.first_offset,
                        last_offset=one.last_offset,
                        acknowledge_types=[1],
                    )
                    taken += one.last_offset - one.first_offset + 1
                asked.append(entry)
        for done in message.acknowledged:
            assert all(p.error_code == 0 for t in done.topics for p in t.partitions), done
            confirmed += waiting.pop(done.acknowledge_id)
        if taken:
            got += taken
            number += 1
            waiting[number] = taken
            await stream.send(
                pb.ConsumeRequest(
                    credit_records=taken,
                    acknowledgements=[
                        pb.ConsumeAcknowledge(
                            acknowledge_id=number,
                            topics=[pb.AcknowledgeTopic(topic_id=TOPIC, partitions=asked)],
                        )
                    ],
                )
            )
        if confirmed >= records:
            break
    seconds = time.perf_counter() - started
    await stream.close()
    await client.close()
    return seconds


async def bare(address, size_bytes, messages):
    """Return seconds for so many messages, each answered, up to 16 on their way."""
    client = caller()
    stream = await client.stream(methods.CONSUME, to=address)
    started = time.perf_counter()
    await stream.send(
        pb.ConsumeRequest(
            start=pb.ConsumeStart(group_id="x", batch_size=size_bytes), credit_records=16
        )
    )
    count = 0
    async for message in stream:
        assert len(message.responses[0].partitions[0].records) == size_bytes
        count += 1
        if count == messages:
            break
        await stream.send(pb.ConsumeRequest(credit_records=1 if count + 16 <= messages else 0))
    seconds = time.perf_counter() - started
    await stream.close()
    await client.close()
    return seconds


async def produced_and_consumed(address, partitions, batches, requests, records):
    """Fill the partitions (not timed), then return records per second of consuming them."""
    await fill(address, partitions, batches, requests)
    return records / await consume(address, partitions, records)


async def moved(address, size_bytes, messages, records):
    """Return records per second of the bare stream."""
    return records / await bare(address, size_bytes, messages)


def batch500(runner):
    """Batches of 500 over 4 partitions, against a bare stream of the same bytes."""
    one, requests = batch(500, 1024), 200
    records = 500 * requests
    with mesh(4) as (leader, other):
        medians = alternate(
            lambda: runner.run(moved(other.address, len(one), requests, records)),
            lambda: runner.run(produced_and_consumed(leader.address, 4, one, requests, records)),
        )
    return Figure(
        "consume_stream.batch500",
        medians.measured,
        "records/s",
        medians.baseline,
        medians.ratio,
        0.35,
        goal=0.6,
    )


def partitions16(runner):
    """The same with 16 partitions, against 1 partition."""
    one, requests = batch(500, 1024), 192
    records = 500 * requests
    with mesh(1) as (single, _), mesh(16) as (many, _):
        medians = alternate(
            lambda: runner.run(produced_and_consumed(single.address, 1, one, requests, records)),
            lambda: runner.run(produced_and_consumed(many.address, 16, one, requests, records)),
        )
    return Figure(
        "consume_stream.partitions16",
        medians.measured,
        "records/s",
        medians.baseline,
        medians.ratio,
        0.9,
        goal=1.2,
    )


def record1(runner):
    """One-record batches, against a bare stream of one-record messages."""
    one = batch(1, 1024)
    with mesh(4) as (leader, other):
        medians = alternate(
            lambda: runner.run(moved(other.address, len(one), 10_000, 10_000)),
            lambda: runner.run(produced_and_consumed(leader.address, 4, one * 500, 40, 20_000)),
        )
    return Figure(
        "consume_stream.record1",
        medians.measured,
        "records/s",
        medians.baseline,
        medians.ratio,
        0.25,
        goal=0.5,
    )


def figures():
    """Return the figures of the Consume stream."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return [batch500(runner), partitions16(runner), record1(runner)]


def main():
    """Measure, write build/bench/consume-stream.json, return the exit code."""
    return write("consume-stream", figures())


if __name__ == "__main__":
    sys.exit(main())
