"""Nine groups at a steady light load, with and without a tenth: 50 times the load, and more.

Quiet and loaded phases alternate, so that neighbours on the machine move both; the goal is about
medians of phases: the nine's p99 moves by at most a fifth. It is for a machine on which the nodes,
the load and this process do not share two cores: processor time that the load takes from them
moves the latencies too, whatever the leader does.
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
TIMES_FLOOR = 25  # if it gets less done, nothing was shown
ROUNDS = 10
PHASE_S, SETTLE_S = 4, 0.5
P99_MOVES = 1.2
RECORD = batch(1, 100)


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
        """Return the records acknowledged since ``go``."""
        self.say("stop")
        loop = asyncio.get_running_loop()
        line = await loop.run_in_executor(None, self._process.stdout.readline)
        assert line, "the load broke"
        return int(line)

    def end(self):
        self._process.stdin.close()
        self._process.wait(timeout=20)


async def phases(address, load, rounds):
    """Return latencies of quiet and of loaded phases, and the heavy group's records a second."""
    groups = [LightGroup(address, group, number) for number, group in enumerate(LIGHT)]
    heavy = HeavyGroup(address, load)
    until_s = time.perf_counter() + 2 * rounds * (PHASE_S + 2 * SETTLE_S) + 5
    consumers = [asyncio.create_task(each.consume()) for each in groups]
    producers = [
        asyncio.create_task(each.produce(until_s, number / RATE / len(groups)))
        for number, each in enumerate(groups)
    ]
    await asyncio.sleep(2)
    quiet, loaded, records = [], [], []
    for _ in range(rounds):
        for found, is_loaded in ((quiet, False), (loaded, True)):
            if is_loaded:
                heavy.say("go")
            await asyncio.sleep(SETTLE_S)
            for each in groups:
                each.phase()
            await asyncio.sleep(PHASE_S)
            found.append([each.phase() for each in groups])
            if is_loaded:
                records.append(await heavy.stop() / (PHASE_S + SETTLE_S))
                await asyncio.sleep(SETTLE_S)
    for task in (*consumers, *producers):
        if task.done():
            task.result()
        task.cancel()
    heavy.end()
    return quiet, loaded, statistics.median(records)


def median_of(found, kind, part):
    """Return the median over phases of a percentile over the light groups' latencies."""
    values = [sorted(each for group in phase for each in group[kind]) for phase in found]
    return statistics.median(percentile(each, part) for each in values)


def measured(runner, name, load, rounds):
    """Return the figures of one kind of load."""
    with mesh(PARTITIONS, (*LIGHT, HEAVY)) as (leader, _):
        quiet, loaded, records = runner.run(phases(leader.address, load, rounds))
    times = records / RATE
    rows = [Figure(f"fairness.{name}_load", records, "records/s", RATE, times, TIMES_FLOOR)]
    for kind, what in enumerate(("delivery", "acknowledge")):
        for part in (50, 99):
            before, after = (median_of(each, kind, part / 100) for each in (quiet, loaded))
            title = f"fairness.{name}_{what}_p{part}"
            goal = P99_MOVES if part == 99 else None
            rows.append(Figure(title, after, "ms", before, after / before, at_most=True, goal=goal))
    return rows


def figures(rounds=ROUNDS):
    """Return the figures of fairness."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return [
            *measured(runner, "times50", str(TIMES * RATE), rounds),
            *measured(runner, "flood", "flood", rounds),
            *measured(runner, "large", "large", rounds),
        ]


def main():
    """Measure, write build/bench/fairness.json, return the exit code."""
    return write("fairness", figures())


if __name__ == "__main__":
    sys.exit(main())
