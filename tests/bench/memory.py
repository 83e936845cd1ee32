"""Memory of a leader: many records in flight and many sessions; and after millions of cycles."""

import asyncio
import sys
from pathlib import Path

import uvloop

from sharemesh import methods
from sharemesh.v1 import share_leader_pb2 as pb
from tests.bench.consume_stream import consume
from tests.bench.figures import Figure, write
from tests.bench.mesh import batch, caller, fill, mesh
from tests.bench.mesh_node import GROUP, TOPIC

PARTITIONS = 16
GROUPS = tuple(f"group-{number}" for number in range(7))
SESSIONS = 1_000
IN_FLIGHT = 200_000
CHURN = 5_000_000
CHURN_BATCH = 500
MIB = 1 << 20


def rss_mib(process):
    """Return the resident memory of a process in MiB."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1_024
    raise AssertionError("no VmRSS")


async def hold(address):
    """Open the sessions, each acquiring its part; return how many records are in flight."""
    client = caller()
    per_member = IN_FLIGHT // SESSIONS
    in_flight = 0

    async def member(number):
        nonlocal in_flight
        topic = pb.AcknowledgeTopic(topic_id=TOPIC)
        for shift in range(PARTITIONS):
            topic.partitions.add(partition=(number + shift) % PARTITIONS)
        response = await client.call(
            methods.SHARE_FETCH,
            pb.ShareFetchRequest(
                group_id=GROUPS[number % len(GROUPS)],
                member_id=f"m{number}",
                max_wait_ms=10_000,
                max_bytes=MIB,
                max_records=per_member,
                batch_size=per_member,
                topics=[topic],
            ),
            to=address,
        )
        assert response.error_code == 0, response.error_message
        for entry in response.responses:
            for part in entry.partitions:
                in_flight += sum(
                    one.last_offset - one.first_offset + 1 for one in part.acquired_records
                )

    for first in range(0, SESSIONS, 50):
        await asyncio.gather(*(member(n) for n in range(first, min(first + 50, SESSIONS))))
    await client.close()
    return in_flight


def in_flight_mib(runner):
    """Memory with 200,000 records in flight and 1,000 sessions."""
    with mesh(PARTITIONS, GROUPS) as (leader, _):
        runner.run(fill(leader.address, PARTITIONS, batch(100, 100), PARTITIONS * 20))
        held = runner.run(hold(leader.address))
        assert held >= 0.9 * IN_FLIGHT, held
        value = rss_mib(leader.process)
    return Figure("memory.in_flight_mib", value, "MiB", floor=400, at_most=True, goal=200)


def churn(runner):
    """Memory after 5 million records were acquired and acknowledged, over that after 10 %."""
    one, rounds = batch(CHURN_BATCH, 100), 10
    requests = CHURN // CHURN_BATCH // rounds
    measured = []
    with mesh(4) as (leader, _):
        for _ in range(rounds):
            runner.run(fill(leader.address, 4, one * 10, requests // 10))
            runner.run(consume(leader.address, 4, CHURN // rounds))
            measured.append(rss_mib(leader.process))
    return Figure(
        "memory.churn",
        measured[-1],
        "MiB",
        measured[0],
        measured[-1] / measured[0],
        1.1,
        at_most=True,
        goal=1.0,
    )


def figures():
    """Return the figures of memory."""
    assert GROUP not in GROUPS
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return [in_flight_mib(runner), churn(runner)]


def main():
    """Measure, write build/bench/memory.json, return the exit code."""
    return write("memory", figures())


if __name__ == "__main__":
    sys.exit(main())
