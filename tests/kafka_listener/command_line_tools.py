"""Kafka's command-line tools, run one after the other at any broker; what they say, made equal.

Tools are those of 4.3.1, the newest on Maven Central.
"""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kafka.jars import HERE as KAFKA
from tests.kafka.jars import ROOT, jars, java

PROGRAM = Path(__file__).parent / "cases" / "CommandLineTools.java"
PROGRAM_S = 500
PINS = Path(__file__).parent / "tools"
_TOOLS = "org.apache.kafka.tools"
TOPICS, CONFIGS = f"{_TOOLS}.TopicCommand", "kafka.admin.ConfigCommand"
GROUPS = f"{_TOOLS}.consumer.group.ShareGroupCommand"
_CONSUME = f"{_TOOLS}.consumer.ConsoleShareConsumer"

_CHANGES = (
    (r"(?<![\w-])[\w-]{22}(?![\w-])", "ID"),  # topic, cluster and member ids
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\b\d{13}\b", "TIME"),
    (r"\d{4}-\d\d-\d\d[ T][\d:,.]+Z?", "TIME"),
    (r"[ \t]+", " "),
    (r"Leader: \d+ Replicas: [\d,]+ Isr: [\d,]+", "Leader, replicas and those in sync"),
    (r"ReplicationFactor: \d+", "some replicas"),
    (r"Configs: \S*(retention.ms=\d+)\S*", r"\1"),  # Kafka tells those of its file, too
    (r"ADDRESS \(\d+\)", "ADDRESS"),
)

_VALUES = r"^(?:Quota|SCRAM credential) configs for .* are |[\w-]+=[\w.=]+"
"""Of users: Kafka has no order of them."""

_NOISE = ("", "null", "CommandLineTools$Ended")
"""Tools that take their own end for a failure say so."""


@dataclass(frozen=True)
class Step:
    """One command: a tool and its words; ``stdin`` is typed.

    ``shown`` says how much of the output is compared: all of it, only the error's class, or only
    what matches.
    """

    name: str
    tool: str
    words: str
    stdin: str = ""
    shown: str = ""


