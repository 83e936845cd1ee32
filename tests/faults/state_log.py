"""state_kill: the share coordinator dies in the middle of state writes."""

import asyncio
import os
import random
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sharemesh import methods
from sharemesh.backends.embedded.settings import LogSettings
from sharemesh.backends.embedded.shard_logs import EmbeddedShardLogs
from sharemesh.backends.local.clock import SystemClock
from sharemesh.backends.local.disk import SystemDisk
from sharemesh.codec.state_record import decode_record
from sharemesh.domain.share_state.fold import fold
from sharemesh.domain.share_state.records import StateSnapshot, StateUpdate, Tombstone
from sharemesh.ports.network import CallFailedError
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.v1 import common_pb2
from sharemesh.v1 import share_coordinator_pb2 as pb
from tests.bench.mesh_node import GROUP, TOPIC
from tests.faults.folds import unequal_folds
from tests.faults.trials import ROOT, Outcome

PARTITIONS = 8
ANSWER_TIMEOUT_S = 60
STEP = 100  # offsets between two writes of one partition
"""Each write has two batches, ``first..+4`` and ``first + 10..+14``: both are there or neither."""


class Violations:
    """What was seen that must never be."""

    def __init__(self):
        self.seen = []

    def unless(self, holds, what):
        if not holds:
            self.seen.append(what)

    @property
    def found(self):
        return tuple(self.seen)


class StateNode:
    """One process; ``kill`` is a SIGKILL."""

    def __init__(self, process: asyncio.subprocess.Process, address: str) -> None:
        self.process = process
        self.address = address

    @classmethod
    async def start(cls, directory, epoch):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.faults.state_node",
            str(directory),
            str(epoch),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        assert line, f"the share coordinator of epoch {epoch} did not start"
        return cls(process, f"127.0.0.1:{int(line)}")

    def send(self, number):
        os.kill(self.process.pid, number)

    async def kill(self):
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


class Writer:
    """Writes to one partition, one after the other, and remembers what was confirmed."""

    def __init__(self, client, partition):
        self.client = client
        self.partition = partition
        self.tried = 0
        self.confirmed = set()

    async def write(self, address):
        """Write once; return the error, or None if the call itself failed."""
        first = self.tried * STEP
        self.tried += 1
        batches = [
            common_pb2.StateBatch(
                first_offset=first + gap,
                last_offset=first + gap + 4,
                delivery_state=2,
                delivery_count=1,
            )
            for gap in (0, 10)
        ]
        item = pb.WritePartitionState(
            partition=self.partition,
            state_epoch=1,
            leader_epoch=0,
            start_offset=max(0, first - 5 * STEP),
            state_batches=batches,
        )
        topic = pb.WriteTopicState(topic_id=TOPIC, partitions=[item])
        request = pb.WriteShareGroupStateRequest(group_id=GROUP, topics=[topic])
        try:
            response = await self.client.call(
                methods.WRITE_SHARE_GROUP_STATE, request, to=address, timeout_ms=3_000
            )
        except CallFailedError:
            return None
        error = response.results[0].partitions[0].error_code
        if error == 0:
            self.confirmed.add(self.tried - 1)
        return error

    async def run(self, address):
        """Write until a call fails."""
        while await self.write(address) == 0:
            pass


class Remaker:
    """Initializes a share partition and deletes it again, always under a higher state epoch."""

    partition = PARTITIONS

    def __init__(self, client):
        self.client = client
        self.state_epoch = 0
        self.deletions = 0

    async def run(self, address):
        """Go on until a call fails; return the errors that were answered."""
        errors: list[object] = []
        while not errors:
            self.state_epoch += 1
            made = pb.InitializePartitionState(
                partition=self.partition, state_epoch=self.state_epoch, start_offset=0
            )
            gone = pb.DeletePartitionState(partition=self.partition, state_epoch=self.state_epoch)
            topics = {"topic_id": TOPIC}
            calls = (
                (
                    methods.INITIALIZE_SHARE_GROUP_STATE,
                    pb.InitializeShareGroupStateRequest(
                        group_id=GROUP,
                        topics=[pb.InitializeTopicState(partitions=[made], **topics)],
                    ),
                ),
                (
                    methods.DELETE_SHARE_GROUP_STATE,
                    pb.DeleteShareGroupStateRequest(
                        group_id=GROUP, topics=[pb.DeleteTopicState(partitions=[gone], **topics)]
                    ),
                ),
            )
            for method, request in calls:
                try:
                    response = await self.client.call(method, request, to=address, timeout_ms=3_000)
                except CallFailedError:
                    return errors
                code = response.results[0].partitions[0].error_code
                errors += [f"{method.name}: error {code}"] if code else []
            self.deletions += 1
        return errors


async def answered(client, method, request, address):
    """Call a node that is up: on a crowded machine a connection may need several tries."""
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while True:
        try:
            return await client.call(method, request, to=address)
        except CallFailedError:
            if time.monotonic() > deadline:
                raise


