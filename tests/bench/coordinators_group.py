"""coordinators.heartbeats and coordinators.assign: the group coordinator's figures."""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from sharemesh import methods
from sharemesh.backends.local.clock import SystemClock
from sharemesh.domain.ids import MemberId
from sharemesh.domain.share_group.assignor import Subscriber, assign
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.polling import EXPERIMENTS, POLLED
from sharemesh.v1.group_coordinator_pb2 import ShareGroupHeartbeatRequest
from tests.bench.figures import ROUNDS, Figure
from tests.bench.group_node import PARTITIONS, TOPIC

ROOT = Path(__file__).parents[2]
GROUPS = 10
MEMBERS = 1_000
INTERVAL_S = 5.0
WARM_S = 10.0
MEASURED_S = 15.0
CALLERS = 20  # connections that the members share
JOINS_AT_ONCE = 16


class Member:
    """One member with its stream; it heartbeats on time and follows pushed assignments."""

    def __init__(self, group, number):
        self.group = f"group-{group}"
        self.member_id = f"member-{group:02}-{number:05}"
        self.epoch = 0
        self.answers = 0
        self.assigned = False

    async def join(self, caller, address):
        self.stream = await caller.stream(methods.SHARE_GROUP_HEARTBEAT_STREAM, to=address)
        request = self.request()
        request.subscribed_topic_names.names.append("bench")
        await self.stream.send(request)
        self.messages = aiter(self.stream)
        self.take(await anext(self.messages))

    def request(self):
        return ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch
        )

    def take(self, answer):
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        self.answers += 1
        if answer.HasField("assignment"):
            self.assigned = bool(answer.assignment.topic_partitions)

    async def listen(self):
        async for answer in self.messages:
            self.take(answer)

    async def beat(self, first_at):
        loop = asyncio.get_running_loop()
        due = first_at
        while True:
            await asyncio.sleep(due - loop.time())
            await self.stream.send(self.request())
            due += INTERVAL_S


def cpu_s(pid):
    """Processor seconds that a process used so far, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def cores_used(process, address):
    """Return (cores, heartbeats/s) of the coordinator while all members heartbeat."""
    clock = SystemClock()
    callers = [GrpcCaller(clock) for _ in range(CALLERS)]
    members = [Member(group, number) for group in range(GROUPS) for number in range(MEMBERS)]
    turn = asyncio.Semaphore(JOINS_AT_ONCE)
    tasks = []

    async def join(index, member):
        async with turn:
            await member.join(callers[index % CALLERS], address)
        tasks.append(asyncio.create_task(member.listen()))
        first = asyncio.get_running_loop().time() + INTERVAL_S * (index % 997) / 997
        tasks.append(asyncio.create_task(member.beat(first)))

    await asyncio.gather(*(join(index, member) for index, member in enumerate(members)))
    async with asyncio.timeout(120):
        while not all(member.assigned for member in members):
            await asyncio.sleep(0.2)
    await asyncio.sleep(WARM_S)
    before, answers = cpu_s(process.pid), sum(member.answers for member in members)
    began = time.monotonic()
    await asyncio.sleep(MEASURED_S)
    took = time.monotonic() - began
    used = cpu_s(process.pid) - before
    rate = (sum(member.answers for member in members) - answers) / took
    failed = [task for task in tasks if task.done()]
    assert not failed, failed[0].exception()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for caller in callers:
        await caller.close()
    expected = GROUPS * MEMBERS / INTERVAL_S
    assert rate > 0.95 * expected, f"only {rate:.0f} heartbeats/s of {expected:.0f}"
    return used / took


def heartbeats():
    """Cores that 10 groups of 1,000 members cost, one heartbeat each 5 s on its stream."""
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as directory:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.group_node", directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={EXPERIMENTS: POLLED, **os.environ},  # as every process of the product has it
        )
        try:
            address = f"127.0.0.1:{int(process.stdout.readline())}"
            cores = uvloop.run(cores_used(process, address))
        finally:
            process.stdin.close()
            process.wait(timeout=30)
    return Figure("coordinators.heartbeats", cores, "cores", floor=0.5, at_most=True, goal=0.25)


def assignments():
    """Seconds of the first assignment of a full group, and of one more join."""
    counts, everything = {TOPIC: PARTITIONS}, {TOPIC: range(PARTITIONS)}
    topics = frozenset({TOPIC})
    first, join = [], []
    for _ in range(ROUNDS):
        members = {MemberId(f"member-{n:05}"): Subscriber(topics) for n in range(MEMBERS)}
        began = time.perf_counter()
        held = assign(members, counts, everything)
        first.append(time.perf_counter() - began)
        again = {name: Subscriber(topics, assigned) for name, assigned in held.items()}
        again[MemberId("one-more")] = Subscriber(topics)
        began = time.perf_counter()
        assign(again, counts, everything)
        join.append(time.perf_counter() - began)
    return [
        Figure("coordinators.assign", statistics.median(first), "s", at_most=True, goal=0.3),
        Figure(
            "coordinators.assign_join", statistics.median(join) * 1_000, "ms", at_most=True, goal=30
        ),
    ]


def figures():
    """Return the figures of the group coordinator."""
    return [heartbeats(), *assignments()]


if __name__ == "__main__":
    for figure in figures():
        print(figure)
