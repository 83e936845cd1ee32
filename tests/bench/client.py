"""Records through ``ShareConsumer.poll`` against a bare consumer of the same stream; joining."""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from sharemesh.client import Producer, ShareConsumer, connect
from tests.bench.consume_stream import moved, produced_and_consumed
from tests.bench.figures import Figure, alternate, write
from tests.bench.fixed_membership import TOPIC_NAME, environment
from tests.bench.mesh import ROOT, batch, fill, mesh
from tests.bench.mesh_node import GROUP
from tests.cli.local_up import local_up

PARTITIONS = 4
IN_64_KIB = 62
"""Records of 1 KiB in a batch of batch.size bytes."""

JOINS = 30
JOIN_TIMEOUT_S = 20


def polled(address, records, size_bytes):
    """Return records per second from the first poll to the confirmed end, implicit acceptance."""
    config = {"bootstrap.servers": address, "group.id": GROUP}
    consumer = ShareConsumer(config, environment=environment(address, PARTITIONS))
    consumer.subscribe([TOPIC_NAME])
    count = 0
    started = time.perf_counter()
    while count < records:
        for record in consumer.poll(5_000):
            assert len(record.value) == size_bytes
            count += 1
    results = consumer.commit_sync()
    seconds = time.perf_counter() - started
    assert not any(results.values()), results
    assert consumer.metrics()["acknowledgements-error-total"] == 0
    consumer.close()
    return records / seconds


def consume(runner):
    """1 KiB records by ``poll`` and by a bare stream in turn; then 100 B records by ``poll``."""
    large, small, requests = batch(500, 1024), batch(500, 100), 200
    records = 500 * requests
    with mesh(PARTITIONS) as (leader, _):

        def by_poll(one, size_bytes):
            runner.run(fill(leader.address, PARTITIONS, one, requests))
            return polled(leader.address, records, size_bytes)

        medians = alternate(
            lambda: runner.run(
                produced_and_consumed(leader.address, PARTITIONS, large, requests, records)
            ),
            lambda: by_poll(large, 1024),
        )
        smalls = statistics.median(by_poll(small, 100) for _ in range(5))
    return [
        Figure(
            "client.consume_1k",
            medians.measured,
            "records/s",
            medians.baseline,
            medians.ratio,
            0.5,
            goal=0.8,
        ),
        Figure("client.consume_100b", smalls, "records/s", goal=300_000),
    ]


def produced(address, records, size_bytes):
    """Return records per second of ``send`` in a loop and ``flush``, at default settings."""
    value = b"v" * size_bytes
    config = {"bootstrap.servers": address}
    with Producer(config, environment=environment(address, PARTITIONS)) as producer:
        started = time.perf_counter()
        for _ in range(records):
            producer.send(TOPIC_NAME, value)
        producer.flush()
        seconds = time.perf_counter() - started
        assert not producer.metrics()["record-error-total"]
    return records / seconds


def as_produced(runner):
    """Batches as producers make them, 64 KiB, each against a bare stream of the same bytes."""
    one, per_request, requests = batch(IN_64_KIB, 1024), 8, 200
    records = IN_64_KIB * per_request * requests
    with mesh(PARTITIONS) as (leader, other):

        def bare():
            return runner.run(moved(other.address, len(one), per_request * requests, records))

        def by_poll():
            runner.run(fill(leader.address, PARTITIONS, one * per_request, requests))
            return polled(leader.address, records, 1024)

        consumed = alternate(bare, by_poll)
        sent = alternate(bare, lambda: produced(leader.address, records, 1024))
    return [
        Figure(name, each.measured, "records/s", each.baseline, each.ratio, floor)
        for name, each, floor in (
            ("client.consume_64k", consumed, 0.6),
            ("client.produce", sent, 0.4),
        )
    ]


def join_ms(cluster, number):
    """Return the time from subscribe to the first record of a group that is new."""
    with cluster.share_consumer(f"join-{number}") as consumer:
        started = time.perf_counter()
        consumer.subscribe(["t"])
        while not consumer.poll(JOIN_TIMEOUT_S * 1_000):
            assert time.perf_counter() - started < JOIN_TIMEOUT_S, "no record in time"
        return (time.perf_counter() - started) * 1_000


def join():
    """New groups on a whole local cluster, one after the other."""
    with (
        tempfile.TemporaryDirectory(dir=ROOT / "build") as directory,
        local_up(Path(directory) / "data") as up,
    ):
        cluster = connect(up.bootstrap)
        with cluster.admin() as admin, cluster.producer() as producer:
            admin.create_topic("t", 1)
            producer.send("t", b"x").result(JOIN_TIMEOUT_S)
            for number in range(JOINS):
                admin.alter_group_configs(f"join-{number}", {"share.auto.offset.reset": "earliest"})
        times = [join_ms(cluster, number) for number in range(JOINS)]
    print(f"joins: {', '.join(f'{each:.0f}' for each in sorted(times))} ms")
    return Figure(
        "client.join_p50_ms", statistics.median(times), "ms", floor=500, at_most=True, goal=150
    )


def main():
    """Measure, write build/bench/client.json, return the exit code."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = [*consume(runner), *as_produced(runner)]
    return write("client", [*figures, join()])


if __name__ == "__main__":
    sys.exit(main())
