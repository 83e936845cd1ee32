"""ShareAcknowledge calls from 32 callers, confirmed; and how long a record and its ack take."""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from sharemesh import methods
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import TopicPartitions
from tests.bench.figures import Figure, alternate, write
from tests.bench.mesh import ROOT, batch, by_itself, caller, fill, mesh, produce_request
from tests.bench.mesh_node import GROUP, TOPIC

CALLERS = 32
CALLS = 60  # of each caller in a round
PARTITIONS = 16
RATE = 1_000  # records a second for the latencies


def acknowledge(member, epoch, partition, first, last):
    topic = pb.AcknowledgeTopic(topic_id=TOPIC)
    topic.partitions.add(partition=partition).acknowledgement_batches.add(
        first_offset=first, last_offset=last, acknowledge_types=[1]
    )
    return pb.ShareAcknowledgeRequest(
        group_id=GROUP, member_id=member, share_session_epoch=epoch, topics=[topic]
    )


async def calls_of_32(address):
    """Return confirmed calls per second; what is acknowledged is fetched before, not timed."""
    await fill(address, PARTITIONS, batch(CALLS, 100), CALLERS)
    clients = [caller() for _ in range(CALLERS)]
    held = []
    for number, client in enumerate(clients):
        partition = number % PARTITIONS
        topic = pb.AcknowledgeTopic(topic_id=TOPIC)
        topic.partitions.add(partition=partition)
        response = await client.call(
            methods.SHARE_FETCH,
            pb.ShareFetchRequest(
                group_id=GROUP,
                member_id=f"m{number}",
                max_wait_ms=5_000,
                max_bytes=1 << 20,
                max_records=CALLS,
                batch_size=CALLS,
                topics=[topic],
            ),
            to=address,
        )
        (part,) = response.responses[0].partitions
        held.append((partition, part.acquired_records[0].first_offset))

    async def one(number, client):
        partition, first = held[number]
        for count in range(CALLS):
            offset = first + count
            request = acknowledge(f"m{number}", count + 1, partition, offset, offset)
            answer = await client.call(methods.SHARE_ACKNOWLEDGE, request, to=address)
            assert answer.responses[0].partitions[0].error_code == 0, answer

    started = time.perf_counter()
    await asyncio.gather(*(one(number, client) for number, client in enumerate(clients)))
    seconds = time.perf_counter() - started
    for client in clients:
        await client.close()
    return CALLERS * CALLS / seconds


async def bare_calls(address):
    """Return calls per second of as many callers that are answered at once."""
    clients = [caller() for _ in range(CALLERS)]
    request = acknowledge("m", 1, 0, 0, 0)
    bare_acknowledge = by_itself(methods.SHARE_ACKNOWLEDGE)

    async def one(client):
        for _ in range(CALLS):
            await client.call(bare_acknowledge, request, to=address)

    started = time.perf_counter()
    await asyncio.gather(*(one(client) for client in clients))
    seconds = time.perf_counter() - started
    for client in clients:
        await client.close()
    return CALLERS * CALLS / seconds


def bare_syncs():
    """Return calls per second if all callers of a moment shared one append and fdatasync."""
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as directory:
        descriptor = os.open(Path(directory) / "log", os.O_WRONLY | os.O_CREAT)
        started = time.perf_counter()
        for _ in range(CALLS):
            os.write(descriptor, bytes(200 * CALLERS))
            os.fdatasync(descriptor)
        seconds = time.perf_counter() - started
        os.close(descriptor)
    return CALLERS * CALLS / seconds


async def latencies(address, seconds=4):
    """Return (delivery, acknowledgement) in ms, sorted, at RATE records a second."""
    producer, consumer = caller(), caller()
    stream = await consumer.stream(methods.CONSUME, to=address)
    await stream.send(
        pb.ConsumeRequest(
            start=pb.ConsumeStart(group_id=GROUP, member_id="slow"),
            add=[TopicPartitions(topic_id=TOPIC, partitions=[0])],
            credit_records=1 << 30,
        )
    )
    one = batch(10, 100)
    delivered, confirmed, asked = [], [], {}
    total = RATE * seconds // 10

    async def produce():
        begun = time.perf_counter()
        for number in range(total):
            await asyncio.sleep(max(0, begun + number * 10 / RATE - time.perf_counter()))
            sent = time.perf_counter()
            response = await producer.call(methods.PRODUCE, produce_request(0, one), to=address)
            asked[response.partitions[0].base_offset] = sent

    async def consume():
        acknowledged = {}
        arrived = {}
        while len(confirmed) < total:
            message = await anext(stream)
            now = time.perf_counter()
            for topic in message.responses:
                for part in topic.partitions:
                    for record in part.acquired_records:
                        arrived[record.first_offset] = now
                        number = record.first_offset + 1
                        acknowledged[number] = now
                        answer = acknowledge("", 0, 0, record.first_offset, record.last_offset)
                        await stream.send(
                            pb.ConsumeRequest(
                                acknowledgements=[
                                    pb.ConsumeAcknowledge(
                                        acknowledge_id=number, topics=answer.topics
                                    )
                                ]
                            )
                        )
            for done in message.acknowledged:
                confirmed.append(now - acknowledged.pop(done.acknowledge_id))
        delivered.extend(arrived[each] - asked[each] for each in arrived if each in asked)

    await asyncio.wait_for(asyncio.gather(produce(), consume()), seconds * 5)
    for client in (producer, consumer):
        await client.close()
    return [sorted(1_000 * each for each in times) for times in (delivered, confirmed)]


def percentile(values, part):
    return values[min(len(values) - 1, int(len(values) * part))]


def figures():
    """Return the figures of acknowledgements."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        with mesh(PARTITIONS) as (leader, other):
            medians = alternate(
                lambda: min(runner.run(bare_calls(other.address)), bare_syncs()),
                lambda: runner.run(calls_of_32(leader.address)),
            )
        with mesh(1) as (leader, _):
            delivered, confirmed = runner.run(latencies(leader.address))
    return [
        Figure(
            "ack.unary",
            medians.measured,
            "calls/s",
            medians.baseline,
            medians.ratio,
            0.35,
            goal=0.6,
        ),
        *(
            Figure(f"latency.{name}_p{part:g}", percentile(values, part / 100), "ms")
            for name, values in (("delivery", delivered), ("acknowledge", confirmed))
            for part in (50, 99)
        ),
    ]


def main():
    """Measure, write build/bench/ack.json, return the exit code."""
    return write("ack", figures())


if __name__ == "__main__":
    sys.exit(main())
