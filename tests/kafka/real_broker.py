"""Real Apache Kafka: one KRaft process or several, each broker and controller, on free ports.

    with real_brokers(tmp_path) as kafka:
        ... kafka.bootstrap ...

They die with the test process (PDEATHSIG) and are signalled by their pids only.
"""

import asyncio
import base64
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tests.etcd_server import die_with_parent
from tests.free_ports import free_port
from tests.kafka.jars import HERE, jars, java

START_S = 120
LOOPBACK = "127.0.0.1"
CLIENT = "CLIENT"
"""The plaintext listener of every broker."""

SMALL = ("-Xmx384m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
QUICK: Mapping[str, object] = {
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.fetch.timeout.ms": 1_000,
    "controller.quorum.election.backoff.max.ms": 500,
    "replica.lag.time.max.ms": 3_000,
    "replica.fetch.wait.max.ms": 250,
    "replica.socket.timeout.ms": 3_000,
    "controller.socket.timeout.ms": 3_000,
    "socket.connection.setup.timeout.ms": 1_000,
    "socket.connection.setup.timeout.max.ms": 2_000,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "log.cleaner.dedupe.buffer.size": 8_388_608,
    "log.retention.check.interval.ms": 5_000,
    "log.segment.delete.delay.ms": 1_000,
    "leader.imbalance.check.interval.seconds": 5,
}
"""Settings with which a vanished broker is noticed in 3 s, and little is kept in memory."""


@dataclass
class RealBrokers:
    """Processes of one cluster; broker ``i`` has the id ``i``, counted from 1."""

    directory: Path
    ports: Mapping[str, Sequence[int]]
    jvm: tuple[str, ...]
    advertised: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Ports that a listener tells instead of its own: those of something in between."""
    places: Sequence[tuple[str, str]] = ()
    """The network namespace of each broker and its address there; none: all are on this host."""
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """The plaintext addresses, separated by commas."""
        return self.addresses(CLIENT)

    def addresses(self, listener: str) -> str:
        """Return the addresses of a listener, separated by commas."""
        ports = self.advertised.get(listener, self.ports[listener])
        return ",".join(f"{self.host(i)}:{port}" for i, port in enumerate(ports, 1))

    def host(self, i: int) -> str:
        """Return the address of a broker."""
        return self.places[i - 1][1] if self.places else LOOPBACK

    def pid(self, i: int) -> int:
        return self.processes[i].pid

    def start(self, i: int) -> None:
        """Launch a broker that is down; it answers once ``started``."""
        log = self._log(i)
        log.write_bytes(b"")
        with log.open("ab") as output:
            self.processes[i] = subprocess.Popen(
                [*self._inside(i), *self.jvm, "kafka.Kafka", str(self._properties(i))],
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            )

    def _inside(self, i: int) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.places[i - 1][0]) if self.places else ()

    def is_started(self, i: int) -> bool:
        """Return whether a broker was let in; raises if its process ended."""
        if "Kafka Server started" in self._log(i).read_text():
            return True
        if self.processes[i].poll() is not None:
            raise RuntimeError(f"broker {i} ended: {self._log(i).read_text()[-2_000:]}")
        return False

    def wait_started(self, *which: int) -> None:
        """Block until brokers (none given: all) have started."""
        deadline = time.monotonic() + START_S
        while not all(self.is_started(i) for i in which or self.processes):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not started after {START_S} s: {self.directory}")
            time.sleep(0.05)

    async def started(self, *which: int) -> None:
        """Return once brokers (none given: all) have started; the loop goes on meanwhile."""
        async with asyncio.timeout(START_S):
            while not all(self.is_started(i) for i in which or self.processes):
                await asyncio.sleep(0.05)

    async def ended(self, i: int, timeout_s: float) -> bool:
        """Wait for a broker to end by itself; return whether it did."""
        deadline = time.monotonic() + timeout_s
        while self.processes[i].poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        return self.processes[i].poll() is not None

    def kill(self, i: int) -> None:
        """End a broker as a crash does."""
        self.processes[i].kill()
        self.processes[i].wait()

    def stop(self, i: int) -> None:
        """Let a broker leave in order."""
        self.processes[i].terminate()
        self.processes[i].wait(START_S)

    def freeze(self, i: int) -> None:
        self.processes[i].send_signal(signal.SIGSTOP)

    def thaw(self, i: int) -> None:
        self.processes[i].send_signal(signal.SIGCONT)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()

    def data(self, i: int) -> Path:
        """Where a broker keeps its logs."""
        return self.directory / f"data{i}"

    def _properties(self, i: int) -> Path:
        return self.directory / f"broker{i}.properties"

    def _log(self, i: int) -> Path:
        return self.directory / f"broker{i}.log"

    def format(self, settings: Mapping[str, object], arguments: Sequence[str]) -> None:
        """Write each broker's properties and prepare its directory."""
        identity = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        identity = f"A{identity[1:]}"  # the tool takes a leading dash for an option
        formatting = []
        for i in range(1, len(self.ports[CLIENT]) + 1):
            lines = {**self._node(i), **settings}
            text = "".join(f"{name}={value}\n" for name, value in lines.items())
            self._properties(i).write_text(text)
            tool = (*self.jvm, "kafka.tools.StorageTool", "format", "-t", identity)
            formatting.append(
                subprocess.Popen(
                    [*tool, "-c", str(self._properties(i)), *arguments],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "KAFKA_LOG_LEVEL": "ERROR"},
                )
            )
        said = [process.communicate()[0] for process in formatting]
        if any(process.returncode for process in formatting):
            raise RuntimeError(b"\n".join(said).decode())

    def _node(self, i: int) -> dict[str, object]:
        count = len(self.ports[CLIENT])
        replicas, in_sync = min(count, 3), 1 if count < 3 else 2
        host = self.host(i)
        here = {name: f"{host}:{ports[i - 1]}" for name, ports in self.ports.items()}
        told = here | {name: f"{host}:{ports[i - 1]}" for name, ports in self.advertised.items()}
        reachable, advertised = (
            ",".join(f"{name}://{at}" for name, at in each.items() if name != "CONTROLLER")
            for each in (here, told)
        )
        return {
            "process.roles": "broker,controller",
            "node.id": i,
            "controller.quorum.voters": ",".join(
                f"{n}@{self.host(n)}:{port}" for n, port in enumerate(self.ports["CONTROLLER"], 1)
            ),
            "listeners": f"{reachable},CONTROLLER://{here['CONTROLLER']}",
            "advertised.listeners": advertised,
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in here),
            "inter.broker.listener.name": "INTERNAL",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.data(i),
            "auto.create.topics.enable": "false",
            "unclean.leader.election.enable": "false",
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
        }


