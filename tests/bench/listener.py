"""Kafka's own performance tools at the Kafka listener, and at Apache Kafka beside it.

A real broker (without fsync, as it ships) and ``sharemesh up`` (with fsync, as it ships) stand side
by side; rounds alternate. What a tool says is taken as it says it: the consumer's rate counts its
join. Join times are those of Java's share consumer, in a process that is warm. What the listener's
share fetch costs is the leader's processor time while a client reads, beside a server that only
sends the same bytes.

It is read in two shapes. ``listener.fetch.cpu`` is judged on answers of one record batch of about
1,000 records of 1,000 B, which is what the bare server sends and what its floor was set for.
``listener.fetch.cpu.16k`` reads what a producer at its defaults leaves, batches of 16 KiB: an
answer ends behind the 500 records that were asked for, so it has 32 batches and half the bytes. A
GB is 2,000 answers instead of 1,000, and each costs its acquisition, its acknowledgement and its
state write, which the bare server has none of: the ratio is reported without a floor.
"""

import asyncio
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from sharemesh.client import connect
from tests.bench.figures import Figure, write
from tests.bench.kafka_peer.broker import Broker, broker
from tests.bench.peer import processor_s
from tests.cli.local_up import LocalUp, local_up
from tests.kafka.jars import HERE as KAFKA
from tests.kafka.jars import KafkaMissingError, jars, java
from tests.kafka_listener.asked import METADATA, ShareClient, ack
from tests.kafka_listener.command_line_tools import PINS
from tests.kafka_listener.java_clients import JavaClients, java_gateway
from tests.kafka_listener.world import WireClient

ROOT = Path(__file__).parents[2]
ROUNDS = int(os.environ.get("LISTENER_ROUNDS", "3"))
RECORDS = {
    1_000: int(os.environ.get("LISTENER_RECORDS", "300000")),
    100: int(os.environ.get("LISTENER_SMALL_RECORDS", "1000000")),
}
FLOORS = {1_000: 1.0, 100: 0.7}
JOINS, SLOW_JOINS = 15, 3
JOIN_MS = 100
BARE_BYTES = 1 << 30
WIDE_TOPIC, WIDE_READS = "wide", 3
WIDE_BATCH_BYTES, WIDE_RECORDS_MIN = 1_016_000, 900
WIDE_CONFIG = (f"batch.size={WIDE_BATCH_BYTES}", "linger.ms=1000")
HEADER_TO_DELTA = struct.Struct(">qi11xi")
"""Of a record batch: base offset, length, and the last offset's distance."""
TOOL_S = 300
_TOOLS = "org.apache.kafka.tools"
Rates = dict[str, list[float]]


def tool(name: str, bootstrap: str, *words: object) -> str:
    """Run one of Kafka's tools as its script does, and return what it said."""
    done = subprocess.run(
        [
            *(java(), "-Xmx512m"),
            f"-Dlog4j2.configurationFile=file:{KAFKA / 'log4j2.properties'}",
            *("-cp", f"{jars(PINS, ROOT / 'build' / 'kafka-tools')}/*", f"{_TOOLS}.{name}"),
            *("--bootstrap-server", bootstrap, *map(str, words)),
        ],
        capture_output=True,
        text=True,
        timeout=TOOL_S,
        check=False,
        env={**os.environ, "KAFKA_LOG_LEVEL": "ERROR"},
    )
    if done.returncode:
        raise RuntimeError(f"{name} {words}: {done.stdout[-2_000:]}{done.stderr[-2_000:]}")
    return done.stdout


class BothSides:
    """Both clusters, and what was measured of them."""

    def __init__(self, kafka: Broker, up: LocalUp) -> None:
        self.kafka = kafka
        self.up = up
        self.at = {"kafka": kafka.bootstrap, "sharemesh": up.kafka_bootstrap}
        self.rates: Rates = defaultdict(list)
        with connect(up.bootstrap).admin() as admin:
            self.pids = {each.node_id: each.pid for each in admin.describe_cluster().nodes}

    def note(self, name: str, value: float, unit: str) -> None:
        """Keep and print one measurement."""
        self.rates[name].append(value)
        print(f"  {name}: {value:,.2f} {unit}", flush=True)

    def median(self, name: str) -> float:
        """Return the median of the rounds."""
        return statistics.median(self.rates[name])

    def used_s(self) -> dict[str, float]:
        """Return the processor time of each role of Sharemesh."""
        used: dict[str, float] = defaultdict(float)
        for name, seconds in processor_s(self.pids).items():
            used[name.rsplit("-", 1)[0]] += seconds
        return used