async def initialize(client, address):
    items = [
        pb.InitializePartitionState(partition=p, state_epoch=1, start_offset=0)
        for p in range(PARTITIONS)
    ]
    request = pb.InitializeShareGroupStateRequest(
        group_id=GROUP, topics=[pb.InitializeTopicState(topic_id=TOPIC, partitions=items)]
    )
    await answered(client, methods.INITIALIZE_SHARE_GROUP_STATE, request, address)


async def served(client, address):
    """Return what is served: partition -> (state epoch, start offset, batches)."""
    items = [pb.ReadPartitionState(partition=p, leader_epoch=0) for p in range(PARTITIONS)]
    request = pb.ReadShareGroupStateRequest(
        group_id=GROUP, topics=[pb.ReadTopicState(topic_id=TOPIC, partitions=items)]
    )
    response = await answered(client, methods.READ_SHARE_GROUP_STATE, request, address)
    return {
        each.partition: (
            each.state_epoch,
            each.start_offset,
            [(b.first_offset, b.last_offset, b.delivery_state) for b in each.state_batches],
        )
        for each in response.results[0].partitions
    }


async def folded(directory, epoch):
    """Return the same, folded from the log."""
    logs = EmbeddedShardLogs(SystemDisk(Path(directory)), SystemClock(), LogSettings())
    log = await logs.open("state", 0, epoch)
    states: dict[int, Any] = {}
    async for chunk in log.replay():
        for stored in chunk:
            record = decode_record(stored.key, stored.value)
            if isinstance(record, StateSnapshot | StateUpdate | Tombstone):
                states[record.key.partition] = fold(states.get(record.key.partition), record)
    await log.close()
    return {
        partition: (
            state.state_epoch,
            state.start_offset,
            [(b.first_offset, b.last_offset, int(b.delivery_state)) for b in state.batches],
        )
        for partition, state in states.items()
        if partition < PARTITIONS
    }


def check(writers, seen, before, violations):
    """Compare what is served with what was confirmed and what was served before."""
    for writer in writers:
        epoch, start, batches = seen[writer.partition]
        name = f"partition {writer.partition}"
        old_epoch, old_start, _ = before.get(writer.partition, (0, 0, []))
        violations.unless(epoch >= old_epoch, f"{name}: state epoch {old_epoch} became {epoch}")
        violations.unless(start >= old_start, f"{name}: start {old_start} became {start}")
        present = set(batches)
        for number in range(writer.tried):
            first = number * STEP
            if first < start:
                continue
            halves = [(first + gap, first + gap + 4, 2) in present for gap in (0, 10)]
            violations.unless(halves[0] == halves[1], f"{name}: write {number} is half there")
            if number in writer.confirmed:
                violations.unless(all(halves), f"{name}: confirmed write {number} is lost")
        if writer.confirmed:
            wanted = max(0, (max(writer.confirmed) - 5) * STEP)
            violations.unless(start >= wanted, f"{name}: start {start}, confirmed {wanted}")


@asynccontextmanager
async def place():
    (ROOT / "build").mkdir(exist_ok=True)
    client = GrpcCaller(SystemClock())
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as directory:
        try:
            yield directory, client
        finally:
            await client.close()


async def state_kill(trials, seed):
    """SIGKILL in the middle of writes: what was confirmed is there, and nothing is half there.

    Kills of one series hit the same log, one epoch after the other. Between the death of one
    coordinator and the start of the next the log is folded, by an epoch of its own.
    """
    rng = random.Random(seed)
    violations = Violations()
    times_ms = []
    async with place() as (directory, client):
        node = await StateNode.start(directory, 1)
        try:
            await initialize(client, node.address)
            writers = [Writer(client, p) for p in range(PARTITIONS)]
            remaker = Remaker(client)
            seen: dict[Any, Any] = {}
            for number in range(trials):
                running = [asyncio.ensure_future(each.run(node.address)) for each in writers]
                remaking = asyncio.ensure_future(remaker.run(node.address))
                await asyncio.sleep(rng.uniform(0.02, 0.5))
                await node.kill()
                began = time.monotonic()
                await asyncio.gather(*running)
                for each in await remaking:
                    violations.unless(False, f"kill {number}: {each}")
                before, seen = seen, await folded(directory, 2 + 2 * number)
                for each in unequal_folds(Path(directory), [0]):
                    violations.unless(False, f"kill {number}: {each}")
                node = await StateNode.start(directory, 3 + 2 * number)
                fold_is_served = await served(client, node.address) == seen
                times_ms.append((time.monotonic() - began) * 1_000)
                violations.unless(fold_is_served, f"kill {number}: the fold is not what is served")
                check(writers, seen, before, violations)
        finally:
            await node.kill()
    confirmed = sum(len(writer.confirmed) for writer in writers)
    notes = f"{confirmed} writes, {remaker.deletions} deletions confirmed"
    return Outcome(violations.found, tuple(times_ms), notes, trials)
