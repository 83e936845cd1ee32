"""Records by ShareFetch with piggybacked acknowledgements, against a bare unary call."""

import asyncio
import sys
import time

import uvloop

from sharemesh import methods
from sharemesh.v1 import share_leader_pb2 as pb
from tests.bench.figures import Figure, alternate, write
from tests.bench.mesh import batch, caller, fill, mesh
from tests.bench.mesh_node import GROUP, TOPIC

PARTITIONS = 4
MEMBERS = 8
REQUESTS = 160
BATCH = 500


def request(member, epoch, acks=()):
    """List all partitions at first, later those that carry acknowledgements."""
    topic = pb.AcknowledgeTopic(topic_id=TOPIC)
    if epoch == 0:
        for partition in range(PARTITIONS):
            topic.partitions.add(partition=partition)
    for part in acks:
        listed = topic.partitions.add(partition=part.partition, leader_epoch=part.leader_epoch)
        for one in part.acquired_records:
            listed.acknowledgement_batches.add(
                first_offset=one.first_offset, last_offset=one.last_offset, acknowledge_types=[1]
            )
    return pb.ShareFetchRequest(
        group_id=GROUP,
        member_id=member,
        share_session_epoch=epoch,
        max_wait_ms=50,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=BATCH,
        batch_size=BATCH,
        topics=[topic] if topic.partitions else [],
    )


async def consume(address):
    """Return records per second until all are fetched and their acknowledgement confirmed."""
    await fill(address, PARTITIONS, batch(BATCH, 1024), REQUESTS)
    clients = [caller() for _ in range(MEMBERS)]
    confirmed = 0

    async def member(number, client):
        nonlocal confirmed
        epoch, holding, taken = 0, [], 0
        while confirmed < BATCH * REQUESTS:
            response = await client.call(
                methods.SHARE_FETCH, request(f"m{number}", epoch, holding), to=address
            )
            assert response.error_code == 0, response.error_message
            epoch += 1
            parts = [part for topic in response.responses for part in topic.partitions]
            assert not any(part.error_code or part.acknowledge_error_code for part in parts)
            confirmed += taken
            holding = [part for part in parts if part.acquired_records]
            taken = sum(
                one.last_offset - one.first_offset + 1
                for part in holding
                for one in part.acquired_records
            )
        await client.call(methods.SHARE_FETCH, request(f"m{number}", -1, holding), to=address)

    started = time.perf_counter()
    await asyncio.gather(*(member(n, client) for n, client in enumerate(clients)))
    seconds = time.perf_counter() - started
    for client in clients:
        await client.close()
    return confirmed / seconds


async def bare(address):
    """Return records per second of as many callers that only move the bytes."""
    size = len(batch(BATCH, 1024))
    clients = [caller() for _ in range(MEMBERS)]

    async def member(client):
        for _ in range(REQUESTS // MEMBERS):
            await client.call(methods.SHARE_FETCH, pb.ShareFetchRequest(max_bytes=size), to=address)

    started = time.perf_counter()
    await asyncio.gather(*(member(client) for client in clients))
    seconds = time.perf_counter() - started
    for client in clients:
        await client.close()
    return BATCH * REQUESTS / seconds


def figures():
    """Return the figure of unary consumption."""
    with (
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        mesh(PARTITIONS) as (leader, other),
    ):
        medians = alternate(
            lambda: runner.run(bare(other.address)), lambda: runner.run(consume(leader.address))
        )
    return [
        Figure(
            "consume_unary.batch500",
            medians.measured,
            "records/s",
            medians.baseline,
            medians.ratio,
            0.5,
            goal=0.8,
        )
    ]


def main():
    """Measure, write build/bench/consume-unary.json, return the exit code."""
    return write("consume-unary", figures())


if __name__ == "__main__":
    sys.exit(main())