def prepare(bootstrap: str, topic: str, group: str) -> None:
    """Create a topic of one partition, and a group that begins with its first record."""
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewTopic,
    )

    admin = AdminClient({"bootstrap.servers": bootstrap})
    if topic:
        for made in admin.create_topics([NewTopic(topic, 1, 1)]).values():
            made.result(30)
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource("group", group, incremental_configs=[entry])
    for made in admin.incremental_alter_configs([resource]).values():
        made.result(30)


def produced_and_consumed(sides: BothSides, number: int) -> None:
    """One round of the two tools at both sides."""
    for size, records in RECORDS.items():
        topic = f"b{size}r{number}"
        for who, bootstrap in sides.at.items():
            prepare(bootstrap, topic, topic)
            before = sides.used_s()
            words = ("--num-records", records, "--record-size", size, "--throughput", -1)
            said = tool(
                "ProducerPerformance",
                *(bootstrap, "--topic", topic, *words, "--command-property", "acks=all"),
            )
            *_, last = re.findall(r"([\d.]+) records/sec", said)
            sides.note(f"produce.{who}.{size}", float(last), "records/s")
            told(sides, who, "produce", size, records, before)
        for who, bootstrap in sides.at.items():
            before = sides.used_s()
            words = ("--group", topic, "--num-records", records, "--timeout", 60_000)
            said = tool("ShareConsumerPerformance", bootstrap, "--topic", topic, *words)
            head, values = (line.split(", ") for line in said.strip().splitlines()[-2:])
            found = dict(zip((each.strip() for each in head), values, strict=True))
            sides.note(f"consume.{who}.{size}", float(found["nMsg.sec"]), "records/s")
            told(sides, who, "consume", size, records, before)


def told(
    sides: BothSides, who: str, what: str, size: int, records: int, before: dict[str, float]
) -> None:
    """Note the processor time of each role for a record, where it is ours."""
    if who == "sharemesh":
        for role, seconds in sides.used_s().items():
            us = (seconds - before[role]) / records * 1e6
            sides.note(f"{what}.us_a_record.{role}.{size}", us, "us")


def joined(sides: BothSides) -> None:
    """Time from ``subscribe`` to the first record, with a record that is there already."""
    topic = "joins"
    with java_gateway() as gateway:
        for who, bootstrap in sides.at.items():
            clients = JavaClients(gateway, bootstrap)
            prepare(bootstrap, topic, f"{topic}-0")
            producer = clients.producer()
            clients.send(producer, topic, "x")
            for number in range(1 + (JOINS if who == "sharemesh" else SLOW_JOINS)):
                prepare(bootstrap, "", f"{topic}-{number}")
                consumer = clients.consumer(f"{topic}-{number}")
                began = time.perf_counter()
                consumer.subscribe([topic])
                found: list[object] = []
                while not found:
                    found = clients.poll(consumer, 20_000)
                if number:  # the first one loads classes
                    sides.note(f"join.{who}", (time.perf_counter() - began) * 1_000, "ms")
                consumer.close()
            producer.close()


async def _bare_s_a_gb() -> float:
    command = (sys.executable, "-m", "tests.bench.bare_answers", str(1_016_000))
    server = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert server.stdin is not None
    assert server.stdout is not None
    port = int(await server.stdout.readline())
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 21)
    before, read = processor_s({"bare": server.pid})["bare"], 0
    while read < BARE_BYTES:
        writer.write(struct.pack(">i", 120) + b"q" * 120)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        read += len(await reader.readexactly(size))
    used = processor_s({"bare": server.pid})["bare"] - before
    writer.close()
    server.stdin.close()
    await server.wait()
    return used / read * 1e9


def produced_wide(sides: BothSides) -> None:
    """Produce a topic whose batches have the size of the bare server's answers, once."""
    bootstrap = sides.up.kafka_bootstrap
    prepare(bootstrap, WIDE_TOPIC, WIDE_TOPIC)
    words = ("--num-records", RECORDS[1_000], "--record-size", 1_000, "--throughput", -1)
    more = ("--command-property", "acks=all", *WIDE_CONFIG)
    tool("ProducerPerformance", bootstrap, "--topic", WIDE_TOPIC, *words, *more)


def fetched_wide(sides: BothSides, number: int) -> float:
    """Return what reading that topic costs: by some groups, as ticks of the clock are coarse.

    Raises:
        RuntimeError: Its batches are not as large as they should be.
    """
    groups = [f"{WIDE_TOPIC}-{number}-{each}" for each in range(WIDE_READS)]
    found = [asyncio.run(fetched(sides, WIDE_TOPIC, group)) for group in groups]
    for each in found:
        if each.records < WIDE_RECORDS_MIN * each.batches:
            raise RuntimeError(f"{each.records} records lie in {each.batches} batches")
    return sum(each.used_s for each in found) / sum(each.size_bytes for each in found) * 1e9