def steps(topic: str) -> Sequence[Step]:
    """Return the commands, in the order in which they build on each other."""
    group = f"{topic}-group"
    records = "".join(f"value-{number}\n" for number in range(10))
    one, single = f"--topic {topic}", f"--topic {topic}-single"
    mine = f"--group {group}"
    entity = f"--entity-type groups --entity-name {group}"
    of_topic = f"--entity-type topics --entity-name {topic}"
    error = r"\w+(?:Exception|Error)\b"
    user = "--entity-type users --entity-name ann"
    password = "SCRAM-SHA-256=[iterations=4096,password=secret]"
    return (
        Step(
            "topics create", TOPICS, f"--create {one} --partitions 3 --config retention.ms=90000000"
        ),
        Step("topics create again", TOPICS, f"--create {one}", shown=error),
        Step("topics create if not exists", TOPICS, f"--create --if-not-exists {one}"),
        Step(
            "topics create with too many copies",
            TOPICS,
            f"--create --topic {topic}-2 --replication-factor 9",
            shown=error,
        ),
        Step(
            "topics create with an unknown setting",
            TOPICS,
            f"--create --topic {topic}-2 --config no.such=1",
            shown=error,
        ),
        Step("topics list", TOPICS, "--list", shown=rf"^{topic}$"),
        Step("topics alter", TOPICS, f"--alter {one} --partitions 4"),
        Step("topics alter to fewer", TOPICS, f"--alter {one} --partitions 2", shown=error),
        Step("topics describe", TOPICS, f"--describe {one}"),
        Step("topics describe unknown", TOPICS, "--describe --topic nowhere", shown=error),
        Step(
            "configs of a group alter",
            CONFIGS,
            f"--alter {entity} --add-config share.auto.offset.reset=earliest",
        ),
        Step("configs of a group describe", CONFIGS, f"--describe {entity}"),
        Step(
            "configs of a topic alter",
            CONFIGS,
            f"--alter {of_topic} --add-config segment.ms=100000000",
        ),
        Step("configs of a topic describe", CONFIGS, f"--describe {of_topic}"),
        Step(
            "configs of a topic delete", CONFIGS, f"--alter {of_topic} --delete-config segment.ms"
        ),
        Step(
            "configs of a topic, wrong",
            CONFIGS,
            f"--alter {of_topic} --add-config segment.ms=x",
            shown=error,
        ),
        Step("users describe unknown", CONFIGS, f"--describe {user}", shown=error),
        Step("users give a password", CONFIGS, f"--alter {user} --add-config {password}"),
        Step(
            "users give another",
            CONFIGS,
            f"--alter {user} --add-config SCRAM-SHA-512=[password=secret]",
        ),
        Step(
            "users give a weak one",
            CONFIGS,
            f"--alter {user} --add-config SCRAM-SHA-256=[iterations=1000,password=secret]",
            shown=error,
        ),
        Step(
            "users bound",
            CONFIGS,
            f"--alter {user} --add-config producer_byte_rate=1000000,request_percentage=200",
        ),
        Step(
            "users bound by default",
            CONFIGS,
            "--alter --entity-type users --entity-default --add-config consumer_byte_rate=5000000",
        ),
        Step("users describe", CONFIGS, f"--describe {user}", shown=_VALUES),
        Step("users describe all", CONFIGS, "--describe --entity-type users", shown=_VALUES),
        Step(
            "users describe the default", CONFIGS, "--describe --entity-type users --entity-default"
        ),
        Step("client ids describe", CONFIGS, "--describe --entity-type clients"),
        Step(
            "users bound by nothing known",
            CONFIGS,
            f"--alter {user} --add-config no.such=1",
            shown=error,
        ),
        Step("users unbound", CONFIGS, f"--alter {user} --delete-config producer_byte_rate"),
        Step("users lose a password", CONFIGS, f"--alter {user} --delete-config SCRAM-SHA-256"),
        Step(
            "users lose it again",
            CONFIGS,
            f"--alter {user} --delete-config SCRAM-SHA-256",
            shown=error,
        ),
        Step("users describe what is left", CONFIGS, "--describe --entity-type users"),
        Step("topics create for records", TOPICS, f"--create {single}"),
        Step("console producer", f"{_TOOLS}.ConsoleProducer", single, records),
        Step("get offsets", f"{_TOOLS}.GetOffsetShell", f"{single} --time earliest"),
        Step(
            "console share consumer",
            _CONSUME,
            f"{single} {mine} --max-messages 10",
            shown=r"^(value-\d|Processed.*)$",
        ),
        Step(
            "console consumer of a partition",
            f"{_TOOLS}.consumer.ConsoleConsumer",
            f"{single} --partition 0 --offset 3 --max-messages 5 --timeout-ms 20000",
            shown=r"^(value-\d|Processed.*)$",
        ),
        Step(
            "console consumer from the beginning",
            f"{_TOOLS}.consumer.ConsoleConsumer",
            f"{single} --partition 0 --offset earliest --max-messages 10 --timeout-ms 20000 "
            "--isolation-level read_committed",
            shown=r"^(value-\d|Processed.*)$",
        ),
        Step("share groups list", GROUPS, "--list", shown=rf"^{group}$"),
        Step(
            "share groups list states", GROUPS, "--list --state", shown=rf"^(GROUP .*|{group} .*)$"
        ),
        Step(
            "share groups list empty",
            GROUPS,
            "--list --state Empty",
            shown=rf"^(GROUP .*|{group} .*)$",
        ),
        Step("share groups state", GROUPS, f"--describe {mine} --state"),
        Step("share groups members", GROUPS, f"--describe {mine} --members"),
        Step("share groups offsets", GROUPS, f"--describe {mine} --offsets"),
        Step("share groups offsets in full", GROUPS, f"--describe {mine} --offsets --verbose"),
        Step("share groups describe unknown", GROUPS, "--describe --group nowhere", shown=error),
        Step(
            "share groups reset, tried",
            GROUPS,
            f"--reset-offsets {mine} {single} --to-earliest --dry-run",
        ),
        Step(
            "share groups reset", GROUPS, f"--reset-offsets {mine} {single} --to-earliest --execute"
        ),
        Step(
            "share groups reset to the end",
            GROUPS,
            f"--reset-offsets {mine} --all-topics --to-latest --execute",
        ),
        Step(
            "share groups reset to a time",
            GROUPS,
            f"--reset-offsets {mine} {single} --to-datetime 2020-01-01T00:00:00.000 --execute",
        ),
        Step("share groups offsets behind it", GROUPS, f"--describe {mine} --offsets"),
        Step("share groups delete offsets", GROUPS, f"--delete-offsets {mine} {single}"),
        Step(
            "share groups delete offsets of an unknown topic",
            GROUPS,
            f"--delete-offsets {mine} --topic nowhere",
        ),
        Step("groups list", f"{_TOOLS}.GroupsCommand", "--list", shown=rf"^(GROUP .*|{group} .*)$"),
        Step("share groups delete", GROUPS, f"--delete {mine}"),
        Step("share groups delete unknown", GROUPS, "--delete --group nowhere", shown=error),
        Step(
            "verifiable producer",
            f"{_TOOLS}.VerifiableProducer",
            f"{single} --max-messages 5",
            shown=r'"name":"(?:startup_complete|producer_send_success|shutdown_complete)"|"(?:sent|acked)":\d+',
        ),
        Step(
            "verifiable share consumer",
            f"{_TOOLS}.VerifiableShareConsumer",
            f"{single} --group-id {group}-2 --max-messages 5 --offset-reset-strategy earliest",
            shown=r'"name":"(?:startup_complete|offset_reset_strategy_set|shutdown_complete)"',
        ),
        Step(
            "producer performance",
            f"{_TOOLS}.ProducerPerformance",
            f"{single} --num-records 2000 --record-size 100 --throughput -1",
            shown=r"^\d+ records sent",
        ),
        Step(
            "share consumer performance",
            f"{_TOOLS}.ShareConsumerPerformance",
            f"{single} --group {group}-2 --num-records 1000 --timeout 30000",
            shown=r"^start.time.*$",
        ),
        Step("broker api versions", f"{_TOOLS}.BrokerApiVersionsCommand", "", shown=r"^ADDRESS"),
        Step(
            "features",
            f"{_TOOLS}.FeatureCommand",
            "describe",
            shown=r"^Feature: (?:share|group|metadata).version.*FinalizedVersionLevel: \S+",
        ),
        Step("cluster id", f"{_TOOLS}.ClusterTool", "cluster-id", shown=r"^Cluster ID:"),
        Step("acls list", f"{_TOOLS}.AclCommand", "--list", shown=error),
        Step(
            "acls add",
            f"{_TOOLS}.AclCommand",
            f"--add --allow-principal User:alice --operation Read {one}",
            shown=error,
        ),
        Step("topics delete", TOPICS, f"--delete {one}"),
        Step("topics delete again", TOPICS, f"--delete {one}", shown=error),
    )


