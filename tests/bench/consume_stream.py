"""Records delivered and acknowledged over Consume, against a bare stream of the same bytes."""

import asyncio
import time

from sharemesh import methods
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import TopicPartitions
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


async def measure(partitions, per_batch, requests, batches_per_request=1, rounds=5):
    one = batch(per_batch, 1024)
    with mesh(partitions) as (leader, other):
        values, baselines = [], []
        for _ in range(rounds):
            await fill(leader.address, partitions, one * batches_per_request, requests)
            records = per_batch * batches_per_request * requests
            values.append(records / await consume(leader.address, partitions, records))
            message = len(one) * max(1, 500 // per_batch)
            count = records // 500 if per_batch > 1 else records
            size = message if per_batch > 1 else len(one)
            baselines.append(records / await bare(other.address, size, count))
        return sorted(values), sorted(baselines)


if __name__ == "__main__":
    import sys

    import uvloop

    partitions, per_batch, requests, batches = map(int, sys.argv[1:5])
    values, baselines = uvloop.run(measure(partitions, per_batch, requests, batches))
    mid = len(values) // 2
    print([round(v) for v in values], [round(v) for v in baselines])
    print("value", round(values[mid]), "bare", round(baselines[mid]), values[mid] / baselines[mid])