@contextlib.contextmanager
def real_brokers(
    directory: Path,
    count: int = 1,
    *,
    settings: Mapping[str, object] = QUICK,
    jvm: Sequence[str] = SMALL,
    listeners: Sequence[str] = (),
    advertised: Mapping[str, Sequence[int]] = MappingProxyType({}),
    format_arguments: Sequence[str] = (),
    disk_mib: int = 0,
    places: Sequence[tuple[str, str]] = (),
) -> Iterator[RealBrokers]:
    """Format and start brokers; they are ended with the block.

    ``listeners`` are further ones, plaintext unless ``settings`` has another
    ``listener.security.protocol.map``; ``advertised`` has the ports that some tell instead of
    their own, one for each broker. With ``disk_mib`` the last broker has a disk of that size (needs
    root); ``places`` are network namespaces with their addresses, one for each broker. Raises
    KafkaMissingError where it cannot be run.
    """
    directory.mkdir(parents=True, exist_ok=True)
    words = (
        *(java(), *jvm, f"-Dlog4j2.configurationFile=file:{HERE / 'log4j2.properties'}"),
        *("-cp", f"{jars()}/*"),
    )
    names = (CLIENT, *listeners, "INTERNAL", "CONTROLLER")
    ports = {name: [free_port() for _ in range(count)] for name in names}
    brokers = RealBrokers(directory, ports, words, advertised, places=places)
    with _small_disk(brokers.data(count), disk_mib):
        brokers.format(settings, format_arguments)
        yield from _running(brokers, count)


def _running(brokers: RealBrokers, count: int) -> Iterator[RealBrokers]:
    try:
        for i in range(1, count + 1):
            brokers.start(i)
        brokers.wait_started()
        yield brokers
    finally:
        brokers.close()


@contextlib.contextmanager
def _small_disk(directory: Path, mib: int) -> Iterator[None]:
    if not mib:
        yield
        return
    directory.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "none", str(directory)], check=True
    )
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)