def tool_jars() -> Path:
    """Return the directory with the tools and their libraries."""
    return jars(PINS, ROOT / "build" / "kafka-tools")


def said(bootstrap: str, commands: Sequence[Step]) -> dict[str, tuple[str, ...]]:
    """Run commands; return of each its exit code and what of its output is compared."""
    asked = [
        {"tool": each.tool, "words": _words(each, bootstrap), "stdin": each.stdin}
        for each in commands
    ]
    done = subprocess.run(
        [
            *(java(), "-Xmx512m", "-XX:+UseSerialGC"),
            f"-Dlog4j2.configurationFile=file:{KAFKA / 'log4j2.properties'}",
            *("-cp", f"{tool_jars()}/*", str(PROGRAM)),
        ],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
        env={**os.environ, "KAFKA_LOG_LEVEL": "OFF"},
    )
    assert done.returncode == 0, f"{done.stdout[-2_000:]}{done.stderr[-2_000:]}"
    results = json.loads(done.stdout)
    return {
        each.name: _compared(each, result["code"], result["output"])
        for each, result in zip(commands, results, strict=True)
    }


def _words(step: Step, bootstrap: str) -> list[str]:
    server = ["--bootstrap-server", bootstrap]
    is_first = step.tool.endswith("FeatureCommand")
    return [*server, *step.words.split()] if is_first else [*step.words.split(), *server]


def _compared(step: Step, code: int, output: str) -> tuple[str, ...]:
    for pattern, instead in _CHANGES:
        output = re.sub(pattern, instead, output)
    lines = [each.strip() for each in output.splitlines()]
    lines = [each for each in lines if each not in _NOISE]
    if step.shown:
        found = re.finditer(step.shown, "\n".join(lines), re.MULTILINE)
        lines = list(dict.fromkeys(each.group() for each in found))
    return (f"exit {code}", *sorted(lines))
