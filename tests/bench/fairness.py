"""Nine groups at a steady light load, without a tenth, beside one, and together with one.

The tenth has 50 times the load of each, and more. ``apart`` it has it at a second Sharemesh on the
same machine, with a leader and a share coordinator of its own: what moves the nine's latencies
then is the machine, its cores and its disk. ``together`` it has it at the nine's leader. Phases of
the three alternate, so that neighbours move all of them; figures are medians of phases.

The floor is about what the leader adds: the nine's p99 together is at most 1.2 times the one
apart. The plain ratio to the quiet p99 is told beside it, with the same goal.
"""

import asyncio
import statistics
import subprocess
import sys
import time

import uvloop

from sharemesh import methods
from sharemesh.v1 import share_leader_pb2 as pb
from sharemesh.v1.common_pb2 import TopicPartitions
from tests.bench.ack import acknowledge, percentile
from tests.bench.figures import Figure, write
from tests.bench.mesh import ROOT, batch, caller, mesh, produce_request
from tests.bench.mesh_node import TOPIC

LIGHT = tuple(f"light-{number}" for number in range(9))
HEAVY = "heavy"
PARTITIONS = len(LIGHT) + 3
RATE = 10  # records a second of each light group, in batches of one
TIMES = 50  # what the heavy group does, in records of the same kind
TIMES_FLOOR = 45  # if it gets less done, nothing was shown
ROUNDS, FEW_ROUNDS = 16, 6  # of the load that the floor is about, and of the others
PHASE_S, SETTLE_S = 4, 0.5
P99_MOVES = 1.2
RECORD = batch(1, 100)
QUIET, APART, TOGETHER = KINDS = ("quiet", "apart", "together")


class LightGroup:
    """One member and one producer; latencies in ms of the phase that is measured now."""

    def __init__(self, address, group, partition):
        self.address, self.group, self.partition = address, group, partition
        self.delivered, self.confirmed = [], []
        self._sent, self._acknowledged = {}, {}

    def phase(self):
        """Return the latencies since the last call."""
        found = self.delivered, self.confirmed
        self.delivered, self.confirmed = [], []
        return found

    async def produce(self, until_s, offset_s):
        client = caller()
        due = time.perf_counter() + offset_s
        while due < until_s:
            await asyncio.sleep(max(0, due - time.perf_counter()))
            sent = time.perf_counter()
            request = produce_request(self.partition, RECORD)
            response = await client.call(methods.PRODUCE, request, to=self.address)
            self._match(response.partitions[0].base_offset, sent, -1)
            due += 1 / RATE
        await client.close()

    def _match(self, offset, sent, arrived):
        """Delivery may be heard of before the confirmation: the second one of them counts."""
        other = self._sent.pop(offset, None)
        if other is None:
            self._sent[offset] = (sent, arrived)
            return
        self.delivered.append(1_000 * (max(arrived, other[1]) - max(sent, other[0])))

    async def consume(self):
        client = caller()
        stream = await client.stream(methods.CONSUME, to=self.address)
        await stream.send(
            pb.ConsumeRequest(
                start=pb.ConsumeStart(group_id=self.group, member_id="m"),
                add=[TopicPartitions(topic_id=TOPIC, partitions=[self.partition])],
                credit_records=1 << 30,
            )
        )
        async for message in stream:
            now = time.perf_counter()
            for done in message.acknowledged:
                self.confirmed.append(1_000 * (now - self._acknowledged.pop(done.acknowledge_id)))
            for part in (part for topic in message.responses for part in topic.partitions):
                assert not part.error_code, part
                for one in part.acquired_records:
                    for offset in range(one.first_offset, one.last_offset + 1):
                        self._match(offset, -1, now)
                    number = one.first_offset + 1
                    self._acknowledged[number] = now
                    asked = acknowledge("", 0, self.partition, one.first_offset, one.last_offset)
                    await stream.send(
                        pb.ConsumeRequest(
                            acknowledgements=[
                                pb.ConsumeAcknowledge(acknowledge_id=number, topics=asked.topics)
                            ]
                        )
                    )


