"""What tracing costs: batches of 500 over Consume, against the same leader with tracing off.

Also: memory of a leader whose collector is down, after a minute of load.
"""

import asyncio
import os
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import uvloop

from tests.bench.consume_stream import produced_and_consumed
from tests.bench.figures import Figure, alternate, write
from tests.bench.mesh import ROOT, Node, batch
from tests.telemetry.scrape import scrape, total

PARTITIONS = 4
REQUESTS = 200
RECORDS = 500 * REQUESTS
DOWN_LOAD_S = 60
DOWN_GROWTH_MIB = 64
NOWHERE = "http://127.0.0.1:9"  # the discard port: nobody listens there


class Traced:
    """A leader with tracing on, and what its metrics page says."""

    def __init__(self, directory, percent, endpoint, coordinator):
        Path(directory).mkdir()
        self.node = Node("traced", percent, endpoint, directory, PARTITIONS, coordinator.port)
        self.address = self.node.address
        self._metrics = Path(directory, "metrics")

    def rss_bytes(self):
        pages = Path(f"/proc/{self.node.process.pid}/statm").read_text().split()[1]
        return int(pages) * 4096

    def value(self, name):
        page = scrape(f"127.0.0.1:{self._metrics.read_text()}")
        return total([page], name)


@contextmanager
def traced_mesh(percent):
    """Yield (plain leader, traced leader); each has a share coordinator of its own."""
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as directory:
        nodes = []

        def started(*arguments):
            nodes.append(Node(*arguments))
            return nodes[-1]

        try:
            sink = started("sink")
            first = started("coordinator", f"{directory}/state-0")
            plain = started("leader", f"{directory}/records-0", PARTITIONS, first.port)
            second = started("coordinator", f"{directory}/state-1")
            endpoint = f"http://127.0.0.1:{sink.port}"
            traced = Traced(f"{directory}/records-1", percent, endpoint, second)
            nodes.append(traced.node)
            yield plain, traced
        finally:
            for node in reversed(nodes):
                node.stop()


def cpu_s(node):
    """Return the processor time that a process has used: neighbours do not change it much."""
    fields = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost(runner, name, percent, floor, goal):
    """Return the figure of one level of tracing, and the same in the leader's processor time."""
    one = batch(500, 1024)
    with traced_mesh(percent) as (plain, traced):
        before = cpu_s(plain), cpu_s(traced.node)
        medians = alternate(
            lambda: runner.run(
                produced_and_consumed(plain.address, PARTITIONS, one, REQUESTS, RECORDS)
            ),
            lambda: runner.run(
                produced_and_consumed(traced.address, PARTITIONS, one, REQUESTS, RECORDS)
            ),
            rounds=7,
        )
        used = cpu_s(plain) - before[0], cpu_s(traced.node) - before[1]
        dropped = traced.value("share_telemetry_spans_dropped_total")
        spans = traced.value("share_telemetry_spans_total")
    assert spans > 0, "no spans were made"
    assert dropped == 0, f"{dropped} spans were dropped"
    return [
        Figure(
            name, medians.measured, "records/s", medians.baseline, medians.ratio, floor, goal=goal
        ),
        Figure(f"{name}_cpu", used[1], "s", used[0], used[0] / used[1]),
    ]


def collector_down(runner):
    """Return how much a leader grows in a minute of load while nobody takes its spans."""
    one = batch(500, 1024)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as directory:
        coordinator = Node("coordinator", f"{directory}/state")
        try:
            traced = Traced(f"{directory}/records", 100, NOWHERE, coordinator)
            try:
                work = produced_and_consumed(traced.address, PARTITIONS, one, REQUESTS, RECORDS)
                runner.run(work)
                before = traced.rss_bytes()
                until = time.monotonic() + DOWN_LOAD_S
                while time.monotonic() < until:
                    runner.run(
                        produced_and_consumed(traced.address, PARTITIONS, one, REQUESTS, RECORDS)
                    )
                grown = traced.rss_bytes() - before
                dropped = traced.value("share_telemetry_spans_dropped_total")
                queued = traced.value("share_telemetry_spans_queued")
            finally:
                traced.node.stop()
        finally:
            coordinator.stop()
    assert dropped > 0, "a collector that is down drops spans"
    assert queued <= 16_384 + 2_048
    return Figure(
        "telemetry.collector_down_mib", grown / 2**20, "MiB", floor=DOWN_GROWTH_MIB, at_most=True
    )


def figures():
    """Return the figures of telemetry."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return [
            *cost(runner, "telemetry.default", 0, 0.90, 0.97),
            *cost(runner, "telemetry.detail", 1, 0.85, 0.93),
            collector_down(runner),
        ]


def main():
    """Measure, write build/bench/telemetry.json, return the exit code."""
    return write("telemetry", figures())


if __name__ == "__main__":
    sys.exit(main())
