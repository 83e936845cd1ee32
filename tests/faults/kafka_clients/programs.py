"""Programs of Kafka's clients that consume and keep journals: one process of each, many members."""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.go_tools import GOBIN, environment, run
from tests.kafka.jars import HERE as KAFKA
from tests.kafka.jars import jars, java

HERE = Path(__file__).parent


def command(kind: str, arguments: Sequence[str]) -> list[str]:
    """Return the command of a client's program; what it needs is fetched or built.

    Raises:
        KafkaMissingError: There is no Java, or no jar of Kafka's.
    """
    return [*PROGRAMS[kind](), *arguments]


def _java() -> list[str]:
    return [
        *(java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-Dlog4j2.configurationFile=file:{KAFKA / 'log4j2.properties'}",
        *("-cp", f"{jars()}/*", str(HERE / "FaultConsumer.java")),
    ]


def _librdkafka() -> list[str]:
    return [sys.executable, "-m", "tests.faults.kafka_clients.librdkafka_consumer"]


def _franz_go() -> list[str]:
    program = GOBIN / "faultconsumer"
    run(["go", "build", "-C", str(HERE / "franz_go"), "-o", str(program), "."], environment())
    return [str(program)]


PROGRAMS = {"java": _java, "librdkafka": _librdkafka, "franz_go": _franz_go}
"""Of kafka-clients, confluent-kafka and franz-go, each pinned."""
