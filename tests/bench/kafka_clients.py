"""Clients of one topic: Kafka's plain consumer, its share consumers, and Sharemesh's over gRPC.

``python -m tests.bench.kafka_clients plain|share BOOTSTRAP TOPIC RECORDS`` is one consumer of
Kafka's in a process of its own; it prints one JSON object.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

from confluent_kafka import Consumer, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from sharemesh.client import connect
from sharemesh.client.admin_results import TopicDescription
from tests.bench import held_record
from tests.bench.figures import ROUNDS, Figure

ROOT = Path(__file__).parents[2]
PEER = Path(__file__).parent / "kafka_peer" / "PeerClient.java"
PARTITIONS = 4
RECORDS = int(os.environ.get("KAFKA_BENCH_RECORDS", "200000"))
BYTES = 1_024
PATIENCE_S = 60
JOINS = 5


def plain(bootstrap, topic, records):
    """Return records a second of a plain consumer in batches of 500, from the first on."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"g{time.time_ns()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    return _rate(lambda: consumer.consume(500, 0.2), records)


def share(bootstrap, topic, records):
    """Return records a second of Kafka's share consumer in Python, acknowledged implicitly."""
    group = f"g{time.time_ns()}"
    entry = ConfigEntry(
        "share.auto.offset.reset",
        "earliest",
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_S)
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([topic])
    return _rate(lambda: list(consumer.poll(0.2) or ()), records)


def _rate(poll, records):
    deadline = time.monotonic() + PATIENCE_S
    count, first, last = 0, 0.0, 0.0
    while count < records:
        found = [each for each in poll() if each.error() is None and each.value() is not None]
        if found:
            last = time.perf_counter()
            first = first or last
            count += len(found)
        assert time.monotonic() < deadline, f"{count} of {records} records"
    return {"rate": count / (last - first)}


class Sides:
    """The broker, Sharemesh on it, and what was measured."""

    def __init__(self, brokers, up) -> None:
        self.kafka = brokers.bootstrap
        self.jvm = brokers.jvm
        self.up = up.bootstrap
        self.rates = defaultdict(list)

    def note(self, name, found):
        """Keep and print one rate."""
        self.rates[name].append(found["rate"])
        print(f"  {name}: {found['rate']:,.0f}", flush=True)

    def python(self, module, *words):
        """Run a client in a process of its own; return what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", f"tests.bench.{module}", *map(str, words)],
            capture_output=True, text=True, timeout=400, check=False, cwd=ROOT,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{module} {words}: {done.stderr[-2_000:]}")
        return json.loads(done.stdout)

    def java(self, *words):
        """Run Kafka's own client in Java; return what it printed."""
        done = subprocess.run(
            [*self.jvm, str(PEER), self.kafka, *map(str, words)],
            capture_output=True, text=True, timeout=400, check=False,
            env={**os.environ, "KAFKA_LOG_LEVEL": "ERROR"},
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"PeerClient {words}: {done.stdout[-900:]}{done.stderr[-900:]}")
        return json.loads(done.stdout.strip())

    def new_topic(self, name, partitions=PARTITIONS):
        """Create a topic in Kafka."""
        admin = AdminClient({"bootstrap.servers": self.kafka})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE_S)

    def attach(self, name, partitions=PARTITIONS):
        """Let Sharemesh know of a topic; return once it leads all of it."""
        deadline = time.monotonic() + PATIENCE_S
        with connect(self.up).admin() as admin:
            problems = admin.attach_topics([name])
            assert problems[name] is None, problems
            while True:
                found = admin.describe_topics([name])[name]
                if isinstance(found, TopicDescription):
                    led = [each for each in found.partitions if each.leader_id]
                    if len(led) == partitions:
                        return
                assert time.monotonic() < deadline, f"{name} is not led: {found}"
                time.sleep(0.05)

    def held_record(self):
        """Return the rate past a record that is held."""
        self.new_topic(held_record.TOPIC, 1)
        self.attach(held_record.TOPIC, 1)
        words = (self.kafka, "confluent", held_record.TOPIC, held_record.SIZE, RECORDS + 1)
        self.python("kafka_peer.python_producers", *words)
        return held_record.past_a_held_record("kafka.held_record", self.up, RECORDS)

    def ratio(self, name, mine, theirs, floor, goal):
        """Return one figure of medians."""
        measured, baseline = (statistics.median(self.rates[each]) for each in (mine, theirs))
        return Figure(
            f"kafka.{name}", measured, "records/s", baseline, measured / baseline, floor, goal=goal
        )


def consumed(sides, number, has_javac):
    """One round of all consumers of one topic."""
    topic = f"c{number}"
    sides.new_topic(topic)
    sides.attach(topic)
    direct = sides.python(
        "kafka_peer.python_producers", sides.kafka, "confluent", topic, BYTES, RECORDS
    )
    sides.note("produce.direct", direct)
    words = (sides.kafka, topic, RECORDS)
    sides.note("consume.plain", sides.python("kafka_clients", "plain", *words))
    sides.note("consume.share", sides.python("kafka_clients", "share", *words))
    if has_javac:
        sides.note("consume.java_share", sides.java("consume", topic, 1, RECORDS))
    ours = (sides.up, "consume-in-bulk", topic, 1, RECORDS)
    sides.note("consume.sharemesh", sides.python("kafka_peer.sharemesh_clients", *ours))
    sides.new_topic(f"p{number}")
    sides.attach(f"p{number}")
    ours = (sides.up, "produce", f"p{number}", BYTES, RECORDS // 4)
    sides.note("produce.sharemesh", sides.python("kafka_peer.sharemesh_clients", *ours))


def joins(sides):
    """Return ms from subscribe to the first record of topics that are not attached."""
    found = []
    producer = Producer({"bootstrap.servers": sides.kafka})
    for number in range(JOINS):
        topic, group = f"j{number}", f"join{number}"
        sides.new_topic(topic)
        producer.produce(topic, b"one")
        assert producer.flush(PATIENCE_S) == 0
        with connect(sides.up).admin() as admin:
            admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
        with connect(sides.up).share_consumer(group) as consumer:
            began = time.perf_counter()
            consumer.subscribe([topic])
            while not consumer.poll(1_000):
                assert time.perf_counter() - began < PATIENCE_S, f"{topic} was not attached"
            found.append((time.perf_counter() - began) * 1_000)
    return Figure(
        "kafka.join_ms", statistics.median(found), "ms", floor=1_500, at_most=True, goal=300
    )


def figures(brokers, up, rounds=ROUNDS):
    """Return the figures of clients."""
    sides = Sides(brokers, up)
    has_javac = shutil.which("javac") is not None
    if not has_javac:
        print("  Kafka's share consumer in Java is not run: javac is not on the path")
    for number in range(rounds):
        consumed(sides, number, has_javac)
    found = [
        joins(sides),
        sides.held_record(),
        sides.ratio("consume", "consume.sharemesh", "consume.plain", 0.25, 0.5),
        sides.ratio("consume_share", "consume.sharemesh", "consume.share", 0.7, 1.0),
        sides.ratio("produce", "produce.sharemesh", "produce.direct", 0.3, 0.5),
    ]
    if has_javac:
        names = ("consume_share.java", "consume.sharemesh", "consume.java_share")
        found.append(sides.ratio(*names, None, None))
    return found


if __name__ == "__main__":
    measure = {"plain": plain, "share": share}[sys.argv[1]]
    print(json.dumps(measure(sys.argv[2], sys.argv[3], int(sys.argv[4]))), flush=True)
    os._exit(0)  # leaving a group is not measured
