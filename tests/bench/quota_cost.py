"""What quotas and fairness cost a leader: processor time of the same work, with and without them.

Every quota there is binds the caller and the group, far above what they use: each is looked up,
counted and kept, and nobody waits. One leader does the same work without, with and without them
again, round after round; a round's work with them is compared with the mean of its two
neighbours, so what drifts cancels, and the median of the rounds counts. ``same`` compares the two
neighbours with each other: it says how well this machine can tell.
"""

import asyncio
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
from tests.bench.ack import CALLERS, CALLS, calls_of_32
from tests.bench.ack import PARTITIONS as PARTITIONS_OF_CALLS
from tests.bench.consume_stream import produced_and_consumed
from tests.bench.figures import Figure, write
from tests.bench.mesh import ROOT, Node, batch, caller
from tests.bench.mesh_node import GROUP

ROUNDS = 15
PARTITIONS = 4
FLOOR = 0.97  # of the throughput without them
FAR_ABOVE = {True: 1e6, False: 1e12}  # counts, rates
ENTITIES = {
    EntityType.USER: QuotaEntity(EntityType.USER, "User:ANONYMOUS"),
    EntityType.GROUP: QuotaEntity(EntityType.GROUP, GROUP),
}


class Work(NamedTuple):
    """One kind of work: what does it once, and how many things are done then."""

    name: str
    unit: str
    count: int
    run: object


def moved(batches, requests, records):
    """Return what produces and consumes so many records, each acknowledged."""
    return lambda address: produced_and_consumed(address, PARTITIONS, batches, requests, records)


WORKS = (
    Work("batches", "us/record", 40_000, moved(batch(500, 1024), 80, 40_000)),
    Work("records", "us/record", 8_000, moved(batch(1, 100) * 500, 16, 8_000)),
    Work("produce", "us/call", 1_200, moved(batch(1, 100), 1_200, 1_200)),
    Work("acknowledge", "us/call", CALLERS * CALLS, calls_of_32),
)


def cpu_ns(process):
    """Return the processor time that all threads of a process have used."""
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in tasks)


async def bind(address, *, bound):
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
    client = caller()
    request = admin_pb2.AlterClientQuotasRequest(entries=entries)
    await client.call(methods.ALTER_CLIENT_QUOTAS, request, to=address)
    await client.close()


def spent_us(runner, leader, work, *, bound):
    """Return the processor time of the leader for one thing of the work."""
    runner.run(bind(leader.address, bound=bound))
    before = cpu_ns(leader.process)
    runner.run(work.run(leader.address))
    return (cpu_ns(leader.process) - before) / 1_000 / work.count


def compared(runner, leader, work, rounds):
    """Return the figures of one kind of work: its cost, and how well it can be told."""
    spent = []
    for number in range(-1, rounds):
        one = [spent_us(runner, leader, work, bound=each) for each in (False, True, False)]
        if number >= 0:  # the first round warms up
            spent.append(one)
    before, bound, after = (statistics.median(each) for each in zip(*spent, strict=True))
    ratio = statistics.median((a + c) / 2 / b for a, b, c in spent)
    same = statistics.median(a / c for a, _, c in spent)
    free = (before + after) / 2
    return [
        Figure(f"quota_cost.{work.name}", bound, work.unit, free, ratio, FLOOR),
        Figure(f"quota_cost.{work.name}_same", after, work.unit, before, same),
    ]


def figures(rounds=ROUNDS):
    """Return the figures of what quotas and fairness cost."""
    with (
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        tempfile.TemporaryDirectory(dir=ROOT / "build") as directory,
    ):
        state = Node("coordinator", f"{directory}/state")
        try:
            partitions = max(PARTITIONS, PARTITIONS_OF_CALLS)
            leader = Node("bounded", f"{directory}/records", partitions, state.port)
            try:
                return [
                    figure for work in WORKS for figure in compared(runner, leader, work, rounds)
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
