"""Starts the processes of ``mesh_node`` and talks to them."""

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sharemesh import methods
from sharemesh.backends.local.clock import SystemClock
from sharemesh.codec.decoded_records import encode_records
from sharemesh.rpc.channels import GrpcCaller
from sharemesh.rpc.polling import EXPERIMENTS, POLLED
from sharemesh.v1 import record_log_pb2
from sharemesh.v1.common_pb2 import DecodedRecord
from tests.bench.mesh_node import TOPIC

ROOT = Path(__file__).parents[2]


class Node:
    """One process; its address once it serves."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.mesh_node", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={EXPERIMENTS: POLLED, **os.environ},  # as every process of the product has it
        )
        line = self.process.stdout.readline()
        assert line, f"{arguments} did not start"
        self.port = int(line)
        self.address = f"127.0.0.1:{self.port}"

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=20)


@contextmanager
def mesh(partitions, more_groups=()):
    """Yield (leader, bare): the leader with its share coordinator, each a process of its own."""
    with processes(partitions, more_groups) as (_, leader, bare):
        yield leader, bare


@contextmanager
def processes(partitions, more_groups=()):
    """Yield (coordinator, leader, bare)."""
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as directory:
        nodes = [Node("coordinator", f"{directory}/state")]
        try:
            nodes.append(
                Node("leader", f"{directory}/records", partitions, nodes[0].port, *more_groups)
            )
            nodes.append(Node("bare"))
            assert len({node.process.pid for node in nodes}) == 3
            yield nodes
        finally:
            for node in reversed(nodes):
                node.stop()


def batch(records, size_bytes):
    """Return one record batch with so many records of that size."""
    return encode_records(
        [DecodedRecord(value=b"v" * size_bytes) for _ in range(records)], default_timestamp_ms=1
    )


def produce_request(partition, batches):
    return record_log_pb2.ProduceRequest(
        partitions=[
            record_log_pb2.ProducePartition(topic_id=TOPIC, partition=partition, records=batches)
        ]
    )


def by_itself(method):
    """Return a method whose calls are all bare calls of gRPC: what figures are compared with."""
    return replace(method, is_carried=False)


def caller():
    return GrpcCaller(SystemClock())


async def fill(address, partitions, batches, count):
    """Produce ``count`` requests over the partitions in turn."""
    import asyncio

    client = caller()

    async def one(partition):
        for _ in range(count // partitions):
            response = await client.call(
                methods.PRODUCE, produce_request(partition, batches), to=address
            )
            assert response.partitions[0].error_code == 0, response

    await asyncio.gather(*(one(p) for p in range(partitions)))
    await client.close()
