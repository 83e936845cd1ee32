"""A real Apache Kafka broker with share groups as it ships, and Kafka's own client in Java."""

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.kafka.jars import KafkaMissingError
from tests.kafka.real_broker import RealBrokers, real_brokers

HERE = Path(__file__).parent
_SETTINGS = {
    "offsets.topic.num.partitions": 4,
    "share.coordinator.state.topic.num.partitions": 4,
}


@dataclass(frozen=True)
class Broker:
    """A running broker."""

    brokers: RealBrokers

    @property
    def bootstrap(self) -> str:
        return self.brokers.bootstrap

    @property
    def pid(self) -> int:
        return self.brokers.pid(1)

    def client(self, *words: object, timeout_s: int = 300) -> dict[str, object]:
        """Run ``PeerClient`` and return what it printed."""
        done = subprocess.run(
            [*self.brokers.jvm, str(HERE / "PeerClient.java"), self.bootstrap, *map(str, words)],
            capture_output=True, text=True, timeout=timeout_s, check=False,
            env={**os.environ, "KAFKA_LOG_LEVEL": "ERROR"},
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"PeerClient {words}: {done.stdout[-2_000:]}{done.stderr[-2_000:]}")
        found: dict[str, object] = json.loads(done.stdout.strip() or "{}")
        return found


@contextlib.contextmanager
def broker(directory: Path) -> Iterator[Broker]:
    """Format and start a broker with its defaults; stop it in the end."""
    if shutil.which("javac") is None:
        raise KafkaMissingError("javac is not on the path: install a JDK 17 or newer")
    with real_brokers(
        directory,
        settings=_SETTINGS,
        jvm=("-Xmx1g", "-Xms256m"),
        format_arguments=("--feature", "share.version=1"),
    ) as brokers:
        yield Broker(brokers)