class HeavyGroup:
    """The process that makes the load."""

    def __init__(self, address, load):
        where = (address, HEAVY, str(len(LIGHT)), load)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.fairness_load", *where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def say(self, word):
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    async def stop(self):
        """Return records acknowledged since ``go``, and the p99 of how late they were produced."""
        self.say("stop")
        loop = asyncio.get_running_loop()
        line = await loop.run_in_executor(None, self._process.stdout.readline)
        assert line, "the load broke"
        records, late_ms = line.split()
        return int(records), float(late_ms)

    def end(self):
        self._process.stdin.close()
        self._process.wait(timeout=20)


class Phases:
    """What was measured, by kind of phase; one entry a phase."""

    def __init__(self):
        self.latencies = {kind: [] for kind in KINDS}
        self.records_s = {kind: [] for kind in KINDS}
        self.late_ms = {kind: [] for kind in KINDS}

    def percentile(self, kind, what, part):
        """Return the median over phases of a percentile over the light groups' latencies."""
        phases = [
            sorted(each for group in phase for each in group[what])
            for phase in self.latencies[kind]
        ]
        return statistics.median(percentile(each, part) for each in phases)


async def phases(served, apart, load, rounds):
    """Return what was measured of the nine at ``served``."""
    groups = [LightGroup(served, group, number) for number, group in enumerate(LIGHT)]
    heavy = {TOGETHER: HeavyGroup(served, load), APART: HeavyGroup(apart, load)}
    until_s = time.perf_counter() + len(KINDS) * rounds * (PHASE_S + 2 * SETTLE_S) + 5
    consumers = [asyncio.create_task(each.consume()) for each in groups]
    producers = [
        asyncio.create_task(each.produce(until_s, number / RATE / len(groups)))
        for number, each in enumerate(groups)
    ]
    await asyncio.sleep(2)
    found = Phases()
    for turn in range(rounds):
        for kind in (*KINDS[turn % 3 :], *KINDS[: turn % 3]):
            if kind in heavy:
                heavy[kind].say("go")
            await asyncio.sleep(SETTLE_S)
            for each in groups:
                each.phase()
            await asyncio.sleep(PHASE_S)
            found.latencies[kind].append([each.phase() for each in groups])
            if kind in heavy:
                records, late_ms = await heavy[kind].stop()
                found.records_s[kind].append(records / (PHASE_S + SETTLE_S))
                found.late_ms[kind].append(late_ms)
            await asyncio.sleep(SETTLE_S)
    for task in (*consumers, *producers):
        if task.done():
            task.result()
        task.cancel()
    for each in heavy.values():
        each.end()
    return found


def measured(runner, name, load, rounds, floor=None):
    """Return the figures of one kind of load; ``floor`` is about what the leader adds to p99."""
    groups = (*LIGHT, HEAVY)
    with mesh(PARTITIONS, groups) as (served, _), mesh(PARTITIONS, groups) as (apart, _):
        found = runner.run(phases(served.address, apart.address, load, rounds))
    rows = []
    for kind in (APART, TOGETHER):
        records = statistics.median(found.records_s[kind])
        title = f"fairness.{name}_load_{kind}"
        rows.append(Figure(title, records, "records/s", RATE, records / RATE, TIMES_FLOOR))
        if load.isdecimal():
            late_ms = statistics.median(found.late_ms[kind])
            rows.append(Figure(f"fairness.{name}_late_p99_{kind}", late_ms, "ms"))
    for number, what in enumerate(("delivery", "acknowledge")):
        for part in (50, 99):
            quiet, apart, together = (found.percentile(kind, number, part / 100) for kind in KINDS)
            title = f"fairness.{name}_{what}_p{part}"
            goal = P99_MOVES if part == 99 else None
            bound = {"at_most": True, "goal": goal}
            rows += [
                Figure(title, together, "ms", quiet, together / quiet, **bound),
                Figure(f"{title}_apart", apart, "ms", quiet, apart / quiet),
                Figure(
                    f"{title}_of_leader",
                    together,
                    "ms",
                    apart,
                    together / apart,
                    floor=floor if part == 99 else None,
                    **bound,
                ),
            ]
    return rows


def figures(rounds=ROUNDS, few_rounds=FEW_ROUNDS):
    """Return the figures of fairness."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return [
            *measured(runner, "times50", str(TIMES * RATE), rounds, floor=P99_MOVES),
            *measured(runner, "flood", "flood", few_rounds),
            *measured(runner, "large", "large", few_rounds),
        ]


def main():
    """Measure, write build/bench/fairness.json, return the exit code."""
    return write("fairness", figures())


if __name__ == "__main__":
    sys.exit(main())
