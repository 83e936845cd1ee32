"""What a user sees, beside Kafka: each side's own clients at their defaults, in the same run.

A real Kafka broker (without fsync, as it ships) and ``sharemesh up`` (with fsync, as it ships)
stand side by side on this machine; rounds alternate, and medians of the rounds are compared.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from sharemesh.client import connect
from tests.bench.figures import Figure, write
from tests.bench.kafka_peer.broker import Broker, broker
from tests.cli.local_up import LocalUp, local_up
from tests.kafka.jars import KafkaMissingError

ROOT = Path(__file__).parents[2]
ROUNDS = int(os.environ.get("PEER_ROUNDS", "3"))
PARTITIONS = 4
RECORDS = int(os.environ.get("PEER_RECORDS", "500000"))
SLOW_RECORDS = min(RECORDS, 60_000)
"""Records of aiokafka's producer, which takes long for each."""
SIZES = (1_000, 100)
RATE, LATENCY_S = 1_000, 10
Rates = dict[str, list[float]]


def python(module: str, *words: object) -> dict[str, object]:
    """Run a client in a process of its own; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.bench.kafka_peer.{module}", *map(str, words)],
        capture_output=True, text=True, timeout=400, check=False, cwd=ROOT,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{module} {words}: {done.stderr[-2_000:]}")
    found: dict[str, object] = json.loads(done.stdout)
    return found


class Side:
    """Both clusters, and what was measured of them."""

    def __init__(self, kafka: Broker, up: LocalUp) -> None:
        self.kafka = kafka
        self.up = up
        self.rates: Rates = defaultdict(list)

    def note(self, name: str, found: dict[str, object], key: str = "rate") -> None:
        """Keep and print one measurement."""
        self.rates[name].append(float(found[key]))  # type: ignore[arg-type]
        print(f"  {name}: {self.rates[name][-1]:,.0f}", flush=True)

    def median(self, name: str) -> float:
        """Return the median of the rounds."""
        return statistics.median(self.rates[name])

    def new_topics(self, name: str) -> None:
        """Make the same topic on both sides."""
        self.kafka.client("topic", name, PARTITIONS)
        with connect(self.up.bootstrap).admin() as admin:
            admin.create_topic(name, PARTITIONS)


def produced(side: Side, number: int) -> None:
    """One round of all producers; what they leave is what consumers read."""
    for size in SIZES:
        topic = f"b{size}r{number}"
        side.new_topics(topic)
        side.new_topics(f"{topic}-other")
        kafka = side.kafka.bootstrap
        for client, records in (("confluent", RECORDS), ("aiokafka", SLOW_RECORDS)):
            words = (kafka, client, f"{topic}-other", size, records)
            side.note(f"produce.{client}.{size}", python("python_producers", *words))
        found = side.kafka.client("produce", topic, size, RECORDS)
        side.note(f"produce.java.{size}", found)
        found = python("sharemesh_clients", side.up.bootstrap, "produce", topic, size, RECORDS)
        side.note(f"produce.sharemesh.{size}", found)
        side.note(f"produce.sharemesh.client_us.{size}", found, "client_us")


def processor_s(pids: dict[str, int]) -> dict[str, float]:
    """Return the processor time that processes have used."""
    ticks = os.sysconf("SC_CLK_TCK")
    found = {}
    for name, pid in pids.items():
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        found[name] = (int(fields[11]) + int(fields[12])) / ticks
    return found


def consumed(side: Side, number: int) -> None:
    """One round of all consumers."""
    with connect(side.up.bootstrap).admin() as admin:
        nodes = admin.describe_cluster().nodes
    pids = {node.node_id: node.pid for node in nodes}
    for size in SIZES:
        topic = f"b{size}r{number}"
        for count in (1, 4):
            found = side.kafka.client("consume", topic, count, RECORDS)
            side.note(f"consume.java.{size}.c{count}", found)
            before = processor_s(pids)
            found = python("sharemesh_clients", side.up.bootstrap, "consume", topic, count, RECORDS)
            side.note(f"consume.sharemesh.{size}.c{count}", found)
            after = processor_s(pids)
            if count == 1:
                words = (side.up.bootstrap, "consume-in-bulk", topic, count, RECORDS)
                side.note(f"consume.bulk.{size}", python("sharemesh_clients", *words))
            used: dict[str, float] = defaultdict(float)
            for name, seconds in after.items():
                used[name.rsplit("-", 1)[0]] += seconds - before[name]
            for role, seconds in sorted(used.items()):
                us = {"rate": seconds / RECORDS * 1e6}
                side.note(f"consume.us_a_record.{role}.{size}.c{count}", us)


def latencies(side: Side) -> list[Figure]:
    """Both sides at a steady rate."""
    side.new_topics("latency")
    java = side.kafka.client("latency", "latency", RATE, LATENCY_S)
    ours = python("sharemesh_clients", side.up.bootstrap, "latency", "latency", RATE, LATENCY_S)
    print(f"  java {java}\n  sharemesh {ours}", flush=True)
    found = []
    for what in ("delivered", "acknowledged"):
        for place, percentile in enumerate(("p50", "p99")):
            mine, theirs = ours[what][place], java[what][place]  # type: ignore[index]
            is_bound = (what, percentile) == ("acknowledged", "p50")
            found.append(
                Figure(
                    f"peer.latency.{what}.{percentile}",
                    mine,
                    "ms",
                    theirs,
                    floor=4.0 if is_bound else None,
                    at_most=True,
                )
            )
    return found


def ratio(
    side: Side, name: str, mine: str, theirs: str, floor: float, goal: float | None = None
) -> Figure:
    """Return one figure of medians."""
    measured, baseline = side.median(mine), side.median(theirs)
    return Figure(
        f"peer.{name}", measured, "records/s", baseline, measured / baseline, floor, goal=goal
    )


def main() -> int:
    """Measure, print, write; 1 when a floor is missed."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
        directory = Path(name)
        try:
            with broker(directory) as kafka, local_up(directory / "up") as up:
                side = Side(kafka, up)
                for number in range(ROUNDS):
                    produced(side, number)
                    consumed(side, number)
                figures = latencies(side)
        except KafkaMissingError as error:
            print(f"PART=peer cannot run: {error}")
            return 1
    for size in SIZES:
        mine = f"produce.sharemesh.{size}"
        figures += [
            ratio(side, f"produce.{size}.confluent", mine, f"produce.confluent.{size}", 0.3, 0.6),
            ratio(side, f"produce.{size}.aiokafka", mine, f"produce.aiokafka.{size}", 2.0),
        ]
        names = (f"consume.bulk.{size}", f"consume.sharemesh.{size}.c1")
        figures.append(ratio(side, f"poll_batches.{size}", *names, 2.0))
        for count, floor, goal in ((1, 1.0, 1.2), (4, 0.8, 1.0)):
            names = (f"consume.{who}.{size}.c{count}" for who in ("sharemesh", "java"))
            figures.append(ratio(side, f"consume.{size}.c{count}", *names, floor, goal))
    for name in sorted(side.rates):
        if "client_us" in name or "us_a_record" in name:
            figures.append(Figure(f"peer.{name}", side.median(name), "us"))
    return write("peer", figures)


if __name__ == "__main__":
    sys.exit(main())
