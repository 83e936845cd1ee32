"""A real Apache Kafka broker with share groups, from Maven Central; jars are pinned by checksum."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
START_S = 60

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={directory}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=4
"""


class PeerMissingError(Exception):
    """What the comparison needs is not on this machine; the message says what to install."""


def jars() -> Path:
    """Return the directory with Kafka's jars; fetch them if they are not there or are others."""
    for program, package in (("java", "a JDK 17"), ("javac", "a JDK 17"), ("mvn", "Maven")):
        if shutil.which(program) is None:
            raise PeerMissingError(f"{program} is not on the path: install {package}")
    directory = ROOT / "build" / "kafka-peer"
    pinned = dict(
        reversed(line.split()) for line in (HERE / "jars.sha256").read_text().splitlines()
    )
    if _checksums(directory) != pinned:
        shutil.rmtree(directory, ignore_errors=True)
        subprocess.run(
            [
                "mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies",
                f"-DoutputDirectory={directory}", "-DincludeScope=runtime",
            ],
            check=True,
        )  # fmt: skip
        found = _checksums(directory)
        if found != pinned:
            wrong = sorted(set(found.items()) ^ set(pinned.items()))
            raise PeerMissingError(f"these jars are not those of jars.sha256: {wrong}")
    return directory


def _checksums(directory: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.glob("*.jar"))
    }


@dataclass(frozen=True)
class Broker:
    """A running broker."""

    bootstrap: str
    pid: int
    classpath: str

    def client(self, *words: object, timeout_s: int = 300) -> dict[str, object]:
        """Run ``PeerClient`` and return what it printed."""
        done = subprocess.run(
            ["java", "-Xmx1g", *_LOGGING, "-cp", self.classpath, str(HERE / "PeerClient.java"),
             self.bootstrap, *map(str, words)],
            capture_output=True, text=True, timeout=timeout_s, check=False,
            env={**os.environ, "KAFKA_LOG_LEVEL": "ERROR"},
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"PeerClient {words}: {done.stdout[-2_000:]}{done.stderr[-2_000:]}")
        found: dict[str, object] = json.loads(done.stdout.strip() or "{}")
        return found


_LOGGING = (f"-Dlog4j2.configurationFile=file:{HERE / 'log4j2.properties'}",)


@contextlib.contextmanager
def broker(directory: Path) -> Iterator[Broker]:
    """Format and start a broker with its defaults; stop it in the end."""
    classpath = f"{jars()}/*"
    port, controller = _free_port(), _free_port()
    properties = directory / "server.properties"
    properties.write_text(_PROPERTIES.format(port=port, controller=controller, directory=directory))
    java = ["java", "-Xmx1g", "-Xms256m", *_LOGGING, "-cp", classpath]
    quiet = {**os.environ, "KAFKA_LOG_LEVEL": "ERROR"}
    storage = [*java, "kafka.tools.StorageTool"]
    identity = subprocess.run(
        [*storage, "random-uuid"], capture_output=True, text=True, check=True, env=quiet
    ).stdout.split()[-1]
    subprocess.run(
        [*storage, "format", "-t", identity, "-c", str(properties), "--feature", "share.version=1"],
        capture_output=True, check=True, env=quiet,
    )  # fmt: skip
    log = directory / "broker.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(properties)], stdout=output, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + START_S
        while "Kafka Server started" not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker did not start: {log.read_text()[-2_000:]}")
            time.sleep(0.1)
        yield Broker(f"127.0.0.1:{port}", process.pid, classpath)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