@dataclass(slots=True)
class Fetched:
    """What was read of a topic by ShareFetch, and the leader's processor time meanwhile."""

    used_s: float = 0.0
    size_bytes: int = 0
    batches: int = 0
    records: int = 0

    def take(self, records: bytes) -> None:
        """Count the batches of one answer."""
        self.size_bytes += len(records)
        at = 0
        while at < len(records):
            _, length, delta = HEADER_TO_DELTA.unpack_from(records, at)
            self.batches += 1
            self.records += delta + 1
            at += 12 + length


async def fetched(sides: BothSides, topic: str, group: str) -> Fetched:
    """Read all of a topic by ShareFetch, acknowledged with the next one, by one client."""
    prepare(sides.up.kafka_bootstrap, "", group)
    host, port = sides.up.kafka_bootstrap.split(",")[0].rsplit(":", 1)
    assert host == "127.0.0.1"
    async with WireClient(int(port)) as client:
        told = await client.ask(METADATA, 13, topics=[{"name": topic, "topic_id": None}])
        [leader] = [
            each for each in told.brokers if each.node_id == told.topics[0].partitions[0].leader_id
        ]
    coordinator_port = await _coordinator(int(port), group)
    async with WireClient(leader.port) as client, WireClient(coordinator_port) as coordinator:
        member = ShareClient(client, told.topics[0].topic_id, member="wire-bench")
        member.who["group_id"] = group
        joining = ShareClient(coordinator, None, member="wire-bench")
        joining.who["group_id"] = group
        await joining.join(topic)
        before, found = sides.used_s()["share-leader"], Fetched()
        answer = await member.fetch(add=(0,))
        while found.records < RECORDS[1_000]:
            [part] = answer.responses[0].partitions if answer.responses else [None]
            batches = []
            if part is not None and part.acquired_records:
                found.take(bytes(part.records))
                batches = [ack(e.first_offset, e.last_offset, 1) for e in part.acquired_records]
            answer = await member.fetch(batches=batches)
        found.used_s = sides.used_s()["share-leader"] - before
    return found


async def _coordinator(port: int, group: str) -> int:
    async with WireClient(port) as client:
        told = await client.ask(10, 6, key_type=0, coordinator_keys=(group,))
    return int(told.coordinators[0].port)


def main() -> int:
    """Measure, print, write; 1 when a floor is missed."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
        directory = Path(name)
        try:
            with (
                broker(directory) as kafka,
                local_up(directory / "up", "--kafka-listener", "127.0.0.1:0") as up,
            ):
                sides = BothSides(kafka, up)
                produced_wide(sides)
                for number in range(ROUNDS):
                    produced_and_consumed(sides, number)
                    sides.note("fetch.bare", asyncio.run(_bare_s_a_gb()), "s/GB")
                    sides.note("fetch.listener", fetched_wide(sides, number), "s/GB")
                    found = asyncio.run(fetched(sides, f"b1000r{number}", f"b1000r{number}-wire"))
                    used = found.used_s / found.size_bytes * 1e9
                    sides.note("fetch.listener.16k", used, "s/GB")
                joined(sides)
        except KafkaMissingError as error:
            print(f"PART=listener cannot run: {error}")
            return 1
    return write("listener", figures(sides))


def figures(sides: BothSides) -> list[Figure]:
    """Return what is judged, and what is only reported."""
    found = []
    for size, floor in FLOORS.items():
        for what, least in (("consume", floor), ("produce", 0.5)):
            mine, theirs = (sides.median(f"{what}.{who}.{size}") for who in ("sharemesh", "kafka"))
            name = f"listener.{what}.{size}"
            found.append(Figure(name, mine, "records/s", theirs, mine / theirs, least))
    mine, theirs = sides.median("join.sharemesh"), sides.median("join.kafka")
    found.append(Figure("listener.join.p50", mine, "ms", theirs, floor=JOIN_MS, at_most=True))
    theirs = sides.median("fetch.bare")
    for suffix, most in (("", 2.0), (".16k", None)):
        mine, name = sides.median(f"fetch.listener{suffix}"), f"listener.fetch.cpu{suffix}"
        found.append(Figure(name, mine, "s/GB", theirs, mine / theirs, most, at_most=True))
    for name in sorted(sides.rates):
        if "us_a_record" in name:
            found.append(Figure(f"listener.{name}", sides.median(name), "us"))
    return found


if __name__ == "__main__":
    sys.exit(main())
